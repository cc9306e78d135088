/*
 * take_claim.h
 *	  Rows that sessions of this server are about to take from a queue.
 */
#ifndef SHARDFDW_EXECUTOR_TAKE_CLAIM_H
#define SHARDFDW_EXECUTOR_TAKE_CLAIM_H

#include "postgres.h"

#include "storage/itemptr.h"

/* A version of a row. */
typedef struct ShardClaimRow
{
	Oid			relid;			/* the shard */
	TransactionId xmin;			/* on its node */
	ItemPointerData ctid;
} ShardClaimRow;

/* A moment, for shard_claim_begin(). */
extern uint64 shard_claim_now(void);

/*
 * May this session ask for a row that it has read since a moment?  True: others leave the row out until this (sub)transaction
 * ends, or until it is given up.  False: another session has claimed it, or has changed it since.  Cannot know of
 * sessions elsewhere; without preloading, of none.
 */
extern bool shard_claim_begin(const ShardClaimRow *row, uint64 since);

/* The row was not free, or (changed) it has been changed, so that nobody will find this version of it after the commit. */
extern void shard_claim_end(const ShardClaimRow *row, bool changed);

/* A subtransaction, level, or the transaction ends. */
extern void shard_claim_end_level(int level, bool committed);
extern void shard_claim_end_transaction(bool committed);

/* Asks for shared memory.  To be called once. */
extern void shard_claim_init(void);

#endif
