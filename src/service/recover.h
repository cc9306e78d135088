/*
 * recover.h
 *	  Settles the transactions that this database left prepared on nodes.
 */
#ifndef SHARDFDW_RECOVER_H
#define SHARDFDW_RECOVER_H

#include "postgres.h"

#include "nodes/pg_list.h"

typedef enum ShardRecoverAction
{
	SHARD_RECOVER_COMMITTED,
	SHARD_RECOVER_ROLLED_BACK,
	SHARD_RECOVER_FAILED,		/* message says why */
	SHARD_RECOVER_UNREACHABLE,	/* the node; message says why, gid is NULL */
	SHARD_RECOVER_PROMOTED,		/* a commit may be lost there; message says which, gid is NULL */
	SHARD_RECOVER_ANOTHER_SERVER,	/* not the one that prepared; message says which, gid is NULL */
	SHARD_RECOVER_LEFT,			/* cannot be decided, or not here; message says why, gid may be NULL */
	SHARD_RECOVER_UNCONFIRMED,	/* this server is not confirmed as the coordinator; node and gid are NULL */
	SHARD_RECOVER_WOULD_COMMIT, /* dry runs */
	SHARD_RECOVER_WOULD_ROLL_BACK,
	SHARD_RECOVER_REMOVED,		/* what a job has left on the node; message says which, gid is NULL; node NULL: on the coordinator */
	SHARD_RECOVER_NOT_REMOVED	/* the same, which failed */
} ShardRecoverAction;

typedef struct ShardRecoverOutcome
{
	const char *node;			/* NULL: none */
	const char *gid;			/* NULL: none */
	ShardRecoverAction action;
	const char *message;		/* NULL: nothing to say */
} ShardRecoverOutcome;

/*
 * Does the work of shardfdw.recover_prepared_transactions(), on the nodes for which the current user
 * has mappings.  Returns a List of ShardRecoverOutcome.  Memory: current context.
 */
extern List *shard_recover_run(bool dry_run);

/*
 * Settles what is prepared on the node at serverid, of transactions that have ended; a part of
 * shard_recover_run().  Returns outcomes.  Memory: current context.
 */
extern List *shard_recover_settle(Oid serverid);

/*
 * Work beside prepared transactions, after them: removes what jobs that have ended have
 * left on the nodes for which the current user has mappings.  Returns outcomes with what it has
 * done.  Registered by shardfdw.c.
 */
typedef List *(*ShardRecoverJobs) (List *outcomes);
extern void shard_recover_set_jobs(ShardRecoverJobs jobs);

/* Adds to outcomes.  Memory: current context; strings as they are. */
extern List *shard_recover_add(List *outcomes, const char *node, ShardRecoverAction action, const char *message);

/* Logs outcomes: what was settled, and what is left. */
extern void shard_recover_log(List *outcomes);

#endif
