/*
 * twophase.h
 *	  Atomic commit over nodes: PREPARE everywhere, the local commit with its log
 *	  row decides, COMMIT PREPARED everywhere; recovery of what a crash left.
 */
#ifndef SHARDFDW_TWOPHASE_H
#define SHARDFDW_TWOPHASE_H

#include "postgres.h"

#include "access/transam.h"
#include "commit_log.h"
#include "identity.h"
#include "remote/wire/connection.h"

/*
 * Before anything that was written over conns commits, in one phase or two: raises unless this server is confirmed as the coordinator, and
 * no node of conns has been taken over by another one.
 */
extern void shard_twophase_require_coordinator(ShardConn **conns, int nconns);

/* Has another coordinator, which is a copy of this one, taken conn's node over?  conn is idle. */
extern bool shard_twophase_is_taken_over(ShardConn *conn);

/*
 * Before the local commit: prepares all conns in parallel, and writes the log row.  Where shards with replicas (has_replicas) or reference
 * tables were changed, it writes how far the nodes' WAL is (node_position.h).  Errors abort the transaction.
 */
extern void shard_twophase_prepare(ShardConn **conns, int nconns, bool has_replicas);

/* After the local commit: COMMIT PREPARED on all at once.  WARNINGs only. */
extern void shard_twophase_commit(ShardConn **conns, int nconns);

/* When an error has ended shard_twophase_commit(): nodes that have not been told are left to recovery. */
extern void shard_twophase_leave(ShardConn **conns, int nconns);

/* How many prepared transactions the commits of this session have left to recovery so far. */
extern uint64 shard_twophase_count_left(void);

/* In abort: ROLLBACK PREPARED where prepared.  WARNINGs only, bounded waits. */
extern void shard_twophase_abort(ShardConn **conns, int nconns);

/* What the identifier of a prepared transaction says; see twophase.c. */
typedef struct ShardGid
{
	uint64		system_identifier;
	Oid			database;
	char		identity[SHARD_IDENTITY_LEN + 1];
	TimestampTz time;			/* when it was prepared, by the coordinator's clock */
	ShardLogKey key;
} ShardGid;

/* What all these identifiers begin with; and what those of this server and database do.  Memory: current context. */
#define SHARD_GID_PREFIX "shardfdw:"
extern char *shard_twophase_gid_prefix(void);

/* False when gid is not of this extension. */
extern bool shard_twophase_read_gid(const char *gid, ShardGid *parts);

/* True when this server may settle gid by its log; *key: its key there. */
extern bool shard_twophase_parse_gid(const char *gid, ShardLogKey *key);

/*
 * Is the transaction xid still running in this server?  It ends when its session has
 * told all nodes, or has given up.  xid: of an identifier that a node has just shown.
 */
extern bool shard_twophase_is_running(FullTransactionId xid);

/* Has the transaction xid neither committed nor aborted yet?  xid as above. */
extern bool shard_twophase_is_undecided(FullTransactionId xid);

/* Does a session that still runs know that all nodes have confirmed xid?  xid: no longer running. */
extern bool shard_twophase_is_confirmed(FullTransactionId xid);

#endif
