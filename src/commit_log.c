/*
 * commit_log.c
 *	  Access to the table shardfdw.commit_log, below the level of SQL: rights,
 *	  row security, read-only transactions and the snapshot of the transaction
 *	  do not apply to it.
 *
 * Rows are looked at with SnapshotSelf: what has committed by now counts, and
 * no predicate locks are taken that would make serializable transactions fail
 * because of each other's log rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commit_log.h"
#include "compat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

enum
{
	LOG_XID = 1,
	LOG_TOKEN,
	LOG_NODES,
	LOG_LOGGED_AT,
	LOG_TIMELINES,
	LOG_NATTS = LOG_TIMELINES
};

/* OID of a table or index in the extension's schema; InvalidOid when not there. */
static Oid
find_relation(const char *name)
{
	Oid			nspid = get_namespace_oid("shardfdw", true);

	return OidIsValid(nspid) ? get_relname_relid(name, nspid) : InvalidOid;
}

/* NULL when there is no log and missing_ok. */
static Relation
open_log(LOCKMODE lockmode, bool missing_ok)
{
	Oid			relid = find_relation("commit_log");

	if (!OidIsValid(relid) && missing_ok)
		return NULL;
	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"shardfdw.commit_log\" does not exist"),
				 errhint("Run CREATE EXTENSION shardfdw in this database, or set shardfdw.commit_protocol to '1pc'.")));
	return table_open(relid, lockmode);
}

/* Scan for the row of xid and token, by the primary key. */
static SysScanDesc
begin_lookup(Relation log, FullTransactionId xid, int64 token)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], LOG_XID, BTEqualStrategyNumber, F_XID8EQ,
				FullTransactionIdGetDatum(xid));
	ScanKeyInit(&keys[1], LOG_TOKEN, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(token));
	return systable_beginscan(log, find_relation("commit_log_pkey"), true,
							  SnapshotSelf, lengthof(keys), keys);
}

void
shard_commit_log_insert(FullTransactionId xid, int64 token,
						const char *const *nodes, const TimeLineID *timelines, int nnodes)
{
	Relation	log = open_log(RowExclusiveLock, false);
	Datum		values[LOG_NATTS];
	bool		nulls[LOG_NATTS] = {false};
	Datum	   *names = palloc(nnodes * sizeof(Datum));
	Datum	   *numbers = palloc(nnodes * sizeof(Datum));

	for (int i = 0; i < nnodes; i++)
	{
		names[i] = CStringGetTextDatum(nodes[i]);
		numbers[i] = Int32GetDatum((int32) timelines[i]);
	}
	values[LOG_XID - 1] = FullTransactionIdGetDatum(xid);
	values[LOG_TOKEN - 1] = Int64GetDatum(token);
	values[LOG_NODES - 1] = PointerGetDatum(construct_array(names, nnodes, TEXTOID, -1, false, TYPALIGN_INT));
	values[LOG_LOGGED_AT - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[LOG_TIMELINES - 1] = PointerGetDatum(construct_array(numbers, nnodes, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	CatalogTupleInsert(log, heap_form_tuple(RelationGetDescr(log), values, nulls));

	/* the lock stays until the end of the transaction, as for any INSERT */
	table_close(log, NoLock);
}

bool
shard_commit_log_contains(FullTransactionId xid, int64 token)
{
	Relation	log = open_log(AccessShareLock, false);
	SysScanDesc scan = begin_lookup(log, xid, token);
	bool		found = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	table_close(log, AccessShareLock);
	return found;
}

bool
shard_commit_log_delete(FullTransactionId xid, int64 token)
{
	Relation	log = open_log(RowExclusiveLock, true);
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		deleted = false;

	if (!log)
		return false;
	scan = begin_lookup(log, xid, token);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		TM_FailureData failure;

		/* without waiting: recover() may delete the same row right now */
		deleted = shard_table_tuple_delete(log, &tuple->t_self, GetCurrentCommandId(true),
										   SnapshotSelf, InvalidSnapshot, false,
										   &failure) == TM_Ok;
	}
	systable_endscan(scan);
	table_close(log, NoLock);
	return deleted;
}

/* Elements of a text array as C strings. */
static List *
names_of_array(ArrayType *array)
{
	List	   *names = NIL;
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			names = lappend(names, TextDatumGetCString(elems[i]));
	return names;
}

/* The numbers of the array that belongs to nnodes names; 0 for what is missing. */
static List *
timelines_of_array(ArrayType *array, int nnodes)
{
	List	   *timelines = NIL;
	Datum	   *elems = NULL;
	bool	   *nulls = NULL;
	int			n = 0;

	if (array)
		deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &elems, &nulls, &n);
	for (int i = 0; i < nnodes; i++)
		timelines = lappend_int(timelines, i < n && !nulls[i] ? DatumGetInt32(elems[i]) : 0);
	return timelines;
}

List *
shard_commit_log_read(void)
{
	Relation	log = open_log(AccessShareLock, false);
	SysScanDesc scan = systable_beginscan(log, InvalidOid, false, SnapshotSelf, 0, NULL);
	List	   *entries = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		ShardLogEntry *entry = palloc(sizeof(ShardLogEntry));
		Datum		values[LOG_NATTS];
		bool		nulls[LOG_NATTS];

		heap_deform_tuple(tuple, RelationGetDescr(log), values, nulls);
		entry->xid = DatumGetFullTransactionId(values[LOG_XID - 1]);
		entry->token = DatumGetInt64(values[LOG_TOKEN - 1]);
		entry->nodes = names_of_array(DatumGetArrayTypeP(values[LOG_NODES - 1]));
		entry->timelines = timelines_of_array(nulls[LOG_TIMELINES - 1] ? NULL : DatumGetArrayTypeP(values[LOG_TIMELINES - 1]),
											  list_length(entry->nodes));
		entries = lappend(entries, entry);
	}
	systable_endscan(scan);
	table_close(log, AccessShareLock);
	return entries;
}
