/*
 * node_stat.h
 *	  What backends share about each node: counters of their work, for the view stat_nodes, and what they have found out.
 *
 * Nothing is counted unless the library is preloaded.  Counters are zero when the server starts, also after a crash.  Only
 * shard_node_stat_list() can raise.
 */
#ifndef SHARDFDW_NODE_STAT_H
#define SHARDFDW_NODE_STAT_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "own_schema.h"

#include "utils/timestamp.h"

typedef enum ShardNodeCounter
{
	SHARD_NODE_CONNECTIONS,		/* opened */
	SHARD_NODE_CONNECT_FAILURES,	/* could not be opened */
	SHARD_NODE_CONNECT_RETRIES, /* attempts after the first one, for the same connection */
	SHARD_NODE_STATEMENTS,		/* texts sent, including those only prepared, and executions of prepared statements */
	SHARD_NODE_ROWS_READ,
	SHARD_NODE_ROWS_WRITTEN,	/* by INSERT, UPDATE, DELETE, MERGE and COPY, from their command tags */
	SHARD_NODE_BYTES_SENT,		/* statements, parameters, and lines of COPY */
	SHARD_NODE_BYTES_RECEIVED,	/* values, and COPY messages */
	SHARD_NODE_ERRORS,			/* statements that have failed, or whose connection was lost */
	SHARD_NODE_COMMITS,			/* one-phase commits of transactions that wrote */
	SHARD_NODE_TWO_PHASE_COMMITS,
	SHARD_NODE_RECOVERED,		/* prepared transactions that recovery has committed or rolled back */
	SHARD_NODE_NCOUNTERS
} ShardNodeCounter;

#define SHARD_NODE_STAT_NONE 0	/* for a node that is not counted */

/* Returns the number of the entry for a server of this database. */
extern int	shard_node_stat_find(Oid serverid);

/* node: a number of shard_node_stat_find(). */
extern void shard_node_stat_add(int node, ShardNodeCounter counter, uint64 n);

/*
 * The host that has accepted the last connection, 0-based in the server's list; -1: none yet.  Not
 * a counter, but information that backends share in the same way.
 */
extern int	shard_node_stat_host(int node);
extern void shard_node_stat_set_host(int node, int host);

/* WAL position of a node's primary when a session asked for it. */
typedef struct ShardNodeEnd
{
	TimestampTz asked_at;		/* 0: no session has asked */
	int64		system_identifier;
	TimeLineID	timeline;
	XLogRecPtr	lsn;
} ShardNodeEnd;

/* Shared by all sessions; the latest one is kept. serverid: the entry of node may have been reassigned. */
extern void shard_node_stat_note_end(int node, Oid serverid, const ShardNodeEnd *end);
extern ShardNodeEnd shard_node_stat_end(int node, Oid serverid);

/*
 * May the node have transactions that will commit there, and whose sessions here have ended or go on?  They are prepared
 * and left to recovery, or a COMMIT was not answered.  True for any node after the start of the server, also after a
 * crash, until recovery has asked the node; unknown, and therefore false, if the library is not preloaded.
 */
extern bool shard_node_stat_may_have_left(Oid serverid);

/* A session ends a transaction whose commit the node has not confirmed. */
extern void shard_node_stat_leave(Oid serverid);

/* Run on another coordinator: any node may have a transaction whose commit that node has not received. */
#define SHARD_DOUBT_SQL "SELECT " SHARD_INTERNAL_SCHEMA ".doubt_nodes()"

/*
 * Recovery calls shard_node_stat_nleft() before it asks a node for prepared transactions, and shard_node_stat_settled()
 * with the result if the node has none any more that were left.
 */
extern uint64 shard_node_stat_nleft(Oid serverid);
extern void shard_node_stat_settled(Oid serverid, uint64 nleft);

/* The counters of one server. */
typedef struct ShardNodeStat
{
	Oid			serverid;
	TimestampTz since;			/* when the counters were zero */
	uint64		counters[SHARD_NODE_NCOUNTERS];
} ShardNodeStat;

/* The counters of this database's servers.  Memory: palloc'd array. */
extern ShardNodeStat *shard_node_stat_list(int *n);

/* Resets the counters of this database's servers. */
extern void shard_node_stat_reset(void);

extern void shard_node_stat_init(void);

#endif
