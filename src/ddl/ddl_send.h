/*
 * ddl_send.h
 *	  Sends commands for tables to all nodes at the same time.
 */
#ifndef SHARDFDW_DDL_SEND_H
#define SHARDFDW_DDL_SEND_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "remote/run/command.h"

/* The commands for the shards of a table. */
typedef struct ShardDdlBatch
{
	const ShardDdlTable *table;
	StringInfoData *texts;		/* per shard: its commands, separated by semicolons */
	bool		keeps_definition;	/* no command changes the definition in a way that a move would have to repeat */
	bool		renames;		/* gives another name to shards, or to their columns or constraints */
	bool		only_names_shards;	/* no expressions and no new names: the user needs no USAGE on the servers */
} ShardDdlBatch;

extern ShardDdlBatch *shard_ddl_batch_create(const ShardDdlTable *table);

/* Appends a command for one shard. */
extern void shard_ddl_batch_add(ShardDdlBatch *batch, int shardno, const char *fmt,...) pg_attribute_printf(3, 4);

/* Appends a command to the batch of each shard: before, the quoted qualified name of the shard, after. */
extern void shard_ddl_batch_add_all(ShardDdlBatch *batch, const char *before, const char *after);

/* Adds to the batch of each shard what names this transaction on its node.  Before a command that gives it another name. */
extern void shard_ddl_batch_add_named_by(ShardDdlBatch *batch);

/*
 * Checks on the nodes whether the tables of shards belong to the owner of the foreign table, for shards whose owner
 * must be checked.  Uses the user mapping of the owner.  A table that is missing on its node is no error.  Batches do
 * this check themselves.  Errors: insufficient_privilege, with table and node; undefined_object if the owner has no
 * user mapping.
 */
extern void shard_ddl_check_owners(const ShardDdlTable *table);

/*
 * Sends all commands in this transaction, as the current user.  Raises the error of the first node that fails.  The
 * batch is empty afterwards.  Errors: insufficient_privilege without USAGE on a server, unless only_names_shards is
 * set.
 */
extern void shard_ddl_batch_run(ShardDdlBatch *batch);

/* The same for commands that belong to no shard. text: makes the command for a server. */
extern void shard_ddl_run_on_servers(List *servers, char *(*text) (Oid serverid, void *arg), void *arg);

/* Locks the table of each shard. mode: as in LOCK TABLE. nowait: with NOWAIT. */
extern void shard_ddl_lock_shards(const ShardDdlTable *table, const char *mode, bool nowait);

/* shard_ddl_batch_run() as a ShardDdlRest. */
extern void shard_ddl_batch_rest(void *batch);

/*
 * shard_ddl_batch_run() outside any transaction, for batches with one command per shard.  Returns a list of the
 * ShardDdlShards that succeeded.  *error: the first error, or NULL.
 */
extern List *shard_ddl_batch_run_free(ShardDdlBatch *batch, ErrorData **error);

/*
 * Runs a query on the nodes of a table, in this transaction. question makes the query of a node from the numbers of its
 * shards.  Each result row begins with the number of a shard. take is called with the fields of the row (NULL for
 * null). In a session that follows another coordinator, there are no results.
 */
typedef char *(*ShardDdlQuestion) (const ShardDdlTable *table, List *shardnos, void *arg);
typedef void (*ShardDdlAnswer) (const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg);

/* For a ShardDdlAnswer.  Errors: protocol_violation unless there are nneeded fields, none of them null. */
extern void shard_ddl_need_fields(const ShardDdlTable *table, int nfields, const char *const *fields, int nneeded);

extern void shard_ddl_ask(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg);

/* The same outside any transaction, for commands that wait for open transactions on the nodes. */
extern void shard_ddl_ask_free(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg);

#endif
