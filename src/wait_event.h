/*
 * wait_event.h
 *	  What sessions wait for, as pg_stat_activity shows it.
 */
#ifndef SHARDFDW_WAIT_EVENT_H
#define SHARDFDW_WAIT_EVENT_H

#include "postgres.h"

typedef enum ShardWaitEvent
{
	SHARD_WAIT_NODE,			/* nodes' answers, whatever the statement */
	SHARD_WAIT_CONNECT,			/* a connection to a node that is being opened */
	SHARD_WAIT_TRANSACTION,		/* nodes that prepare, commit, roll back, or take a snapshot over all nodes */
	SHARD_WAIT_COPY_NODE,		/* nodes that take the rows of a COPY more slowly than they come */
	SHARD_WAIT_COPY_CLIENT,		/* rows of a COPY from the client */
	SHARD_WAIT_COPY_FILE,		/* the file or program of a COPY */
	SHARD_WAIT_SLOT,			/* a connection that other sessions hold; see remote/wire/quota.h */
	SHARD_WAIT_PAUSE,			/* a moment, before something is looked at again */
	SHARD_WAIT_JOB,				/* a job's end, in the session that has asked for it */
	SHARD_WAIT_RECOVERY			/* the next round of recovery, in its launcher */
} ShardWaitEvent;

/*
 * The number of event for core's waits.  The session's first call makes the names known,
 * and may raise.
 */
extern uint32 shard_wait_event(ShardWaitEvent event);

/* The same where no error may be raised: without a name as long as that call is to come. */
extern uint32 shard_wait_event_noerror(ShardWaitEvent event);

#endif
