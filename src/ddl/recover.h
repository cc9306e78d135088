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
	SHARD_RECOVER_PROMOTED		/* a commit may be lost there; message says which, gid is NULL */
} ShardRecoverAction;

typedef struct ShardRecoverOutcome
{
	const char *node;
	const char *gid;
	ShardRecoverAction action;
	const char *message;		/* NULL: nothing to say */
} ShardRecoverOutcome;

/*
 * Does what shardfdw.recover() does, on the nodes that the current user has
 * mappings for. Returns a List of ShardRecoverOutcome. Memory: current context.
 */
extern List *shard_recover_run(void);

#endif
