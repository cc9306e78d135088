/*
 * wait_event.h
 *	  Wait events, as pg_stat_activity shows them.
 */
#ifndef SHARDFDW_WAIT_EVENT_H
#define SHARDFDW_WAIT_EVENT_H

#include "postgres.h"

typedef enum ShardWaitEvent
{
	SHARD_WAIT_NODE,			/* answers of nodes, for any statement */
	SHARD_WAIT_CONNECT,			/* opening a connection to a node */
	SHARD_WAIT_TRANSACTION,		/* nodes that prepare, commit, roll back, or take a cluster snapshot */
	SHARD_WAIT_COPY_NODE,		/* nodes that read the rows of a COPY more slowly than they arrive */
	SHARD_WAIT_COPY_CLIENT,		/* rows of a COPY from the client */
	SHARD_WAIT_COPY_FILE,		/* the file or program of a COPY */
	SHARD_WAIT_SLOT,			/* connections held by other sessions; see remote/wire/quota.h */
	SHARD_WAIT_PAUSE,			/* a pause before something is checked again */
	SHARD_WAIT_JOB,				/* end of a job, in the session that has requested it */
	SHARD_WAIT_RECOVERY			/* the next round of recovery, in its launcher */
} ShardWaitEvent;

/*
 * Returns the number of event for core's waits.  The session's first call registers the names, and
 * may raise an error.
 */
extern uint32 shard_wait_event(ShardWaitEvent event);

/* The same where no error may be raised: without a name until shard_wait_event() has been called. */
extern uint32 shard_wait_event_noerror(ShardWaitEvent event);

#endif
