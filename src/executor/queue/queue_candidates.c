/*
 * queue_candidates.c
 *	  Candidates: the first rows of nodes, which a statement may take.  See queue_exec.c.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/queue/queue_private.h"
#include "executor/queue/queue_read.h"
#include "guc.h"
#include "nodes/value.h"
#include "remote/run/autocommit.h"
#include "remote/wire/connection.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

void
shard_queue_resolve_map(ShardQueueState *state)
{
	state->map = shard_map_get_now(state->plan->relid);
	if (state->map == NULL)
		elog(ERROR, "relation %u is not sharded", state->plan->relid);
}

void
shard_queue_read(ShardQueueState *state, ShardRun *run, ShardSnapshot *snapshot, ShardQueueRowTaker take, void *arg)
{
	ShardRow	row;

	shard_run_open(run, snapshot);
	while (shard_run_next(run, &row))
		take(state, run->current, &row, arg);
	state->run.nrows += run->nrows;
	state->run.nbytes += run->nbytes;
	MemoryContextDelete(run->cxt);
}

void
shard_queue_candidates_init(ShardQueueState *state)
{
	const ShardQueuePlan *plan = state->plan;
	int			ncolumns = SHARD_QUEUE_CANDIDATE_COLUMNS + plan->nsort;
	TupleDesc	desc = CreateTemplateTupleDesc(3 + plan->nsort);
	ShardOutput *columns = palloc0(sizeof(ShardOutput) * ncolumns);

	columns[0].type = INT4OID;
	columns[1].kind = SHARD_OUTPUT_SYSTEM;
	columns[1].target = SelfItemPointerAttributeNumber;
	columns[2].type = XIDOID;
	columns[2].target = 1;
	columns[3].type = OIDOID;
	columns[3].target = 2;
	TupleDescInitEntry(desc, 1, "shard", INT4OID, -1, 0);
	TupleDescInitEntry(desc, 2, "xmin", XIDOID, -1, 0);
	TupleDescInitEntry(desc, 3, "file", OIDOID, -1, 0);
	state->sort_keys = palloc0(sizeof(SortSupportData) * Max(plan->nsort, 1));
	for (int i = 0; i < plan->nsort; i++)
	{
		SortSupport key = &state->sort_keys[i];
		ShardOutput *column = &columns[SHARD_QUEUE_CANDIDATE_COLUMNS + i];

		column->type = plan->sort_outputs[i].type;
		column->typmod = plan->sort_outputs[i].typmod;
		column->target = 3 + i;
		TupleDescInitEntry(desc, 4 + i, NULL, column->type, column->typmod, 0);
		key->ssup_cxt = CurrentMemoryContext;
		key->ssup_collation = list_nth_oid(plan->sort_collations, i);
		key->ssup_nulls_first = list_nth_int(plan->sort_nulls_first, i) != 0;
		PrepareSortSupportFromOrderingOp(list_nth_oid(plan->sort_operators, i), key);
	}
	state->sort_decoder = shard_decode_create(desc, columns, ncolumns);
	state->sort_slot = shard_make_tuple_slot(desc, &TTSOpsVirtual);
}

static int
compare_candidates(const void *a, const void *b, void *arg)
{
	const ShardQueueCandidate *left = *(ShardQueueCandidate *const *) a;
	const ShardQueueCandidate *right = *(ShardQueueCandidate *const *) b;
	const ShardQueueState *state = arg;

	for (int i = 0; i < state->plan->nsort; i++)
	{
		int			order = ApplySortComparator(left->values[i], left->isnull[i], right->values[i], right->isnull[i], &state->sort_keys[i]);

		if (order != 0)
			return order;
	}
	return 0;
}

static void
take_candidate(ShardQueueState *state, int i, const ShardRow *row, void *arg)
{
	ShardQueueNode *node = (ShardQueueNode *) arg + i;
	ShardQueueCandidate  *candidate = palloc0(sizeof(ShardQueueCandidate));
	TupleTableSlot *slot = state->sort_slot;

	/* the values are allocated next to the candidate */
	shard_decode_row(state->sort_decoder, row, slot, CurrentMemoryContext);
	candidate->shardno = DatumGetInt32(slot->tts_values[0]);
	candidate->xmin = DatumGetTransactionId(slot->tts_values[1]);
	candidate->file = DatumGetObjectId(slot->tts_values[2]);
	candidate->ctid = slot->tts_tid;
	candidate->values = palloc(sizeof(Datum) * Max(state->plan->nsort, 1));
	candidate->isnull = palloc(sizeof(bool) * Max(state->plan->nsort, 1));
	memcpy(candidate->values, slot->tts_values + 3, sizeof(Datum) * state->plan->nsort);
	memcpy(candidate->isnull, slot->tts_isnull + 3, sizeof(bool) * state->plan->nsort);
	node->rows = lappend(node->rows, candidate);
}

/*
 * Returns a UNION ALL of the node's shards.  If a child table of a shard has a row, the query
 * fails: the ctid of such a row says nothing about the shard's own rows.
 */
static char *
union_of_shards(const ShardMap *map, int nodeno, const char *columns)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < map->nshards; i++)
	{
		const Shard *shard = &map->shards[i];
		char	   *name;

		if (shard->nodeno != nodeno)
			continue;
		name = quote_literal_cstr(shard->relation);
		appendStringInfo(&buf, "%sSELECT %d AS tableoid, CASE tableoid WHEN %s::pg_catalog.regclass THEN ctid"
						 " ELSE ('row of child table ' || tableoid::pg_catalog.regclass::pg_catalog.text)::pg_catalog.tid END AS ctid, xmin,"
						 " (SELECT pg_catalog.pg_relation_filenode(%s::pg_catalog.regclass)) AS xmax%s FROM %s",
						 buf.len > 0 ? " UNION ALL " : "(", i, name, name, columns, shard->relation);
		pfree(name);
	}
	appendStringInfoChar(&buf, ')');
	return buf.data;
}

char *
shard_queue_candidates_sql(const ShardQueueState *state, int nodeno, uint64 limit)
{
	const char *relations[1];
	StringInfoData sql;

	relations[0] = union_of_shards(state->map, nodeno, state->plan->columns);
	initStringInfo(&sql);
	shard_param_render(&sql, state->plan->candidates, relations, NULL, false, NULL);
	if (limit > 0)
		appendStringInfo(&sql, " LIMIT " UINT64_FORMAT, limit);
	return sql.data;
}

/* Requests limit candidates from each of these nodes. */
static void
read_nodes(ShardQueueState *state, ShardQueueNode *nodes, int nnodes, uint64 limit)
{
	ShardRun	run = {.cxt = AllocSetContextCreate(state->run_cxt, "shard candidates", ALLOCSET_SMALL_SIZES)};
	bool		as_writer = IsolationUsesXactSnapshot() || shard_guc_snapshot == SHARD_SNAPSHOT_CLUSTER;
	ShardSnapshot *snapshot = shard_txn_snapshot(run.cxt);

	run.spec.userid = state->run.spec.userid;
	run.spec.ncolumns = SHARD_QUEUE_CANDIDATE_COLUMNS + state->plan->nsort;
	run.spec.as_writer = run.spec.only_reads = as_writer;
	run.spec.level = as_writer && state->plan->operation == CMD_SELECT ? NULL : state->level;
	run.spec.is_prepared = true;
	run.ntargets = nnodes;
	run.targets = palloc0(sizeof(ShardRunTarget) * nnodes);
	for (int i = 0; i < nnodes; i++)
	{
		ShardRunTarget *target = &run.targets[i];

		nodes[i].limit = limit;
		target->serverid = state->map->nodes[nodes[i].nodeno].serverid;
		target->label = get_rel_name(state->plan->relid);
		target->sql = shard_queue_candidates_sql(state, nodes[i].nodeno, limit);
		target->nparams = shard_param_count(state->plan->candidates, NIL);
		target->params = state->values;
		if (!as_writer)
			shard_snapshot_expect(snapshot, target->serverid, run.spec.userid, 1);
	}
	shard_queue_read(state, &run, snapshot, take_candidate, nodes);
}

int
shard_queue_compare_places(const ListCell *a, const ListCell *b)
{
	ShardQueueCandidate  *left = lfirst(a);
	ShardQueueCandidate  *right = lfirst(b);

	if (left->shardno != right->shardno)
		return left->shardno < right->shardno ? -1 : 1;
	return ItemPointerCompare(&left->ctid, &right->ctid);
}

static int
compare_cells(const void *a, const void *b)
{
	return shard_queue_compare_places(a, b);
}

ShardQueueCandidate *
shard_queue_candidates_find(const List *sorted, ShardQueueCandidate *key)
{
	ListCell	cell = {.ptr_value = key};
	ListCell   *found = sorted == NIL ? NULL : bsearch(&cell, sorted->elements, list_length(sorted), sizeof(ListCell), compare_cells);

	return found ? lfirst(found) : NULL;
}

bool
shard_queue_candidates_read(ShardQueueState *state, ShardQueueNode *nodes, int nnodes, uint64 limit)
{
	ShardQueueCandidate **all;
	List	   *locked = state->plan->skips ? list_copy(state->locked) : NIL;
	int			nall = 0;
	int			n = 0;

	/* in a transaction with a single snapshot, a row that is gone makes the statement fail */
	state->since = IsolationUsesXactSnapshot() ? PG_UINT64_MAX : shard_claim_now();
	read_nodes(state, nodes, nnodes, limit);
	for (int i = 0; i < nnodes; i++)
		nall += list_length(nodes[i].rows);
	all = palloc(sizeof(ShardQueueCandidate *) * Max(nall, 1));
	for (int i = 0; i < nnodes; i++)
	{
		foreach_ptr(ShardQueueCandidate, row, nodes[i].rows)
			all[n++] = row;
		if (list_length(nodes[i].rows) >= nodes[i].limit)
			all[n - 1]->is_last = true;
	}
	if (nnodes > 1)
		qsort_arg(all, nall, sizeof(ShardQueueCandidate *), compare_candidates, state);

	list_sort(locked, shard_queue_compare_places);
	state->candidates = palloc(sizeof(ShardQueueCandidate) * Max(nall, 1));
	state->ncandidates = 0;
	for (int i = 0; i < nall; i++)
	{
		/* new rows may precede those that were tried, and may include rows that this transaction has already taken */
		if ((state->tried == NULL || compare_candidates(&all[i], &state->tried, state) >= 0) &&
			shard_queue_candidates_find(locked, all[i]) == NULL)
			state->candidates[state->ncandidates++] = *all[i];
		if (all[i]->is_last)
			return true;
	}
	return false;
}

/* ---------- shared with other sessions ---------- */

bool
shard_queue_candidates_may_share(const ShardQueueState *state)
{
	return state->nwanted == 1 && state->plan->skips && state->plan->nsort > 0 && shard_guc_snapshot != SHARD_SNAPSHOT_CLUSTER && shard_autocommit_possible();
}

/*
 * Returns what candidates depend on in addition to table and user: the query and its values, the
 * placement of shards, the session's settings.
 */
static StringInfo
share_key(const ShardQueueState *state, uint64 limit)
{
	StringInfo	key = makeStringInfo();
	int			nparams = shard_param_count(state->plan->candidates, NIL);

	appendStringInfo(key, UINT64_FORMAT " ", limit);
	for (int i = 0; i < state->map->nshards; i++)
	{
		const Shard *shard = &state->map->shards[i];

		appendBinaryStringInfo(key, (const char *) &shard->relid, sizeof(Oid));
		appendBinaryStringInfo(key, (const char *) &shard->serverid, sizeof(Oid));
	}
	foreach_ptr(Node, part, state->plan->candidates)
	{
		if (IsA(part, String))
			appendStringInfoString(key, strVal(part));
		else
			appendStringInfo(key, "$%d", intVal(part));
		appendStringInfoChar(key, '\0');
	}
	for (int i = 0; i < nparams; i++)
	{
		/* distinguishes NULL from an empty value */
		appendStringInfoChar(key, state->values[i] ? 'v' : 'n');
		appendStringInfoString(key, state->values[i] ? state->values[i] : "");
		appendStringInfoChar(key, '\0');
	}
	shard_connection_append_settings(key);
	return key;
}

bool
shard_queue_candidates_share(ShardQueueState *state, ShardQueueNode *nodes, int nnodes, uint64 limit)
{
	ShardQueueRows *rows = palloc(sizeof(ShardQueueRows));
	StringInfo	key = share_key(state, limit);

	if (shard_queue_read_join(state->plan->relid, state->run.spec.userid, key->data, key->len, rows))
	{
		state->since = rows->since;
		state->ncandidates = rows->nrows;
		state->candidates = palloc0(sizeof(ShardQueueCandidate) * Max(rows->nrows, 1));
		for (int i = 0; i < rows->nrows; i++)
		{
			state->candidates[i].shardno = rows->rows[i].shardno;
			state->candidates[i].xmin = rows->rows[i].xmin;
			state->candidates[i].file = rows->rows[i].file;
			state->candidates[i].ctid = rows->rows[i].ctid;
		}
		return rows->more;
	}
	rows->more = shard_queue_candidates_read(state, nodes, nnodes, limit);
	rows->since = state->since;
	rows->nrows = state->ncandidates;
	for (int i = 0; i < Min(state->ncandidates, SHARD_QUEUE_MAX_ROWS); i++)
	{
		const ShardQueueCandidate *candidate = &state->candidates[i];

		rows->rows[i] = (ShardQueueRow) {candidate->shardno, candidate->xmin, candidate->file, candidate->ctid};
	}
	shard_queue_read_end(state->ncandidates <= SHARD_QUEUE_MAX_ROWS ? rows : NULL);
	return rows->more;
}
