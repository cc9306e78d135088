/*
 * copied_table.c
 *	  Refuses tables whose rows are copies that the statement's snapshot does not show.
 *
 * Table shardfdw_internal.copied_table has a row for each table whose rows a conversion has copied.  The conversion
 * writes the row in the transaction that makes the copies visible under the table's name.  So a snapshot shows the
 * copies if and only if it shows the xid of the row.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_inherits.h"
#include "catalog_scan.h"
#include "compat.h"
#include "fmgr.h"
#include "hook/copied_table.h"
#include "miscadmin.h"
#include "own_table.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(shardfdw_note_copied_table);

#define COPIED_TABLE "copied_table"
#define COPIED_RELATION 1		/* its column */

/*
 * The newest xid of all notes.  Invalid: there is none.  Each writer of a note invalidates the relation cache entry of the
 * table.
 */
static Oid notes_relid = InvalidOid;
static TransactionId newest_note = InvalidTransactionId;
static bool is_newest_known = false;

void
shard_copied_table_invalidate(Oid relid)
{
	/* if the OID of the table is unknown, relid may be that table */
	if (relid == InvalidOid || relid == notes_relid || !OidIsValid(notes_relid))
		is_newest_known = false;
}

/* Begins a scan that finds the note of relid. */
static void
begin_note(ShardOwnTable *notes, Oid relid)
{
	shard_own_table_key(notes, COPIED_RELATION, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	shard_own_table_begin(notes, NULL);
}

static TransactionId
note_xid(const ShardOwnTable *notes)
{
	return HeapTupleHeaderGetXmin(notes->tuple->t_data);
}

static void
read_newest(void)
{
	ShardOwnTable notes;

	newest_note = InvalidTransactionId;
	is_newest_known = true;		/* an invalidation during the scan resets it */
	notes_relid = shard_own_relation(COPIED_TABLE, true);
	if (!OidIsValid(notes_relid))
		return;
	shard_own_table_open(&notes, COPIED_TABLE, AccessShareLock);
	shard_own_table_begin(&notes, NULL);
	while (shard_own_table_next(&notes))
	{
		TransactionId xid = note_xid(&notes);

		if (TransactionIdIsNormal(xid) && (!TransactionIdIsNormal(newest_note) || TransactionIdFollows(xid, newest_note)))
			newest_note = xid;
	}
	shard_own_table_end(&notes);
	shard_own_table_close(&notes);
}

/* May there be a note that the snapshot does not show? */
static bool
may_lack_notes(Snapshot snapshot)
{
	AcceptInvalidationMessages();
	if (!is_newest_known)
		read_newest();
	return TransactionIdIsNormal(newest_note) && !TransactionIdPrecedes(newest_note, snapshot->xmin);
}

/* Appends to above the tables of which relid is a partition or an inheritance child. */
static List *
add_parents(List *above, Oid relid)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;
	List	   *parents = NIL;

	shard_catalog_scan_begin_oid(&scan, InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, relid);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
		parents = lappend_oid(parents, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
	shard_catalog_scan_end(&scan);
	foreach_oid(parent, parents)
		above = add_parents(list_append_unique_oid(above, parent), parent);
	return above;
}

/* Does a statement that names the tables relids use rows of relid? */
static bool
uses(const List *relids, Oid relid)
{
	List	   *above = add_parents(list_make1_oid(relid), relid);

	foreach_oid(named, relids)
	{
		if (list_member_oid(above, named) || list_member_oid(add_parents(NIL, named), relid))
			return true;
	}
	return false;
}

static void
check(const List *relids, Snapshot snapshot)
{
	ShardOwnTable notes;
	List	   *newer = NIL;

	/* the leader has checked the statement that a parallel worker runs */
	if (relids == NIL || IsParallelWorker() || !may_lack_notes(snapshot))
		return;
	shard_own_table_open(&notes, COPIED_TABLE, AccessShareLock);
	shard_own_table_begin(&notes, NULL);
	while (shard_own_table_next(&notes))
	{
		if (!TransactionIdIsCurrentTransactionId(note_xid(&notes)) && XidInMVCCSnapshot(note_xid(&notes), snapshot))
			newer = lappend_oid(newer, DatumGetObjectId(notes.values[COPIED_RELATION]));
	}
	shard_own_table_end(&notes);
	shard_own_table_close(&notes);
	foreach_oid(relid, newer)
	{
		if (uses(relids, relid))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not serialize access due to a conversion of table \"%s\"", get_rel_name(relid)),
					 errdetail("Its rows have been copied since the snapshot of this transaction or statement was taken."),
					 errhint("The transaction might succeed if retried.")));
	}
}

/*
 * At READ COMMITTED a statement usually locks its tables before it takes its snapshot.  There are exceptions: queries
 * of functions that are not VOLATILE, and queries that a utility statement runs (EXECUTE, COPY TO, REFRESH MATERIALIZED
 * VIEW and others).
 */
void
shard_copied_table_check(List *permissions)
{
	Snapshot	snapshot = NULL;
	bool		is_fixed = IsolationUsesXactSnapshot();
	List	   *relids = NIL;

	if (is_fixed)
		snapshot = GetTransactionSnapshot();	/* a query of a foreign key has a newer active snapshot */
	else if (ActiveSnapshotSet())
		snapshot = GetActiveSnapshot();
	if (snapshot == NULL)
		return;
	foreach_ptr(const ShardPermissions, permission, permissions)
	{
		/* the planner also adds partitions, which require no permissions */
		if (permission->requiredPerms == 0 || permission->relid < FirstNormalObjectId)
			continue;
		/* at READ COMMITTED, an INSERT does not depend on a snapshot that shows the other rows */
		if (is_fixed || permission->requiredPerms != ACL_INSERT)
			relids = list_append_unique_oid(relids, permission->relid);
	}
	check(relids, snapshot);
}

void
shard_copied_table_check_names(List *names)
{
	List	   *relids = NIL;

	if (!IsolationUsesXactSnapshot() || !FirstSnapshotSet)
		return;
	foreach_node(RangeVar, name, names)
		relids = lappend_oid(relids, RangeVarGetRelid(name, NoLock, true));
	check(relids, GetTransactionSnapshot());
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
	CacheInvalidateRelcache(notes.rel);
	CommandCounterIncrement();
	forget_dropped(&notes);
	shard_own_table_close(&notes);
	PG_RETURN_VOID();
}
