/*
 * duplicate.h
 *	  ON_DUPLICATE: loads rows whose unique key may already be in the table.
 */
#ifndef SHARDFDW_DUPLICATE_H
#define SHARDFDW_DUPLICATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "load/input/copy_option.h"
#include "remote/copy/copy_stream.h"

typedef struct ShardDuplicates ShardDuplicates;

/*
 * Queries the unique indexes of map's shards on all nodes in parallel. attnos (IntList of map's table): the columns
 * that COPY fills. how: keep_old or keep_new.  Raises a NOTICE if a shard has no unique index.  Memory: in cxt.
 * Errors: an index is not supported; the user lacks a requirement on a node (CREATE on the shard's schema, plpgsql).
 */
extern ShardDuplicates *shard_duplicate_open(MemoryContext cxt, const ShardMap *map, List *attnos,
											 ShardCopyDuplicate how);

/*
 * The commands for a shard. copy_sql: COPY of the shard itself, with its name as in shard_map.h.  Memory: as for
 * open.
 */
extern const ShardCopyStaging *shard_duplicate_staging(ShardDuplicates *duplicates, int shardno,
													   const char *copy_sql);

#endif
