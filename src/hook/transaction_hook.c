/*
 * transaction_hook.c
 *	  Calls the functions of the library for the end of a transaction or subtransaction, in the right order.
 *
 * After the local commit, and in an abort, nothing may raise an error.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/shard_map.h"
#include "executor/queue/queue_claim.h"
#include "executor/queue/queue_read.h"
#include "executor/scan/nested_write.h"
#include "flush_commit.h"
#include "hook/hook.h"
#include "identity.h"
#include "load/input/reject_file.h"
#include "reference/reference_pending.h"
#include "reference/reference_trigger.h"
#include "remote/pool/pool.h"
#include "remote/xact/txn.h"
#include "version.h"

static void
end_transaction(XactEvent event, void *arg)
{
	bool		committed = event == XACT_EVENT_COMMIT;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			shard_identity_pre_commit();
			shard_txn_pre_commit();
			shard_flush_commit_before_end();
			return;
		case XACT_EVENT_PRE_PREPARE:
			shard_identity_pre_prepare();
			shard_reject_file_pre_prepare();
			shard_txn_pre_prepare();
			shard_flush_commit_before_end();
			return;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			return;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			shard_map_end_transaction();
			return;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			break;
	}
	shard_flush_commit_end_transaction();
	/* COMMIT PREPARED or ROLLBACK on the nodes */
	shard_txn_end(event);
	/* other queue workers may lock the rows when the nodes have released them */
	shard_claim_end_transaction(committed);
	shard_queue_read_end(NULL);
	/* the following functions forget pointers into memory of the transaction */
	shard_reject_file_end_transaction(committed);
	shard_reference_trigger_end_transaction();
	shard_reference_pending_end_transaction();
	shard_nested_write_end_transaction();
	shard_map_end_transaction();
	/* closes connections that broke; the others are idle now */
	shard_pool_end_transaction();
	/* ALTER EXTENSION may have been rolled back */
	if (event == XACT_EVENT_ABORT)
		shard_version_forget();
}

static void
end_subtransaction(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	bool		committed = event == SUBXACT_EVENT_COMMIT_SUB;
	int			level = GetCurrentTransactionNestLevel();

	/* another library may still turn the commit into an abort, so nothing is done before the commit */
	if (!committed && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	/* RELEASE or ROLLBACK TO SAVEPOINT on the nodes */
	shard_txn_end_level(level, committed);
	shard_claim_end_level(level, committed);
	if (!committed)
		shard_queue_read_end(NULL);
	shard_nested_write_end_level(level, committed);
	shard_reject_file_end_level(subid, committed ? parent : InvalidSubTransactionId);
	shard_reference_trigger_end_level(level);
	shard_reference_pending_end_level(level);
	if (!committed)
		shard_version_forget();
}

void
shard_transaction_hook_init(void)
{
	RegisterXactCallback(end_transaction, NULL);
	RegisterSubXactCallback(end_subtransaction, NULL);
}
