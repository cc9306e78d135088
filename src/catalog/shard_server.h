/*
 * shard_server.h
 *	  Changes the server of a shard in the catalog, and records who has chosen it.
 *
 * With USAGE on a server, a user can create foreign tables for any table of the node, even for one
 * that the user's role on the node may not access.  If a superuser dropped or moved such a foreign
 * table, that table would be dropped or moved.  So the catalog records the foreign tables for which
 * a user who is not a superuser has chosen the table on the node.  A session that acts on them for
 * the owner checks that the node's table belongs to the owner (ddl/ddl_send.h).
 */
#ifndef SHARDFDW_SHARD_SERVER_H
#define SHARDFDW_SHARD_SERVER_H

#include "postgres.h"

/* Sets the server of shard relid, a partition of parent, to target.  Invalidates the plans of both. */
extern void shard_server_set(Oid relid, Oid parent, Oid source, Oid target);

/* Records whether the current user, who has chosen the table of foreign table relid, is a superuser. */
extern void shard_server_note_chooser(Oid relid);

/*
 * Returns the owner of foreign table relid, if the table on the node must belong to that owner
 * before the current user acts on it.  InvalidOid if the current user is the owner, or if a
 * superuser has chosen the table or owns relid.
 */
extern Oid	shard_server_owner_to_check(Oid relid);

#endif
