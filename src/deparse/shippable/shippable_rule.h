/*
 * shippable_rule.h
 *	  Rules: which types, functions and collations mean the same on every node.
 */
#ifndef SHARDFDW_SHIPPABLE_RULE_H
#define SHARDFDW_SHIPPABLE_RULE_H

#include "postgres.h"

#include "nodes/nodes.h"

/* The origin of an expression's collation. */
typedef enum ShardCollationState
{
	SHARD_COLLATION_NONE,		/* the type has none, or it is the default without a column */
	SHARD_COLLATION_SAFE,		/* from a column, or byte order */
	SHARD_COLLATION_UNSAFE
} ShardCollationState;

typedef struct ShardDerived
{
	Oid			collation;
	ShardCollationState state;
} ShardDerived;

extern bool shard_rule_is_builtin(Oid oid);

/*
 * Has expr, before or after planning, no columns, so that it can be computed before any row is read?  Its parameters
 * have to be those of the user's statement, unless any_param is set.  (It may be volatile, or return a set.)
 */
extern bool shard_rule_is_value(Node *expr, bool any_param);

/* "C" or "POSIX"? */
extern bool shard_rule_is_byte_order(Oid collation);

/* Is the function built-in, and immutable or dependent only on TimeZone? */
extern bool shard_rule_function_ok(Oid funcid);

/* Is the type built-in, without an object name in its text form? */
extern bool shard_rule_type_ok(Oid type);

/* Can a value of type from be used unchanged as a value of type to? */
extern bool shard_rule_relabel_ok(Oid from, Oid to);

/*
 * is_styled: does the text form of the type depend on the style of dates, intervals or floats? travels_styled: do
 * nodes also return its values as text?
 */
extern bool shard_rule_is_styled(Oid type);
extern bool shard_rule_travels_styled(Oid type);

/* Is a conversion through text, with a text type on one side, the same everywhere? */
extern bool shard_rule_via_io_ok(Oid from, Oid to);

/* Combines the collation that an expression derives with that of its siblings. */
extern void shard_rule_merge_derived(ShardDerived *outer, ShardDerived inner);

/* May a function use this input collation, given the collation that its arguments derive? */
extern bool shard_rule_input_collation_ok(Oid inputcollid, ShardDerived args);

/*
 * Has a function or aggregate the same result on nodes, with regard to the default collation? funcid InvalidOid
 * stands for a comparison.
 */
extern bool shard_rule_collation_ok(Oid funcid, Oid inputcollid);

/* If the order of expr depends on the default collation: have all nodes the same one? */
extern bool shard_rule_order_collation_ok(Node *expr);

/* The collation that a function's result derives from its arguments. */
extern ShardDerived shard_rule_result_derived(Oid resultcollid, ShardDerived args);

/* The collation that a constant or parameter derives. */
extern ShardDerived shard_rule_value_derived(Oid type, Oid collation);

#endif
