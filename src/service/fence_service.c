/*
 * fence_service.c
 *	  Functions that other coordinators call before they take a cluster snapshot or set a restore
 *	  point.
 */
#include "postgres.h"

#include "commit_log.h"
#include "fmgr.h"
#include "remote/xact/fence.h"
#include "remote/xact/twophase.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_take_fence_turn);
PG_FUNCTION_INFO_V1(shardfdw_close_fence);
PG_FUNCTION_INFO_V1(shardfdw_commit_state);

/*
 * take_fence_turn() -> void
 */
Datum
shardfdw_take_fence_turn(PG_FUNCTION_ARGS)
{
	shard_fence_take_turn();
	PG_RETURN_VOID();
}

/*
 * close_fence() -> bool
 */
Datum
shardfdw_close_fence(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(shard_fence_close_until_end());
}

/*
 * commit_state(gid text) -> text
 */
Datum
shardfdw_commit_state(PG_FUNCTION_ARGS)
{
	ShardLogKey key;

	if (!shard_twophase_parse_gid(text_to_cstring(PG_GETARG_TEXT_PP(0)), &key) || !shard_commit_log_contains(key))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(shard_twophase_is_running(key.xid) ? "being committed" : "committed"));
}
