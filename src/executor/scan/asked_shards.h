/*
 * asked_shards.h
 *	  Enforces shardfdw.multi_shard_statements and shardfdw.max_rows_gathered.
 */
#ifndef SHARDFDW_ASKED_SHARDS_H
#define SHARDFDW_ASKED_SHARDS_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/execnodes.h"
#include "remote/run/stream.h"

/*
 * The statement of estate is about to access these shards (numbers of map) of the colocated tables
 * relids.  To be called before they are accessed.  Errors: 54000 if it accesses more than one
 * shard, including those reported before.
 */
extern void shard_asked_add(EState *estate, const List *relids, const ShardMap *map, const Bitmapset *shards);

/* Returns the row limit that all plan nodes of estate's statement share.  NULL: no limit.  Memory: the query's. */
extern ShardStreamLimit *shard_asked_limit(EState *estate);

#endif
