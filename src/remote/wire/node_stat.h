/*
 * node_stat.h
 *	  What all backends together have done on each node: the counters of view stat_nodes.
 *
 * Only when the library is preloaded; otherwise nothing is counted.  Counters begin at
 * zero when the server starts, also after a crash.  Nothing here raises, but
 * shard_node_stat_list().
 */
#ifndef SHARDFDW_NODE_STAT_H
#define SHARDFDW_NODE_STAT_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "utils/timestamp.h"

typedef enum ShardNodeCounter
{
	SHARD_NODE_CONNECTIONS,		/* that were opened */
	SHARD_NODE_CONNECT_FAILURES,	/* that could not be opened */
	SHARD_NODE_CONNECT_RETRIES, /* attempts after the first one, for the same connection */
	SHARD_NODE_STATEMENTS,		/* texts sent, those among them that were only prepared, and executions of prepared ones */
	SHARD_NODE_ROWS_READ,
	SHARD_NODE_ROWS_WRITTEN,	/* by INSERT, UPDATE, DELETE, MERGE and COPY, as their command tags say */
	SHARD_NODE_BYTES_SENT,		/* statements, parameters, and lines of COPY */
	SHARD_NODE_BYTES_RECEIVED,	/* values, and messages of COPY */
	SHARD_NODE_ERRORS,			/* statements that have failed, or whose connection was lost */
	SHARD_NODE_COMMITS,			/* of transactions that wrote, by one phase */
	SHARD_NODE_TWO_PHASE_COMMITS,
	SHARD_NODE_RECOVERED,		/* prepared transactions that recovery has settled */
	SHARD_NODE_NCOUNTERS
} ShardNodeCounter;

#define SHARD_NODE_STAT_NONE 0	/* of a node that is not counted */

/* The number by which the counters of a server of this database are known. */
extern int	shard_node_stat_find(Oid serverid);

/* node: a number of shard_node_stat_find(). */
extern void shard_node_stat_add(int node, ShardNodeCounter counter, uint64 n);

/*
 * The host that has accepted the last connection, of those that the server names: 0-based; -1: none yet.  Not a counter,
 * but backends have to tell each other likewise.
 */
extern int	shard_node_stat_host(int node);
extern void shard_node_stat_set_host(int node, int host);

/* How far the WAL of a node's primary was when a session asked. */
typedef struct ShardNodeEnd
{
	TimestampTz asked_at;		/* 0: nobody has asked */
	int64		system_identifier;
	TimeLineID	timeline;
	XLogRecPtr	lsn;
} ShardNodeEnd;

/* For all sessions: the latest one is kept.  serverid: the place of node may be another one's by now. */
extern void shard_node_stat_note_end(int node, Oid serverid, const ShardNodeEnd *end);
extern ShardNodeEnd shard_node_stat_end(int node, Oid serverid);

/* The counters of one server. */
typedef struct ShardNodeStat
{
	Oid			serverid;
	TimestampTz since;			/* when they were zero */
	uint64		counters[SHARD_NODE_NCOUNTERS];
} ShardNodeStat;

/* Those of this database's servers.  Memory: palloc'd array. */
extern ShardNodeStat *shard_node_stat_list(int *n);

/* Sets those of this database's servers to zero. */
extern void shard_node_stat_reset(void);

extern void shard_node_stat_init(void);

#endif
