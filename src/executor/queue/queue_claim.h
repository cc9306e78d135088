/*
 * queue_claim.h
 *	  Claims: rows that sessions of this server are about to take from a queue.
 */
#ifndef SHARDFDW_EXECUTOR_QUEUE_CLAIM_H
#define SHARDFDW_EXECUTOR_QUEUE_CLAIM_H

#include "postgres.h"

#include "storage/itemptr.h"

/* A version of a row. */
typedef struct ShardClaimRow
{
	Oid			relid;			/* the shard */
	TransactionId xmin;			/* on its node */
	ItemPointerData ctid;
} ShardClaimRow;

/* The present moment, for shard_claim_begin(). */
extern uint64 shard_claim_now(void);

/*
 * May this session try to lock a row that it has read after moment since?  True: other sessions skip the row until this
 * (sub)transaction ends, or the claim is given up.  False: another session has claimed the row, or has changed it
 * since. Sessions of other servers have no claims here.  If the library is not preloaded, there are no claims at all.
 */
extern bool shard_claim_begin(const ShardClaimRow *row, uint64 since);

/*
 * Gives the claim up.  Either the row was not free, or this session has changed it (changed).  Then this version of the
 * row will not exist after the commit.
 */
extern void shard_claim_end(const ShardClaimRow *row, bool changed);

/* The subtransaction level, or the transaction, ends. */
extern void shard_claim_end_level(int level, bool committed);
extern void shard_claim_end_transaction(bool committed);

/* Requests shared memory.  Called once. */
extern void shard_claim_init(void);

#endif
