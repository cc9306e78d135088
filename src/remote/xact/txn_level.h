/*
 * txn_level.h
 *	  Nesting levels that follow their subtransactions.
 *
 * When a subtransaction ends, everything that began in it belongs to its parent.  A later subtransaction may get its
 * number.  After a rollback the subtransaction's locks and changes are gone.  So a statement that began in it must not
 * continue to lock or change rows (remote/run/stream.c).
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
	int			level;			/* see GetCurrentTransactionNestLevel() */
	CommandId	cid;			/* of the statement, which does not see what this command or a later one has written */
	bool		has_locks;		/* the nodes hold row locks for cxt that belong to it */
	bool		undone;			/* the subtransaction in which it began was rolled back */
} ShardTxnLevel;

/*
 * The command of the statement that runs, that is, of the active snapshot.  Without an active
 * snapshot it is the transaction's current command.
 */
extern CommandId shard_txn_level_command(void);

/* Creates an object with the current level and the statement's command.  Memory: cxt, whose reset frees it. */
extern ShardTxnLevel *shard_txn_level_create(MemoryContext cxt);

/*
 * shard_txn_level_number() distinguishes the subtransaction of level from earlier ones of the same level, in the names
 * of savepoints.  Call new_savepoint for each savepoint that is created, because only levels with a savepoint are
 * counted.
 */
extern uint32 shard_txn_level_number(int level);
extern uint32 shard_txn_level_new_savepoint(int level);

/*
 * Raises if a level with row locks in cxt, or in a context below it, was rolled back.  When the
 * first row of a node is fetched, all its rows are locked.  Most of them then wait here, in a
 * stream, a sort or a merge.  If that happened within a savepoint, ROLLBACK TO releases the locks,
 * and none of these rows may be returned any more. cxt: of the statement.  Errors:
 * INVALID_CURSOR_STATE.
 */
extern void shard_txn_level_check_locks(MemoryContext cxt);

/* The subtransaction of level ends: it becomes part of its parent, or is rolled back. */
extern void shard_txn_level_end(int level, bool committed);

#endif
