/*
 * key_join.h
 *	  Joins that send the keys of their outer side along.
 */
#ifndef SHARDFDW_PLANNER_KEY_JOIN_H
#define SHARDFDW_PLANNER_KEY_JOIN_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/relinfo.h"

/* Installs the hook that offers them. */
extern void shard_key_join_init(void);

/*
 * info, or, when path is the inner side of a key join, a copy of it whose FROM
 * has the conditions with the keys, too.
 */
extern const ShardRelInfo *shard_key_join_filter(const ForeignPath *path, const ShardRelInfo *info);

#endif
