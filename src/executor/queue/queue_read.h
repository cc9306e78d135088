/*
 * queue_read.h
 *	  Candidates of a queue that sessions of this server read for each other.
 */
#ifndef SHARDFDW_EXECUTOR_QUEUE_READ_H
#define SHARDFDW_EXECUTOR_QUEUE_READ_H

#include "postgres.h"

#include "storage/itemptr.h"

#define SHARD_QUEUE_MAX_ROWS 128

/* A row that may be taken. */
typedef struct ShardQueueRow
{
	int			shardno;
	TransactionId xmin;
	Oid			file;			/* file of the shard that contains it */
	ItemPointerData ctid;
} ShardQueueRow;

/* Rows in the order of a statement. */
typedef struct ShardQueueRows
{
	uint64		since;			/* the moment before they were read, see queue_claim.h */
	bool		more;			/* there are more rows after these */
	int			nrows;
	ShardQueueRow rows[SHARD_QUEUE_MAX_ROWS];
} ShardQueueRows;

/*
 * Should this session use rows that another session reads? key, of keylen bytes, contains everything on which the rows
 * depend, except the user.  True: *rows are rows that another session has begun to read after this call.  False: the
 * caller must read, and call shard_queue_read_end().  Waits for other sessions, but only for a moment.
 */
extern bool shard_queue_read_join(Oid relid, Oid userid, const char *key, int keylen, ShardQueueRows *rows);

/*
 * Publishes the rows that the caller has read; NULL: other sessions cannot use them.  If a read fails, it ends with its
 * (sub)transaction.
 */
extern void shard_queue_read_end(const ShardQueueRows *rows);

/* Requests shared memory.  Called once. */
extern void shard_queue_read_init(void);

#endif
