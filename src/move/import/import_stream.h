/*
 * import_stream.h
 *	  Follows the changes of the source of an import.
 */
#ifndef SHARDFDW_IMPORT_STREAM_H
#define SHARDFDW_IMPORT_STREAM_H

#include "postgres.h"

#include "move/import/import_table.h"
#include "move/job/follow.h"

/* The import that follows. */
typedef struct ShardImportFollower
{
	ShardJob   *job;
	const ShardImportTable *table;
	int			lock_ms;		/* how long to wait for locks on the coordinator; 0: no limit */
} ShardImportFollower;

/*
 * Begins to read the changes of slot. source: a link to the source, for queries.  Memory: cxt.
 *
 * If changes could not be written because of a lock timeout on the coordinator, a later call of a function of
 * move/job/follow.h writes them.
 */
extern ShardFollow *shard_import_stream_begin(MemoryContext cxt, const ShardImportFollower *follower, ShardSlot *slot, ShardConn *source);

#endif
