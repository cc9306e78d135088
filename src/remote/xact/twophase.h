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

/* Before the local commit: prepares all conns at once, writes the log row.  Errors abort the transaction. */
extern void shard_twophase_prepare(ShardConn **conns, int nconns);

/* After the local commit: COMMIT PREPARED on all at once.  WARNINGs only. */
extern void shard_twophase_commit(ShardConn **conns, int nconns);

/* When an error has ended that: what the nodes have not been told is left to recovery. */
extern void shard_twophase_leave(ShardConn **conns, int nconns);

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

/* What all of them begin with, and those of this server's database.  Memory: current context. */
#define SHARD_GID_PREFIX "shardfdw:"
extern char *shard_twophase_gid_prefix(void);

/* False when gid is none of this extension's. */
extern bool shard_twophase_read_gid(const char *gid, ShardGid *parts);

/* True when gid is one that this server may settle by its log, with its key there. */
extern bool shard_twophase_parse_gid(const char *gid, ShardLogKey *key);

/*
 * Has the transaction of an identifier that a node has shown just now not ended
 * yet in this server?  It ends when its session has told all nodes, or has given up.
 */
extern bool shard_twophase_is_running(FullTransactionId xid);

/* Has nobody decided about it yet?  xid as above. */
extern bool shard_twophase_is_undecided(FullTransactionId xid);

/* Does a session that is still there know that all nodes have confirmed xid, which does not run any more? */
extern bool shard_twophase_is_confirmed(FullTransactionId xid);

#endif
