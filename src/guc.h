/*
 * guc.h
 *	  The settings of shardfdw.
 */
#ifndef SHARDFDW_GUC_H
#define SHARDFDW_GUC_H

#include "postgres.h"

typedef enum ShardCommitProtocol
{
	SHARD_COMMIT_2PC,
	SHARD_COMMIT_1PC
} ShardCommitProtocol;

typedef enum ShardSnapshotMode
{
	SHARD_SNAPSHOT_NODE,
	SHARD_SNAPSHOT_CLUSTER
} ShardSnapshotMode;

typedef enum ShardReadFrom
{
	SHARD_READ_PRIMARY,
	SHARD_READ_STANDBY,			/* if the node has option standbys */
	SHARD_READ_ANY				/* the primary, or a standby if the primary does not answer */
} ShardReadFrom;

/* Bits: comments added to statements on nodes; see remote/wire/comment.h. */
typedef enum ShardRemoteComments
{
	SHARD_COMMENT_NONE = 0,
	SHARD_COMMENT_QUERY_ID = 1,
	SHARD_COMMENT_TRACEPARENT = 2,
	SHARD_COMMENT_ALL = 3
} ShardRemoteComments;

typedef enum ShardQueryPerNode
{
	SHARD_QUERY_PER_NODE_AUTO,	/* if the planner expects that it is cheaper */
	SHARD_QUERY_PER_NODE_ON,	/* wherever possible */
	SHARD_QUERY_PER_NODE_OFF
} ShardQueryPerNode;

/* What a statement with more than one shard raises: SHARD_MULTI_SHARD_ALLOW (nothing), or a message level. */
#define SHARD_MULTI_SHARD_ALLOW	0

extern int	shard_guc_multi_shard_statements;	/* SHARD_MULTI_SHARD_ALLOW, LOG, WARNING or ERROR */
extern int	shard_guc_max_rows_gathered;	/* rows that one statement may receive from nodes; 0: no limit */
extern int	shard_guc_default_shards;	/* number of shards of a new sharded table */
extern int	shard_guc_max_connections_per_node; /* per backend, node and user */
extern int	shard_guc_max_shared_connections;	/* per node, all backends; -1: no limit, 0: by the node's limit */
extern int	shard_guc_connection_wait_timeout_ms;	/* 0: none */
extern int	shard_guc_watch_timeout_ms;
extern int	shard_guc_max_move_rate_kb;	/* kB per second that a job copies between nodes; 0: no limit */
extern int	shard_guc_copy_buffer_kb;	/* kB buffered by one load, all shards */
extern int	shard_guc_commit_protocol;	/* ShardCommitProtocol */
extern int	shard_guc_snapshot; /* ShardSnapshotMode */
extern int	shard_guc_read_from;	/* ShardReadFrom */
extern int	shard_guc_max_standby_lag_ms;	/* -1: no limit */
extern int	shard_guc_recovery_interval_s;	/* 0: no recovery worker */
extern int	shard_guc_commit_log_max_age_s;
extern int	shard_guc_commit_log_max_rows;
extern bool shard_guc_preloaded;	/* the library is in shared_preload_libraries */
extern int	shard_guc_log_min_remote_duration_ms;	/* LOG statements on nodes that take at least this long; -1: none */
extern int	shard_guc_remote_comments;	/* ShardRemoteComments */
extern bool shard_guc_explain_remote;	/* EXPLAIN VERBOSE also shows the plan of a node */
extern bool shard_guc_enable_shard_scan;	/* sharded table as one plan node */
extern bool shard_guc_enable_partial_aggregate; /* partial states from nodes */
extern bool shard_guc_enable_copy_fetch;	/* COPY TO STDOUT for bulk reads */
extern int	shard_guc_query_per_node;	/* ShardQueryPerNode */
extern bool shard_guc_enable_key_join;	/* keys of one side of a join sent to the other */
extern bool shard_guc_enable_decorrelation; /* correlated sub-selects become joins */
extern bool shard_guc_enable_cpu_factor;	/* nodes plan with higher CPU costs if streams share cores */
extern bool shard_guc_enable_ddl_propagation;	/* DDL is also run on the nodes */
extern bool shard_guc_enable_coordinator_propagation;	/* ... and on the other coordinators */
extern bool shard_guc_follows_coordinator;	/* this session runs DDL for another coordinator, which runs it on the nodes itself */
extern bool shard_guc_enable_statement_push;	/* writes that can be done shard by shard run on the nodes */
extern bool shard_guc_enable_router;	/* statements on one shard run unchanged on its node */

extern void shard_guc_init(void);

#endif
