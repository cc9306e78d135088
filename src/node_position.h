/*
 * node_position.h
 *	  The table shardfdw_internal.node_position: how far in the WAL of nodes with copies of shards lies what has been committed there.
 *
 * Nodes are known by their servers' names.  Each process has a row per node, which belongs to its own transactions, so nobody waits for it.  A server that has not come as far
 * as all rows of its node say lacks something: it was restored, or a standby that lagged was promoted.
 */
#ifndef SHARDFDW_NODE_POSITION_H
#define SHARDFDW_NODE_POSITION_H

#include "postgres.h"

#include "access/xlogdefs.h"

typedef struct ShardNodePosition
{
	int64		system_identifier;	/* 0: not known */
	Oid			database;		/* there; InvalidOid: not known */
	TimeLineID	timeline;		/* 0: not known */
	XLogRecPtr	lsn;
} ShardNodePosition;

/*
 * The position that a server must have reached: the farthest one of all committed rows, and of this transaction's.  False when there is
 * none, or no such table.
 */
extern bool shard_node_position_read(const char *server, ShardNodePosition *position);

/* Writes this process's row, in the current transaction, which is to commit when position is surely on the node's disk. */
extern void shard_node_position_write(const char *server, const ShardNodePosition *position);

#endif
