/*
 * key_join.h
 *	  Key joins: joins that send the keys of their outer side to the nodes.
 */
#ifndef SHARDFDW_PLANNER_KEY_JOIN_H
#define SHARDFDW_PLANNER_KEY_JOIN_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Installs the hook that offers key joins. */
extern void shard_key_join_init(void);

#endif
