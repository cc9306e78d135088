/*
 * autocommit.h
 *	  Runs a change on one node that is a transaction by itself.
 */
#ifndef SHARDFDW_AUTOCOMMIT_H
#define SHARDFDW_AUTOCOMMIT_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/run/command.h"

/*
 * May the node commit the current statement by itself?  It may not if the local transaction has something to commit, or
 * has written to a node before.  The caller must ensure that the statement is the whole transaction.
 */
extern bool shard_autocommit_possible(void);

/*
 * Runs command outside any transaction.  On return the node has committed it.  Interrupts are held
 * until the local transaction has ended, so that it cannot fail in between.  A cancel that arrives
 * too late is dropped. *affected: number of rows.  False: it was not run, because the connection
 * needs a transaction (session_state 'off').  Errors: see shard_command_run().
 */
extern bool shard_autocommit_run(const ShardCommand *command, int64 *affected);

/*
 * The same for a command with parameters that returns rows.  Returns its result in binary format, which
 * the current memory context frees; NULL: it was not run.  It is committed on return, so the caller's
 * work on the rows must not fail.
 */
extern PGresult *shard_autocommit_returning(const ShardCommand *command);

/*
 * The same for a command that returns one row with two numbers (bigint): how many rows it has
 * found, and how many it has changed.  If it has found none, nothing is committed, interrupts are
 * not held, and another command may be run in the same way.
 */
extern bool shard_autocommit_take(const ShardCommand *command, int64 *found, int64 *affected);

#endif
