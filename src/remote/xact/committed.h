/*
 * committed.h
 *	  Notes that this session has committed on a node, and asks how far its WAL is.
 */
#ifndef SHARDFDW_COMMITTED_H
#define SHARDFDW_COMMITTED_H

#include "postgres.h"

#include "remote/wire/connection.h"

/*
 * To be called when a commit on the node has ended.  conn, over which it came, may be
 * gone (NULL) or broken; else it is idle.  Never raises, and needs no memory.
 */
extern void shard_committed_note(Oid serverid, ShardConn *conn);

#endif
