/*
 * take_read.h
 *	  Candidates of a queue that sessions of this server read for each other.
 */
#ifndef SHARDFDW_EXECUTOR_TAKE_READ_H
#define SHARDFDW_EXECUTOR_TAKE_READ_H

#include "postgres.h"

#include "storage/itemptr.h"

#define SHARD_TAKE_MAX_ROWS 128

/* A row that may be taken. */
typedef struct ShardTakeRow
{
	int			shardno;
	TransactionId xmin;
	Oid			file;			/* of the shard, in which it is */
	ItemPointerData ctid;
} ShardTakeRow;

/* Rows in the order of a statement. */
typedef struct ShardTakeRows
{
	uint64		since;			/* the moment before they were read: see take_claim.h */
	bool		more;			/* there are more behind them */
	int			nrows;
	ShardTakeRow rows[SHARD_TAKE_MAX_ROWS];
} ShardTakeRows;

/*
 * Is somebody to read what key says, and what this session would read, too?  key, of keylen bytes, says all that the
 * rows of the table depend on, but for the user.  True: *rows are those that another session has begun to read after this call.
 * False: the caller reads, and tells the others by shard_take_read_end().  Waits for others for a moment at the most.
 */
extern bool shard_take_read_join(Oid relid, Oid userid, const char *key, int keylen, ShardTakeRows *rows);

/* rows: what was read; NULL: nothing that others could use. */
extern void shard_take_read_end(const ShardTakeRows *rows);

/* Asks for shared memory.  To be called once. */
extern void shard_take_read_init(void);

#endif
