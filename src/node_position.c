/*
 * node_position.c
 *	  The table shardfdw_internal.node_position: how far in the WAL of nodes lies what has been committed there of shards with copies,
 *	  and of reference tables.
 */
#include "postgres.h"

#include "access/xact.h"
#include "node_position.h"
#include "own_table.h"
#include "storage/proc.h"
#include "utils/pg_lsn.h"

#define POSITION_TABLE "node_position"

/* Columns. */
enum
{
	POSITION_SERVER = 1,
	POSITION_PROCESS,
	POSITION_OF_COPIES,
	POSITION_SYSTEM,
	POSITION_DATABASE,
	POSITION_TIMELINE,
	POSITION_LSN
};

/* When the transaction began that was the last one to change reference tables. */
static TimestampTz references_by = 0;

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

static ShardPositionKind
kind_of(const ShardOwnTable *table)
{
	return DatumGetBool(table->values[POSITION_OF_COPIES]) ? SHARD_POSITION_COPIES : SHARD_POSITION_REFERENCES;
}

void
shard_node_position_read(const char *server, ShardNodePosition positions[SHARD_POSITION_KINDS])
{
	ShardOwnTable table;
	NameData	name;

	namestrcpy(&name, server);
	memset(positions, 0, sizeof(ShardNodePosition) * SHARD_POSITION_KINDS);
	if (!OidIsValid(shard_own_relation(POSITION_TABLE, true)))
		return;
	shard_own_table_open(&table, POSITION_TABLE, AccessShareLock);
	shard_own_table_key(&table, POSITION_SERVER, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&name));
	shard_own_table_begin(&table, SnapshotSelf);
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
}

void
shard_node_position_write(const char *server, ShardPositionKind kind, const ShardNodePosition *position)
{
	ShardOwnTable table;
	Datum		process = Int32GetDatum((int) (MyProc - ProcGlobal->allProcs));
	NameData	name;
	bool		exists;

	namestrcpy(&name, server);
	/* nothing is read with it, but core wants an active snapshot when a row is written */
	PushActiveSnapshot(GetTransactionSnapshot());
	shard_own_table_open(&table, POSITION_TABLE, RowExclusiveLock);
	shard_own_table_key(&table, POSITION_SERVER, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(&name));
	shard_own_table_key(&table, POSITION_PROCESS, BTEqualStrategyNumber, F_INT4EQ, process);
	shard_own_table_begin(&table, SnapshotSelf);
	while ((exists = shard_own_table_next(&table)) && kind_of(&table) != kind)
		;
	shard_own_table_set(&table, POSITION_SERVER, NameGetDatum(&name));
	shard_own_table_set(&table, POSITION_PROCESS, process);
	shard_own_table_set(&table, POSITION_OF_COPIES, BoolGetDatum(kind == SHARD_POSITION_COPIES));
	shard_own_table_set(&table, POSITION_SYSTEM, Int64GetDatum(position->system_identifier));
	shard_own_table_set(&table, POSITION_DATABASE, ObjectIdGetDatum(position->database));
	shard_own_table_set(&table, POSITION_TIMELINE, Int32GetDatum((int32) position->timeline));
	shard_own_table_set(&table, POSITION_LSN, LSNGetDatum(position->lsn));
	if (exists)
		shard_own_table_update(&table);
	else
		shard_own_table_insert(&table);
	shard_own_table_end(&table);
	shard_own_table_close(&table);
	PopActiveSnapshot();
	/* a transaction may have written to a node over several connections */
	CommandCounterIncrement();
}
