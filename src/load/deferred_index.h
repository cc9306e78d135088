/*
 * deferred_index.h
 *	  INDEXES DEFERRED: shards lose their secondary indexes while a load runs, and get
 *	  them again at its end.
 */
#ifndef SHARDFDW_DEFERRED_INDEX_H
#define SHARDFDW_DEFERRED_INDEX_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "remote/copy/copy_stream.h"

typedef struct ShardDeferredIndexes ShardDeferredIndexes;

/*
 * For a load into the table of map, which is locked in AccessExclusiveLock: asks all
 * nodes whether the current user may drop and make indexes of its shards.
 * Memory: in cxt.  Errors: something is missing on a node; a job moves a shard; a shard
 * has deferrable foreign keys, whose checks a new index would have to wait for.
 */
extern ShardDeferredIndexes *shard_deferred_index_open(MemoryContext cxt, const ShardMap *map);

/*
 * The commands around all rows for a shard.  nconns: connections to its node that build
 * indexes at the same time, and share maintenance_work_mem.  Memory: as open's.
 */
extern const ShardCopyFrame *shard_deferred_index_frame(ShardDeferredIndexes *deferred, int shardno, int nconns);

#endif
