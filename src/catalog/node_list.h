/*
 * node_list.h
 *	  The nodes of this database.
 */
#ifndef SHARDFDW_NODE_LIST_H
#define SHARDFDW_NODE_LIST_H

#include "postgres.h"

#include "nodes/pg_list.h"

typedef struct ShardNodeName
{
	Oid			serverid;
	const char *name;			/* server's name */
} ShardNodeName;

/*
 * Nodes that the current user has a mapping for (his own or PUBLIC's), in no
 * order: List of ShardNodeName. *complete: there are no others. Memory: current
 * context.
 */
extern List *shard_node_list(bool *complete);

/* The same as an OidList of servers. */
extern List *shard_node_list_oids(void);

#endif
