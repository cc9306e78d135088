/*
 * key_join.h
 *	  Joins that send the keys of their outer side along.
 */
#ifndef SHARDFDW_PLANNER_KEY_JOIN_H
#define SHARDFDW_PLANNER_KEY_JOIN_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Installs the hook that offers them. */
extern void shard_key_join_init(void);

#endif
