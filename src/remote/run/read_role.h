/*
 * read_role.h
 *	  Which server of a node a statement reads: its primary, or a standby.
 */
#ifndef SHARDFDW_READ_ROLE_H
#define SHARDFDW_READ_ROLE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/pool/snapshot.h"

/*
 * Before a statement that only reads opens its first stream: chooses for each of the nodes
 * (serverids, OIDs) from which server snapshot reads it, unless that is chosen already.
 * Nodes for which nobody has called this are read from their primaries.
 *
 * Waits for connections and answers, where shardfdw.read_from is not 'primary'.
 * Errors: ERRCODE_SYSTEM_ERROR where no server of a node
 * may be read; the detail says of each why.
 */
extern void shard_read_role_choose(ShardSnapshot *snapshot, List *serverids, Oid userid);

/*
 * Runs a statement that writes or locks: calls run(arg).  What its functions, triggers and
 * defaults read is written in turn, so it comes from primaries.
 */
extern void shard_read_role_run_writing(void (*run) (void *arg), void *arg);

/* Some foreign table was changed: where it is, perhaps, or anything else. */
extern void shard_read_role_placement_changed(void);

/* Servers were changed: they may point to others. */
extern void shard_read_role_servers_changed(void);

/*
 * Can the primary of a node be read?  Connects to it where the session has no connection that works; if that fails, it is
 * not tried again for five seconds.
 */
extern bool shard_read_role_primary_is_there(Oid serverid, Oid userid);

#endif
