/*
 * node_position.c
 *	  The table shardfdw_internal.node_position: how far in the WAL of nodes with copies of shards lies what has been committed there.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "node_position.h"
#include "own_schema.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Columns. */
enum
{
	POSITION_SERVER = 1,
	POSITION_PROCESS,
	POSITION_SYSTEM,
	POSITION_DATABASE,
	POSITION_TIMELINE,
	POSITION_LSN,
	POSITION_NATTS = POSITION_LSN
};

static Oid
find_relation(const char *name)
{
	Oid			schema = get_namespace_oid(SHARD_INTERNAL_SCHEMA, true);

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

/* Begins a scan of the rows of a server; process: of that one alone, -1: of all. */
static SysScanDesc
begin_scan(Relation rel, const NameData *server, int process, Snapshot snapshot)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], POSITION_SERVER, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(server));
	ScanKeyInit(&keys[1], POSITION_PROCESS, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(process));
	return systable_beginscan(rel, find_relation("node_position_pkey"), true, snapshot, process < 0 ? 1 : 2, keys);
}

bool
shard_node_position_read(const char *server, ShardNodePosition *position)
{
	Oid			relid = find_relation("node_position");
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;
	NameData	name;
	bool		found = false;

	namestrcpy(&name, server);
	memset(position, 0, sizeof(*position));
	if (!OidIsValid(relid))
		return false;
	rel = table_open(relid, AccessShareLock);
	scan = begin_scan(rel, &name, -1, SnapshotSelf);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum		values[POSITION_NATTS];
		bool		nulls[POSITION_NATTS];
		ShardNodePosition row;

		heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
		row.system_identifier = DatumGetInt64(values[POSITION_SYSTEM - 1]);
		row.database = DatumGetObjectId(values[POSITION_DATABASE - 1]);
		row.timeline = (TimeLineID) DatumGetInt32(values[POSITION_TIMELINE - 1]);
		row.lsn = DatumGetLSN(values[POSITION_LSN - 1]);
		if (!found || row.timeline > position->timeline || (row.timeline == position->timeline && row.lsn > position->lsn))
			*position = row;
		found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

void
shard_node_position_write(const char *server, const ShardNodePosition *position)
{
	Relation	rel = table_open(find_relation("node_position"), RowExclusiveLock);
	int			process = (int) (MyProc - ProcGlobal->allProcs);
	SysScanDesc scan;
	HeapTuple	old;
	HeapTuple	tuple;
	Datum		values[POSITION_NATTS];
	bool		nulls[POSITION_NATTS] = {false};
	NameData	name;

	namestrcpy(&name, server);
	values[POSITION_SERVER - 1] = NameGetDatum(&name);
	values[POSITION_PROCESS - 1] = Int32GetDatum(process);
	values[POSITION_SYSTEM - 1] = Int64GetDatum(position->system_identifier);
	values[POSITION_DATABASE - 1] = ObjectIdGetDatum(position->database);
	values[POSITION_TIMELINE - 1] = Int32GetDatum((int32) position->timeline);
	values[POSITION_LSN - 1] = LSNGetDatum(position->lsn);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);

	/* nothing is read with it, but core wants an active snapshot when a row is written */
	PushActiveSnapshot(GetTransactionSnapshot());
	scan = begin_scan(rel, &name, process, SnapshotSelf);
	old = systable_getnext(scan);
	if (HeapTupleIsValid(old))
		CatalogTupleUpdate(rel, &old->t_self, tuple);
	else
		CatalogTupleInsert(rel, tuple);
	systable_endscan(scan);
	PopActiveSnapshot();
	/* a transaction may have written to a node over several connections */
	CommandCounterIncrement();
	/* the lock stays until the end of the transaction, as for any INSERT */
	table_close(rel, NoLock);
}
