/*
 * cut.h
 *	  One snapshot over all nodes.
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
 * Takes snapshot on all nodes that this transaction has not written to, at one
 * moment: see cut.c and fence.c for what that is.
 * Connects, then one round trip, more where it has to be tried again.  Errors: a
 * node that cannot be reached, or does not answer in time (08006); no such moment found in
 * time (55P03).  Called by transactions (ShardTxnUpcalls).
 */
extern void shard_cut_take(ShardSnapshot *snapshot);

#endif
