/*
 * nested_write.c
 *	  Detects nested statements that write to a table while a statement writes to it.
 *
 * Whenever a statement begins, core checks the permissions of its relations.  At that moment the
 * relations to which it writes are known.  If a statement begins while another one is being
 * watched, triggers or functions of the watched one have run it.  A watch begins with the first row
 * that is written.  Nested statements may have run before that, from BEFORE statement triggers or
 * functions of the source.  They are recognized by their command numbers, which are higher than the
 * statement's own.
 *
 * The same records say whether a table was changed since a command began.  Then a read on the
 * connection that writes is newer than the statement's snapshot.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/colocate.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "executor/scan/nested_write.h"
#include "lib/ilist.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define WRITES	(ACL_INSERT | ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE)

struct ShardNestedWatch
{
	slist_node	link;			/* in watches */
	EState	   *estate;
	Oid			top;			/* the table, or the top of its partition tree */
	bool		seen;
	bool		ran;			/* by nested statements only */
	bool		deletes_twice;	/* two parts of the statement delete rows */
};

struct ShardPendingRows
{
	slist_node	link;			/* in pendings */
	Oid			top;			/* the partitioned table at the top */
	CommandId	cid;			/* of the statement */
	bool		has_rows;
};

/* Of running statements, innermost first. */
static slist_head pendings = SLIST_STATIC_INIT(pendings);

/*
 * The last command of one nesting level that may have written to a partitioned table, its
 * partitions, or another table on nodes.  If the subtransaction of the level is rolled back, its
 * writes are undone, and its entry is removed.
 */
typedef struct LastCommand
{
	CommandId	cid;
	bool		changed;		/* a command may have updated or deleted rows ... */
	CommandId	changed_cid;	/* ... the last such command */
} LastCommand;

typedef struct LastWrite
{
	Oid			top;			/* as in written_tables() */
	int			level;			/* as from GetCurrentTransactionNestLevel() */
	CommandId	first_cid;		/* the first such command */
	LastCommand last;
	bool		has_before;
	LastCommand before;			/* value before that command: valid again if the command writes no row */
	ShardChangedTable changed;	/* by all commands of the level */
} LastWrite;

/* List of LastWrite, in TopTransactionContext. */
static List *last_writes = NIL;

/* Statements that are watched, innermost first. */
static slist_head watches = SLIST_STATIC_INIT(watches);

/*
 * Returns the tables on nodes to which the permission allows writing; for a partition, the table at the top of its
 * tree.
 */
static List *
written_tables(const ShardPermissions *permission)
{
	Oid			relid = permission->relid;
	List	   *result;

	/* row locks require UPDATE, without columns */
	if ((permission->requiredPerms & WRITES) == 0 ||
		((permission->requiredPerms & WRITES) == ACL_UPDATE && bms_is_empty(permission->updatedCols)))
		return NIL;
	if (get_rel_relispartition(relid) || get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		return list_make1_oid(shard_map_top(relid));
	/* the permission on a table that others inherit from is enough to change their rows */
	if ((permission->requiredPerms & WRITES) != ACL_INSERT && relid >= FirstNormalObjectId && has_subclass(relid))
		result = find_all_inheritors(relid, NoLock, NULL);
	else
		result = list_make1_oid(relid);
	foreach_oid(member, result)
	{
		if (get_rel_relkind(member) != RELKIND_FOREIGN_TABLE &&
			!(member >= FirstNormalObjectId && get_rel_relkind(member) == RELKIND_RELATION && shard_reference_is(member)))
			result = foreach_delete_current(result, member);
	}
	return result;
}

/* Counts a statement's permissions of kinds on top or its partitions. */
static int
count_writes(List *permissions, Oid top, AclMode kinds)
{
	int			result = 0;

	foreach_ptr(const ShardPermissions, permission, permissions)
	{
		if (permission->requiredPerms & kinds)
			result += list_member_oid(written_tables(permission), top);
	}
	return result;
}

static LastWrite *
find_last_write(Oid top, int level)
{
	foreach_ptr(LastWrite, write, last_writes)
	{
		if (write->top == top && write->level == level)
			return write;
	}
	return NULL;
}

static void
note_changed(LastCommand *last, CommandId cid)
{
	last->changed_cid = last->changed ? Max(last->changed_cid, cid) : cid;
	last->changed = true;
}

/* Adds a change of relid, the top or another table of its partition tree. */
static void
add_change(ShardChangedTable *changed, Oid relid, bool deletes, bool updates, const Bitmapset *columns)
{
	bool		unknown = changed->updates && changed->columns == NULL;

	changed->deletes |= deletes;
	if (!updates)
		return;
	changed->updates = true;
	if (unknown || relid != changed->top || columns == NULL)
	{
		bms_free(changed->columns);
		changed->columns = NULL;
	}
	else
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(TopTransactionContext);

		changed->columns = bms_add_members(changed->columns, columns);
		MemoryContextSwitchTo(oldcxt);
	}
}

static void
note_write(Oid top, const ShardPermissions *permission)
{
	bool		deletes = (permission->requiredPerms & ACL_DELETE) != 0;
	bool		updates = (permission->requiredPerms & ACL_UPDATE) != 0;
	int			level = GetCurrentTransactionNestLevel();
	CommandId	cid = GetCurrentCommandId(false);
	LastWrite  *write = find_last_write(top, level);
	MemoryContext oldcxt;

	if (write == NULL)
	{
		oldcxt = MemoryContextSwitchTo(TopTransactionContext);
		write = palloc0(sizeof(LastWrite));
		write->top = top;
		write->changed.top = top;
		write->level = level;
		write->first_cid = cid;
		last_writes = lappend(last_writes, write);
		MemoryContextSwitchTo(oldcxt);
	}
	else if (write->last.cid != cid)
	{
		write->has_before = true;
		write->before = write->last;
	}
	write->last.cid = cid;
	if (!deletes && !updates)
		return;
	note_changed(&write->last, cid);
	add_change(&write->changed, permission->relid, deletes, updates, permission->updatedCols);
}

static void
note_writes(List *permissions)
{
	foreach_ptr(const ShardPermissions, permission, permissions)
	{
		foreach_oid(top, written_tables(permission))
			note_write(top, permission);
	}
}

void
shard_nested_write_end_transaction(void)
{
	last_writes = NIL;
}

void
shard_nested_write_end_level(int level, bool committed)
{
	foreach_ptr(LastWrite, write, last_writes)
	{
		LastWrite  *outer;

		if (write->level < level)
			continue;
		outer = committed ? find_last_write(write->top, level - 1) : NULL;
		if (committed && outer == NULL)
		{
			write->level = level - 1;
			continue;
		}
		if (outer != NULL)
		{
			outer->first_cid = Min(outer->first_cid, write->first_cid);
			outer->last.cid = Max(outer->last.cid, write->last.cid);
			if (write->last.changed)
				note_changed(&outer->last, write->last.changed_cid);
			add_change(&outer->changed, write->top, write->changed.deletes, write->changed.updates, write->changed.columns);
			bms_free(write->changed.columns);
		}
		last_writes = foreach_delete_current(last_writes, write);
		pfree(write);
	}
}

void
shard_nested_write_finish(const EState *estate)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;

	/* rows of statements that rules add are not counted */
	if (stmt->commandType == CMD_SELECT || stmt->commandType == CMD_UTILITY || stmt->hasModifyingCTE || !stmt->canSetTag ||
		estate->es_processed > 0)
		return;
	foreach_ptr(LastWrite, write, last_writes)
	{
		if (write->last.cid != estate->es_output_cid || write->level != GetCurrentTransactionNestLevel())
			continue;
		if (write->has_before)
			write->last = write->before;
		else
		{
			last_writes = foreach_delete_current(last_writes, write);
			pfree(write);
		}
	}
}

/* Raises if a statement that begins would have to see rows that are not yet on their nodes. */
static void
check_pending(List *permissions)
{
	slist_iter	iter;

	slist_foreach(iter, &pendings)
	{
		const ShardPendingRows *pending = slist_container(ShardPendingRows, link, iter.cur);

		/* with the snapshot of the statement that writes these rows, it does not see them */
		if (!pending->has_rows || !ActiveSnapshotSet() || GetActiveSnapshot()->curcid <= pending->cid)
			continue;
		foreach_ptr(const ShardPermissions, permission, permissions)
		{
			if (shard_map_top(permission->relid) == pending->top)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("a function cannot use table \"%s\" now", get_rel_name(pending->top)),
						 errdetail("The statement that calls the function writes to the table, and has rows that are not on their nodes yet."),
						 errhint("Declare the function STABLE if it need not see what the statement writes. Otherwise write the rows one by one.")));
		}
	}
}

void
shard_nested_write_note(List *permissions)
{
	slist_iter	iter;

	check_pending(permissions);
	note_writes(permissions);
	slist_foreach(iter, &watches)
	{
		ShardNestedWatch *watch = slist_container(ShardNestedWatch, link, iter.cur);

		watch->ran |= count_writes(permissions, watch->top, WRITES) > 0;
		watch->seen |= watch->ran;
	}
}

static void
forget_watch(void *arg)
{
	slist_delete(&watches, &((ShardNestedWatch *) arg)->link);
}

ShardNestedWatch *
shard_nested_write_watch(EState *estate, Oid relid)
{
	Oid			top = shard_map_top(relid);
	ShardNestedWatch *watch;
	MemoryContextCallback *callback;
	slist_iter	iter;

	slist_foreach(iter, &watches)
	{
		watch = slist_container(ShardNestedWatch, link, iter.cur);
		if (watch->estate == estate && watch->top == top)
			return watch;
	}
	watch = MemoryContextAllocZero(estate->es_query_cxt, sizeof(ShardNestedWatch));
	watch->estate = estate;
	watch->top = top;
	watch->seen = count_writes(shard_estate_permissions(estate), top, WRITES) > 1 ||
		shard_nested_write_since(top, estate->es_output_cid + 1, false);
	watch->deletes_twice = count_writes(shard_estate_permissions(estate), top, ACL_DELETE) > 1;
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

bool
shard_nested_write_ran(const ShardNestedWatch *watch)
{
	return watch->ran;
}

bool
shard_nested_write_deletes_twice(const ShardNestedWatch *watch)
{
	return watch->deletes_twice;
}

static void
forget_pending(void *arg)
{
	slist_delete(&pendings, &((ShardPendingRows *) arg)->link);
}

ShardPendingRows *
shard_pending_rows_create(EState *estate, Oid relid)
{
	ShardPendingRows *pending = MemoryContextAllocZero(estate->es_query_cxt, sizeof(ShardPendingRows));
	MemoryContextCallback *callback = MemoryContextAllocZero(estate->es_query_cxt, sizeof(MemoryContextCallback));

	pending->top = shard_map_top(relid);
	pending->cid = estate->es_output_cid;
	callback->func = forget_pending;
	callback->arg = pending;
	slist_push_head(&pendings, &pending->link);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
	return pending;
}

void
shard_pending_rows_set(ShardPendingRows *pending, bool has_rows)
{
	pending->has_rows = has_rows;
}

/* May foreign keys that only nodes know change rows of top if rows of the written table are changed? */
static bool
is_tied_by_keys(Oid written, Oid top)
{
	return shard_reference_is(written) || shard_colocated(written, top);
}

bool
shard_nested_write_since(Oid relid, CommandId cid, bool by_keys)
{
	Oid			top = InvalidOid;

	foreach_ptr(const LastWrite, write, last_writes)
	{
		bool		is_since = write->last.cid >= cid;
		bool		has_changed = by_keys && write->last.changed && write->last.changed_cid >= cid;

		if (!is_since && !has_changed)
			continue;
		/* usually there is no such command, so the catalog is not read */
		if (!OidIsValid(top))
			top = shard_map_top(relid);
		if ((is_since && write->top == top) || (has_changed && is_tied_by_keys(write->top, top)))
			return true;
	}
	return false;
}

List *
shard_nested_write_changed(CommandId cid)
{
	List	   *result = NIL;

	foreach_ptr(const LastWrite, write, last_writes)
	{
		if (write->last.changed && write->last.changed_cid >= cid)
			result = lappend(result, unconstify(ShardChangedTable *, &write->changed));
	}
	return result;
}

bool
shard_nested_write_before(Oid relid, CommandId cid)
{
	Oid			top = shard_map_top(relid);

	foreach_ptr(const LastWrite, write, last_writes)
	{
		if (write->first_cid < cid &&
			(write->top == top || (write->last.changed && is_tied_by_keys(write->top, top))))
			return true;
	}
	return false;
}
