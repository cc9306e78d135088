/*
 * shardfdw.c
 *	  Registers settings, hooks and callbacks when the library is loaded.
 */
#include "postgres.h"

#include "catalog/shard_map.h"
#include "catalog/twin.h"
#include "fmgr.h"
#include "executor/key_join.h"
#include "guc.h"
#include "load/copy_hook.h"
#include "planner/fdw_planner.h"
#include "planner/key_join.h"
#include "remote/pool.h"
#include "remote/txn.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	shard_guc_init();
	shard_map_init();
	shard_twin_init();
	shard_pool_init();
	shard_txn_init();
	shard_hooks_init();
	shard_key_join_init();
	shard_key_join_register();
	shard_copy_hook_init();
}
