/*
 * txn_level.h
 *	  Nesting levels that follow their subtransactions.
 *
 * What began in a subtransaction belongs to the one around it when that has ended, and
 * a later one may have the number that it had.  After a rollback what it locked or
 * changed is undone: nothing of that may be done any more (remote/run/stream.c).
 */
#ifndef SHARDFDW_TXN_LEVEL_H
#define SHARDFDW_TXN_LEVEL_H

#include "postgres.h"

#include "lib/ilist.h"

typedef struct ShardTxnLevel
{
	dlist_node	link;
	MemoryContext cxt;
	MemoryContextCallback callback;
	int			level;			/* as GetCurrentTransactionNestLevel() counts */
	CommandId	cid;			/* of the statement: it does not see what this command, or a later one, has written */
	bool		has_locks;		/* row locks that the nodes hold for cxt belong to it */
	bool		undone;			/* the subtransaction that it began in was rolled back */
} ShardTxnLevel;

/*
 * The command of the statement that runs: the one whose snapshot is active.  Where none is active, the transaction's
 * current one.
 */
extern CommandId shard_txn_level_command(void);

/* The current level, and the statement's command.  Memory: in cxt, whose reset ends it. */
extern ShardTxnLevel *shard_txn_level_create(MemoryContext cxt);

/*
 * What tells the subtransaction of level from others that had this level: the names of
 * savepoints have it.  new_savepoint: the same, to be called for each savepoint that is
 * made, since only ends of levels that had one are counted.
 */
extern uint32 shard_txn_level_number(int level);
extern uint32 shard_txn_level_new_savepoint(int level);

/*
 * Raises when a level with row locks in cxt, or in a context below it, was undone.  All rows of a node are locked when the
 * first of them is fetched, and most of them wait here, in a stream, a sort or a merge.  When that was within a savepoint,
 * ROLLBACK TO takes their locks away, and none of them may be handed out any more.
 * cxt: of the statement.  Errors: INVALID_CURSOR_STATE.
 */
extern void shard_txn_level_check_locks(MemoryContext cxt);

/* The subtransaction of level ends: becomes part of the one around it, or is rolled back. */
extern void shard_txn_level_end(int level, bool committed);

#endif
