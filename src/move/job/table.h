/*
 * table.h
 *	  The tables of a move: what they are on the source, and the commands that make them again.
 */
#ifndef SHARDFDW_MOVE_TABLE_H
#define SHARDFDW_MOVE_TABLE_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "move/job/move.h"

/*
 * Begins a transaction in which the current user is the one for whom the move is done; and
 * commits it.  An abort ends both, too.  A job lasts for hours: settings that have been reloaded hold from the
 * next transaction on.
 */
extern void shard_move_begin(Oid userid);
extern void shard_move_commit(void);

/* In it, nothing waits for a lock here longer than timeout_ms; 0: without end. */
extern void shard_move_limit_locks(int timeout_ms);

/* Commits, too; false when a node has not confirmed that: what was written there can be seen only after recovery. */
extern bool shard_move_commit_confirmed(void);

/* Fills source, tables and schema of a move; in a transaction.  Errors: what was asked for is no shard. */
extern void shard_move_find_tables(ShardMove *move);

/* Makes serverid the target. */
extern void shard_move_set_target(ShardMove *move, Oid serverid);

/* The shards that were asked for, as SQL writes an array of them. */
extern char *shard_move_array(const ShardMove *move);

/* Asks the source what the tables are made of.  Errors: what is in the way of moving them. */
extern void shard_move_read_parts(ShardMove *move);

/*
 * Raises when the tables on the source are no longer what they were when
 * shard_move_read_parts() asked.  Only when nobody else can change them does that last.
 */
extern void shard_move_check_unchanged(const ShardMove *move);

/*
 * Begins a transaction as shard_move_begin() does, and calls step in it.  False: a lock was not given in the time that step has
 * set, or step has failed with an SQLSTATE for which passes, if given, returns true; the transaction is over.
 */
extern bool shard_move_try_step(Oid userid, bool (*passes) (int code), void (*step) (void *arg), void *arg);

/* The commands of a table that have this name, with semicolons between them; NULL: none. */
extern char *shard_move_commands(const ShardMoveTable *table, const char *part);

/* The value of a fact about a table. */
extern const char *shard_move_fact(const ShardMoveTable *table, const char *name);

/* Runs SQL of the extension here, with a snapshot of its own, as the current user; in a transaction. */
extern void shard_move_call(const char *sql);

/* The same, of what returns rows: calls take for each.  Memory: SPI's until the end of the call. */
extern void shard_move_each_row(const char *sql, void (*take) (HeapTuple tuple, TupleDesc desc, void *arg), void *arg);

/*
 * The same, of what returns one row of one column: its value as text, palloc'd.  Errors: ERRCODE_UNDEFINED_OBJECT for null or
 * no row, which is said of what has been dropped.
 */
extern char *shard_move_value(const char *sql);

/* The same; NULL for null or no row. */
extern char *shard_move_nullable_value(const char *sql);

/* OIDs that are written with blanks between, as such a query returns them. */
extern List *shard_move_oids(const char *text);

/* Runs sql on a node, outside of the local transaction, but in one; as one transaction there.  Errors: the node's. */
extern void shard_move_run(const ShardMove *move, Oid serverid, const char *sql);

/* The same; false when a lock was not given in the time that sql sets. */
extern bool shard_move_try(const ShardMove *move, Oid serverid, const char *sql);

#endif
