/*
 * convert.h
 *	  Converts the planner's expressions to those of a remote query.
 */
#ifndef SHARDFDW_CONVERT_H
#define SHARDFDW_CONVERT_H

#include "postgres.h"

#include "deparse/level.h"

/*
 * Converts expr, over relations of level or of levels around it, to an expression of
 * level's query.  Parts that the coordinator evaluates become parameters of select.
 */
extern Expr *shard_convert_expr(ShardSelect *select, ShardLevel *level, Expr *expr);

/* The same for clauses of WHERE and ON; where select is to be prepared, constants that they compare with become parameters. */
extern List *shard_convert_conditions(ShardSelect *select, ShardLevel *level, List *clauses);

/* The same for each of a list. */
extern List *shard_convert_list(ShardSelect *select, ShardLevel *level, List *exprs);

/*
 * (expr)::type.  The node's column may have another type than the coordinator's, and
 * rows of COPY do not show their types: without the cast eight bytes of a float would
 * be read as a bigint, those of a jsonb as text.  Where the types agree, the cast costs
 * nothing.  But it hides the length of char(n) and similar types, so expressions in
 * GROUP BY and ORDER BY stand without it.  count() and COLLATE need no cast: their type
 * is fixed.
 */
extern Expr *shard_convert_typed(Expr *expr, Oid type);

/*
 * The value's text form, (expr)::text.  If a user has defined a cast to text, which may
 * write anything, the type's output function is called instead.
 */
extern Expr *shard_convert_text(Expr *expr, Oid type);

/* expr, without columns: a constant as it is, anything else as a parameter. */
extern Node *shard_convert_value(ShardSelect *select, Node *expr);

/* coalesce(first, second), of the type and collation of the first. */
extern Expr *shard_convert_coalesce(Expr *first, Expr *second);

#endif
