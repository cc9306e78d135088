/*
 * twophase.h
 *	  Atomic commit over nodes: PREPARE on all nodes, the local commit with its log row as the
 *	  decision, COMMIT PREPARED on all nodes; functions that recovery after a crash uses.
 */
#ifndef SHARDFDW_TWOPHASE_H
#define SHARDFDW_TWOPHASE_H

#include "postgres.h"

#include "access/transam.h"
#include "commit_log.h"
#include "identity.h"
#include "remote/wire/connection.h"

/*
 * Called before anything that was written on conns commits, in one phase or two.  Raises an error
 * unless this server is confirmed as the coordinator, and no other coordinator has taken over a node
 * of conns.
 */
extern void shard_twophase_require_coordinator(ShardConn **conns, int nconns);

/* Has another coordinator, a copy of this one, taken over the node of conn?  conn is idle. */
extern bool shard_twophase_is_taken_over(ShardConn *conn);

/*
 * Called before the local commit.  Prepares all conns in parallel, and writes the log row.  If
 * shards with replicas (has_replicas) or reference tables were changed, also writes the WAL positions
 * of the nodes (node_position.h).  Errors abort the transaction.
 */
extern void shard_twophase_prepare(ShardConn **conns, int nconns, bool has_replicas);

/* Called after the local commit.  COMMIT PREPARED on all nodes in parallel.  Raises WARNINGs only. */
extern void shard_twophase_commit(ShardConn **conns, int nconns);

/* Called if an error has ended shard_twophase_commit().  Leaves the nodes that have not been told to recovery. */
extern void shard_twophase_leave(ShardConn **conns, int nconns);

/* Number of prepared transactions that the commits of this session have left to recovery. */
extern uint64 shard_twophase_count_left(void);

/* Called in abort: ROLLBACK PREPARED where needed.  WARNINGs only, bounded waits. */
extern void shard_twophase_abort(ShardConn **conns, int nconns);

/* The parts of a prepared transaction's identifier; see twophase.c. */
typedef struct ShardGid
{
	uint64		system_identifier;
	Oid			database;
	char		identity[SHARD_IDENTITY_LEN + 1];
	TimestampTz time;			/* when it was prepared, by the coordinator's clock */
	ShardLogKey key;
} ShardGid;

/*
 * The prefix of all identifiers of the extension, and the prefix of this server's and database's.
 * Memory: current context.
 */
#define SHARD_GID_PREFIX "shardfdw:"
extern char *shard_twophase_gid_prefix(void);

/* False if the extension has not made gid. */
extern bool shard_twophase_read_gid(const char *gid, ShardGid *parts);

/* True if this server may resolve gid by its commit log. *key: its key in the log. */
extern bool shard_twophase_parse_gid(const char *gid, ShardLogKey *key);

/*
 * Is the transaction xid still running in this server?  It ends when its session has told all
 * nodes, or has given up. xid: from an identifier that a node has just returned.
 */
extern bool shard_twophase_is_running(FullTransactionId xid);

/* Is the outcome of xid still open, that is, neither committed nor aborted? xid as above. */
extern bool shard_twophase_is_undecided(FullTransactionId xid);

/* Does a running session hold the lock that says that all nodes have confirmed xid? xid: no longer running. */
extern bool shard_twophase_is_confirmed(FullTransactionId xid);

#endif
