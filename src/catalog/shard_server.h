/*
 * shard_server.h
 *	  Changes where the catalog says that a shard is; notes who has chosen that.
 *
 * USAGE on a server lets a user make foreign tables that stand for any table of the node, also for one that the user's
 * role on the node may not touch.  A superuser who drops or moves such a foreign table would drop or move that table.
 * So the catalog notes for which foreign tables a user who is no superuser has chosen the table on the node, and
 * whoever acts on them for the owner checks that the node's table is the owner's (ddl/ddl_send.h).
 */
#ifndef SHARDFDW_SHARD_SERVER_H
#define SHARDFDW_SHARD_SERVER_H

#include "postgres.h"

/* The catalog says that shard relid, a partition of parent, is on target.  Plans of both are made anew. */
extern void shard_server_set(Oid relid, Oid parent, Oid source, Oid target);

/* Notes that the current user has chosen the table for which foreign table relid stands: a superuser, or not. */
extern void shard_server_note_chooser(Oid relid);

/*
 * The owner of foreign table relid, if the table on the node must be one of the owner's before the current user acts
 * on it; InvalidOid if the current user is the owner, or a superuser has chosen the table, or owns relid.
 */
extern Oid	shard_server_owner_to_check(Oid relid);

#endif
