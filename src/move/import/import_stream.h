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

/* The import that follows. */
typedef struct ShardImportFollower
{
	ShardJob   *job;
	const ShardImportTable *table;
	int			lock_ms;		/* how long to wait for locks on the coordinator; 0: no limit */
} ShardImportFollower;

/* Begins to read the changes of slot. source: a link to the source, for queries.  Memory: cxt. */
extern ShardImportStream *shard_import_stream_begin(MemoryContext cxt, const ShardImportFollower *follower, ShardSlot *slot, ShardConn *source);

/*
 * If changes could not be written because of a lock timeout on the coordinator (lock_not_available), a later call of
 * any of these functions writes them.
 */

/*
 * Writes all changes to the table that committed on the source before this call.  Returns false if that would take
 * longer than timeout_ms (-1: no limit).  The next call continues.
 */
extern bool shard_import_stream_to_now(ShardImportStream *stream, int timeout_ms);

/*
 * Writes the changes of all transactions that committed on the source before lsn.  Later ones are left to the next
 * call.
 */
extern void shard_import_stream_to(ShardImportStream *stream, XLogRecPtr lsn);

/* Writes the changes that have arrived, and waits for others, at most a second. */
extern void shard_import_stream_wait(ShardImportStream *stream);

#endif
