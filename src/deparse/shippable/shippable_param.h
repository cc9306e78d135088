/*
 * shippable_param.h
 *	  Finds the parts of an expression that only the coordinator can evaluate.
 */
#ifndef SHARDFDW_SHIPPABLE_PARAM_H
#define SHARDFDW_SHIPPABLE_PARAM_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * True if expr has no Var or aggregate, but a part that only the coordinator can evaluate: a parameter, a stable
 * function.  Such an expression becomes one parameter of the remote query. conditional: expr is in CASE or COALESCE,
 * where it may never be evaluated.
 */
extern bool shard_shippable_is_param(Node *expr, bool conditional);

/* Has expr, outside of its sub-selects, a part that only the coordinator can evaluate? */
extern bool shard_shippable_needs_coordinator(Node *expr);

#endif
