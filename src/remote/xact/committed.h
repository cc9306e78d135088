/*
 * committed.h
 *	  What this session has committed on nodes, as far as standbys have to show it.
 */
#ifndef SHARDFDW_COMMITTED_H
#define SHARDFDW_COMMITTED_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "remote/wire/connection.h"

/*
 * To be called when a node has confirmed a commit.  conn, over which it came, may be gone
 * (NULL) or broken; else it is idle.  Asks the node how far its WAL is, without waiting for
 * the answer.  Never raises, and needs no memory.
 */
extern void shard_committed_note(Oid serverid, ShardConn *conn);

/* When this session has first committed on a node; 0: never. */
extern TimestampTz shard_committed_first_at(void);

/*
 * A commit was sent, and nobody knows whether the node has carried it out, or will.  From
 * then on no position says that a standby has all of this session's commits.
 */
extern void shard_committed_doubt(void);
extern bool shard_committed_in_doubt(void);

#endif
