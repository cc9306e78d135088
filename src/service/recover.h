/*
 * recover.h
 *	  Resolves the transactions that this database left prepared on nodes.
 */
#ifndef SHARDFDW_RECOVER_H
#define SHARDFDW_RECOVER_H

#include "postgres.h"

#include "nodes/pg_list.h"

typedef enum ShardRecoverAction
{
	SHARD_RECOVER_COMMITTED,
	SHARD_RECOVER_ROLLED_BACK,
	SHARD_RECOVER_FAILED,		/* message: the reason */
	SHARD_RECOVER_UNREACHABLE,	/* the node; message: the reason, gid is NULL */
	SHARD_RECOVER_PROMOTED,		/* the server may have lost a commit; message: which one, gid is NULL */
	SHARD_RECOVER_ANOTHER_SERVER,	/* it is not the server that prepared; message: which one, gid is NULL */
	SHARD_RECOVER_LEFT,			/* cannot be decided, or not here; message: the reason, gid may be NULL */
	SHARD_RECOVER_UNCONFIRMED,	/* this server is not confirmed as the coordinator; node and gid are NULL */
	SHARD_RECOVER_WOULD_COMMIT, /* dry runs */
	SHARD_RECOVER_WOULD_ROLL_BACK,
	SHARD_RECOVER_REMOVED,		/* a remainder of a job on the node; message: which one, gid is NULL; node NULL: on the coordinator */
	SHARD_RECOVER_NOT_REMOVED	/* the same, but the removal failed */
} ShardRecoverAction;

typedef struct ShardRecoverOutcome
{
	const char *node;			/* NULL: none */
	const char *gid;			/* NULL: none */
	ShardRecoverAction action;
	const char *message;		/* NULL: none */
} ShardRecoverOutcome;

/*
 * Resolves prepared transactions on the nodes for which the current user has mappings.  Runs no code
 * of users.  Returns a List of ShardRecoverOutcome.  Memory: current context.
 */
extern List *shard_recover_run(bool dry_run);

/*
 * Call it after shard_recover_run().  Removes the leftovers of ended jobs on these nodes and on the coordinator.  For a
 * superuser, also removes leftovers of other roles' jobs in their tables.  It may run code of the owners of tables, and
 * wait for sessions that use the tables.  Returns outcomes, with its own added.
 */
extern List *shard_recover_remove(List *outcomes);

/*
 * Resolves the prepared transactions on the node at serverid whose local transactions have ended.  It is a part of
 * shard_recover_run().  Returns outcomes.  Memory: current context.
 */
extern List *shard_recover_settle(Oid serverid);

/*
 * Registered by shardfdw.c. restart: starts processes that are missing, at the end of
 * shard_recover_run(). jobs: does the work of shard_recover_remove().
 */
typedef List *(*ShardRecoverJobs) (List *outcomes);
extern void shard_recover_set_jobs(void (*restart) (void), ShardRecoverJobs jobs);

/* Adds an outcome.  Memory: current context; strings are not copied. */
extern List *shard_recover_add(List *outcomes, const char *node, ShardRecoverAction action, const char *message);

/* Logs outcomes: what was resolved, and what is left. */
extern void shard_recover_log(List *outcomes);

#endif
