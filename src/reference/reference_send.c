/*
 * reference_send.c
 *	  Sends changes of a reference table to all of its replicas in parallel.
 *
 *	 INSERT	   new rows --> COPY, the same bytes for every node
 *			   few rows --> INSERT ... SELECT FROM unnest(values), which saves a round trip
 *			   one row	--> INSERT ... VALUES, which nodes plan in half the time
 *	 DELETE	   old keys --> DELETE ... USING unnest(keys), a chunk of rows at a time
 *			   one row	--> DELETE ... WHERE
 *	 UPDATE	   see reference_update.c
 *	 TRUNCATE  --> TRUNCATE, with shards that refer to the table
 *
 * The coordinator's table has been changed before: its rows are locked and unique keys were checked.  So sessions do
 * not wait for each other on nodes.  Every count is checked.  So if a replica lacks a row, the first statement that
 * should change the row finds the difference.
 *
 * Rows are sent as text.  If the type of a column was changed manually in a replica, the replica converts or refuses
 * the values.  Only rows for newly created replicas are sent in binary format.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "reference/reference_run.h"
#include "reference/reference_send.h"
#include "remote/copy/copy_stream.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Up to this many new rows are sent by INSERT.  More rows are sent by COPY, which costs the node less per row. */
#define FEW_ROWS 100

/* Creates a separate read pointer, since other triggers read the same rows. */
void
shard_reference_send_rewind(Tuplestorestate *rows)
{
	tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
	tuplestore_rescan(rows);
}

/* ---------- rows by COPY ---------- */

typedef struct RowCopy
{
	ShardReferenceWrite *write;
	ShardEncoder *encoder;
	ShardCopySet *set;
	List	   *targets;		/* of ShardCopyTarget */
	StringInfoData row;
} RowCopy;

static void
begin_copy(RowCopy *copy, ShardReferenceWrite *write, bool may_be_binary)
{
	StringInfoData sql;
	int			ncolumns;
	AttrNumber *attnos = shard_reference_param_sent(RelationGetDescr(write->rel), &ncolumns);
	bool		binary;

	copy->write = write;
	copy->targets = NIL;
	copy->encoder = shard_encode_create(RelationGetDescr(write->rel), attnos, ncolumns);
	if (!may_be_binary)
		shard_encode_use_text(copy->encoder);
	binary = shard_encode_is_binary(copy->encoder);

	initStringInfo(&sql);
	appendStringInfo(&sql, "COPY %s", write->relation);
	for (int i = 0; i < ncolumns; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? " (" : ", ", shard_reference_param_column(write->rel, attnos[i]));
	appendStringInfo(&sql, "%s FROM STDIN%s", ncolumns > 0 ? ")" : "", binary ? " (FORMAT binary)" : "");

	initStringInfo(&copy->row);
	copy->set = shard_copy_set_create(write->cxt, NULL, NULL);
	foreach_oid(serverid, write->nodes)
		copy->targets = lappend(copy->targets,
								shard_copy_target_open(copy->set, serverid, write->userid,
													   sql.data, binary, write->relation));
}

/* Encodes the row once for all nodes. */
static void
copy_row(RowCopy *copy, TupleTableSlot *slot)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(copy->write->row_cxt);

	resetStringInfo(&copy->row);
	shard_encode_row(copy->encoder, slot, &copy->row);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(copy->write->row_cxt);

	foreach_ptr(ShardCopyTarget, target, copy->targets)
	{
		appendBinaryStringInfo(shard_copy_target_buffer(target), copy->row.data, copy->row.len);
		shard_copy_target_put(target, 0);
	}
}

static void
copy_rows(ShardReferenceWrite *write, Tuplestorestate *new_rows)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(write->rel), &TTSOpsMinimalTuple);
	RowCopy		copy;

	begin_copy(&copy, write, false);
	shard_reference_send_rewind(new_rows);
	while (tuplestore_gettupleslot(new_rows, true, false, slot))
	{
		copy_row(&copy, slot);
		CHECK_FOR_INTERRUPTS();
	}
	shard_copy_set_finish(copy.set);
	ExecDropSingleTupleTableSlot(slot);
}

/* Returns "INSERT INTO ...". */
static const char *
insert_sql(ShardReferenceWrite *write, const ShardReferenceParams *values)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "INSERT INTO %s (", write->relation);
	for (int i = 0; i < values->ncolumns; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? "" : ", ", shard_reference_param_column(write->rel, values->attnos[i]));
	appendStringInfo(&sql, ") OVERRIDING SYSTEM VALUE %s", values->is_single ? "VALUES (" : "SELECT ");
	for (int i = 0; i < values->ncolumns; i++)
	{
		appendStringInfoString(&sql, i == 0 ? "" : ", ");
		shard_reference_param_value(&sql, values, i);
	}
	if (values->is_single)
	{
		appendStringInfoChar(&sql, ')');
		return sql.data;
	}
	appendStringInfoString(&sql, " FROM ");
	shard_reference_param_rows(&sql, values, NULL);
	return sql.data;
}

/* Runs sql for all rows, a chunk at a time. */
static void
run_chunks(ShardReferenceWrite *write, const char *sql, ShardReferenceParams *columns, Tuplestorestate *rows,
		   ShardReferenceCount count)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(write->rel), &TTSOpsMinimalTuple);
	Size		nbytes = 0;
	int64		nrows = 0;

	shard_reference_send_rewind(rows);
	while (tuplestore_gettupleslot(rows, true, false, slot))
	{
		shard_reference_param_read(columns, slot, write->row_cxt);
		nrows++;
		if (columns->is_single)
			break;
		nbytes += shard_reference_param_append(columns);
		MemoryContextReset(write->row_cxt);
		if (nrows >= SHARD_REFERENCE_CHUNK_ROWS || nbytes >= SHARD_REFERENCE_CHUNK_BYTES)
		{
			shard_reference_run(write, sql, columns, NULL, nrows, count);
			nrows = nbytes = 0;
		}
	}
	ExecDropSingleTupleTableSlot(slot);
	if (nrows > 0)
		shard_reference_run(write, sql, columns, NULL, nrows, count);
}

void
shard_reference_send_insert(Relation rel, Tuplestorestate *new_rows)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ShardReferenceWrite write;
	ShardReferenceParams values;
	AttrNumber *attnos;
	int			ncolumns;

	shard_reference_run_begin(&write, rel);
	attnos = shard_reference_param_sent(RelationGetDescr(rel), &ncolumns);
	if (tuplestore_tuple_count(new_rows) <= FEW_ROWS && ncolumns > 0)
	{
		shard_reference_param_init(&values, rel, attnos, ncolumns, "c", 0, tuplestore_tuple_count(new_rows) == 1);
		run_chunks(&write, insert_sql(&write, &values), &values, new_rows, SHARD_REFERENCE_COUNT_ONCE);
	}
	else
		copy_rows(&write, new_rows);
	shard_reference_run_end(&write, caller_cxt);
}

uint64
shard_reference_send_table(Relation rel, List *nodes)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ShardReferenceWrite write;
	RowCopy		copy;
	TupleTableSlot *slot;
	TableScanDesc scan;
	uint64		nrows = 0;

	/* under the lock, the latest rows are the right ones, whatever this transaction's snapshot is */
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	shard_reference_run_begin(&write, rel);
	write.nodes = nodes;
	begin_copy(&copy, &write, true);
	slot = table_slot_create(rel, NULL);
	scan = table_beginscan_strat(rel, snapshot, 0, NULL, true, true);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		copy_row(&copy, slot);
		nrows++;
		CHECK_FOR_INTERRUPTS();
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	shard_copy_set_finish(copy.set);
	shard_reference_run_end(&write, caller_cxt);
	return nrows;
}

/*
 * Tables on the node that refer to this table must be truncated in the same statement, or be empty.  Shards that the
 * statement has already truncated there are empty files that this transaction has locked.  They are truncated once
 * more.  The CASE keeps the query from reading the size of other tables, which would lock them.
 */
void
shard_reference_send_truncate(Relation rel)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ShardReferenceWrite write;
	char	   *body;

	shard_reference_run_begin(&write, rel);
	body = psprintf("DECLARE relations text; BEGIN "
					"WITH RECURSIVE r(relid) AS (SELECT %s::pg_catalog.regclass::pg_catalog.oid UNION "
					"SELECT c.conrelid FROM r JOIN pg_catalog.pg_constraint c ON c.confrelid = r.relid AND c.contype = 'f' "
					"JOIN pg_catalog.pg_locks l ON l.relation = c.conrelid AND l.locktype = 'relation' AND l.pid = pg_catalog.pg_backend_pid() "
					"AND l.mode = 'AccessExclusiveLock' AND l.granted WHERE CASE WHEN l.relation = c.conrelid THEN pg_catalog.pg_relation_size(c.conrelid) = 0 END) "
					"SELECT pg_catalog.string_agg('ONLY ' || r.relid::pg_catalog.regclass, ', ') INTO relations FROM r; "
					"EXECUTE 'TRUNCATE ' || relations; END",
					quote_literal_cstr(write.relation));
	shard_reference_run_exclusive(&write, list_difference_oid(write.nodes, write.peers), psprintf("DO %s", quote_literal_cstr(body)));
	/* on coordinators, separate commands truncate the tables that refer to it, and core would miss them here */
	shard_reference_run_exclusive(&write, write.peers, psprintf("DELETE FROM ONLY %s", write.relation));
	shard_reference_run_end(&write, caller_cxt);
}

/* ---------- DELETE ---------- */

/* Returns "DELETE FROM ...". */
static const char *
delete_sql(ShardReferenceWrite *write, const ShardReferenceParams *keys, const ShardReferenceIdentity *identity)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "DELETE FROM ONLY %s AS r", write->relation);
	if (!keys->is_single)
	{
		appendStringInfoString(&sql, " USING ");
		shard_reference_param_rows(&sql, keys, NULL);
	}
	appendStringInfoString(&sql, " WHERE ");
	shard_reference_param_match(&sql, write->rel, keys, identity);
	return sql.data;
}

void
shard_reference_send_delete(Relation rel, Tuplestorestate *old_rows)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ShardReferenceWrite write;
	ShardReferenceIdentity identity;
	ShardReferenceParams keys;

	shard_reference_run_begin(&write, rel);
	shard_reference_param_identity(rel, "delete from", &identity);
	shard_reference_param_init(&keys, rel, identity.attnos, identity.ncolumns, "k", 0, tuplestore_tuple_count(old_rows) == 1);
	run_chunks(&write, delete_sql(&write, &keys, &identity), &keys, old_rows, SHARD_REFERENCE_COUNT_REST);
	shard_reference_run_end(&write, caller_cxt);
}
