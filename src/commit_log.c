/*
 * commit_log.c
 *	  Access to the table shardfdw_internal.commit_log, below the level of SQL: rights,
 *	  row security, read-only transactions and the snapshot of the transaction
 *	  do not apply to it.
 *
 * Rows are read with SnapshotSelf: it sees what has committed by now, and takes no
 * predicate locks, which would make serializable transactions fail because of each
 * other's log rows.  It can miss all versions of a row that is updated during the scan.
 * Where that would matter, any version counts (shard_commit_log_contains()).  Elsewhere
 * the next round sees the row: only shard_commit_log_set_timelines() updates a row that
 * stays unsettled, and it never runs together with shard_commit_log_purge().
 *
 * A transaction that is not in the log has not committed, or its row was deleted.  A row's
 * logged_at is the same time as in the identifiers of its prepared transactions, and
 * forgotten_until (shardfdw_internal.coordinator) is the latest logged_at of all deleted
 * rows, written by the transaction that deletes.  So
 *
 *	 identifier's time > forgotten_until, read after the row was not found
 *		=> no row of it has been deleted => it has not committed
 *
 * whatever clocks do.  A clock that is set back makes identifiers look older than they
 * are; then recovery reports instead of deciding.  Rows with a logged_at in the future are
 * not deleted before that time, since forgotten_until would be in the future, too.
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
#include "guc.h"
#include "identity.h"
#include "own_schema.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/xid8.h"

enum
{
	LOG_XID = 1,
	LOG_TOKEN,
	LOG_NODES,
	LOG_LOGGED_AT,
	LOG_TIMELINES,
	LOG_SYSTEMS,
	LOG_DATABASES,
	LOG_CONFIRMS_XID,
	LOG_CONFIRMS_TOKEN,
	LOG_SETTLED_AT,
	LOG_NOTE,
	LOG_NATTS = LOG_NOTE
};

#define SETTLED_STEP 1000		/* settled_below is written when it moves by this many transactions, to save writes */

/* OID of a table or index in the extension's internal schema; InvalidOid when not there. */
static Oid
find_relation(const char *name)
{
	Oid			nspid = get_namespace_oid(SHARD_INTERNAL_SCHEMA, true);

	return OidIsValid(nspid) ? get_relname_relid(name, nspid) : InvalidOid;
}

static Relation
open_log(LOCKMODE lockmode)
{
	Oid			relid = find_relation("commit_log");

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"shardfdw_internal.commit_log\" does not exist"),
				 errhint("Run CREATE EXTENSION shardfdw in this database, or set shardfdw.commit_protocol to '1pc'.")));
	return table_open(relid, lockmode);
}

/* NULL when there is no log, or somebody has locked it. */
static Relation
try_open_log(LOCKMODE lockmode)
{
	Oid			relid = find_relation("commit_log");

	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, lockmode))
		return NULL;
	return try_table_open(relid, NoLock);
}

/* Scan for the versions of the row of key that snapshot shows, by the primary key. */
static SysScanDesc
begin_lookup(Relation log, ShardLogKey key, Snapshot snapshot)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], LOG_XID, BTEqualStrategyNumber, F_XID8EQ,
				FullTransactionIdGetDatum(key.xid));
	ScanKeyInit(&keys[1], LOG_TOKEN, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(key.token));
	return systable_beginscan(log, find_relation("commit_log_pkey"), true,
							  snapshot, lengthof(keys), keys);
}

void
shard_commit_log_insert(ShardLogKey key, TimestampTz time, const ShardLogNode *nodes, int nnodes,
						ShardLogKey confirms)
{
	Relation	log = open_log(RowExclusiveLock);
	Datum		values[LOG_NATTS];
	bool		nulls[LOG_NATTS] = {false};
	Datum	   *names = palloc(nnodes * sizeof(Datum));
	Datum	   *timelines = palloc(nnodes * sizeof(Datum));
	Datum	   *systems = palloc(nnodes * sizeof(Datum));
	Datum	   *databases = palloc(nnodes * sizeof(Datum));

	for (int i = 0; i < nnodes; i++)
	{
		names[i] = CStringGetTextDatum(nodes[i].name);
		timelines[i] = Int32GetDatum((int32) nodes[i].timeline);
		systems[i] = Int64GetDatum(nodes[i].system_identifier);
		databases[i] = CStringGetTextDatum(nodes[i].database);
	}
	values[LOG_XID - 1] = FullTransactionIdGetDatum(key.xid);
	values[LOG_TOKEN - 1] = Int64GetDatum(key.token);
	values[LOG_NODES - 1] = PointerGetDatum(construct_array(names, nnodes, TEXTOID, -1, false, TYPALIGN_INT));
	values[LOG_LOGGED_AT - 1] = TimestampTzGetDatum(time);
	values[LOG_TIMELINES - 1] = PointerGetDatum(construct_array(timelines, nnodes, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	values[LOG_SYSTEMS - 1] = PointerGetDatum(construct_array(systems, nnodes, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[LOG_DATABASES - 1] = PointerGetDatum(construct_array(databases, nnodes, TEXTOID, -1, false, TYPALIGN_INT));
	values[LOG_CONFIRMS_XID - 1] = FullTransactionIdGetDatum(confirms.xid);
	values[LOG_CONFIRMS_TOKEN - 1] = Int64GetDatum(confirms.token);
	nulls[LOG_CONFIRMS_XID - 1] = nulls[LOG_CONFIRMS_TOKEN - 1] = !FullTransactionIdIsValid(confirms.xid);
	nulls[LOG_SETTLED_AT - 1] = nulls[LOG_NOTE - 1] = true;
	CatalogTupleInsert(log, heap_form_tuple(RelationGetDescr(log), values, nulls));

	/* the lock stays until the end of the transaction, as for any INSERT */
	table_close(log, NoLock);
}

bool
shard_commit_log_contains(ShardLogKey key)
{
	Relation	log = open_log(AccessShareLock);

	/* any version of the row proves the commit, also an old one */
	SysScanDesc scan = begin_lookup(log, key, SnapshotAny);
	HeapTuple	tuple;
	bool		found = false;

	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = shard_identity_is_committed(tuple);
	systable_endscan(scan);
	table_close(log, AccessShareLock);
	return found;
}

/* Locks the row of tuple, unless another transaction has it locked. */
static bool
lock_row(Relation log, HeapTuple tuple)
{
	TupleTableSlot *slot = table_slot_create(log, NULL);
	TM_FailureData failure;
	TM_Result	result = table_tuple_lock(log, &tuple->t_self, SnapshotSelf, slot, GetCurrentCommandId(true),
										  LockTupleNoKeyExclusive, LockWaitSkip, 0, &failure);

	ExecDropSingleTupleTableSlot(slot);
	return result == TM_Ok;
}

/* Replaces columns of the row of key. */
static bool
update_row(ShardLogKey key, Datum *values, const bool *replaces)
{
	Relation	log = try_open_log(RowExclusiveLock);
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		updated = false;

	if (!log)
		return false;
	scan = begin_lookup(log, key, SnapshotSelf);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && lock_row(log, tuple))
	{
		bool		nulls[LOG_NATTS] = {false};

		CatalogTupleUpdate(log, &tuple->t_self,
						   heap_modify_tuple(tuple, RelationGetDescr(log), values, nulls, (bool *) replaces));
		updated = true;
	}
	systable_endscan(scan);
	table_close(log, NoLock);
	if (updated)
		CommandCounterIncrement();
	return updated;
}

bool
shard_commit_log_settle(ShardLogKey key, const char *note)
{
	Datum		values[LOG_NATTS] = {0};
	bool		replaces[LOG_NATTS] = {false};

	values[LOG_SETTLED_AT - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	replaces[LOG_SETTLED_AT - 1] = true;
	if (note)
	{
		values[LOG_NOTE - 1] = CStringGetTextDatum(note);
		replaces[LOG_NOTE - 1] = true;
	}
	return update_row(key, values, replaces);
}

bool
shard_commit_log_set_timelines(ShardLogKey key, List *nodes)
{
	Datum		values[LOG_NATTS] = {0};
	bool		replaces[LOG_NATTS] = {false};
	Datum	   *timelines = palloc(list_length(nodes) * sizeof(Datum));
	ListCell   *lc;

	if (!shard_identity_lock(false))
		return false;
	foreach(lc, nodes)
		timelines[foreach_current_index(lc)] = Int32GetDatum((int32) ((const ShardLogNode *) lfirst(lc))->timeline);
	values[LOG_TIMELINES - 1] = PointerGetDatum(construct_array(timelines, list_length(nodes), INT4OID, sizeof(int32), true, TYPALIGN_INT));
	replaces[LOG_TIMELINES - 1] = true;
	return update_row(key, values, replaces);
}

/* ---------- reading ---------- */

/* Elements of an array column, n of them; missing ones are null. */
static void
take_array(bool isnull, Datum array, Oid type, int n, Datum **elems, bool **nulls)
{
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *found = NULL;
	bool	   *found_nulls = NULL;
	int			nfound = 0;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	if (!isnull)
		deconstruct_array(DatumGetArrayTypeP(array), type, typlen, typbyval, typalign, &found, &found_nulls, &nfound);
	*elems = palloc0(Max(n, 1) * sizeof(Datum));
	*nulls = palloc(Max(n, 1) * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		(*nulls)[i] = i >= nfound || found_nulls[i];
		if (!(*nulls)[i])
			(*elems)[i] = found[i];
	}
}

static List *
take_nodes(const Datum *values, const bool *nulls)
{
	int			n = ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(values[LOG_NODES - 1])),
								   ARR_DIMS(DatumGetArrayTypeP(values[LOG_NODES - 1])));
	List	   *nodes = NIL;
	Datum	   *names,
			   *timelines,
			   *systems,
			   *databases;
	bool	   *name_nulls,
			   *timeline_nulls,
			   *system_nulls,
			   *database_nulls;

	take_array(false, values[LOG_NODES - 1], TEXTOID, n, &names, &name_nulls);
	take_array(nulls[LOG_TIMELINES - 1], values[LOG_TIMELINES - 1], INT4OID, n, &timelines, &timeline_nulls);
	take_array(nulls[LOG_SYSTEMS - 1], values[LOG_SYSTEMS - 1], INT8OID, n, &systems, &system_nulls);
	take_array(nulls[LOG_DATABASES - 1], values[LOG_DATABASES - 1], TEXTOID, n, &databases, &database_nulls);
	for (int i = 0; i < n; i++)
	{
		ShardLogNode *node;

		if (name_nulls[i])
			continue;
		node = palloc(sizeof(ShardLogNode));
		node->name = TextDatumGetCString(names[i]);
		node->timeline = timeline_nulls[i] ? 0 : (TimeLineID) DatumGetInt32(timelines[i]);
		node->system_identifier = system_nulls[i] ? 0 : DatumGetInt64(systems[i]);
		node->database = database_nulls[i] ? "" : TextDatumGetCString(databases[i]);
		nodes = lappend(nodes, node);
	}
	return nodes;
}

static ShardLogKey
key_of(const Datum *values)
{
	ShardLogKey key = {DatumGetFullTransactionId(values[LOG_XID - 1]), DatumGetInt64(values[LOG_TOKEN - 1])};

	return key;
}

static bool
is_same(ShardLogKey a, ShardLogKey b)
{
	return a.token == b.token && FullTransactionIdEquals(a.xid, b.xid);
}

/* Scan of the rows from xid on, in order; index is opened for it. */
static SysScanDesc
begin_ordered(Relation log, Relation *index, FullTransactionId from)
{
	ScanKeyData key;

	ScanKeyInit(&key, LOG_XID, BTGreaterEqualStrategyNumber, F_XID8GE, FullTransactionIdGetDatum(from));
	*index = index_open(find_relation("commit_log_pkey"), AccessShareLock);
	return systable_beginscan_ordered(log, *index, SnapshotSelf, 1, &key);
}

/*
 * Reads the rows that are not settled.  A row that confirms an earlier one removes that
 * from the list, so the list stays short: the last transactions of sessions.
 */
static List *
read_unsettled(Relation log, FullTransactionId from)
{
	Relation	index;
	SysScanDesc scan = begin_ordered(log, &index, from);
	List	   *entries = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		Datum		values[LOG_NATTS];
		bool		nulls[LOG_NATTS];

		heap_deform_tuple(tuple, RelationGetDescr(log), values, nulls);
		if (!nulls[LOG_CONFIRMS_XID - 1] && !nulls[LOG_CONFIRMS_TOKEN - 1])
		{
			ShardLogKey confirmed = {DatumGetFullTransactionId(values[LOG_CONFIRMS_XID - 1]),
			DatumGetInt64(values[LOG_CONFIRMS_TOKEN - 1])};
			ListCell   *lc;

			foreach(lc, entries)
			{
				ShardLogEntry *entry = lfirst(lc);

				if (!is_same(entry->key, confirmed))
					continue;
				entries = foreach_delete_current(entries, lc);
				pfree(entry);
				break;
			}
		}
		if (nulls[LOG_SETTLED_AT - 1])
		{
			ShardLogEntry *entry = palloc(sizeof(ShardLogEntry));

			entry->key = key_of(values);
			entry->nodes = NIL;
			entries = lappend(entries, entry);
		}
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	return entries;
}

List *
shard_commit_log_read_unsettled(void)
{
	Relation	log = open_log(AccessShareLock);
	List	   *entries = read_unsettled(log, shard_identity_read_reach().settled_below);
	ListCell   *lc;

	foreach(lc, entries)
	{
		ShardLogEntry *entry = lfirst(lc);
		SysScanDesc scan = begin_lookup(log, entry->key, SnapshotSelf);
		HeapTuple	tuple = systable_getnext(scan);

		if (HeapTupleIsValid(tuple))
		{
			Datum		values[LOG_NATTS];
			bool		nulls[LOG_NATTS];

			heap_deform_tuple(tuple, RelationGetDescr(log), values, nulls);
			entry->nodes = take_nodes(values, nulls);
		}
		else
			entries = foreach_delete_current(entries, lc);	/* purged a moment ago */
		systable_endscan(scan);
	}
	table_close(log, AccessShareLock);
	return entries;
}

/* ---------- purging ---------- */

/* All transactions before the result have ended, so they cannot add rows any more. */
static FullTransactionId
oldest_running(void)
{
	/* in this order: next is not before xmin then */
	TransactionId xmin = GetLatestSnapshot()->xmin;
	FullTransactionId next = ReadNextFullTransactionId();

	return FullTransactionIdFromU64(U64FromFullTransactionId(next) - (uint32) (XidFromFullTransactionId(next) - xmin));
}

static int64
count_rows(Relation log)
{
	Relation	index;
	SysScanDesc scan = begin_ordered(log, &index, InvalidFullTransactionId);
	int64		n = 0;

	while (HeapTupleIsValid(systable_getnext_ordered(scan, ForwardScanDirection)))
		n++;
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	return n;
}

/*
 * Deletes rows of transactions before xid, from the oldest on, until it meets one that may
 * stay; rows in unsettled, which is in the same order, are kept.  So a row that confirms
 * another one is deleted after that one.
 */
static void
delete_rows(Relation log, FullTransactionId before, List *unsettled, ShardLogReach *reach)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz keep_from = TimestampTzPlusMilliseconds(now, -INT64CONST(1000) * shard_guc_commit_log_max_age_s);
	int64		surplus = count_rows(log) - shard_guc_commit_log_max_rows;
	Relation	index;
	SysScanDesc scan = begin_ordered(log, &index, InvalidFullTransactionId);
	ListCell   *stays = list_head(unsettled);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		Datum		values[LOG_NATTS];
		bool		nulls[LOG_NATTS];
		TimestampTz logged_at;
		TM_FailureData failure;

		heap_deform_tuple(tuple, RelationGetDescr(log), values, nulls);
		logged_at = DatumGetTimestampTz(values[LOG_LOGGED_AT - 1]);
		if (!FullTransactionIdPrecedes(key_of(values).xid, before) || logged_at > now ||
			(surplus <= 0 && logged_at >= keep_from))
			break;
		if (stays && is_same(((ShardLogEntry *) lfirst(stays))->key, key_of(values)))
		{
			stays = lnext(unsettled, stays);
			continue;
		}
		/* somebody changes it by hand */
		if (shard_table_tuple_delete(log, &tuple->t_self, GetCurrentCommandId(true), SnapshotSelf, InvalidSnapshot,
									 false, &failure) != TM_Ok)
			break;
		reach->forgotten_until = Max(reach->forgotten_until, logged_at);
		surplus--;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
}

void
shard_commit_log_purge(void)
{
	Relation	log = try_open_log(RowExclusiveLock);
	FullTransactionId before;
	ShardLogReach reach;
	ShardLogReach old;
	List	   *unsettled;

	if (!log)
		return;
	shard_identity_store();
	if (!shard_identity_is_stored() || !shard_identity_is_confirmed() || !shard_identity_lock(false))
	{
		table_close(log, NoLock);
		return;
	}

	/* read before the rows: a transaction that ends later is not before it */
	before = oldest_running();
	old = reach = shard_identity_read_reach();
	unsettled = read_unsettled(log, reach.settled_below);
	delete_rows(log, before, unsettled, &reach);
	if (unsettled != NIL && FullTransactionIdPrecedes(((ShardLogEntry *) linitial(unsettled))->key.xid, before))
		before = ((ShardLogEntry *) linitial(unsettled))->key.xid;
	if (FullTransactionIdPrecedes(reach.settled_below, before))
		reach.settled_below = before;
	/* looking at a few more rows next time is cheaper than a write in each round */
	if (reach.forgotten_until != old.forgotten_until ||
		U64FromFullTransactionId(reach.settled_below) - U64FromFullTransactionId(old.settled_below) >= SETTLED_STEP)
		shard_identity_write_reach(&reach);
	list_free_deep(unsettled);
	table_close(log, NoLock);
}
