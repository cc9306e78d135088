/*
 * copied_table.c
 *	  Tables whose rows are copies that older snapshots do not show.
 *
 * Table shardfdw_internal.copied_table has a row for each table whose rows a conversion has copied.  The conversion
 * writes the row in the transaction that makes the copies visible under the table's name.  So the xid of the row tells
 * which snapshots show the copies.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/partition.h"
#include "compat.h"
#include "fmgr.h"
#include "hook/copied_table.h"
#include "miscadmin.h"
#include "own_table.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(shardfdw_note_copied_table);

#define COPIED_TABLE "copied_table"
#define COPIED_RELATION 1		/* its column */

/* Begins a scan that finds the note of relid. */
static void
begin_note(ShardOwnTable *notes, Oid relid)
{
	shard_own_table_key(notes, COPIED_RELATION, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	shard_own_table_begin(notes, NULL);
}

static void
check_relation(ShardOwnTable *notes, Oid relid, Snapshot snapshot)
{
	bool		is_newer = false;

	begin_note(notes, relid);
	while (shard_own_table_next(notes))
	{
		TransactionId xid = HeapTupleHeaderGetXmin(notes->tuple->t_data);

		is_newer |= !TransactionIdIsCurrentTransactionId(xid) && XidInMVCCSnapshot(xid, snapshot);
	}
	shard_own_table_end(notes);
	if (is_newer)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a conversion of table \"%s\"", get_rel_name(relid)),
				 errdetail("Its rows have been copied since this transaction's snapshot was taken."),
				 errhint("The transaction might succeed if retried.")));
}

/* Checks relations and the tables whose partitions they are. */
static void
check(const List *relids)
{
	ShardOwnTable notes;
	ListCell   *lc;
	Snapshot	snapshot;

	/* a parallel worker runs what its leader has checked */
	if (relids == NIL || IsParallelWorker() || !OidIsValid(shard_own_relation(COPIED_TABLE, true)))
		return;
	snapshot = GetTransactionSnapshot();
	shard_own_table_open(&notes, COPIED_TABLE, AccessShareLock);
	foreach(lc, relids)
	{
		Oid			relid = lfirst_oid(lc);
		List	   *ancestors = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;

		check_relation(&notes, relid, snapshot);
		foreach_oid(ancestor, ancestors)
			check_relation(&notes, ancestor, snapshot);
	}
	shard_own_table_close(&notes);
}

void
shard_copied_table_check(List *permissions)
{
	List	   *relids = NIL;

	if (!IsolationUsesXactSnapshot())
		return;
	foreach_ptr(const ShardPermissions, permission, permissions)
	{
		/* the planner adds partitions, without rights that they would require */
		if (permission->requiredPerms != 0 && permission->relid >= FirstNormalObjectId)
			relids = list_append_unique_oid(relids, permission->relid);
	}
	check(relids);
}

void
shard_copied_table_check_names(List *names)
{
	List	   *relids = NIL;

	if (!IsolationUsesXactSnapshot() || !FirstSnapshotSet)
		return;
	foreach_node(RangeVar, name, names)
		relids = lappend_oid(relids, RangeVarGetRelid(name, NoLock, true));
	check(relids);
}

/* ---------- writing ---------- */

/* Removes the notes of tables that do not exist any more. */
static void
forget_dropped(ShardOwnTable *notes)
{
	shard_own_table_begin(notes, NULL);
	while (shard_own_table_next(notes))
	{
		if (!SearchSysCacheExists1(RELOID, notes->values[COPIED_RELATION]) && shard_own_table_lock(notes))
			shard_own_table_delete(notes);
	}
	shard_own_table_end(notes);
}

/* note_copied_table(relation regclass) -> void */
Datum
shardfdw_note_copied_table(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	ShardOwnTable notes;
	bool		found;

	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	shard_own_table_open(&notes, COPIED_TABLE, RowExclusiveLock);
	begin_note(&notes, relid);
	found = shard_own_table_next(&notes);
	if (found)
		shard_own_table_update(&notes);
	shard_own_table_end(&notes);
	if (!found)
	{
		shard_own_table_clear(&notes);
		shard_own_table_set(&notes, COPIED_RELATION, ObjectIdGetDatum(relid));
		shard_own_table_insert(&notes);
	}
	CommandCounterIncrement();
	forget_dropped(&notes);
	shard_own_table_close(&notes);
	PG_RETURN_VOID();
}
