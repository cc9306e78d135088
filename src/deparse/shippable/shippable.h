/*
 * shippable.h
 *	  Decides whether an expression has exactly the same result on any node as on the coordinator.
 */
#ifndef SHARDFDW_SHIPPABLE_H
#define SHARDFDW_SHIPPABLE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/pathnodes.h"

/*
 * May nodes evaluate expr, over Vars of relids?  Allowed are built-in immutable functions and operators, and
 * collations that are surely equal there.  Stable functions are allowed if they depend only on settings that sessions
 * on nodes share with the user's session (TimeZone).  Subplans, and system columns other than ctid, are not allowed.
 * Stable subexpressions without Vars (now(), current_date, current_setting()) are shippable, because the deparser
 * makes them parameters.
 */
extern bool shard_shippable_expr(PlannerInfo *root, Relids relids, Expr *expr);

/* The same for an expression that may contain aggregates, which the node computes completely. */
extern bool shard_shippable_agg_expr(PlannerInfo *root, Relids relids, Expr *expr);

/*
 * The same for an expression that may also contain window functions of root's query level.  Checks PARTITION BY,
 * ORDER BY and frames of their windows.
 */
extern bool shard_shippable_window_expr(PlannerInfo *root, Relids relids, Expr *expr);

/*
 * Do expr's values have the same order under sortop on every node as on the coordinator? expr may contain aggregates
 * and window functions. default_collation: the database's default collation is surely the same on all queried nodes.
 */
extern bool shard_shippable_sort_expr(PlannerInfo *root, Relids relids, Expr *expr, Oid sortop,
									  bool default_collation);

/*
 * May nodes group rows by expr?  Its equality must be the same there: built-in types or enums, no nondeterministic
 * collation.
 */
extern bool shard_shippable_group_expr(PlannerInfo *root, Relids relids, Expr *expr);

/*
 * Has the aggregate partial states that the nodes of map can compute?  Does not check its arguments and FILTER, see
 * shard_shippable_partial_args().
 */
extern bool shard_shippable_partial_agg(const ShardMap *map, Aggref *agg);

/* May nodes evaluate the arguments and FILTER of such an aggregate? */
extern bool shard_shippable_partial_args(PlannerInfo *root, Relids relids, Aggref *agg);

/*
 * Does node (of a statement before planning) read a value that nodes return as text in the portable style of dates,
 * intervals and floats?  A session has only one style.  So a query must not have both such columns and casts to text
 * in the user's style. shard_shippable_expr() checks that if it gets the planner's root.
 */
extern bool shard_shippable_returns_styled_text(Node *node);

/* Does expr cast to text in the user's style? */
extern bool shard_shippable_casts_styled(Node *expr);

/* Can a value of this type be sent to a node as text, with the same meaning there? */
extern bool shard_shippable_value_type(Oid type);

/*
 * Has an expression another collation than its parts imply, and can nodes be told it by COLLATE "C" or "POSIX"?  The
 * planner turns COLLATE into a RelabelType or a constant's collation, which are not printed.
 */
extern bool shard_shippable_names_collation(Oid collation, Oid implied);

#endif
