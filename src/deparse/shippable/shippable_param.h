/*
 * shippable_param.h
 *	  Which parts of an expression only the coordinator can evaluate.
 */
#ifndef SHARDFDW_SHIPPABLE_PARAM_H
#define SHARDFDW_SHIPPABLE_PARAM_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * True when expr has no Var or aggregate, but something that only the coordinator can
 * evaluate: a parameter, a stable function.  Such an expression becomes one parameter of
 * the remote query.  conditional: it stands in CASE or COALESCE, where it may never be
 * evaluated.
 */
extern bool shard_shippable_is_param(Node *expr, bool conditional);

/* Is there something in expr, outside of its sub-selects, that only the coordinator can evaluate? */
extern bool shard_shippable_needs_coordinator(Node *expr);

#endif
