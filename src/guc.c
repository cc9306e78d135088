/*
 * guc.c
 *	  Defines the settings of shardfdw.
 */
#include "postgres.h"

#include <limits.h>

#include "guc.h"
#include "utils/guc.h"

int			shard_guc_default_shards = 16;
int			shard_guc_max_connections_per_node = 8;
int			shard_guc_copy_buffer_kb = 16384;
int			shard_guc_commit_protocol = SHARD_COMMIT_2PC;
bool		shard_guc_log_remote_sql = false;
bool		shard_guc_explain_remote = false;
bool		shard_guc_enable_shard_scan = true;
bool		shard_guc_enable_partial_aggregate = true;
bool		shard_guc_enable_copy_fetch = true;
bool		shard_guc_enable_key_join = true;
bool		shard_guc_enable_decorrelation = true;

static const struct config_enum_entry commit_protocol_options[] = {
	{"2pc", SHARD_COMMIT_2PC, false},
	{"1pc", SHARD_COMMIT_1PC, false},
	{NULL, 0, false}
};

/*
 * Defines every setting, then reserves the prefix so that a misspelt
 * shardfdw.* name is refused.
 */
void
shard_guc_init(void)
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
	DefineCustomIntVariable("shardfdw.copy_buffer_size",
							"Sets the memory in which one load holds rows that nodes have not taken yet.",
							NULL,
							&shard_guc_copy_buffer_kb,
							16384, 64, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomEnumVariable("shardfdw.commit_protocol",
							 "Selects how a transaction that wrote to several nodes commits.",
							 "With 2pc it commits on all nodes or on none; with 1pc a crash can leave it committed on some.",
							 &shard_guc_commit_protocol,
							 SHARD_COMMIT_2PC, commit_protocol_options, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.log_remote_sql",
							 "Logs every statement that is sent to a node.",
							 NULL,
							 &shard_guc_log_remote_sql,
							 false, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("shardfdw.explain_remote",
							 "Makes EXPLAIN VERBOSE ask a node for its plan.",
							 "With ANALYZE, the query of one shard is run once more for that.",
							 &shard_guc_explain_remote,
							 false, PGC_USERSET, 0, NULL, NULL, NULL);
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

	MarkGUCPrefixReserved("shardfdw");
}
