/*
 * duplicate.h
 *	  ON_DUPLICATE: loads rows whose unique key is in the table already.
 */
#ifndef SHARDFDW_DUPLICATE_H
#define SHARDFDW_DUPLICATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "load/input/copy_option.h"
#include "remote/copy/copy_stream.h"

typedef struct ShardDuplicates ShardDuplicates;

/*
 * Asks all nodes at once for the unique indexes of the shards of map.  attnos
 * (IntList, of map's table): the columns that COPY fills.  how: keep_old or
 * keep_new.  A NOTICE when a shard has no unique index.
 * Memory: in cxt.  Errors: an index with which it cannot work; a node on which
 * the user lacks what it needs (CREATE on the shard's schema, plpgsql).
 */
extern ShardDuplicates *shard_duplicate_open(MemoryContext cxt, const ShardMap *map, List *attnos,
											 ShardCopyDuplicate how);

/*
 * The commands for a shard.  copy_sql: COPY of the shard itself, which names it
 * as shard_map.h does.  Memory: as open's.
 */
extern const ShardCopyStaging *shard_duplicate_staging(ShardDuplicates *duplicates, int shardno,
													   const char *copy_sql);

#endif
