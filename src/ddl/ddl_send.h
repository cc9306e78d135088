/*
 * ddl_send.h
 *	  Sends commands for tables to all nodes at the same time.
 */
#ifndef SHARDFDW_DDL_SEND_H
#define SHARDFDW_DDL_SEND_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "remote/run/command.h"

/* What is to be run for each shard of a table. */
typedef struct ShardDdlBatch
{
	const ShardDdlTable *table;
	StringInfoData *texts;		/* of each shard: its commands, separated by semicolons */
	bool		keeps_definition;	/* nothing that a move would have to follow */
	bool		only_names_shards;	/* no expression and no new name: the user needs no USAGE on the servers */
} ShardDdlBatch;

extern ShardDdlBatch *shard_ddl_batch_create(const ShardDdlTable *table);

/* Appends a command for one shard. */
extern void shard_ddl_batch_add(ShardDdlBatch *batch, int shardno, const char *fmt,...) pg_attribute_printf(3, 4);

/*
 * Appends a command to those of every shard: before, the quoted qualified name
 * of the shard, after.
 */
extern void shard_ddl_batch_add_all(ShardDdlBatch *batch, const char *before, const char *after);

/*
 * Checks that the user has USAGE on the servers of commands that contain expressions or names of the user's choice,
 * or a role of the nodes for itself.  Commands that are no batch call this themselves.  Errors: insufficient_privilege.
 */
extern void shard_ddl_check_usage(const ShardCommand *commands, int ncommands);

/*
 * Asks nodes whether the tables of shards with an owner to be checked are the owner's, with the user mapping of the owner.
 * A table that is missing on its node is no error.  Batches ask by themselves.  Errors: insufficient_privilege, naming
 * table and node; undefined_object if the owner has no user mapping.
 */
extern void shard_ddl_check_owners(const ShardDdlTable *table);

/*
 * Sends all of it in this transaction, as the current user; raises the first
 * node's error.  The batch is empty afterwards.  Errors: insufficient_privilege as shard_ddl_check_usage().
 */
extern void shard_ddl_batch_run(ShardDdlBatch *batch);

/* Locks the table of each shard; mode as in LOCK TABLE, with NOWAIT after it or not. */
extern void shard_ddl_lock_shards(const ShardDdlTable *table, const char *mode, bool nowait);

/* shard_ddl_batch_run() as a ShardDdlRest. */
extern void shard_ddl_batch_rest(void *batch);

/*
 * shard_ddl_batch_run() outside any transaction, for batches of one command per shard.
 * Returns the shards (a List of ShardDdlShard) that succeeded; *error: the first
 * failure, NULL when there was none.
 */
extern List *shard_ddl_batch_run_free(ShardDdlBatch *batch, ErrorData **error);

/*
 * Asks the nodes of a table, in this transaction.  question: makes the query
 * for one node from the numbers (int list) of the shards there.  Each row of the answer begins
 * with the number of a shard; take is called for it with the values of the
 * row's fields (NULL for null).  Nobody answers a session that follows another coordinator.
 */
typedef char *(*ShardDdlQuestion) (const ShardDdlTable *table, List *shardnos, void *arg);
typedef void (*ShardDdlAnswer) (const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg);

extern void shard_ddl_ask(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg);

/* The same outside any transaction: for commands that wait for open transactions of the nodes. */
extern void shard_ddl_ask_free(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg);

#endif
