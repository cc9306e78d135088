/*
 * shippable.h
 *	  Whether an expression gives on any node exactly what it gives on the coordinator.
 */
#ifndef SHARDFDW_SHIPPABLE_H
#define SHARDFDW_SHIPPABLE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/pathnodes.h"

/*
 * True when expr, over Vars of relids, may be evaluated on nodes: built-in
 * immutable functions and operators, stable ones that depend only on settings
 * which follow the user's (TimeZone), collations that are surely equal there,
 * no subplans, no system columns but ctid.  Stable Var-free subexpressions
 * (now(), current_date, current_setting()) count as shippable: the deparser
 * makes them parameters.
 */
extern bool shard_shippable_expr(PlannerInfo *root, Relids relids, Expr *expr);

/* The same for an expression that may hold aggregates, which the node computes whole. */
extern bool shard_shippable_agg_expr(PlannerInfo *root, Relids relids, Expr *expr);

/*
 * The same for an expression that may also hold window functions of root's
 * query level; their windows' PARTITION BY, ORDER BY and frames are checked.
 */
extern bool shard_shippable_window_expr(PlannerInfo *root, Relids relids, Expr *expr);

/*
 * Is the order of expr's values under sortop the same on every node as on the coordinator?
 * expr may hold aggregates and window functions.  default_collation: the
 * database's default collation is surely the same on all nodes that are asked.
 */
extern bool shard_shippable_sort_expr(PlannerInfo *root, Relids relids, Expr *expr, Oid sortop,
									  bool default_collation);

/*
 * May rows be grouped by expr on nodes?  Its equality must be the same there:
 * built-in types or enums, no nondeterministic collation.
 */
extern bool shard_shippable_group_expr(PlannerInfo *root, Relids relids, Expr *expr);

/*
 * Does the aggregate have partial states that the nodes of map can compute?
 * Its arguments and FILTER are not looked at, see shard_shippable_partial_args().
 */
extern bool shard_shippable_partial_agg(const ShardMap *map, Aggref *agg);

/* May the arguments and FILTER of such an aggregate be evaluated on nodes? */
extern bool shard_shippable_partial_args(PlannerInfo *root, Relids relids, Aggref *agg);

/*
 * Does node (of a statement, before planning) read a value that nodes return as text in
 * the portable style of dates, intervals and floats?  A session has only one style, so
 * no query may have both such columns and casts to text in the user's style.
 * shard_shippable_expr() ensures that, if it gets the planner's root.
 */
extern bool shard_shippable_returns_styled_text(Node *node);

/* Does expr cast to text in the user's style? */
extern bool shard_shippable_casts_styled(Node *expr);

/* Can a value of type go to a node as text and mean the same there? */
extern bool shard_shippable_value_type(Oid type);

/*
 * True when an expression whose parts imply one collation has another one that
 * nodes understand as COLLATE "C" or "POSIX".  (The planner turns COLLATE into
 * a RelabelType or a constant's collation; neither is printed as such.)
 */
extern bool shard_shippable_names_collation(Oid collation, Oid implied);

#endif
