/*
 * group.h
 *	  The shards that have to stay on one node: those of colocated tables with the same keys.
 */
#ifndef SHARDFDW_GROUP_H
#define SHARDFDW_GROUP_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The group of a shard, itself among them, as OIDs in order; NIL for what is no shard of a sharded table. */
extern List *shard_group_find(Oid shard);

#endif
