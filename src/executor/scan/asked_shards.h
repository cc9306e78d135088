/*
 * asked_shards.h
 *	  Holds statements to shardfdw.multi_shard_statements and shardfdw.max_rows_gathered.
 */
#ifndef SHARDFDW_ASKED_SHARDS_H
#define SHARDFDW_ASKED_SHARDS_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/execnodes.h"
#include "remote/run/stream.h"

/*
 * The statement of estate is about to ask these shards (numbers of map) of the tables relids, which are colocated.  To be
 * called before they are asked.  Errors: 54000 when they are more than one, with those that it has asked before.
 */
extern void shard_asked_add(EState *estate, const List *relids, const ShardMap *map, const Bitmapset *shards);

/*
 * How many rows a plan node that reads the tables relids may receive; name: as EXPLAIN calls it.  NULL: any number.
 * Memory: current context, the query's.
 */
extern ShardStreamLimit *shard_asked_limit(const char *name, const List *relids);

#endif
