/*
 * cut.h
 *	  One snapshot over all nodes.
 */
#ifndef SHARDFDW_CUT_H
#define SHARDFDW_CUT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/txn.h"

/* Says which servers are the nodes that the current user has mappings for: OidList in the current context. */
typedef List *(*ShardCutNodes) (void);

extern void shard_cut_init(ShardCutNodes nodes);

/*
 * Takes snapshot on all nodes that this transaction has not written to, at one
 * moment: no transaction commits over shardfdw in this database meanwhile. Waits
 * for commits that are under way, connects, then one round trip. Errors: a node
 * that cannot be reached, or does not answer within seconds (08006).
 */
extern void shard_cut_take(ShardSnapshot *snapshot);

/*
 * Before the first node is told to commit, outside of which nothing of this
 * transaction can be seen: until the local transaction has ended nobody takes a
 * cut. May wait; answers interrupts.
 */
extern void shard_cut_hold_off(void);

#endif
