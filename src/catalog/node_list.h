/*
 * node_list.h
 *	  The nodes of this database.
 */
#ifndef SHARDFDW_NODE_LIST_H
#define SHARDFDW_NODE_LIST_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Whose servers are trusted.  A server's owner can point it to another host at any time,
 * and map users to any role there.  So nothing may be sent to a server which a trusted
 * role has not declared to be a node:
 *
 *	 cluster's	its owner may execute add_node(): superusers, and roles to which
 *				they grant that.  Everybody's statements may use it
 *	 own		made by the current user: that user's statements may use it
 *	 private	anybody else's: only where a foreign table or a list of nodes
 *				names it
 *
 * That the user is a member of the owner's role does not count: up to 15, roles
 * can make others their members.
 */
extern bool shard_node_in_cluster(Oid serverid);

typedef struct ShardNodeName
{
	Oid			serverid;
	const char *name;			/* server's name */
} ShardNodeName;

/*
 * Nodes that the current user trusts and has a mapping for (of its own or
 * PUBLIC's), in no order: List of ShardNodeName. *complete: there are no other
 * servers of ours. Memory: current context.
 */
extern List *shard_node_list(bool *complete);

/* The same as an OidList of servers. */
extern List *shard_node_list_oids(void);

#endif
