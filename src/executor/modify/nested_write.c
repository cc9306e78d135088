/*
 * nested_write.c
 *	  Whether nested statements write to a table while a statement writes to it.
 *
 * However a statement is executed, core checks the permissions of its relations when
 * it begins: at that moment the relations that it writes to are known.  A statement
 * that begins while another one is watched was run by triggers or functions of the
 * watched one.  A watch begins with the first row that is written.  Nested statements
 * may have run before that, by BEFORE statement triggers or functions of the source:
 * they are known by their command numbers, which are higher than the statement's own.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/modify/nested_write.h"
#include "lib/ilist.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define WRITES	(ACL_INSERT | ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE)

struct ShardNestedWatch
{
	slist_node	link;			/* in watches */
	EState	   *estate;
	Oid			parent;
	bool		seen;
};

/* Last command of this transaction that was to write to a partitioned table or its partitions. */
typedef struct LastWrite
{
	Oid			parent;
	CommandId	cid;
} LastWrite;

/* Of LastWrite; in TopTransactionContext. */
static List *last_writes = NIL;

/* Statements that are watched, innermost first. */
static slist_head watches = SLIST_STATIC_INIT(watches);
static ExecutorCheckPerms_hook_type prev_check_hook = NULL;

/* The partitioned table that permission is to write to, itself or a partition; InvalidOid: none. */
static Oid
written_parent(const ShardPermissions *permission)
{
	if ((permission->requiredPerms & WRITES) == 0)
		return InvalidOid;
	if (get_rel_relispartition(permission->relid))
		return get_partition_parent(permission->relid, true);
	return get_rel_relkind(permission->relid) == RELKIND_PARTITIONED_TABLE ? permission->relid : InvalidOid;
}

/* How many of a statement's permissions are for writing to parent or its shards? */
static int
count_writes(List *permissions, Oid parent)
{
	int			result = 0;
	ListCell   *lc;

	foreach(lc, permissions)
		result += written_parent(lfirst(lc)) == parent;
	return result;
}

static LastWrite *
find_last_write(Oid parent)
{
	ListCell   *lc;

	foreach(lc, last_writes)
	{
		if (((LastWrite *) lfirst(lc))->parent == parent)
			return lfirst(lc);
	}
	return NULL;
}

static void
note_writes(List *permissions)
{
	ListCell   *lc;

	foreach(lc, permissions)
	{
		Oid			parent = written_parent(lfirst(lc));
		LastWrite  *last;
		MemoryContext oldcxt;

		if (!OidIsValid(parent))
			continue;
		last = find_last_write(parent);
		if (last == NULL)
		{
			oldcxt = MemoryContextSwitchTo(TopTransactionContext);
			last = palloc(sizeof(LastWrite));
			last->parent = parent;
			last_writes = lappend(last_writes, last);
			MemoryContextSwitchTo(oldcxt);
		}
		last->cid = GetCurrentCommandId(false);
	}
}

static void
forget_writes(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		last_writes = NIL;
}

static bool
check_permissions(List *range_table, List *permissions, bool raise)
{
	slist_iter	iter;

	note_writes(permissions);
	slist_foreach(iter, &watches)
	{
		ShardNestedWatch *watch = slist_container(ShardNestedWatch, link, iter.cur);

		watch->seen |= count_writes(permissions, watch->parent) > 0;
	}
	return prev_check_hook ? shard_call_check_perms(prev_check_hook, range_table, permissions, raise) : true;
}

SHARD_CHECK_PERMS_ENTRY(check_permissions_entry, check_permissions)

static void
forget_watch(void *arg)
{
	slist_delete(&watches, &((ShardNestedWatch *) arg)->link);
}

ShardNestedWatch *
shard_nested_write_watch(EState *estate, Oid parent)
{
	ShardNestedWatch *watch;
	const LastWrite *last = find_last_write(parent);
	MemoryContextCallback *callback;
	slist_iter	iter;

	slist_foreach(iter, &watches)
	{
		watch = slist_container(ShardNestedWatch, link, iter.cur);
		if (watch->estate == estate && watch->parent == parent)
			return watch;
	}
	watch = MemoryContextAllocZero(estate->es_query_cxt, sizeof(ShardNestedWatch));
	watch->estate = estate;
	watch->parent = parent;
	watch->seen = count_writes(shard_estate_permissions(estate), parent) > 1 ||
		(last != NULL && last->cid > estate->es_output_cid);
	callback = MemoryContextAllocZero(estate->es_query_cxt, sizeof(MemoryContextCallback));
	callback->func = forget_watch;
	callback->arg = watch;
	slist_push_head(&watches, &watch->link);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
	return watch;
}

bool
shard_nested_write_seen(const ShardNestedWatch *watch)
{
	return watch->seen;
}

void
shard_nested_write_init(void)
{
	prev_check_hook = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_permissions_entry;
	RegisterXactCallback(forget_writes, NULL);
}
