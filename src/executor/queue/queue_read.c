/*
 * queue_read.c
 *	  Candidates of a queue that sessions of this server read for each other.
 *
 * All workers of a queue ask the nodes for its first rows.  A statement may use what another
 * session reads if that read began after the statement did.  Then the statement could have read the
 * same rows itself.
 *
 *	 join --> no other session reads: read, end --> the others get the rows
 *		 \-> else wait --> rows of a read that began after join
 *					  \-> the reader has ended: read
 *					  \-> WAIT_MS have passed: read, without sharing
 *
 * Reads are numbered when they begin.  A queue is identified by table, user, and a hash of all else
 * on which its rows depend.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "compat.h"
#include "executor/queue/queue_read.h"
#include "fault.h"
#include "miscadmin.h"
#include "shared_memory.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"
#include "wait_event.h"

#define NQUEUES 16				/* queues in use at the same time; the sessions of further queues do not share reads */
#define WAIT_MS 20

typedef struct QueueKey
{
	uint64		hash[2];
	Oid			dboid;
	Oid			relid;			/* not part of the hash, so a user who creates texts with equal hashes gets only rows of the same table */
	Oid			userid;
} QueueKey;

typedef struct QueueRead
{
	QueueKey		key;			/* dboid is invalid: never used */
	uint64		last_use;
	bool		is_read;		/* a session is reading */
	uint64		nbegun;			/* number of the last read that has begun */
	uint64		done;			/* number of the read that returned rows */
	ConditionVariable ended;	/* signaled when a read has ended */
	ShardQueueRows rows;
} QueueRead;

typedef struct QueueReadShared
{
	LWLock	   *lock;
	uint64		nuses;
	QueueRead	queues[NQUEUES];
} QueueReadShared;

static QueueReadShared *shared = NULL;
static QueueRead *reading = NULL;	/* the queue that this session is reading */
static uint64 reading_number = 0;

static bool
is_key(const QueueRead *queue, const QueueKey *key)
{
	return queue->key.dboid == key->dboid && queue->key.relid == key->relid && queue->key.userid == key->userid &&
		queue->key.hash[0] == key->hash[0] && queue->key.hash[1] == key->hash[1];
}

/*
 * Returns the queue with this key.  It may be new, in place of a queue that is not being read.
 * NULL: all are being read.  The caller holds the lock.
 */
static QueueRead *
get_queue(const QueueKey *key)
{
	QueueRead  *oldest = NULL;

	for (int i = 0; i < NQUEUES; i++)
	{
		QueueRead  *queue = &shared->queues[i];

		if (is_key(queue, key))
			return queue;
		if (!queue->is_read && (oldest == NULL || queue->last_use < oldest->last_use))
			oldest = queue;
	}
	if (oldest != NULL)
	{
		oldest->key = *key;
		oldest->done = 0;		/* its rows belong to another key, for which a session may be waiting again */
	}
	return oldest;
}

/*
 * Waits until a read that began after the first nbefore reads has ended, or until this session may
 * read.  The caller holds the lock, which is released while this sleeps.
 */
static bool
wait_for_read(QueueRead *queue, const QueueKey *key, uint64 nbefore)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WAIT_MS);

	ConditionVariablePrepareToSleep(&queue->ended);
	while (is_key(queue, key) && queue->done <= nbefore && queue->is_read)
	{
		long		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		if (left_ms <= 0)
			break;
		LWLockRelease(shared->lock);
		(void) ConditionVariableTimedSleep(&queue->ended, left_ms, shard_wait_event(SHARD_WAIT_NODE));
		SHARD_FAULT_POINT("queue_wait");
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	}
	ConditionVariableCancelSleep();
	return is_key(queue, key) && queue->done > nbefore;
}

bool
shard_queue_read_join(Oid relid, Oid userid, const char *text, int len, ShardQueueRows *rows)
{
	QueueKey		key;
	QueueRead  *queue;
	bool		found = false;

	Assert(reading == NULL);
	if (shared == NULL)
		return false;
	key.hash[0] = hash_bytes_extended((const unsigned char *) text, len, 0);
	key.hash[1] = hash_bytes_extended((const unsigned char *) text, len, 1);
	key.dboid = MyDatabaseId;
	key.relid = relid;
	key.userid = userid;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	queue = get_queue(&key);
	if (queue != NULL)
	{
		queue->last_use = ++shared->nuses;
		found = queue->is_read && wait_for_read(queue, &key, queue->nbegun);
		if (found)
			*rows = queue->rows;
		else if (is_key(queue, &key) && !queue->is_read)
		{
			queue->is_read = true;
			reading = queue;
			reading_number = ++queue->nbegun;
		}
	}
	LWLockRelease(shared->lock);
	return found;
}

void
shard_queue_read_end(const ShardQueueRows *rows)
{
	QueueRead  *queue = reading;

	if (queue == NULL)
		return;
	reading = NULL;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	queue->is_read = false;
	if (rows != NULL && reading_number > queue->done)
	{
		queue->done = reading_number;
		memcpy(&queue->rows, rows, offsetof(ShardQueueRows, rows) + sizeof(ShardQueueRow) * rows->nrows);
	}
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&queue->ended);
}

/* ---------- shared memory ---------- */

static void
init_shared(LWLock *lock)
{
	shared->lock = lock;
	for (int i = 0; i < NQUEUES; i++)
		ConditionVariableInit(&shared->queues[i].ended);
}

static const ShardSharedArea shared_area = {"shardfdw_queue_reads", sizeof(QueueReadShared), 0, (void **) &shared, init_shared};

void
shard_queue_read_init(void)
{
	shard_shared_memory_request(&shared_area);
}
