/*
 * own_table.c
 *	  Reads and writes the extension's own tables without SQL.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "own_schema.h"
#include "own_table.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

Oid
shard_own_relation(const char *name, bool missing_ok)
{
	Oid			schema = get_namespace_oid(SHARD_INTERNAL_SCHEMA, true);
	Oid			relid = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;

	if (!OidIsValid(relid) && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"shardfdw_internal.%s\" does not exist", name),
				 errhint("Run CREATE EXTENSION shardfdw in this database, or ALTER EXTENSION shardfdw UPDATE.")));
	return relid;
}

static void
init(ShardOwnTable *table, const char *name, Relation rel, LOCKMODE lockmode)
{
	if (RelationGetNumberOfAttributes(rel) > SHARD_OWN_MAX_COLUMNS)
		elog(ERROR, "table \"%s\" has too many columns", name);
	table->name = name;
	table->rel = rel;
	table->lockmode = lockmode;
	table->nkeys = 0;
	table->tuple = NULL;
	shard_own_table_clear(table);
}

void
shard_own_table_open(ShardOwnTable *table, const char *name, LOCKMODE lockmode)
{
	init(table, name, table_open(shard_own_relation(name, false), lockmode), lockmode);
}

bool
shard_own_table_try_open(ShardOwnTable *table, const char *name, LOCKMODE lockmode)
{
	Oid			relid = shard_own_relation(name, true);
	Relation	rel;

	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, lockmode))
		return false;
	rel = try_table_open(relid, NoLock);
	if (rel)
		init(table, name, rel, lockmode);
	return rel != NULL;
}

void
shard_own_table_close(ShardOwnTable *table)
{
	table_close(table->rel, table->lockmode >= RowExclusiveLock ? NoLock : table->lockmode);
}

/* ---------- reading ---------- */

void
shard_own_table_key(ShardOwnTable *table, AttrNumber column, StrategyNumber strategy, RegProcedure compare, Datum value)
{
	Assert(table->nkeys < SHARD_OWN_MAX_KEYS);
	ScanKeyInit(&table->keys[table->nkeys++], column, strategy, compare, value);
}

static Oid
primary_key(const ShardOwnTable *table)
{
	char		name[NAMEDATALEN];

	snprintf(name, sizeof(name), "%s_pkey", table->name);
	return shard_own_relation(name, false);
}

void
shard_own_table_begin(ShardOwnTable *table, Snapshot snapshot)
{
	table->snapshot = snapshot;
	table->index = NULL;
	table->scan = systable_beginscan(table->rel, table->nkeys > 0 ? primary_key(table) : InvalidOid, table->nkeys > 0,
									 snapshot, table->nkeys, table->keys);
	table->nkeys = 0;
}

void
shard_own_table_begin_ordered(ShardOwnTable *table, Snapshot snapshot)
{
	table->snapshot = snapshot;
	table->index = index_open(primary_key(table), AccessShareLock);
	table->scan = systable_beginscan_ordered(table->rel, table->index, snapshot, table->nkeys, table->keys);
	table->nkeys = 0;
}

/* Has the transaction that wrote this version of a row committed, or is it the current one? */
static bool
is_committed(HeapTuple tuple)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);

	return TransactionIdIsCurrentTransactionId(xmin) ||
		(!TransactionIdIsInProgress(xmin) && TransactionIdDidCommit(xmin));
}

bool
shard_own_table_next(ShardOwnTable *table)
{
	do
		table->tuple = table->index ? systable_getnext_ordered(table->scan, ForwardScanDirection) : systable_getnext(table->scan);
	while (HeapTupleIsValid(table->tuple) && table->snapshot == SnapshotAny && !is_committed(table->tuple));
	if (!HeapTupleIsValid(table->tuple))
		return false;
	memset(table->is_set, false, sizeof(table->is_set));
	heap_deform_tuple(table->tuple, RelationGetDescr(table->rel), table->values + 1, table->nulls + 1);
	return true;
}

void
shard_own_table_end(ShardOwnTable *table)
{
	if (table->index)
	{
		systable_endscan_ordered(table->scan);
		index_close(table->index, AccessShareLock);
	}
	else
		systable_endscan(table->scan);
	table->tuple = NULL;
}

char *
shard_own_table_text(const ShardOwnTable *table, AttrNumber column)
{
	return table->nulls[column] ? NULL : TextDatumGetCString(table->values[column]);
}

char *
shard_own_table_name(const ShardOwnTable *table, AttrNumber column)
{
	return table->nulls[column] ? NULL : pstrdup(NameStr(*DatumGetName(table->values[column])));
}

/* ---------- writing ---------- */

void
shard_own_table_clear(ShardOwnTable *table)
{
	memset(table->values, 0, sizeof(table->values));
	memset(table->nulls, true, sizeof(table->nulls));
	memset(table->is_set, false, sizeof(table->is_set));
}

void
shard_own_table_insert(ShardOwnTable *table)
{
	CatalogTupleInsert(table->rel, heap_form_tuple(RelationGetDescr(table->rel), table->values + 1, table->nulls + 1));
}

bool
shard_own_table_lock(ShardOwnTable *table)
{
	TupleTableSlot *slot = table_slot_create(table->rel, NULL);
	TM_FailureData failure;
	TM_Result	result = table_tuple_lock(table->rel, &table->tuple->t_self, SnapshotSelf, slot, GetCurrentCommandId(true),
										  LockTupleNoKeyExclusive, LockWaitSkip, 0, &failure);

	ExecDropSingleTupleTableSlot(slot);
	return result == TM_Ok;
}

void
shard_own_table_update(ShardOwnTable *table)
{
	CatalogTupleUpdate(table->rel, &table->tuple->t_self,
					   heap_modify_tuple(table->tuple, RelationGetDescr(table->rel), table->values + 1, table->nulls + 1, table->is_set + 1));
}

void
shard_own_table_delete(ShardOwnTable *table)
{
	CatalogTupleDelete(table->rel, &table->tuple->t_self);
}
