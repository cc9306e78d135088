/*
 * group.h
 *	  The shards that must stay on one node: those of colocated tables with the same keys.
 */
#ifndef SHARDFDW_GROUP_H
#define SHARDFDW_GROUP_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Returns the group of a shard, including itself, as a sorted list of OIDs; NIL if it is not a
 * shard of a sharded table.
 */
extern List *shard_group_find(Oid shard);

#endif
