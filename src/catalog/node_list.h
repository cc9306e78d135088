/*
 * node_list.h
 *	  The nodes of this database, and the other coordinators of these nodes.
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

/* Errors: insufficient_privilege for a server that the current user may not use. */
extern void shard_node_check_usage(Oid serverid);

/* A node by its name, or a coordinator of the same nodes, too.  Errors: undefined_object; those of check_usage. */
extern Oid	shard_node_by_name(const NameData *name, bool or_coordinator);

typedef struct ShardNodeName
{
	Oid			serverid;
	const char *name;			/* server's name */
} ShardNodeName;

/*
 * Coordinators of the same nodes have servers, too, one for each of them, with the same names on all:
 * those with option coordinator whose owner may call add_node().  They hold no shards,
 * and are no nodes.
 */
extern bool shard_node_is_coordinator(Oid serverid);

/*
 * The other coordinators: List of ShardNodeName, by name.  *nbefore: how many of them come before this one
 * in that order.  NIL where there are none, and where this database is not among them itself: it may be a dump of
 * one that has been restored.  Cost: a scan of the servers.  Memory: current context.
 */
extern List *shard_node_peers(int *nbefore);

/* Is this database one of the declared coordinators?  Cost: a scan of the servers. */
extern bool shard_node_is_member(void);

/*
 * What messages that other coordinators hand on call this one: its server, or the database where it is not among the
 * declared ones.  Memory: current context.
 */
extern const char *shard_node_own_name(void);

/*
 * Keeps coordinators from being added or removed until the transaction ends, whatever it has them do then: to be
 * called by a member before it asks for peers.
 */
extern void shard_node_hold_members(void);

/*
 * Nodes that the current user trusts and has a mapping for (of its own or
 * PUBLIC's), by name: List of ShardNodeName. *complete: there are no other
 * nodes. Memory: current context.
 */
extern List *shard_node_list(bool *complete);

/* The same as an OidList of servers. */
extern List *shard_node_list_oids(void);

/* Those of shard_node_list(), and the other coordinators for which the user has a mapping. */
extern List *shard_node_list_all(bool *complete);

#endif
