/*
 * reference_send.c
 *	  Changes of a reference table, sent to all of its copies at once.
 *
 *	 INSERT    new rows --> COPY, every node the same bytes
 *	 DELETE    old keys --> DELETE ... USING unnest(keys), a chunk of rows at a time
 *	 UPDATE    pairs    --> UPDATE ... FROM unnest(old keys, new values) likewise;
 *							a row at a time, in order, when unique columns change
 *	 TRUNCATE  --> TRUNCATE
 *
 * The coordinator's table has taken the change already: rows are locked there,
 * and unique keys have been checked there, so that nodes never wait for each
 * other.  A copy finds its rows by the identity: an immediate unique key without
 * NULLs, as in logical replication.  Every count is checked, so that a copy that
 * differs is noticed by the first statement that should have changed a row it lacks.
 *
 * Values travel as text, in typed arrays where there are several: a copy whose
 * column has got another type by hand converts them or complains.  Only the rows for
 * copies that have just been made go in binary.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "catalog/reference.h"
#include "common/hashfn.h"
#include "compat.h"
#include "ddl/reference_send.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "remote/command.h"
#include "remote/copy_stream.h"
#include "tuple/encode.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* A chunk of UPDATE or DELETE ends with that many rows, or bytes of values. */
#define CHUNK_ROWS 10000
#define CHUNK_BYTES (1024 * 1024)

/* Rows that are changed one by one are handed over in lots of this size. */
#define ORDERED_ROWS 200

typedef struct ReferenceWrite
{
	Relation	rel;
	const char *relation;		/* qualified name here and on the nodes */
	Oid			userid;
	List	   *nodes;			/* OIDs of servers */
	MemoryContext cxt;			/* lives as long as the write */
	MemoryContext row_cxt;		/* reset for each row */
} ReferenceWrite;

/* Columns whose values are parameters of a command. */
typedef struct ParamColumns
{
	int			ncolumns;
	AttrNumber *attnos;
	ShardEncoder *encoder;
	const char **values;		/* of the row at hand, in row_cxt */
	const char **types;			/* names without typmod */
	bool	   *as_text;		/* its arrays are arrays of text */
	char	   *delims;			/* between elements of its arrays */
	StringInfoData *arrays;
} ParamColumns;

/* How a copy finds a row. */
typedef struct Identity
{
	int			ncolumns;
	AttrNumber *attnos;
	const char **operators;		/* equality, as in SQL */
} Identity;

static void
begin_write(ReferenceWrite *write, Relation rel)
{
	write->rel = rel;
	write->cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw reference write",
									   ALLOCSET_SMALL_SIZES);
	write->row_cxt = AllocSetContextCreate(write->cxt, "shardfdw reference row",
										   ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(write->cxt);
	write->relation = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												 RelationGetRelationName(rel));
	write->userid = GetUserId();
	write->nodes = shard_reference_nodes();
}

static void
end_write(ReferenceWrite *write, MemoryContext caller_cxt)
{
	MemoryContextSwitchTo(caller_cxt);
	MemoryContextDelete(write->cxt);
}

/* Columns whose values are sent: all but dropped ones and those that nodes compute. */
static AttrNumber *
sent_columns(TupleDesc desc, int *ncolumns)
{
	AttrNumber *attnos = palloc(sizeof(AttrNumber) * Max(desc->natts, 1));

	*ncolumns = 0;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated == '\0')
			attnos[(*ncolumns)++] = att->attnum;
	}
	return attnos;
}

static const char *
quoted_column(Relation rel, AttrNumber attno)
{
	return quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname));
}

/* A reader of its own from the first row on; other triggers read the same rows. */
static void
rewind_rows(Tuplestorestate *rows)
{
	tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
	tuplestore_rescan(rows);
}

/* ---------- rows by COPY ---------- */

typedef struct RowCopy
{
	ReferenceWrite *write;
	ShardEncoder *encoder;
	ShardCopySet *set;
	List	   *targets;		/* of ShardCopyTarget */
	StringInfoData row;
} RowCopy;

static void
begin_copy(RowCopy *copy, ReferenceWrite *write, bool may_be_binary)
{
	StringInfoData sql;
	int			ncolumns;
	AttrNumber *attnos = sent_columns(RelationGetDescr(write->rel), &ncolumns);
	bool		binary;
	ListCell   *lc;

	copy->write = write;
	copy->targets = NIL;
	copy->encoder = shard_encode_create(RelationGetDescr(write->rel), attnos, ncolumns);
	if (!may_be_binary)
		shard_encode_use_text(copy->encoder);
	binary = shard_encode_is_binary(copy->encoder);

	initStringInfo(&sql);
	appendStringInfo(&sql, "COPY %s", write->relation);
	for (int i = 0; i < ncolumns; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? " (" : ", ", quoted_column(write->rel, attnos[i]));
	appendStringInfo(&sql, "%s FROM STDIN%s", ncolumns > 0 ? ")" : "", binary ? " (FORMAT binary)" : "");

	initStringInfo(&copy->row);
	copy->set = shard_copy_set_create(write->cxt, NULL, NULL);
	foreach(lc, write->nodes)
		copy->targets = lappend(copy->targets,
								shard_copy_target_open(copy->set, lfirst_oid(lc), write->userid,
													   sql.data, binary, write->relation));
}

/* The row is encoded once for all nodes. */
static void
copy_row(RowCopy *copy, TupleTableSlot *slot)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(copy->write->row_cxt);
	ListCell   *lc;

	resetStringInfo(&copy->row);
	shard_encode_row(copy->encoder, slot, &copy->row);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(copy->write->row_cxt);

	foreach(lc, copy->targets)
	{
		ShardCopyTarget *target = lfirst(lc);

		appendBinaryStringInfo(shard_copy_target_buffer(target), copy->row.data, copy->row.len);
		shard_copy_target_put(target, 0);
	}
}

void
shard_reference_send_insert(Relation rel, Tuplestorestate *new_rows)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ReferenceWrite write;
	RowCopy		copy;
	TupleTableSlot *slot;

	begin_write(&write, rel);
	begin_copy(&copy, &write, false);
	slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsMinimalTuple);
	rewind_rows(new_rows);
	while (tuplestore_gettupleslot(new_rows, true, false, slot))
	{
		copy_row(&copy, slot);
		CHECK_FOR_INTERRUPTS();
	}
	ExecDropSingleTupleTableSlot(slot);
	shard_copy_set_finish(copy.set);
	end_write(&write, caller_cxt);
}

uint64
shard_reference_send_table(Relation rel, List *nodes)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ReferenceWrite write;
	RowCopy		copy;
	TupleTableSlot *slot;
	TableScanDesc scan;
	uint64		nrows = 0;

	/* under the lock, the latest rows are the last word, whatever this transaction's snapshot is */
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	begin_write(&write, rel);
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
	end_write(&write, caller_cxt);
	return nrows;
}

/* ---------- identity ---------- */

/* Is the index one by which a row can be told from all others at any moment? */
static bool
is_identity(Relation index, TupleDesc desc)
{
	Form_pg_index form = index->rd_index;

	if (index->rd_rel->relam != BTREE_AM_OID || !form->indisunique || !form->indimmediate ||
		!form->indisvalid || RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int i = 0; i < form->indnkeyatts; i++)
	{
		AttrNumber	attno = form->indkey.values[i];

		/* an expression has no column; virtual ones no value in the rows that triggers get */
		if (attno <= 0 || !TupleDescAttr(desc, attno - 1)->attnotnull)
			return false;
	}
	return true;
}

/*
 * Index that identifies rows: the replica identity, else the primary key, else
 * any other that does.  InvalidOid: none.
 */
static Oid
find_identity(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	Oid			replica_identity = rel->rd_replidindex;
	Oid			found = InvalidOid;
	bool		found_primary = false;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		bool		usable = is_identity(index, RelationGetDescr(rel));
		bool		is_primary = index->rd_index->indisprimary;

		index_close(index, AccessShareLock);
		if (!usable)
			continue;
		if (lfirst_oid(lc) == replica_identity)
			return replica_identity;
		if (!OidIsValid(found) || (is_primary && !found_primary))
			found = lfirst_oid(lc);
		found_primary |= is_primary;
	}
	return found;
}

/* "OPERATOR(schema.=)": what the index takes for equal. */
static const char *
equality_operator(Relation index, int keyno)
{
	Oid			type = index->rd_opcintype[keyno];
	Oid			opno = get_opfamily_member(index->rd_opfamily[keyno], type, type, BTEqualStrategyNumber);

	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	Form_pg_operator form;
	const char *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "missing operator %d(%u,%u) in opfamily %u", BTEqualStrategyNumber,
			 type, type, index->rd_opfamily[keyno]);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	result = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
					  NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return result;
}

static void
get_identity(Relation rel, const char *verb, Identity *identity)
{
	Oid			indexid = find_identity(rel);
	Relation	index;

	if (!OidIsValid(indexid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s reference table \"%s\" because it has no primary key",
						verb, RelationGetRelationName(rel)),
				 errdetail("The rows to be changed cannot be found in the copies on the nodes."),
				 errhint("Add a primary key, or a unique index over columns that are NOT NULL.")));

	index = index_open(indexid, AccessShareLock);
	identity->ncolumns = index->rd_index->indnkeyatts;
	identity->attnos = palloc(sizeof(AttrNumber) * identity->ncolumns);
	identity->operators = palloc(sizeof(char *) * identity->ncolumns);
	for (int i = 0; i < identity->ncolumns; i++)
	{
		identity->attnos[i] = index->rd_index->indkey.values[i];
		identity->operators[i] = equality_operator(index, i);
	}
	index_close(index, AccessShareLock);
}

/*
 * Columns on which immediate unique indexes depend, offset by
 * FirstLowInvalidHeapAttributeNumber: whether a row fits in depends on the rows
 * that are there at that moment.
 */
static Bitmapset *
unique_columns(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	Bitmapset  *columns = NULL;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisunique && index->rd_index->indimmediate)
		{
			for (int i = 0; i < index->rd_index->indnkeyatts; i++)
			{
				AttrNumber	attno = index->rd_index->indkey.values[i];

				if (attno != 0)
					columns = bms_add_member(columns, attno - FirstLowInvalidHeapAttributeNumber);
			}
			pull_varattnos((Node *) RelationGetIndexExpressions(index), 1, &columns);
			pull_varattnos((Node *) RelationGetIndexPredicate(index), 1, &columns);
		}
		index_close(index, AccessShareLock);
	}
	return columns;
}

/* ---------- parameters ---------- */

static void
init_columns(ParamColumns *columns, ReferenceWrite *write, AttrNumber *attnos, int ncolumns)
{
	TupleDesc	desc = RelationGetDescr(write->rel);

	columns->ncolumns = ncolumns;
	columns->attnos = attnos;
	columns->encoder = shard_encode_create(desc, attnos, ncolumns);
	columns->values = palloc0(sizeof(char *) * Max(ncolumns, 1));
	columns->types = palloc(sizeof(char *) * Max(ncolumns, 1));
	columns->as_text = palloc(sizeof(bool) * Max(ncolumns, 1));
	columns->delims = palloc(Max(ncolumns, 1));
	columns->arrays = palloc(sizeof(StringInfoData) * Max(ncolumns, 1));
	for (int i = 0; i < ncolumns; i++)
	{
		Oid			type = TupleDescAttr(desc, attnos[i] - 1)->atttypid;
		Oid			array_type = OidIsValid(get_element_type(type)) ? InvalidOid : get_array_type(type);
		int16		len;
		bool		byval;
		char		align;
		Oid			io_param;
		Oid			func;

		columns->types[i] = format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
												 FORMAT_TYPE_FORCE_QUALIFY);
		/* there are no arrays of arrays */
		columns->as_text[i] = !OidIsValid(array_type);
		get_type_io_data(columns->as_text[i] ? TEXTOID : type, IOFunc_input, &len, &byval, &align,
						 &columns->delims[i], &io_param, &func);
		initStringInfo(&columns->arrays[i]);
	}
}

/* The row's values in text form.  Memory: write->row_cxt. */
static void
read_values(ParamColumns *columns, ReferenceWrite *write, TupleTableSlot *slot)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(write->row_cxt);

	shard_encode_params(columns->encoder, slot, columns->values);
	MemoryContextSwitchTo(oldcxt);
}

/* Appends the values at hand to the arrays; returns their size in bytes. */
static Size
append_values(ParamColumns *columns)
{
	Size		nbytes = 0;

	for (int i = 0; i < columns->ncolumns; i++)
	{
		StringInfo	array = &columns->arrays[i];
		int			before = array->len;

		appendStringInfoChar(array, array->len == 0 ? '{' : columns->delims[i]);
		if (columns->values[i] == NULL)
			appendStringInfoString(array, "NULL");
		else
		{
			appendStringInfoChar(array, '"');
			for (const char *c = columns->values[i]; *c != '\0'; c++)
			{
				if (*c == '"' || *c == '\\')
					appendStringInfoChar(array, '\\');
				appendStringInfoChar(array, *c);
			}
			appendStringInfoChar(array, '"');
		}
		nbytes += array->len - before;
	}
	return nbytes;
}

/* Appends "pg_catalog.unnest($1::type[]), ..."; the first parameter is $(before + 1). */
static void
append_unnest(StringInfo sql, const ParamColumns *columns, int before)
{
	for (int i = 0; i < columns->ncolumns; i++)
		appendStringInfo(sql, "%spg_catalog.unnest($%d::%s[])", before + i > 0 ? ", " : "",
						 before + i + 1, columns->as_text[i] ? "pg_catalog.text" : columns->types[i]);
}

/* Appends column i of the rows that unnest gives, named prefix and a number, as a value of its type. */
static void
append_unnested(StringInfo sql, const ParamColumns *columns, int i, const char *prefix)
{
	appendStringInfo(sql, "v.%s%d", prefix, i + 1);
	if (columns->as_text[i])
		appendStringInfo(sql, "::%s", columns->types[i]);
}

static void
append_aliases(StringInfo sql, const ParamColumns *columns, const char *prefix, bool first)
{
	for (int i = 0; i < columns->ncolumns; i++)
		appendStringInfo(sql, "%s%s%d", first && i == 0 ? "" : ", ", prefix, i + 1);
}

/* "r.a OPERATOR(pg_catalog.=) v.k1 AND ..." */
static void
append_match(StringInfo sql, ReferenceWrite *write, const ParamColumns *keys, const Identity *identity)
{
	for (int i = 0; i < keys->ncolumns; i++)
	{
		appendStringInfo(sql, "%sr.%s %s ", i > 0 ? " AND " : "",
						 quoted_column(write->rel, keys->attnos[i]), identity->operators[i]);
		append_unnested(sql, keys, i, "k");
	}
}

/* ---------- commands ---------- */

/* Nodes have changed nrows rows each, or a copy is not what it should be. */
static void
check_count(ReferenceWrite *write, const ShardCommand *command, int64 nrows)
{
	int64		nchanged = strtoi64(PQcmdTuples(command->result), NULL, 10);

	if (nchanged != nrows)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the copy of reference table \"%s\" on node \"%s\" differs",
						RelationGetRelationName(write->rel),
						GetForeignServer(command->serverid)->servername),
				 errdetail("%lld rows were to be changed there, %lld were found.",
						   (long long) nrows, (long long) nchanged),
				 errhint("Drop the copy on that node, and make it again with shardfdw.replicate_table().")));
}

/* Runs commands; each must change nrows rows, if nrows is not negative. */
static void
run_commands(ReferenceWrite *write, ShardCommand *commands, int ncommands, int64 nrows)
{
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	PG_TRY();
	{
		for (int i = 0; i < ncommands && nrows >= 0; i++)
			check_count(write, &commands[i], nrows);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < ncommands; i++)
			PQclear(commands[i].result);
	}
	PG_END_TRY();
}

/* Runs one command with parameters on all nodes. */
static void
run_everywhere(ReferenceWrite *write, const char *sql, int nparams, const char **params, int64 nrows)
{
	int			ncommands = 0;
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(list_length(write->nodes), 1));
	ListCell   *lc;

	foreach(lc, write->nodes)
	{
		ShardCommand *command = &commands[ncommands++];

		command->serverid = lfirst_oid(lc);
		command->userid = write->userid;
		command->sql = sql;
		command->label = write->relation;
		command->nparams = nparams;
		command->params = params;
	}
	if (ncommands > 0)
		run_commands(write, commands, ncommands, nrows);
	pfree(commands);
}

/* A chunk: the arrays of keys, then those of values (NULL: none). */
static void
send_arrays(ReferenceWrite *write, const char *sql, ParamColumns *keys, ParamColumns *values, int64 nrows)
{
	int			nparams = 0;
	const char **params = palloc(sizeof(char *) *
								 (keys->ncolumns + (values ? values->ncolumns : 0)));

	for (int i = 0; i < keys->ncolumns; i++)
	{
		appendStringInfoChar(&keys->arrays[i], '}');
		params[nparams++] = keys->arrays[i].data;
	}
	for (int i = 0; values != NULL && i < values->ncolumns; i++)
	{
		appendStringInfoChar(&values->arrays[i], '}');
		params[nparams++] = values->arrays[i].data;
	}
	run_everywhere(write, sql, nparams, params, nrows);
	pfree(params);

	for (int i = 0; i < keys->ncolumns; i++)
		resetStringInfo(&keys->arrays[i]);
	for (int i = 0; values != NULL && i < values->ncolumns; i++)
		resetStringInfo(&values->arrays[i]);
}

void
shard_reference_send_truncate(Relation rel)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ReferenceWrite write;

	begin_write(&write, rel);
	run_everywhere(&write, psprintf("TRUNCATE ONLY %s", write.relation), 0, NULL, -1);
	end_write(&write, caller_cxt);
}

/* ---------- DELETE ---------- */

void
shard_reference_send_delete(Relation rel, Tuplestorestate *old_rows)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ReferenceWrite write;
	Identity	identity;
	ParamColumns keys;
	StringInfoData sql;
	TupleTableSlot *slot;
	Size		nbytes = 0;
	int64		nrows = 0;

	begin_write(&write, rel);
	get_identity(rel, "delete from", &identity);
	init_columns(&keys, &write, identity.attnos, identity.ncolumns);

	initStringInfo(&sql);
	appendStringInfo(&sql, "DELETE FROM ONLY %s AS r USING ROWS FROM (", write.relation);
	append_unnest(&sql, &keys, 0);
	appendStringInfoString(&sql, ") AS v (");
	append_aliases(&sql, &keys, "k", true);
	appendStringInfoString(&sql, ") WHERE ");
	append_match(&sql, &write, &keys, &identity);

	slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsMinimalTuple);
	rewind_rows(old_rows);
	while (tuplestore_gettupleslot(old_rows, true, false, slot))
	{
		read_values(&keys, &write, slot);
		nbytes += append_values(&keys);
		nrows++;
		MemoryContextReset(write.row_cxt);
		if (nrows >= CHUNK_ROWS || nbytes >= CHUNK_BYTES)
		{
			send_arrays(&write, sql.data, &keys, NULL, nrows);
			nrows = nbytes = 0;
		}
	}
	ExecDropSingleTupleTableSlot(slot);
	if (nrows > 0)
		send_arrays(&write, sql.data, &keys, NULL, nrows);
	end_write(&write, caller_cxt);
}

/* ---------- UPDATE ---------- */

/* What the pairs of rows of one UPDATE say together. */
typedef struct UpdateSummary
{
	bool		any;			/* some value has changed */
	bool		ordered;		/* a unique column has */
	Bitmapset  *changed;		/* attribute numbers */
} UpdateSummary;

typedef struct UpdateState
{
	ReferenceWrite *write;
	Tuplestorestate *rows[2];	/* old, new */
	TupleTableSlot *slots[2];
	AttrNumber *attnos;			/* columns that are sent at all */
	int			nattnos;
	Identity	identity;
	UpdateSummary summary;
	ParamColumns keys;			/* of old rows */
	ParamColumns values;		/* of new ones: the changed columns */
} UpdateState;

/*
 * Next pair of rows; false when there is none.  Each store has its own read
 * pointer, which stays selected: nothing else reads the stores meanwhile.
 */
static bool
next_pair(UpdateState *state)
{
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < 2; i++)
	{
		if (!tuplestore_gettupleslot(state->rows[i], true, false, state->slots[i]))
			return false;
		slot_getallattrs(state->slots[i]);
	}
	return true;
}

static void
rewind_pairs(UpdateState *state)
{
	for (int i = 0; i < 2; i++)
		tuplestore_rescan(state->rows[i]);
}

/*
 * Is the column the same in both rows, to the byte?  Values that are equal but stored in
 * another way count as changed, which does no harm.
 */
static bool
same_value(UpdateState *state, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(state->write->rel), attno - 1);
	TupleTableSlot *old_row = state->slots[0];
	TupleTableSlot *new_row = state->slots[1];

	if (old_row->tts_isnull[attno - 1] || new_row->tts_isnull[attno - 1])
		return old_row->tts_isnull[attno - 1] && new_row->tts_isnull[attno - 1];
	return datumIsEqual(old_row->tts_values[attno - 1], new_row->tts_values[attno - 1],
						att->attbyval, att->attlen);
}

/* Has any column of this pair changed? */
static bool
pair_differs(UpdateState *state)
{
	for (int i = 0; i < state->nattnos; i++)
	{
		if (!same_value(state, state->attnos[i]))
			return true;
	}
	return false;
}

static void
summarize(UpdateState *state)
{
	Bitmapset  *unique = unique_columns(state->write->rel);
	UpdateSummary *summary = &state->summary;

	while (next_pair(state))
	{
		for (int i = 0; i < state->nattnos; i++)
		{
			AttrNumber	attno = state->attnos[i];

			if (bms_is_member(attno, summary->changed) || same_value(state, attno))
				continue;
			summary->any = true;
			summary->changed = bms_add_member(summary->changed, attno);
			if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, unique))
				summary->ordered = true;
		}
	}
	rewind_pairs(state);

	/* a unique index over what nodes compute: the column itself is not among those sent */
	for (int i = 0; summary->any && i < RelationGetDescr(state->write->rel)->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(state->write->rel), i);

		if (!att->attisdropped && att->attgenerated != '\0' &&
			bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, unique))
			summary->ordered = true;
	}
}

/* "SET a = ..., b = ..."; one value after the other by append. */
static void
append_set(StringInfo sql, UpdateState *state)
{
	ParamColumns *values = &state->values;

	for (int i = 0; i < values->ncolumns; i++)
	{
		appendStringInfo(sql, "%s%s = ", i > 0 ? ", " : "",
						 quoted_column(state->write->rel, values->attnos[i]));
		if (state->summary.ordered)
			appendStringInfo(sql, "$%d::%s", state->keys.ncolumns + i + 1, values->types[i]);
		else
			append_unnested(sql, values, i, "c");
	}
}

static const char *
update_sql(UpdateState *state)
{
	StringInfoData sql;
	ParamColumns *keys = &state->keys;

	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE ONLY %s AS r SET ", state->write->relation);
	append_set(&sql, state);
	if (state->summary.ordered)
	{
		appendStringInfoString(&sql, " WHERE ");
		for (int i = 0; i < keys->ncolumns; i++)
			appendStringInfo(&sql, "%sr.%s %s $%d::%s", i > 0 ? " AND " : "",
							 quoted_column(state->write->rel, keys->attnos[i]),
							 state->identity.operators[i], i + 1, keys->types[i]);
		return sql.data;
	}
	appendStringInfoString(&sql, " FROM ROWS FROM (");
	append_unnest(&sql, keys, 0);
	append_unnest(&sql, &state->values, keys->ncolumns);
	appendStringInfoString(&sql, ") AS v (");
	append_aliases(&sql, keys, "k", true);
	append_aliases(&sql, &state->values, "c", false);
	appendStringInfoString(&sql, ") WHERE ");
	append_match(&sql, state->write, keys, &state->identity);
	return sql.data;
}

static HTAB *
create_key_set(MemoryContext cxt)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(uint64);
	ctl.hcxt = cxt;
	return hash_create("shardfdw changed keys", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static uint64
hash_keys(const ParamColumns *keys)
{
	uint64		hash = 0;

	for (int i = 0; i < keys->ncolumns; i++)
		hash = hash_bytes_extended((const unsigned char *) keys->values[i],
								   strlen(keys->values[i]), hash);
	return hash;
}

/*
 * Rows in chunks, each by one command, which takes its rows in any order.  A
 * row that comes again (a cascading foreign key may change it twice) begins a
 * new chunk; so does, now and then, one whose hash is another's.
 */
static void
update_chunks(UpdateState *state, const char *sql)
{
	ReferenceWrite *write = state->write;
	HTAB	   *seen = create_key_set(write->cxt);
	Size		nbytes = 0;
	int64		nrows = 0;

	while (next_pair(state))
	{
		uint64		hash;
		bool		again;

		if (!pair_differs(state))
			continue;
		read_values(&state->keys, write, state->slots[0]);
		read_values(&state->values, write, state->slots[1]);
		hash = hash_keys(&state->keys);
		hash_search(seen, &hash, HASH_FIND, &again);
		if (nrows > 0 && (again || nrows >= CHUNK_ROWS || nbytes >= CHUNK_BYTES))
		{
			send_arrays(write, sql, &state->keys, &state->values, nrows);
			nrows = nbytes = 0;
			hash_destroy(seen);
			seen = create_key_set(write->cxt);
		}
		hash_search(seen, &hash, HASH_ENTER, NULL);
		nbytes += append_values(&state->keys) + append_values(&state->values);
		nrows++;
		MemoryContextReset(write->row_cxt);
	}
	if (nrows > 0)
		send_arrays(write, sql, &state->keys, &state->values, nrows);
	hash_destroy(seen);
}

/* Rows one after the other, as the coordinator has changed them; some of them are on their way at a time. */
static void
update_in_order(UpdateState *state, const char *sql)
{
	ReferenceWrite *write = state->write;
	int			nparams = state->keys.ncolumns + state->values.ncolumns;
	int			nnodes = list_length(write->nodes);
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * ORDERED_ROWS * Max(nnodes, 1));
	bool		more = true;

	while (more)
	{
		int			ncommands = 0;

		/* the values of all rows of a lot live in row_cxt */
		for (int row = 0; row < ORDERED_ROWS && (more = next_pair(state));)
		{
			const char **params;
			ListCell   *lc;

			if (!pair_differs(state))
				continue;
			read_values(&state->keys, write, state->slots[0]);
			read_values(&state->values, write, state->slots[1]);
			params = MemoryContextAlloc(write->row_cxt, sizeof(char *) * nparams);
			memcpy(params, state->keys.values, sizeof(char *) * state->keys.ncolumns);
			memcpy(params + state->keys.ncolumns, state->values.values,
				   sizeof(char *) * state->values.ncolumns);
			foreach(lc, write->nodes)
			{
				ShardCommand *command = &commands[ncommands++];

				memset(command, 0, sizeof(*command));
				command->serverid = lfirst_oid(lc);
				command->userid = write->userid;
				command->sql = sql;
				command->label = write->relation;
				command->nparams = nparams;
				command->params = params;
			}
			row++;
		}
		if (ncommands > 0)
			run_commands(write, commands, ncommands, 1);
		MemoryContextReset(write->row_cxt);
	}
	pfree(commands);
}

void
shard_reference_send_update(Relation rel, Tuplestorestate *old_rows, Tuplestorestate *new_rows)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ReferenceWrite write;
	UpdateState state = {0};
	AttrNumber *changed;
	int			nchanged = 0;
	int			attno = -1;

	begin_write(&write, rel);
	state.write = &write;
	state.rows[0] = old_rows;
	state.rows[1] = new_rows;
	for (int i = 0; i < 2; i++)
	{
		state.slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsMinimalTuple);
		rewind_rows(state.rows[i]);
	}
	state.attnos = sent_columns(RelationGetDescr(rel), &state.nattnos);
	get_identity(rel, "update", &state.identity);
	summarize(&state);

	changed = palloc(sizeof(AttrNumber) * Max(state.nattnos, 1));
	while ((attno = bms_next_member(state.summary.changed, attno)) >= 0)
		changed[nchanged++] = attno;
	init_columns(&state.keys, &write, state.identity.attnos, state.identity.ncolumns);
	init_columns(&state.values, &write, changed, nchanged);

	if (state.summary.ordered)
		update_in_order(&state, update_sql(&state));
	else if (state.summary.any)
		update_chunks(&state, update_sql(&state));

	for (int i = 0; i < 2; i++)
		ExecDropSingleTupleTableSlot(state.slots[i]);
	end_write(&write, caller_cxt);
}
