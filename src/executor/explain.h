/*
 * explain.h
 *	  EXPLAIN output that several of our plan nodes share.
 */
#ifndef SHARDFDW_EXPLAIN_H
#define SHARDFDW_EXPLAIN_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/bitmapset.h"

#define SHARD_PROP_REMOTE_SQL	"Remote SQL"
#define SHARD_PROP_LOCK_SQL		"Remote Lock SQL"

/*
 * Adds the lines about shards and nodes. nlive: number of map's shards that are read. live: these shards; NULL if they
 * are unknown.
 */
extern void shard_explain_shards(const ShardMap *map, const Bitmapset *live, int nlive,
								 ExplainState *es);

/* Adds the figures of EXPLAIN ANALYZE. */
extern void shard_explain_received(uint64 rows, uint64 bytes, int nconns, ExplainState *es);

#endif
