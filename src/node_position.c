/*
 * node_position.c
 *	  The table shardfdw_internal.node_position: WAL positions of nodes that contain all commits to
 *	  shards with replicas, and to reference tables.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "node_position.h"
#include "compat.h"
#include "own_lock.h"
#include "own_schema.h"
#include "own_sql.h"
#include "own_table.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"

#define POSITION_TABLE "node_position"

/* Columns. */
enum
{
	POSITION_SERVER = 1,
	POSITION_PROCESS,
	POSITION_OF_REPLICAS,
	POSITION_SYSTEM,
	POSITION_DATABASE,
	POSITION_TIMELINE,
	POSITION_LSN
};

/* When the last transaction that has changed reference tables began. */
static TimestampTz references_by = 0;

/* The same for a transaction that has dropped a reference table, or was about to. */
static TimestampTz dropped_by = 0;

typedef struct Refusal
{
	NameData	server;
	ShardPositionKind kind;
	ShardNodePosition needed;
} Refusal;

static List *refusals = NIL;

void
shard_node_position_note_references(void)
{
	references_by = GetCurrentTransactionStartTimestamp();
}

bool
shard_node_position_has_references(void)
{
	return references_by == GetCurrentTransactionStartTimestamp();
}

void
shard_node_position_note_dropped(void)
{
	shard_node_position_note_references();
	dropped_by = GetCurrentTransactionStartTimestamp();
}

static ShardPositionKind
kind_of(const ShardOwnTable *table)
{
	return DatumGetBool(table->values[POSITION_OF_REPLICAS]) ? SHARD_POSITION_REPLICAS : SHARD_POSITION_REFERENCES;
}

static void
set_server(ShardOwnTable *table, Name server)
{
	shard_own_table_key(table, POSITION_SERVER, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(server));
}

/* Begins a scan of a server's rows. */
static void
begin_server(ShardOwnTable *table, Name server, Snapshot snapshot)
{
	set_server(table, server);
	shard_own_table_begin(table, snapshot);
}

/*
 * Returns the current transaction or subtransaction that has deleted a row of a server;
 * InvalidTransactionId: none has.
 */
static TransactionId
deleted_by(ShardOwnTable *table, Name server)
{
	TransactionId found = InvalidTransactionId;

	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return found;
	begin_server(table, server, SnapshotAny);
	while (!TransactionIdIsValid(found) && shard_own_table_next(table))
	{
		HeapTupleHeader row = table->tuple->t_data;

		if ((row->t_infomask & HEAP_XMAX_INVALID) == 0 && !HEAP_XMAX_IS_LOCKED_ONLY(row->t_infomask) &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(row)))
			found = HeapTupleHeaderGetUpdateXid(row);
	}
	shard_own_table_end(table);
	return found;
}

TransactionId
shard_node_position_read(const char *server, ShardNodePosition positions[SHARD_POSITION_KINDS])
{
	ShardOwnTable table;
	NameData	name;
	TransactionId deleter;

	namestrcpy(&name, server);
	memset(positions, 0, sizeof(ShardNodePosition) * SHARD_POSITION_KINDS);
	if (!OidIsValid(shard_own_relation(POSITION_TABLE, true)))
		return InvalidTransactionId;
	shard_own_table_open(&table, POSITION_TABLE, AccessShareLock);
	deleter = deleted_by(&table, &name);
	begin_server(&table, &name, SnapshotSelf);
	while (shard_own_table_next(&table))
	{
		ShardNodePosition *position = &positions[kind_of(&table)];
		ShardNodePosition row = {
			.system_identifier = DatumGetInt64(table.values[POSITION_SYSTEM]),
			.database = DatumGetObjectId(table.values[POSITION_DATABASE]),
			.timeline = (TimeLineID) DatumGetInt32(table.values[POSITION_TIMELINE]),
			.lsn = DatumGetLSN(table.values[POSITION_LSN])
		};

		if (row.timeline > position->timeline || (row.timeline == position->timeline && row.lsn > position->lsn))
			*position = row;
	}
	shard_own_table_end(&table);
	shard_own_table_close(&table);
	return deleter;
}

/* False if another transaction is deleting the row. */
static bool
write_row(ShardOwnTable *table, Name server, int process, ShardPositionKind kind, const ShardNodePosition *position)
{
	bool		exists;
	bool		is_free;

	set_server(table, server);
	shard_own_table_key(table, POSITION_PROCESS, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(process));
	shard_own_table_begin(table, SnapshotSelf);
	while ((exists = shard_own_table_next(table)) && kind_of(table) != kind)
		;
	is_free = !exists || shard_own_table_lock(table);
	shard_own_table_set(table, POSITION_SERVER, NameGetDatum(server));
	shard_own_table_set(table, POSITION_PROCESS, Int32GetDatum(process));
	shard_own_table_set(table, POSITION_OF_REPLICAS, BoolGetDatum(kind == SHARD_POSITION_REPLICAS));
	shard_own_table_set(table, POSITION_SYSTEM, Int64GetDatum(position->system_identifier));
	shard_own_table_set(table, POSITION_DATABASE, ObjectIdGetDatum(position->database));
	shard_own_table_set(table, POSITION_TIMELINE, Int32GetDatum((int32) position->timeline));
	shard_own_table_set(table, POSITION_LSN, LSNGetDatum(position->lsn));
	if (exists && is_free)
		shard_own_table_update(table);
	else if (is_free)
		shard_own_table_insert(table);
	shard_own_table_end(table);
	return is_free;
}

void
shard_node_position_write(const char *server, ShardPositionKind kind, const ShardNodePosition *position)
{
	ShardOwnTable table;
	int			process = (int) (MyProc - ProcGlobal->allProcs);
	NameData	name;

	namestrcpy(&name, server);
	/* nothing is read with it, but core requires an active snapshot when a row is written */
	PushActiveSnapshot(GetTransactionSnapshot());
	shard_own_table_open(&table, POSITION_TABLE, RowExclusiveLock);
	/* the transaction that deletes the row may wait for this one, so another process number is used */
	while (!write_row(&table, &name, process, kind, position))
		process += ProcGlobal->allProcCount;
	shard_own_table_close(&table);
	PopActiveSnapshot();
	/* a transaction may have written to a node on several connections */
	CommandCounterIncrement();
}

/*
 * Another transaction may create a reference table at the same time, and commit its positions.  So
 * one snapshot is used for the list of tables and for the rows: rows that are newer than the list
 * are not deleted.
 */
bool
shard_node_position_forget_references(void)
{
	Snapshot	snapshot;
	ShardOwnSql own;
	ShardOwnTable table;
	bool		are_gone;
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_REFERENCE_DROP, 0, 0);

	if (dropped_by != GetCurrentTransactionStartTimestamp())
		return false;
	/* of two sessions that drop the last two tables, the second one must see that the first one has committed */
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	shard_own_sql_begin(&own, SHARD_OWN_SQL_SUPERUSER, snapshot);
	are_gone = shard_own_sql_select("SELECT FROM " SHARD_INTERNAL_SCHEMA ".reference_tables()", 0, NULL) == 0;
	shard_own_sql_end(&own);
	if (are_gone)
	{
		PushActiveSnapshot(snapshot);
		shard_own_table_open(&table, POSITION_TABLE, RowExclusiveLock);
		shard_own_table_begin(&table, snapshot);
		while (shard_own_table_next(&table))
		{
			if (kind_of(&table) == SHARD_POSITION_REFERENCES && shard_own_table_lock(&table))
				shard_own_table_delete(&table);
		}
		shard_own_table_end(&table);
		shard_own_table_close(&table);
		PopActiveSnapshot();
		CommandCounterIncrement();
	}
	UnregisterSnapshot(snapshot);
	return are_gone;
}

void
shard_node_position_note_refusal(const char *server, ShardPositionKind kind, const ShardNodePosition *needed)
{
	MemoryContext oldcxt;
	Refusal    *found = NULL;

	foreach_ptr(Refusal, refusal, refusals)
	{
		if (refusal->kind == kind && namestrcmp(&refusal->server, server) == 0)
			found = refusal;
	}
	oldcxt = MemoryContextSwitchTo(TopMemoryContext);
	if (found == NULL)
	{
		found = palloc(sizeof(Refusal));
		refusals = lappend(refusals, found);
	}
	MemoryContextSwitchTo(oldcxt);
	namestrcpy(&found->server, server);
	found->kind = kind;
	found->needed = *needed;
}

void
shard_node_position_drop_refusals(void)
{
	list_free_deep(refusals);
	refusals = NIL;
}

/* Raises the position to one that no server reaches, unless it has changed in the meantime, or is about to. */
static void
keep_refusal(Refusal *refusal)
{
	ShardOwnTable table;

	shard_own_table_open(&table, POSITION_TABLE, RowExclusiveLock);
	begin_server(&table, &refusal->server, SnapshotSelf);
	while (shard_own_table_next(&table))
	{
		if (kind_of(&table) != refusal->kind || DatumGetLSN(table.values[POSITION_LSN]) != refusal->needed.lsn ||
			DatumGetInt32(table.values[POSITION_TIMELINE]) != (int32) refusal->needed.timeline || !shard_own_table_lock(&table))
			continue;
		shard_own_table_set(&table, POSITION_LSN, LSNGetDatum(SHARD_POSITION_NOT_REACHED));
		shard_own_table_update(&table);
		break;
	}
	shard_own_table_end(&table);
	shard_own_table_close(&table);
	CommandCounterIncrement();
}

void
shard_node_position_keep_refusals(void)
{
	foreach_ptr(Refusal, refusal, refusals)
		keep_refusal(refusal);
	shard_node_position_drop_refusals();
}
