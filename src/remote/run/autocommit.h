/*
 * autocommit.h
 *	  A change on one node that is a transaction by itself.
 */
#ifndef SHARDFDW_AUTOCOMMIT_H
#define SHARDFDW_AUTOCOMMIT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/run/command.h"

/*
 * May the node commit the statement that runs now by itself?  Not when the local
 * transaction has something to commit, or has written to a node before.  The caller
 * has to know that the statement is the whole transaction.
 */
extern bool shard_autocommit_possible(void);

/*
 * Runs command outside of any transaction.  When it returns, the node has
 * committed it: interrupts are held until the local transaction has ended, so
 * that nothing fails in between.  A cancel that comes too late is dropped.
 * *affected: its rows.  False when it has not run, because the connection needs a
 * transaction around it (session_state 'off').  Errors: as shard_command_run().
 */
extern bool shard_autocommit_run(const ShardCommand *command, int64 *affected);

/* What a command returns: rows of so many columns, in binary. */
typedef struct ShardAutocommitRows
{
	int			ncolumns;
	int			nresults;
	int			nmax;			/* for how many there is room */
	PGresult  **results;		/* each one row; the caller's to clear */
} ShardAutocommitRows;

/*
 * The same for a command with parameters that returns rows, which are kept in memory.  Whatever is
 * done with them must not fail: it is committed.
 */
extern bool shard_autocommit_returning(const ShardCommand *command, ShardAutocommitRows *rows);

/*
 * The same for a command that returns one row of two numbers (bigint): how many rows it has found, and has changed.  Where it
 * has found none nothing is committed, and interrupts are not held: another command may be run so.
 */
extern bool shard_autocommit_take(const ShardCommand *command, int64 *found, int64 *affected);

#endif
