/*
 * shippable_param.h
 *	  Which parts of an expression only the coordinator can tell.
 */
#ifndef SHARDFDW_SHIPPABLE_PARAM_H
#define SHARDFDW_SHIPPABLE_PARAM_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * True when expr holds no Var or aggregate but something that only the
 * coordinator can tell: a parameter, a stable function.  Such an expression
 * becomes a parameter of the remote query as a whole.  conditional: it stands
 * in CASE or COALESCE, where it may not be evaluated at all.
 */
extern bool shard_shippable_is_param(Node *expr, bool conditional);

#endif
