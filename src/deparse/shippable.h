/*
 * shippable.h
 *	  Whether an expression gives on any node exactly what it gives here.
 */
#ifndef SHARDFDW_SHIPPABLE_H
#define SHARDFDW_SHIPPABLE_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/*
 * True when expr, over Vars of relids (system columns excluded but ctid when
 * allow_ctid), may be evaluated on nodes: built-in immutable functions and
 * operators, stable ones that depend only on settings which follow the user's
 * (TimeZone), collations that are surely equal there, no subplans.  Stable
 * Var-free subexpressions (now(), current_date, 'x'::regclass, current_setting())
 * count as shippable: the deparser makes them parameters.
 */
extern bool shard_shippable_expr(PlannerInfo *root, Relids relids, Expr *expr);

/* Does the aggregate have partial states that stock nodes can compute? */
extern bool shard_shippable_partial_agg(Aggref *agg);

#endif
