/*
 * nested_write.h
 *	  Whether nested statements write to a table while a statement writes to it.
 */
#ifndef SHARDFDW_NESTED_WRITE_H
#define SHARDFDW_NESTED_WRITE_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardNestedWatch ShardNestedWatch;

/* Watches sharded table parent, to which the statement writes, until it ends. */
extern ShardNestedWatch *shard_nested_write_watch(EState *estate, Oid parent);

/*
 * May another part of the statement, or one that its triggers or functions have
 * run since, have written to the table or its shards?
 */
extern bool shard_nested_write_seen(const ShardNestedWatch *watch);

/* To be called once, when the library is loaded. */
extern void shard_nested_write_init(void);

#endif
