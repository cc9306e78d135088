/*
 * row_defer.h
 *	  UPDATE of rows of deferrable unique keys, row by row.
 */
#ifndef SHARDFDW_ROW_DEFER_H
#define SHARDFDW_ROW_DEFER_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardRowDefer ShardRowDefer;

/*
 * Begins for a shard of which the statement is going to change rows; NULL: it has no keys that are
 * checked when the statement ends.  Memory: the statement's.
 */
extern ShardRowDefer *shard_row_defer_begin(EState *estate, Oid relid);

/* To be called before each row of the shard is changed.  Errors: the node's. */
extern void shard_row_defer_shard(ShardRowDefer *defer, Oid relid, Oid serverid, Oid userid, const char *label);

/* The last end has the keys checked.  Errors: those of the nodes, unique violations among them. */
extern void shard_row_defer_end(ShardRowDefer *defer);

#endif
