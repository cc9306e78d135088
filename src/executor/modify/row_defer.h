/*
 * row_defer.h
 *	  UPDATE, row by row, of tables with deferrable unique keys.
 */
#ifndef SHARDFDW_ROW_DEFER_H
#define SHARDFDW_ROW_DEFER_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardRowDefer ShardRowDefer;

/*
 * Begins work on a shard whose rows the statement will change.  Returns NULL if the shard has no keys that are checked
 * at the end of the statement.  Memory: the statement's.
 */
extern ShardRowDefer *shard_row_defer_begin(EState *estate, Oid relid);

/* Called before each row of the shard is changed.  Errors: the node's. */
extern void shard_row_defer_shard(ShardRowDefer *defer, Oid relid, Oid serverid, Oid userid, const char *label);

/* The last end makes the nodes check the keys.  Errors: those of the nodes, including unique violations. */
extern void shard_row_defer_end(ShardRowDefer *defer);

#endif
