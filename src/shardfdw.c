/*
 * shardfdw.c
 *	  Registers settings, hooks and callbacks when the library is loaded.
 */
#include "postgres.h"

#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/shard_map.h"
#include "executor/queue/queue_claim.h"
#include "executor/queue/queue_exec.h"
#include "executor/queue/queue_read.h"
#include "replica/replica.h"
#include "ddl/alter/ddl_redirect.h"
#include "ddl/statement/ddl_drop.h"
#include "executor/modify/source_modify_exec.h"
#include "executor/scan/key_join_exec.h"
#include "executor/shard_query_exec.h"
#include "executor/statement_exec.h"
#include "fmgr.h"
#include "guc.h"
#include "hook/hook.h"
#include "load/copy_to.h"
#include "move/leftover.h"
#include "move/subscription.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/key_join.h"
#include "remote/run/cut.h"
#include "remote/run/stream.h"
#include "remote/wire/connection.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/quota.h"
#include "remote/xact/peer_fence.h"
#include "remote/xact/txn.h"
#include "service/deadlock.h"
#include "service/error_name.h"
#include "service/recover.h"
#include "service/recovery_worker.h"

void		_PG_init(void);

/* fdw.c */
extern Datum shardfdw_handler(PG_FUNCTION_ARGS);

static const ShardTxnUpcalls txn_upcalls = {
	.take_cut = shard_cut_take,
	.drain_queue = shard_stream_drain_queue,
	.apply_replicas = shard_replica_apply,
	.may_have_replicas = shard_map_seen_replicas,
};

/*
 * Snapshot barriers on other coordinators are closed with the user mappings of the servers' owners, since
 * other users have no right to close them.
 */
static List *
fence_peers(bool *first_is_peer)
{
	List	   *peers = NIL;
	int			nbefore;
	ListCell   *lc;

	foreach(lc, shard_node_peers(&nbefore))
	{
		ShardFencePeer *peer = palloc(sizeof(ShardFencePeer));

		peer->serverid = ((ShardNodeName *) lfirst(lc))->serverid;
		peer->userid = GetForeignServer(peer->serverid)->owner;
		peers = lappend(peers, peer);
	}
	*first_is_peer = nbefore > 0;
	return peers;
}

void
_PG_init(void)
{
	shard_guc_init();
	shard_option_init(shardfdw_handler);
	shard_connection_set_hint(shard_replica_hint);
	shard_quota_init();
	shard_node_stat_init();
	shard_txn_init(&txn_upcalls);
	shard_cut_init(shard_node_list_oids);
	shard_peer_fence_init(fence_peers);
	shard_hooks_init();
	shard_key_join_init();
	shard_key_join_register();
	shard_statement_register();
	shard_queue_register();
	shard_claim_init();
	shard_queue_read_init();
	shard_source_register();
	shard_copy_to_init(shard_query_of);
	shard_ddl_drop_init();
	shard_ddl_redirect_init();
	shard_utility_hook_init();
	shard_executor_hook_init();
	shard_transaction_hook_init();
	shard_invalidation_hook_init();
	shard_deadlock_init();
	shard_error_name_init();
	shard_recover_set_jobs(shard_subscription_start_missing, shard_leftover_recover);
	shard_recovery_worker_init();
}
