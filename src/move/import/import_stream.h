/*
 * import_stream.h
 *	  Follows the changes of the source of an import.
 */
#ifndef SHARDFDW_IMPORT_STREAM_H
#define SHARDFDW_IMPORT_STREAM_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "move/import/import_table.h"
#include "move/job/job.h"
#include "move/job/slot.h"

typedef struct ShardImportStream ShardImportStream;

/* What it is done for. */
typedef struct ShardImportFollower
{
	int64		id;				/* of the job */
	Oid			userid;
	const ShardImportTable *table;
	ShardJobProgress *progress;
	int			lock_ms;		/* how long locks here may be waited for; 0: without end */
} ShardImportFollower;

/* Begins to take what slot sends.  source: a link to the source, for questions.  Memory: cxt. */
extern ShardImportStream *shard_import_stream_begin(MemoryContext cxt, const ShardImportFollower *follower, ShardSlot *slot, ShardConn *source);

/*
 * Changes that could not be made, since the time for a lock here was over (ERRCODE_LOCK_NOT_AVAILABLE), are made by a later call, of
 * any of these.
 */

/*
 * Makes all changes in the table that have committed on the source before this call.  False: it would take longer than
 * timeout_ms (-1: no limit), and the next call goes on.
 */
extern bool shard_import_stream_to_now(ShardImportStream *stream, int timeout_ms);

/* Makes those of all transactions that committed on the source before lsn, and none from there on, which are left to the next call. */
extern void shard_import_stream_to(ShardImportStream *stream, XLogRecPtr lsn);

/* Makes those that have come, and waits for others, at most a second. */
extern void shard_import_stream_wait(ShardImportStream *stream);

#endif
