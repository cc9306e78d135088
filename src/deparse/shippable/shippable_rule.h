/*
 * shippable_rule.h
 *	  Which types, functions and collations mean the same on every node.
 */
#ifndef SHARDFDW_SHIPPABLE_RULE_H
#define SHARDFDW_SHIPPABLE_RULE_H

#include "postgres.h"

#include "nodes/nodes.h"

/* Where the collation of an expression comes from. */
typedef enum ShardCollationState
{
	SHARD_COLLATION_NONE,		/* the type has none, or it is the default from no column */
	SHARD_COLLATION_SAFE,		/* a column, or byte order */
	SHARD_COLLATION_UNSAFE
} ShardCollationState;

typedef struct ShardDerived
{
	Oid			collation;
	ShardCollationState state;
} ShardDerived;

extern bool shard_rule_is_builtin(Oid oid);

/*
 * Does expr, before or after planning, have no columns, so that it could be computed
 * before any row is read?  Its parameters have to be those of the user's statement,
 * unless any_param.  (It may be volatile, or return a set.)
 */
extern bool shard_rule_is_value(Node *expr, bool any_param);

/* "C" or "POSIX"? */
extern bool shard_rule_is_byte_order(Oid collation);

/* Is the function built-in, and immutable or dependent only on TimeZone? */
extern bool shard_rule_function_ok(Oid funcid);

/* Is the type built-in, with no name of an object in its text form? */
extern bool shard_rule_type_ok(Oid type);

/* May a value of type from be taken as it is for one of type to? */
extern bool shard_rule_relabel_ok(Oid from, Oid to);

/* Does a node return values of the type as text that depends on the style of dates, intervals or floats? */
extern bool shard_rule_is_styled(Oid type);
extern bool shard_rule_travels_styled(Oid type);

/* Is a conversion through text, of which one side is a text type, the same everywhere? */
extern bool shard_rule_via_io_ok(Oid from, Oid to);

/* Combines what an expression derives with what its siblings did. */
extern void shard_rule_merge_derived(ShardDerived *outer, ShardDerived inner);

/* May a function use this input collation, given what its arguments derive? */
extern bool shard_rule_input_collation_ok(Oid inputcollid, ShardDerived args);

/*
 * Does a function or aggregate give the same on nodes, as far as the default collation goes?  A funcid of
 * InvalidOid stands for a comparison.
 */
extern bool shard_rule_collation_ok(Oid funcid, Oid inputcollid);

/* Do nodes that sort by expr have the same default collation, if the order depends on it? */
extern bool shard_rule_order_collation_ok(Node *expr);

/* What a function's result derives from its arguments. */
extern ShardDerived shard_rule_result_derived(Oid resultcollid, ShardDerived args);

/* What a constant or parameter derives. */
extern ShardDerived shard_rule_value_derived(Oid type, Oid collation);

#endif
