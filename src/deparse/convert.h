/*
 * convert.h
 *	  The planner's expressions as they stand in a remote query.
 */
#ifndef SHARDFDW_CONVERT_H
#define SHARDFDW_CONVERT_H

#include "postgres.h"

#include "deparse/level.h"

/*
 * expr, over relations that level or those around it have, in level's terms.
 * What the coordinator evaluates becomes a parameter of select.
 */
extern Expr *shard_convert_expr(ShardSelect *select, ShardLevel *level, Expr *expr);

/* The same for each of a list. */
extern List *shard_convert_list(ShardSelect *select, ShardLevel *level, List *exprs);

/*
 * (expr)::type.  The node's column may have got another type than the
 * coordinator's, and rows of COPY do not tell their types: without the cast
 * eight bytes of a float would be read as a bigint, those of a jsonb as text.
 * Where the types agree, as they should, the cast is nothing to the node, but
 * that it hides the length of a char(n) and the like: what is grouped or sorted by
 * has to stand without it.  count() is of one type, COLLATE gives text alone.
 */
extern Expr *shard_convert_typed(Expr *expr, Oid type);

/*
 * The value's text form, (expr)::text; but where a user has defined a cast to text,
 * which may write anything, by the type's output function.
 */
extern Expr *shard_convert_text(Expr *expr, Oid type);

/* expr, without columns: a constant as it is, anything else as a parameter. */
extern Node *shard_convert_value(ShardSelect *select, Node *expr);

#endif
