/*
 * committed.h
 *	  Notes this session's commits on nodes.  A standby must have replayed them before the session reads it.
 */
#ifndef SHARDFDW_COMMITTED_H
#define SHARDFDW_COMMITTED_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "remote/wire/connection.h"

/*
 * Called when a node has confirmed a commit. conn, which has returned the confirmation, may be
 * closed (NULL) or broken by now; otherwise it is idle.  Asks the node for its WAL position without
 * waiting for the answer.  Never raises, and allocates nothing.
 */
extern void shard_committed_note(Oid serverid, ShardConn *conn);

/* When this session first committed on a node; 0: never. */
extern TimestampTz shard_committed_first_at(void);

/*
 * Called if a commit was sent, and its outcome on the node is unknown.  From then on, no position proves that a standby
 * has all commits of this session.  The commit may come after the end of this transaction, which
 * shard_node_stat_may_have_left() tells others.
 */
extern void shard_committed_doubt(Oid serverid);
extern bool shard_committed_in_doubt(void);

#endif
