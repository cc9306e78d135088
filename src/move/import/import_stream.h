/*
 * import_stream.h
 *	  Follows the changes of the source of an import.
 */
#ifndef SHARDFDW_IMPORT_STREAM_H
#define SHARDFDW_IMPORT_STREAM_H

#include "postgres.h"

#include "move/import/import_target.h"
#include "move/job/follow.h"

typedef struct ShardImportStream
{
	ShardFollow follow;
	ShardJob   *job;
	int			lock_ms;		/* how long to wait for locks on the coordinator; 0: no limit */
	ShardImportTarget target;
} ShardImportStream;

/*
 * Begins to read the changes of slot, for functions of move/job/follow.h. source: a link to the source, for queries.  If
 * changes could not be written because of a lock timeout on the coordinator, a later call of such a function writes them.
 */
extern void shard_import_stream_begin(ShardImportStream *stream, ShardJob *job, const ShardImportTable *table, ShardSlot *slot, ShardConn *source);

#endif
