/*
 * node_list.h
 *	  The nodes of this database, and the other coordinators of these nodes.
 */
#ifndef SHARDFDW_NODE_LIST_H
#define SHARDFDW_NODE_LIST_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Is the server a node?  Each server of this extension is one, except the coordinators, and the virtual server of
 * sharded tables.  Its owner may have lost the right to execute add_node(): shard_conninfo_check_owner() then refuses
 * each connection to it.
 */
extern bool shard_node_is(Oid serverid);

/* Errors: insufficient_privilege for a server that the current user may not use, or whose owner may not add nodes. */
extern void shard_node_check_usage(Oid serverid);

/*
 * Checks whether the current user may have tables of these nodes (List of char *) as replicas of shards.  Errors:
 * those of shard_node_by_name().
 */
extern void shard_node_check_replicas(const List *names);

/*
 * Checks rights in functions that every role may call, and that keep other sessions waiting.  Errors:
 * insufficient_privilege if the current user may use no node, or does not own the table; feature_not_supported for a
 * temporary table, which every role can create.
 */
extern void shard_node_check_any_usage(void);
extern void shard_node_check_table(Oid relid);

/*
 * Returns the node with this name.  With or_coordinator, also accepts another coordinator of the same nodes.  Errors:
 * undefined_object, and those of shard_node_check_usage().
 */
extern Oid	shard_node_by_name(const NameData *name, bool or_coordinator);

typedef struct ShardNodeName
{
	Oid			serverid;
	const char *name;			/* server's name */
} ShardNodeName;

/*
 * Is the server another coordinator?  Coordinators of the same nodes have servers, too, one for
 * each of them, with the same names on all.  These servers have option coordinator.  They hold no
 * shards, and are not nodes.
 */
extern bool shard_node_is_coordinator(Oid serverid);

/*
 * Returns the other coordinators: List of ShardNodeName, ordered by name. *nbefore: how many of
 * them precede this one.  NIL if there are none, or if this database is not among them itself,
 * because it may be a restored dump of one.  Cost: a scan of the servers.  Memory: current context.
 */
extern List *shard_node_peers(int *nbefore);

/* Is this database one of the declared coordinators?  Cost: a scan of the servers. */
extern bool shard_node_is_member(void);

/*
 * Returns the name of this coordinator in messages that other coordinators pass on: its server, or
 * the database if it is not among the declared ones.  Memory: current context.
 */
extern const char *shard_node_own_name(void);

/*
 * Prevents coordinators from being added or removed until the transaction ends.  A member must call
 * it before it asks for peers, and before it sends commands to them.
 */
extern void shard_node_hold_members(void);

/*
 * Returns the nodes that the current user has a mapping for (the user's or PUBLIC's), ordered by
 * name: List of ShardNodeName. *complete: there are no other nodes.  Memory: current context.
 */
extern List *shard_node_list(bool *complete);

/* The same as an OidList of servers. */
extern List *shard_node_list_oids(void);

/* Returns the nodes of shard_node_list(), and the other coordinators for which the user has a mapping. */
extern List *shard_node_list_all(bool *complete);

#endif
