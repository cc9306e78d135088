/*
 * guc.c
 *	  Defines the settings of shardfdw.
 */
#include "postgres.h"

#include <limits.h>

#include "fault.h"
#include "guc.h"
#include "miscadmin.h"
#include "utils/guc.h"

int			shard_guc_default_shards = 16;
int			shard_guc_max_connections_per_node = 8;
int			shard_guc_max_shared_connections = 0;
int			shard_guc_connection_wait_timeout_ms = 60000;
int			shard_guc_watch_timeout_ms = 2000;
int			shard_guc_max_move_rate_kb = 0;
int			shard_guc_copy_buffer_kb = 16384;
int			shard_guc_commit_protocol = SHARD_COMMIT_2PC;
int			shard_guc_snapshot = SHARD_SNAPSHOT_NODE;
int			shard_guc_read_from = SHARD_READ_PRIMARY;
int			shard_guc_max_standby_lag_ms = 60000;
int			shard_guc_recovery_interval_s = 60;
int			shard_guc_commit_log_max_age_s = 86400;
int			shard_guc_commit_log_max_rows = 100000;
bool		shard_guc_preloaded = false;
int			shard_guc_log_min_remote_duration_ms = -1;
int			shard_guc_remote_comments = SHARD_COMMENT_QUERY_ID;
bool		shard_guc_explain_remote = false;
bool		shard_guc_enable_shard_scan = true;
bool		shard_guc_enable_partial_aggregate = true;
bool		shard_guc_enable_copy_fetch = true;
int			shard_guc_multi_shard_statements = SHARD_MULTI_SHARD_ALLOW;
int			shard_guc_max_rows_gathered = 0;
int			shard_guc_query_per_node = SHARD_QUERY_PER_NODE_AUTO;
bool		shard_guc_enable_key_join = true;
bool		shard_guc_enable_decorrelation = true;
bool		shard_guc_enable_cpu_factor = true;
bool		shard_guc_enable_ddl_propagation = true;
bool		shard_guc_enable_coordinator_propagation = true;
bool		shard_guc_follows_coordinator = false;
bool		shard_guc_enable_router = true;
bool		shard_guc_enable_statement_push = true;

static const struct config_enum_entry commit_protocol_options[] = {
	{"2pc", SHARD_COMMIT_2PC, false},
	{"1pc", SHARD_COMMIT_1PC, false},
	{NULL, 0, false}
};

static const struct config_enum_entry remote_comments_options[] = {
	{"none", SHARD_COMMENT_NONE, false},
	{"query_id", SHARD_COMMENT_QUERY_ID, false},
	{"traceparent", SHARD_COMMENT_TRACEPARENT, false},
	{"all", SHARD_COMMENT_ALL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry query_per_node_options[] = {
	{"auto", SHARD_QUERY_PER_NODE_AUTO, false},
	{"on", SHARD_QUERY_PER_NODE_ON, false},
	{"off", SHARD_QUERY_PER_NODE_OFF, false},
	{NULL, 0, false}
};

static const struct config_enum_entry multi_shard_options[] = {
	{"allow", SHARD_MULTI_SHARD_ALLOW, false},
	{"log", LOG, false},
	{"warn", WARNING, false},
	{"error", ERROR, false},
	{NULL, 0, false}
};

static const struct config_enum_entry snapshot_options[] = {
	{"node", SHARD_SNAPSHOT_NODE, false},
	{"cluster", SHARD_SNAPSHOT_CLUSTER, false},
	{NULL, 0, false}
};

static const struct config_enum_entry read_from_options[] = {
	{"primary", SHARD_READ_PRIMARY, false},
	{"standby", SHARD_READ_STANDBY, false},
	{"any", SHARD_READ_ANY, false},
	{NULL, 0, false}
};

/*
 * Check hook of settings that keep a change of definitions or rights from nodes or other coordinators.  The owner of a
 * database must not set them for sessions of other roles, whose REVOKE would silently reach this coordinator only.
 */
static bool
check_propagation(bool *newval, void **extra, GucSource source)
{
	if (source != PGC_S_DATABASE && source != PGC_S_DATABASE_USER)
		return true;
	GUC_check_errdetail("A database cannot have this setting.");
	return false;
}

/* Connections to nodes, and memory of loads. */
static void
define_connections(void)
{
	DefineCustomIntVariable("shardfdw.default_shards",
							"Sets the number of shards of a new sharded table.",
							NULL,
							&shard_guc_default_shards,
							16, 1, 32768, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.max_connections_per_node",
							"Sets how many connections one session opens to one node.",
							"Streams that find no free connection wait for one.",
							&shard_guc_max_connections_per_node,
							8, 1, 1000, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.max_shared_connections_per_node",
							"Sets how many connections all sessions together open to one node.",
							"Zero is what the node allows less a tenth, -1 any number. It needs shardfdw in shared_preload_libraries.",
							&shard_guc_max_shared_connections,
							0, -1, 100000, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.connection_wait_timeout",
							"Sets how long a session waits for a connection to a node when all sessions together have as many as they may.",
							"Zero waits without a limit.",
							&shard_guc_connection_wait_timeout_ms,
							60000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.watch_timeout",
							"Sets how long the views over all nodes wait for a node.",
							"A node that has not answered by then is a row that says so.",
							&shard_guc_watch_timeout_ms,
							2000, 1, 600000, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.max_move_rate",
							"Sets the maximum rate at which a move, split or merge of shards copies data.",
							"Zero copies as fast as the nodes can.",
							&shard_guc_max_move_rate_kb,
							0, 0, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.copy_buffer_size",
							"Sets the memory in which one load holds rows that nodes have not taken yet.",
							NULL,
							&shard_guc_copy_buffer_kb,
							16384, 64, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
}

/* Commits, snapshots and recovery. */
static void
define_transactions(void)
{
	DefineCustomEnumVariable("shardfdw.commit_protocol",
							 "Selects how a transaction that wrote to several nodes commits.",
							 "With 2pc it commits on all nodes or on none; with 1pc a crash can leave it committed on some.",
							 &shard_guc_commit_protocol,
							 SHARD_COMMIT_2PC, commit_protocol_options, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("shardfdw.snapshot",
							 "Selects whether a statement sees all nodes as of one moment.",
							 "With node it sees each node as of one moment; with cluster all of them, which costs a round trip to every node.",
							 &shard_guc_snapshot,
							 SHARD_SNAPSHOT_NODE, snapshot_options, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("shardfdw.read_from",
							 "Selects which server of a node is read.",
							 "With standby one that the node's option standbys lists; with any the primary, or one of them when it does not answer.",
							 &shard_guc_read_from,
							 SHARD_READ_PRIMARY, read_from_options, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.max_standby_lag",
							"Sets how old what is read from a standby may be.",
							"All that was committed that long ago is seen, and all that the session has committed. -1 sets no bound.",
							&shard_guc_max_standby_lag_ms,
							60000, -1, INT_MAX, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.recovery_interval",
							"Sets how often a background worker resolves prepared transactions that a crash left on nodes.",
							"Zero has no worker do it. It needs shardfdw in shared_preload_libraries.",
							&shard_guc_recovery_interval_s,
							60, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.commit_log_max_age",
							"Sets how long it is remembered which transactions committed on several nodes.",
							"A node that is restored to an earlier moment is brought in line as far back as that.",
							&shard_guc_commit_log_max_age_s,
							86400, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.commit_log_max_rows",
							"Sets how many transactions that committed on several nodes are remembered.",
							"Older ones are forgotten earlier than shardfdw.commit_log_max_age says.",
							&shard_guc_commit_log_max_rows,
							100000, 0, INT_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Limits for statements that could cost too much. */
static void
define_guards(void)
{
	DefineCustomEnumVariable("shardfdw.multi_shard_statements",
							 "Selects what happens when a statement asks more than one shard.",
							 NULL,
							 &shard_guc_multi_shard_statements,
							 SHARD_MULTI_SHARD_ALLOW, multi_shard_options, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("shardfdw.max_rows_gathered",
							"Sets how many rows one statement may receive from nodes.",
							"Zero sets no limit.",
							&shard_guc_max_rows_gathered,
							0, 0, INT_MAX, PGC_USERSET, 0, NULL, NULL, NULL);
}

/* The planner. */
static void
define_planner(void)
{
	DefineCustomBoolVariable("shardfdw.enable_shard_scan",
							 "Enables planning a sharded table as one scan over all of its shards.",
							 NULL,
							 &shard_guc_enable_shard_scan,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_partial_aggregate",
							 "Enables computing partial aggregates on the nodes.",
							 NULL,
							 &shard_guc_enable_partial_aggregate,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_copy_fetch",
							 "Enables reading large results from nodes as COPY streams.",
							 NULL,
							 &shard_guc_enable_copy_fetch,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("shardfdw.query_per_node",
							 "Selects whether a node is asked once for all of its shards, or once for each.",
							 "With auto small queries are asked once; on and off are for those who know better.",
							 &shard_guc_query_per_node,
							 SHARD_QUERY_PER_NODE_AUTO, query_per_node_options, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_key_join",
							 "Enables joins that send the keys of one side to the nodes of the other.",
							 NULL,
							 &shard_guc_enable_key_join,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_decorrelation",
							 "Enables joins in place of correlated sub-selects that compute aggregates.",
							 NULL,
							 &shard_guc_enable_decorrelation,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_cpu_factor",
							 "Has nodes plan with higher costs of CPU where many streams share their cores.",
							 NULL,
							 &shard_guc_enable_cpu_factor,
							 true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_statement_push",
							 "Enables running statements that write on all shards in parallel.",
							 NULL,
							 &shard_guc_enable_statement_push,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_router",
							 "Enables sending a whole statement to the only shard that its key selects.",
							 NULL,
							 &shard_guc_enable_router,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
}

/*
 * Defines all settings, then reserves the prefix: so a misspelled shardfdw.* name is an error.
 */
void
shard_guc_init(void)
{
	shard_guc_preloaded = process_shared_preload_libraries_in_progress;
	define_connections();
	define_transactions();
	define_guards();
	define_planner();
	DefineCustomIntVariable("shardfdw.log_min_remote_duration",
							"Sets how long a statement on a node takes at least to be logged.",
							"-1 logs none, zero all of them.",
							&shard_guc_log_min_remote_duration_ms,
							-1, -1, INT_MAX, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable("shardfdw.remote_comments",
							 "Selects what comments in statements on nodes say of the client's statement.",
							 "Its query id, if the coordinator computes one; the traceparent that a comment of it has.",
							 &shard_guc_remote_comments,
							 SHARD_COMMENT_QUERY_ID, remote_comments_options, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.explain_remote",
							 "Makes EXPLAIN VERBOSE ask a node for its plan.",
							 "With ANALYZE, the query of one shard is run once more for that.",
							 &shard_guc_explain_remote,
							 false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_ddl_propagation",
							 "Changes the definitions of shards and reference tables on the nodes, too.",
							 "Off: the coordinator's side alone is changed.",
							 &shard_guc_enable_ddl_propagation,
							 true, PGC_USERSET, 0, check_propagation, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.enable_coordinator_propagation",
							 "Changes definitions on the other coordinators of the same nodes, too.",
							 "Off: this coordinator alone is changed, and maybe the nodes.",
							 &shard_guc_enable_coordinator_propagation,
							 true, PGC_USERSET, 0, check_propagation, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.follows_coordinator",
							 "Says that another coordinator has sent what this session does.",
							 "Nodes and other coordinators are not told of it, since that one does so.",
							 &shard_guc_follows_coordinator,
							 false, PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, check_propagation, NULL, NULL);
	SHARD_FAULT_INIT();
	MarkGUCPrefixReserved("shardfdw");
}
