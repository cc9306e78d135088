/*
 * convert.h
 *	  Converts the planner's expressions to those of a remote query.
 */
#ifndef SHARDFDW_CONVERT_H
#define SHARDFDW_CONVERT_H

#include "postgres.h"

#include "deparse/level.h"

/*
 * Converts expr, over relations of level or of outer levels, to an expression of level's query.  Parts that the
 * coordinator evaluates become parameters of select.
 */
extern Expr *shard_convert_expr(ShardSelect *select, ShardLevel *level, Expr *expr);

/*
 * The same for clauses of WHERE and ON.  If select will be prepared, constants that they compare with become
 * parameters.
 */
extern List *shard_convert_conditions(ShardSelect *select, ShardLevel *level, List *clauses);

/* The same for each expression of a list. */
extern List *shard_convert_list(ShardSelect *select, ShardLevel *level, List *exprs);

/*
 * (expr)::type.  The node's column may have another type than the coordinator's, and rows of COPY have no type
 * information.  Without the cast, eight bytes of a float would be read as a bigint, and a jsonb as text.  If the
 * types are equal, the cast costs nothing.  But it hides the length of char(n) and similar types, so expressions in
 * GROUP BY and ORDER BY have no cast. count() and COLLATE need no cast, because their type is fixed.
 */
extern Expr *shard_convert_typed(Expr *expr, Oid type);

/*
 * The text form of a value, (expr)::text.  If a user has defined a cast to text, whose result may be anything, the
 * type's output function is called instead.
 */
extern Expr *shard_convert_text(Expr *expr, Oid type);

/* expr, without columns: a constant is not changed, any other expression becomes a parameter. */
extern Node *shard_convert_value(ShardSelect *select, Node *expr);

/* Parameter paramno of a query. */
extern Param *shard_convert_param(int paramno, Oid type, int32 typmod, Oid collation);

/* ($paramno)::type: the cast tells the node the parameter's type. */
extern Expr *shard_convert_typed_param(int paramno, Oid type, Oid collation);

/* coalesce(first, second), with the type and collation of first. */
extern Expr *shard_convert_coalesce(Expr *first, Expr *second);

/* A plain aggregate over args, as the parser makes it, of types without collations. */
extern Aggref *shard_convert_aggregate(Oid function, Oid type, List *args);

extern Const *shard_convert_int8(int64 value);

#endif
