/*
 * deferred_index.h
 *	  INDEXES DEFERRED: drops the secondary indexes of shards at the start of a load, and creates them again at
 *	  its end.
 */
#ifndef SHARDFDW_DEFERRED_INDEX_H
#define SHARDFDW_DEFERRED_INDEX_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "remote/copy/copy_stream.h"

typedef struct ShardDeferredIndexes ShardDeferredIndexes;

/*
 * For a load into the table of map, which is locked in AccessExclusiveLock: checks on all nodes whether the current
 * user may drop and create indexes of its shards.  Memory: in cxt.  Errors: a node does not meet a requirement; a job
 * moves a shard; a shard has deferrable foreign keys, because CREATE INDEX would have to wait for their checks.
 */
extern ShardDeferredIndexes *shard_deferred_index_open(MemoryContext cxt, const ShardMap *map);

/*
 * The commands to run before and after all rows of a shard. nconns: number of connections to its node that create
 * indexes at the same time, and share maintenance_work_mem.  Memory: as for open.
 */
extern const ShardCopyFrame *shard_deferred_index_frame(ShardDeferredIndexes *deferred, int shardno, int nconns);

#endif
