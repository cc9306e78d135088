/*
 * txn_level.c
 *	  Nesting levels that follow their subtransactions.
 */
#include "postgres.h"

#include "access/xact.h"
#include "remote/xact/txn_level.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

static dlist_head levels = DLIST_STATIC_INIT(levels);
static int	nlost = 0;			/* levels that were rolled back together with their row locks */

/* Per nesting level that had a savepoint: number of its subtransactions that have ended, plus 1. */
static uint32 *numbers = NULL;
static int	nnumbers = 0;

static void
forget(void *arg)
{
	ShardTxnLevel *level = arg;

	dlist_delete(&level->link);
	nlost -= level->undone && level->has_locks;
}

CommandId
shard_txn_level_command(void)
{
	return ActiveSnapshotSet() ? GetActiveSnapshot()->curcid : GetCurrentCommandId(false);
}

ShardTxnLevel *
shard_txn_level_create(MemoryContext cxt)
{
	ShardTxnLevel *level = MemoryContextAllocZero(cxt, sizeof(ShardTxnLevel));

	level->cxt = cxt;
	level->level = GetCurrentTransactionNestLevel();
	level->cid = shard_txn_level_command();
	level->callback.func = forget;
	level->callback.arg = level;
	dlist_push_tail(&levels, &level->link);
	MemoryContextRegisterResetCallback(cxt, &level->callback);
	return level;
}

uint32
shard_txn_level_number(int level)
{
	return level < nnumbers ? numbers[level] : 1;
}

uint32
shard_txn_level_new_savepoint(int level)
{
	if (level >= nnumbers)
	{
		int			size = Max(2 * nnumbers, level + 8);

		numbers = numbers ? repalloc(numbers, size * sizeof(uint32)) :
			MemoryContextAlloc(TopMemoryContext, size * sizeof(uint32));
		while (nnumbers < size)
			numbers[nnumbers++] = 1;
	}
	return numbers[level];
}

void
shard_txn_level_check_locks(MemoryContext cxt)
{
	dlist_iter	iter;

	if (nlost == 0)
		return;
	dlist_foreach(iter, &levels)
	{
		const ShardTxnLevel *each = dlist_container(ShardTxnLevel, link, iter.cur);

		if (!each->undone || !each->has_locks)
			continue;
		for (MemoryContext up = each->cxt; up != NULL; up = MemoryContextGetParent(up))
			if (up == cxt)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_CURSOR_STATE),
						 errmsg("the cursor's rows are no longer locked"),
						 errdetail("They were locked on the nodes within a savepoint that has been rolled back."),
						 errhint("Fetch the cursor's first row before the savepoint, or declare it again.")));
	}
}

void
shard_txn_level_end(int level, bool committed)
{
	dlist_iter	iter;

	if (level < nnumbers && ++numbers[level] == 0)
		numbers[level] = 1;
	dlist_foreach(iter, &levels)
	{
		ShardTxnLevel *each = dlist_container(ShardTxnLevel, link, iter.cur);

		if (each->level < level)
			continue;
		/* a cursor of that level belongs to the parent from here on, also after a rollback */
		each->level = level - 1;
		if (!committed && !each->undone)
		{
			each->undone = true;
			nlost += each->has_locks;
		}
	}
}
