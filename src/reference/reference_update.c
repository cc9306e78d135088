/*
 * reference_update.c
 *	  Sends an UPDATE of a reference table to all of its replicas in parallel.
 *
 *	 pairs of old and new rows --> which columns have changed?
 *		no unique ones	UPDATE ... FROM unnest(old keys, new values), a chunk at a time
 *		unique ones		UPDATE of one row at a time, in order; also for a single row
 *
 * If a unique column changes, rows must be changed in the coordinator's order: a new key may be the old key of a row
 * that was changed before.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "compat.h"
#include "executor/executor.h"
#include "hash_table.h"
#include "miscadmin.h"
#include "reference/reference_run.h"
#include "reference/reference_send.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* Rows that are changed one by one are sent in groups of this size. */
#define ORDERED_ROWS 200

/* The columns that any pair of rows of one UPDATE has changed. */
typedef struct UpdateSummary
{
	bool		any;			/* any value has changed */
	bool		ordered;		/* a unique column has changed, or there is a single row: row by row */
	int			npairs;			/* number of pairs that differ; 2: or more */
	Bitmapset  *changed;		/* attribute numbers */
} UpdateSummary;

typedef struct UpdateState
{
	ShardReferenceWrite *write;
	Tuplestorestate *rows[2];	/* old, new */
	TupleTableSlot *slots[2];
	AttrNumber *attnos;			/* columns that are sent */
	int			nattnos;
	ShardReferenceIdentity identity;
	UpdateSummary summary;
	ShardReferenceParams keys;	/* of the old rows */
	ShardReferenceParams values;	/* of the new rows: the changed columns */
} UpdateState;

/*
 * Reads the next pair of rows.  False if there is none.  Each store has its own read pointer, which
 * stays selected, since nothing else reads the stores at the same time.
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
 * Has the column the same bytes in both rows?  Equal values with different bytes count as changed,
 * which does no harm.
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
	Bitmapset  *unique = shard_reference_param_unique(state->write->rel);
	UpdateSummary *summary = &state->summary;

	while (next_pair(state))
	{
		if (summary->npairs < 2 && pair_differs(state))
			summary->npairs++;
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
	summary->ordered |= summary->npairs == 1;

	/* a generated column in a unique index counts, too, although it is not sent */
	for (int i = 0; summary->any && i < RelationGetDescr(state->write->rel)->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(state->write->rel), i);

		if (!att->attisdropped && att->attgenerated != '\0' &&
			bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, unique))
			summary->ordered = true;
	}
}

static const char *
update_sql(UpdateState *state)
{
	StringInfoData sql;
	ShardReferenceParams *values = &state->values;

	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE ONLY %s AS r SET ", state->write->relation);
	for (int i = 0; i < values->ncolumns; i++)
	{
		appendStringInfo(&sql, "%s%s = ", i > 0 ? ", " : "",
						 shard_reference_param_column(state->write->rel, values->attnos[i]));
		shard_reference_param_value(&sql, values, i);
	}
	if (!state->summary.ordered)
	{
		appendStringInfoString(&sql, " FROM ");
		shard_reference_param_rows(&sql, &state->keys, values);
	}
	appendStringInfoString(&sql, " WHERE ");
	shard_reference_param_match(&sql, state->write->rel, &state->keys, &state->identity);
	return sql.data;
}

static HTAB *
create_key_set(MemoryContext cxt)
{
	return shard_hash_table_create("shardfdw changed keys", 256, sizeof(uint64), sizeof(uint64), cxt);
}

static uint64
hash_keys(const ShardReferenceParams *keys)
{
	uint64		hash = 0;

	for (int i = 0; i < keys->ncolumns; i++)
		hash = hash_bytes_extended((const unsigned char *) keys->values[i],
								   strlen(keys->values[i]), hash);
	return hash;
}

/*
 * Sends rows in chunks, with one command each, which changes its rows in any order.  If a row
 * occurs again (a cascading foreign key may change it twice), a new chunk begins.  This also
 * happens, rarely, if the hashes of two rows are equal.
 */
static void
update_chunks(UpdateState *state, const char *sql)
{
	ShardReferenceWrite *write = state->write;
	HTAB	   *seen = create_key_set(write->cxt);
	Size		nbytes = 0;
	int64		nrows = 0;

	while (next_pair(state))
	{
		uint64		hash;
		bool		again;

		if (!pair_differs(state))
			continue;
		shard_reference_param_read(&state->keys, state->slots[0], write->row_cxt);
		shard_reference_param_read(&state->values, state->slots[1], write->row_cxt);
		hash = hash_keys(&state->keys);
		hash_search(seen, &hash, HASH_FIND, &again);
		if (nrows > 0 && (again || nrows >= SHARD_REFERENCE_CHUNK_ROWS || nbytes >= SHARD_REFERENCE_CHUNK_BYTES))
		{
			shard_reference_run(write, sql, &state->keys, &state->values, nrows, SHARD_REFERENCE_COUNT_AGAIN);
			nrows = nbytes = 0;
			hash_destroy(seen);
			seen = create_key_set(write->cxt);
		}
		hash_search(seen, &hash, HASH_ENTER, NULL);
		nbytes += shard_reference_param_append(&state->keys) + shard_reference_param_append(&state->values);
		nrows++;
		MemoryContextReset(write->row_cxt);
	}
	if (nrows > 0)
		shard_reference_run(write, sql, &state->keys, &state->values, nrows, SHARD_REFERENCE_COUNT_AGAIN);
	hash_destroy(seen);
}

/* Changes rows one after the other, in the coordinator's order.  Sends several commands at a time. */
static void
update_in_order(UpdateState *state, const char *sql)
{
	ShardReferenceWrite *write = state->write;
	bool		more = true;

	/* if a single row is not found, nothing has been changed */
	ShardReferenceCount count = state->summary.npairs == 1 ? SHARD_REFERENCE_COUNT_REST : SHARD_REFERENCE_COUNT_ONCE;

	/* Waits before the first command.  If a row is not found, a group that was changed in part cannot be run again. */
	if (count == SHARD_REFERENCE_COUNT_ONCE && !IsolationUsesXactSnapshot())
		shard_reference_run_settle(write);
	while (more)
	{
		List	   *params = NIL;
		MemoryContext oldcxt;

		/* the values of all rows of a group are in row_cxt */
		while (list_length(params) < ORDERED_ROWS && (more = next_pair(state)))
		{
			if (!pair_differs(state))
				continue;
			shard_reference_param_read(&state->keys, state->slots[0], write->row_cxt);
			shard_reference_param_read(&state->values, state->slots[1], write->row_cxt);
			oldcxt = MemoryContextSwitchTo(write->row_cxt);
			params = lappend(params, shard_reference_param_collect(&state->keys, &state->values));
			MemoryContextSwitchTo(oldcxt);
		}
		shard_reference_run_rows(write, sql, state->keys.ncolumns + state->values.ncolumns, params, 1, count);
		MemoryContextReset(write->row_cxt);
	}
}

void
shard_reference_send_update(Relation rel, Tuplestorestate *old_rows, Tuplestorestate *new_rows)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	ShardReferenceWrite write;
	UpdateState state = {0};
	AttrNumber *changed;
	int			nchanged = 0;
	int			attno = -1;

	shard_reference_run_begin(&write, rel);
	state.write = &write;
	state.rows[0] = old_rows;
	state.rows[1] = new_rows;
	for (int i = 0; i < 2; i++)
	{
		state.slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsMinimalTuple);
		shard_reference_send_rewind(state.rows[i]);
	}
	state.attnos = shard_reference_param_sent(RelationGetDescr(rel), &state.nattnos);
	shard_reference_param_identity(rel, "update", &state.identity);
	summarize(&state);

	changed = palloc(sizeof(AttrNumber) * Max(state.nattnos, 1));
	while ((attno = bms_next_member(state.summary.changed, attno)) >= 0)
		changed[nchanged++] = attno;
	shard_reference_param_init(&state.keys, rel, state.identity.attnos, state.identity.ncolumns, "k", 0, state.summary.ordered);
	shard_reference_param_init(&state.values, rel, changed, nchanged, "c", state.identity.ncolumns, state.summary.ordered);

	if (state.summary.ordered)
		update_in_order(&state, update_sql(&state));
	else if (state.summary.any)
		update_chunks(&state, update_sql(&state));

	for (int i = 0; i < 2; i++)
		ExecDropSingleTupleTableSlot(state.slots[i]);
	shard_reference_run_end(&write, caller_cxt);
}
