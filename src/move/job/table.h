/*
 * table.h
 *	  The tables of a move: their description by the source, and the commands that recreate them.
 */
#ifndef SHARDFDW_MOVE_TABLE_H
#define SHARDFDW_MOVE_TABLE_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "move/job/move.h"

/*
 * Begins a transaction in which the current user is the user of the move; and commits it.  An abort also restores the
 * user.  A job may last for hours, so settings are reloaded at the start of each transaction.
 */
extern void shard_move_begin(Oid userid);
extern void shard_move_commit(void);

/* Limits the wait for each lock on the coordinator to timeout_ms; 0: no limit.  Valid for the current transaction. */
extern void shard_move_limit_locks(int timeout_ms);

/*
 * Commits too.  Returns false if a node has not confirmed the commit.  Then its rows become visible only after
 * recovery.
 */
extern bool shard_move_commit_confirmed(void);

/*
 * The same; raises an error if a node has not confirmed the commit.  Sessions that start after the switch would not
 * see those rows.
 */
extern void shard_move_commit_on_nodes(const ShardJob *job);

/* Fills source, tables and schema of a move.  Call it in a transaction.  Errors: a requested table is not a shard. */
extern void shard_move_find_tables(ShardMove *move);

/*
 * The schemas of a move, a list of String that need no quotes: one for the staging tables of each schema of the shards,
 * because tables and indexes of two schemas may have the same names.  Both nodes have all of them, so that no other
 * role can take such a name there.
 */
extern List *shard_move_schemas(const ShardMove *move);

/* The command that drops these schemas. */
extern char *shard_move_drop_schemas(const ShardMove *move);

/* Makes serverid the target. */
extern void shard_move_set_target(ShardMove *move, Oid serverid);

/* The requested shards as an SQL array. */
extern char *shard_move_array(const ShardMove *move);

/* Reads the description of the tables from the source.  Errors: a table cannot be moved. */
extern void shard_move_read_parts(ShardMove *move);

/*
 * Raises an error if the tables on the source have changed since shard_move_read_parts().  The result stays valid
 * only while other sessions cannot change them.
 */
extern void shard_move_check_unchanged(const ShardMove *move);

/* Was a lock not granted in time? code: an SQLSTATE. */
extern bool shard_move_is_lock_timeout(int code);

/*
 * Begins a transaction as shard_move_begin() does, and calls step in it as shard_catch_transaction() does.  The
 * transaction stays open.
 */
extern bool shard_move_try_step(Oid userid, bool (*passes) (int code), void (*step) (void *arg), void *arg);

/* The commands of a table in the part with this name, separated by semicolons.  NULL if there are none. */
extern char *shard_move_commands(const ShardMoveTable *table, const char *part);

/* The value of a fact about a table. */
extern const char *shard_move_fact(const ShardMoveTable *table, const char *name);

/* Runs a query of the extension on the coordinator, with a new snapshot, as the current user.  Call it in a transaction. */
extern void shard_move_call(const char *sql);

/* The same; returns its value.  Errors: undefined_object for null or no row, since the object was dropped. */
extern char *shard_move_value(const char *sql);

/*
 * Runs sql on a node, as one transaction there.  Call it in a local transaction; sql is not part of that.  Errors:
 * errors of the node.
 */
extern void shard_move_run(const ShardMove *move, Oid serverid, const char *sql);

/* The same.  Returns false if a lock timed out. */
extern bool shard_move_try(const ShardMove *move, Oid serverid, const char *sql);

#endif
