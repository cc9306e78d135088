/*
 * cut.h
 *	  Cluster snapshots: one snapshot over all nodes.
 */
#ifndef SHARDFDW_CUT_H
#define SHARDFDW_CUT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/xact/txn.h"

/* Returns the servers of the nodes for which the current user has mappings: OidList in the current context. */
typedef List *(*ShardCutNodes) (void);

extern void shard_cut_init(ShardCutNodes nodes);

/*
 * Takes snapshot at one moment on all nodes to which this transaction has not written; see cut.c
 * and fence.c for what that means.  Opens connections, then takes one round trip, and more if it
 * must try again.  Errors: a node cannot be reached or does not answer in time (08006); no attempt
 * succeeded in time (55P03).  Called by transactions (ShardTxnUpcalls).
 */
extern void shard_cut_take(ShardSnapshot *snapshot);

#endif
