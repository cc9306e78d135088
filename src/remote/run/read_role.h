/*
 * read_role.h
 *	  Chooses the server of a node that a statement reads: the primary or a standby.
 */
#ifndef SHARDFDW_READ_ROLE_H
#define SHARDFDW_READ_ROLE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/pool/snapshot.h"

/*
 * Called before a statement that only reads opens its first stream.  Chooses, for each of the nodes
 * serverids (OIDs), the server from which snapshot reads it, unless one was chosen already.  Nodes
 * for which this was not called are read from their primaries.
 *
 * If shardfdw.read_from is not 'primary', waits for connections and answers.  Errors:
 * ERRCODE_SYSTEM_ERROR if no server of a node may be read; the detail lists the reason for each.
 */
extern void shard_read_role_choose(ShardSnapshot *snapshot, List *serverids, Oid userid);

/*
 * Runs a statement that writes or locks: calls run(arg).  The statement may write what its
 * functions, triggers and defaults read, so these read primaries.
 */
extern void shard_read_role_run_writing(void (*run) (void *arg), void *arg);

/* A foreign table was changed, perhaps its server. */
extern void shard_read_role_placement_changed(void);

/* Servers were changed.  Their addresses may point to other servers now. */
extern void shard_read_role_servers_changed(void);

/*
 * Can the primary of a node be read?  Connects to it, unless the session has a working connection.
 * If that fails, the next attempt is five seconds later.
 */
extern bool shard_read_role_primary_is_there(Oid serverid, Oid userid);

#endif
