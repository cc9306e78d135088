/*
 * take_exec.c
 *	  Takes rows of a table as jobs from a queue, over all of its shards: SELECT ... LIMIT n FOR UPDATE [SKIP LOCKED],
 *	  and UPDATE or DELETE of just these rows.
 *
 *	 candidates: the first rows of each node, not locked --> merged in the statement's order
 *	   one row is wanted	locked and changed by one command of its shard; if it is not free any more the next one
 *	   several				as many as are wanted are locked on their shards at the same time; then as many as
 *							were not free; in the end all are changed
 *	 all candidates tried, but nodes have more --> more candidates
 *
 * Sessions of a server claim rows before they ask for them (take_claim.c), and read candidates for each other
 * (take_read.c).
 *
 * Why the result is that of a plain table.  A candidate is known by ctid and xmin in a file.  No two versions of rows
 * there have both in common: what is inserted after the candidates were read has another xmin, and who moves rows with
 * theirs (VACUUM FULL) makes another file.  So a row that is locked is the version that was read, and the statement's
 * conditions hold for it.  What is not found somebody has locked, or has changed
 * meanwhile; then it is left out, as if he had it locked still.  Candidates are tried in their order, and only as
 * long as all nodes have given theirs up to there; no more are locked than are wanted.
 *
 * Rows that come into the table while candidates are read anew are taken only if they are behind those that were
 * tried, so rows are returned in order.
 *
 * Without SKIP LOCKED, who has a row is waited for, and rows are locked in the statement's order, one after the other, so
 * that sessions do not wait for each other in a circle where those of one server would not.  What is not found then has been
 * changed, and its new version may be wanted, or not: candidates are read anew.  What is locked stays as it is, so in the end
 * all that are wanted, as they were read last, are locked.  A row that is changed all the time may be another one each time; then
 * the shard locks its first rows up to that one by itself, as it does for its own clients, in whatever order that is.
 *
 * In transactions with one snapshot, and with shardfdw.snapshot = 'cluster', candidates are read by the transaction that
 * locks them.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "executor/explain.h"
#include "executor/scan/param.h"
#include "executor/scan/scan.h"
#include "executor/scan/statement_view.h"
#include "executor/take_claim.h"
#include "executor/take_exec.h"
#include "executor/take_read.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/value.h"
#include "port/pg_bswap.h"
#include "remote/run/autocommit.h"
#include "remote/run/command.h"
#include "remote/run/stream.h"
#include "remote/wire/connection.h"
#include "tuple/decode.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

/*
 * Candidates that each node gives at first beyond those that are wanted, and as many again: others may be taking the same
 * ones, as many at a time as is wanted here.
 */
#define SPARE_CANDIDATES 7
#define MORE_CANDIDATES 8		/* times as many the next time */

/* Up to so many rows are locked in order where others are waited for; more on all shards at once. */
#define MAX_IN_ORDER 100

/* So often candidates are read anew before a shard has to lock its first ones by itself. */
#define MAX_READ_ANEW 20

/* Columns of candidates before those that they are sorted by. */
#define CANDIDATE_COLUMNS 4

typedef struct Candidate
{
	int			shardno;
	ItemPointerData ctid;
	TransactionId xmin;
	Oid			file;			/* of the shard, in which it is */
	Datum	   *values;			/* that it is sorted by */
	bool	   *isnull;
	bool		is_last;		/* the node has more behind this one */
	bool		locked;
	bool		changed;
	MinimalTuple row;			/* SELECT: what it returns */
} Candidate;

/* What a shard is asked to do with some candidates. */
typedef struct ShardWork
{
	int			shardno;
	List	   *candidates;		/* of Candidate */
	const char *sql;
	int			nparams;
	const char **params;
} ShardWork;

typedef struct ShardTakeState
{
	CustomScanState css;		/* first: core's */
	ShardTakePlan *plan;
	ShardParams *params;
	int			nparams;		/* custom_exprs */
	const ShardMap *map;
	List	   *rels;			/* the table, open */
	Oid			userid;			/* whose mappings are used */
	ShardTxnLevel *level;		/* in which it began */
	ShardDecoder *decoder;		/* of the statement's rows; NULL: it has none */
	ShardDecoder *sort_decoder; /* of candidates */
	TupleTableSlot *sort_slot;
	SortSupport sort_keys;

	/* from the first call on; in run_cxt */
	MemoryContext run_cxt;
	MemoryContext row_cxt;
	bool		started;
	const char **values;		/* text forms of the parameters */
	uint64		nwanted;
	uint64		since;			/* candidates were read after that: see take_claim.h */
	Candidate  *candidates;		/* in order */
	int			ncandidates;
	Candidate  *tried;			/* the last one that was tried; NULL: none */
	List	   *locked;			/* of Candidate, in order */
	int64		nchanged;
	Tuplestorestate *rows;		/* what it returns; NULL: nothing */
	TupleTableSlot *row_slot;	/* one of them */
	uint64		nrows;
	uint64		nbytes;
} ShardTakeState;

/* ------------------------------------------------------------------------
 * Begin
 * ------------------------------------------------------------------------ */

static void
create_sort(ShardTakeState *state)
{
	const ShardTakePlan *plan = state->plan;
	int			ncolumns = CANDIDATE_COLUMNS + plan->nsort;
	TupleDesc	desc = CreateTemplateTupleDesc(3 + plan->nsort);
	ShardDecodeColumn *columns = palloc0(sizeof(ShardDecodeColumn) * ncolumns);

	columns[0].type = INT4OID;
	columns[1].kind = SHARD_DECODE_CTID;
	columns[1].type = TIDOID;
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
		ShardDecodeColumn *column = &columns[CANDIDATE_COLUMNS + i];

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

static ShardDecoder *
create_decoder(const ShardTakePlan *plan, TupleDesc desc)
{
	ShardDecodeColumn *columns = palloc0(sizeof(ShardDecodeColumn) * Max(plan->noutputs, 1));

	for (int i = 0; i < plan->noutputs; i++)
	{
		columns[i].kind = plan->outputs[i].kind == SHARD_OUTPUT_TEXT ? SHARD_DECODE_TEXT : SHARD_DECODE_BINARY;
		columns[i].target = plan->outputs[i].target;
		columns[i].type = plan->outputs[i].type;
		columns[i].typmod = plan->outputs[i].typmod;
	}
	return shard_decode_create(desc, columns, plan->noutputs);
}

static void
resolve_map(ShardTakeState *state)
{
	state->map = shard_map_get_now(state->plan->relid);
	if (state->map == NULL)
		elog(ERROR, "relation %u is not sharded", state->plan->relid);
}

static void
take_begin(CustomScanState *node, EState *estate, int eflags)
{
	ShardTakeState *state = (ShardTakeState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;

	state->plan = shard_plan_private_unpack_take(cscan->custom_private);
	state->nparams = list_length(cscan->custom_exprs);
	state->params = shard_param_create(cscan->custom_exprs, &node->ss.ps);
	resolve_map(state);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state->userid = OidIsValid(state->plan->check_as_user) ? state->plan->check_as_user : GetUserId();
	state->level = shard_txn_level_create(estate->es_query_cxt);
	state->rels = shard_scan_open_rels(estate, list_make1_oid(state->plan->relid));
	state->run_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard take", ALLOCSET_DEFAULT_SIZES);
	state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard take row", ALLOCSET_SMALL_SIZES);
	create_sort(state);
	if (state->plan->returns_rows)
	{
		TupleDesc	desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;

		state->decoder = create_decoder(state->plan, desc);
		state->row_slot = shard_make_tuple_slot(desc, &TTSOpsMinimalTuple);
	}
}

/* ------------------------------------------------------------------------
 * Streams
 * ------------------------------------------------------------------------ */

typedef void (*RowTaker) (ShardTakeState *state, int i, const ShardRow *row, void *arg);

/* Reads all streams to their ends; take gets the number of the stream with each row. */
static void
read_streams(ShardTakeState *state, ShardStream **streams, int nstreams, RowTaker take, void *arg)
{
	ShardWaitSet *set = NULL;
	int			nopen = nstreams;

	while (nopen > 0)
	{
		bool		idle = true;

		for (int i = 0; i < nstreams; i++)
		{
			ShardStreamStatus status = SHARD_STREAM_WAIT;
			ShardRow	row;

			while (streams[i] != NULL && (status = shard_stream_next(streams[i], &row)) == SHARD_STREAM_ROW)
				take(state, i, &row, arg);
			if (streams[i] == NULL || status != SHARD_STREAM_DONE)
				continue;
			state->nrows += shard_stream_rows(streams[i]);
			state->nbytes += shard_stream_bytes(streams[i]);
			shard_stream_close(streams[i]);
			streams[i] = NULL;
			nopen--;
			idle = false;
		}
		if (nopen == 0 || !idle)
			continue;
		if (set == NULL)
			set = shard_wait_set_create(CurrentMemoryContext);
		shard_stream_wait(streams, nstreams, set);
	}
}

/* ------------------------------------------------------------------------
 * Candidates
 * ------------------------------------------------------------------------ */

/* Rows of one node. */
typedef struct NodeCandidates
{
	int			nodeno;
	uint64		limit;
	List	   *rows;			/* of Candidate */
} NodeCandidates;

static int
compare_candidates(const void *a, const void *b, void *arg)
{
	const Candidate *left = *(Candidate *const *) a;
	const Candidate *right = *(Candidate *const *) b;
	const ShardTakeState *state = arg;

	for (int i = 0; i < state->plan->nsort; i++)
	{
		int			order = ApplySortComparator(left->values[i], left->isnull[i], right->values[i], right->isnull[i], &state->sort_keys[i]);

		if (order != 0)
			return order;
	}
	return 0;
}

static void
take_candidate(ShardTakeState *state, int i, const ShardRow *row, void *arg)
{
	NodeCandidates *node = (NodeCandidates *) arg + i;
	Candidate  *candidate = palloc0(sizeof(Candidate));
	TupleTableSlot *slot = state->sort_slot;

	/* values lie where the candidates do */
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

/* A union of the node's shards.  A row of a child table of a shard makes the query fail, as its ctid says nothing about the shard's own rows. */
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

static char *
candidates_sql(const ShardTakeState *state, int nodeno, uint64 limit)
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

/* Asks these nodes for limit candidates each. */
static void
read_nodes(ShardTakeState *state, NodeCandidates *nodes, int nnodes, uint64 limit)
{
	MemoryContext cxt = AllocSetContextCreate(state->run_cxt, "shard candidates", ALLOCSET_SMALL_SIZES);
	bool		as_writer = IsolationUsesXactSnapshot() || shard_guc_snapshot == SHARD_SNAPSHOT_CLUSTER;
	ShardSnapshot *snapshot = shard_txn_snapshot(cxt);
	ShardStream **streams = palloc(sizeof(ShardStream *) * nnodes);
	int			nparams = shard_param_count(state->plan->candidates, NIL);

	for (int i = 0; i < nnodes && !as_writer; i++)
		shard_snapshot_expect(snapshot, state->map->nodes[nodes[i].nodeno].serverid, state->userid, 1);
	for (int i = 0; i < nnodes; i++)
	{
		const ShardNode *node = &state->map->nodes[nodes[i].nodeno];
		ShardStreamSpec spec = {0};

		nodes[i].limit = limit;
		spec.serverid = node->serverid;
		spec.userid = state->userid;
		spec.sql = candidates_sql(state, nodes[i].nodeno, limit);
		spec.label = get_rel_name(state->plan->relid);
		spec.ncolumns = CANDIDATE_COLUMNS + state->plan->nsort;
		spec.as_writer = spec.only_reads = as_writer;
		spec.level = as_writer && state->plan->operation == CMD_SELECT ? NULL : state->level;
		spec.workers = -1;
		spec.is_prepared = true;
		spec.nparams = nparams;
		spec.params = state->values;
		streams[i] = shard_stream_open(cxt, snapshot, &spec);
	}
	read_streams(state, streams, nnodes, take_candidate, nodes);
	pfree(streams);
	/* ends what reads, before anything is locked */
	MemoryContextDelete(cxt);
}

/* Compares candidates (ListCell) by where they are. */
static int
compare_places(const ListCell *a, const ListCell *b)
{
	Candidate  *left = lfirst(a);
	Candidate  *right = lfirst(b);

	if (left->shardno != right->shardno)
		return left->shardno < right->shardno ? -1 : 1;
	return ItemPointerCompare(&left->ctid, &right->ctid);
}

static int
compare_cells(const void *a, const void *b)
{
	return compare_places(a, b);
}

/* The candidate of the list, which compare_places() has sorted, that is where key is; NULL: none. */
static Candidate *
find_candidate(const List *sorted, Candidate *key)
{
	ListCell	cell = {.ptr_value = key};
	ListCell   *found = sorted == NIL ? NULL : bsearch(&cell, sorted->elements, list_length(sorted), sizeof(ListCell), compare_cells);

	return found ? lfirst(found) : NULL;
}

/*
 * Reads candidates of nodes, limit of each, and puts those that may be tried in order: up to the last one of a node
 * that has more.  Returns whether there are more to be read behind them.
 */
static bool
read_candidates(ShardTakeState *state, NodeCandidates *nodes, int nnodes, uint64 limit)
{
	Candidate **all;
	List	   *locked = state->plan->skips ? list_copy(state->locked) : NIL;
	int			nall = 0;
	int			n = 0;

	/* in a transaction with one snapshot, a row that is gone fails the statement */
	state->since = IsolationUsesXactSnapshot() ? PG_UINT64_MAX : shard_claim_now();
	read_nodes(state, nodes, nnodes, limit);
	for (int i = 0; i < nnodes; i++)
		nall += list_length(nodes[i].rows);
	all = palloc(sizeof(Candidate *) * Max(nall, 1));
	for (int i = 0; i < nnodes; i++)
	{
		ListCell   *lc;

		foreach(lc, nodes[i].rows)
			all[n++] = lfirst(lc);
		if (list_length(nodes[i].rows) >= nodes[i].limit)
			all[n - 1]->is_last = true;
	}
	if (nnodes > 1)
		qsort_arg(all, nall, sizeof(Candidate *), compare_candidates, state);

	list_sort(locked, compare_places);
	state->candidates = palloc(sizeof(Candidate) * Max(nall, 1));
	state->ncandidates = 0;
	for (int i = 0; i < nall; i++)
	{
		/* before those that were tried there may be new ones, and among them those that are this transaction's already */
		if ((state->tried == NULL || compare_candidates(&all[i], &state->tried, state) >= 0) && find_candidate(locked, all[i]) == NULL)
			state->candidates[state->ncandidates++] = *all[i];
		if (all[i]->is_last)
			return true;
	}
	return false;
}

/* ---------- together with other sessions ---------- */

/*
 * May candidates be read for, or by, other sessions?  Not where the transaction has changed rows, which others do not see, or
 * has a snapshot of its own; and only by who wants one row, as many need many candidates.
 */
static bool
may_share(const ShardTakeState *state)
{
	return state->nwanted == 1 && state->plan->skips && state->plan->nsort > 0 && shard_guc_snapshot != SHARD_SNAPSHOT_CLUSTER && shard_autocommit_possible();
}

/* What candidates depend on beside table and user: the query and its values, where shards are, the session's settings. */
static StringInfo
share_key(const ShardTakeState *state, uint64 limit)
{
	StringInfo	key = makeStringInfo();
	int			nparams = shard_param_count(state->plan->candidates, NIL);
	ListCell   *lc;

	appendStringInfo(key, UINT64_FORMAT " ", limit);
	for (int i = 0; i < state->map->nshards; i++)
	{
		const Shard *shard = &state->map->shards[i];

		appendBinaryStringInfo(key, (const char *) &shard->relid, sizeof(Oid));
		appendBinaryStringInfo(key, (const char *) &shard->serverid, sizeof(Oid));
	}
	foreach(lc, state->plan->candidates)
	{
		if (IsA(lfirst(lc), String))
			appendStringInfoString(key, strVal(lfirst(lc)));
		else
			appendStringInfo(key, "$%d", intVal(lfirst(lc)));
		appendStringInfoChar(key, '\0');
	}
	for (int i = 0; i < nparams; i++)
	{
		/* null is not an empty value, nor any other */
		appendStringInfoChar(key, state->values[i] ? 'v' : 'n');
		appendStringInfoString(key, state->values[i] ? state->values[i] : "");
		appendStringInfoChar(key, '\0');
	}
	shard_connection_append_settings(key);
	return key;
}

/* As read_candidates(), of all nodes; or what another session has read. */
static bool
share_candidates(ShardTakeState *state, NodeCandidates *nodes, int nnodes, uint64 limit)
{
	ShardTakeRows *rows = palloc(sizeof(ShardTakeRows));
	StringInfo	key = share_key(state, limit);

	if (shard_take_read_join(state->plan->relid, state->userid, key->data, key->len, rows))
	{
		state->since = rows->since;
		state->ncandidates = rows->nrows;
		state->candidates = palloc0(sizeof(Candidate) * Max(rows->nrows, 1));
		for (int i = 0; i < rows->nrows; i++)
		{
			state->candidates[i].shardno = rows->rows[i].shardno;
			state->candidates[i].xmin = rows->rows[i].xmin;
			state->candidates[i].file = rows->rows[i].file;
			state->candidates[i].ctid = rows->rows[i].ctid;
		}
		return rows->more;
	}
	PG_TRY();
	{
		rows->more = read_candidates(state, nodes, nnodes, limit);
	}
	PG_CATCH();
	{
		shard_take_read_end(NULL);
		PG_RE_THROW();
	}
	PG_END_TRY();
	rows->since = state->since;
	rows->nrows = state->ncandidates;
	for (int i = 0; i < Min(state->ncandidates, SHARD_TAKE_MAX_ROWS); i++)
	{
		const Candidate *candidate = &state->candidates[i];

		rows->rows[i] = (ShardTakeRow) {candidate->shardno, candidate->xmin, candidate->file, candidate->ctid};
	}
	shard_take_read_end(state->ncandidates <= SHARD_TAKE_MAX_ROWS ? rows : NULL);
	return rows->more;
}

/* ------------------------------------------------------------------------
 * Work of shards
 * ------------------------------------------------------------------------ */

/* The array of the candidates' ctids, as text. */
static char *
ctids_of(List *candidates)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, candidates)
	{
		const Candidate *candidate = lfirst(lc);

		appendStringInfo(&buf, "%c\"(%u,%u)\"", buf.len == 0 ? '{' : ',', ItemPointerGetBlockNumber(&candidate->ctid),
						 ItemPointerGetOffsetNumber(&candidate->ctid));
	}
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/* The same of their xmins, each once: a node compares every row with all of them. */
static char *
xmins_of(List *candidates)
{
	List	   *xids = NIL;
	TransactionId last = InvalidTransactionId;
	StringInfoData buf;
	ListCell   *lc;

	foreach(lc, candidates)
		xids = lappend_oid(xids, ((const Candidate *) lfirst(lc))->xmin);
	list_sort(xids, list_oid_cmp);
	initStringInfo(&buf);
	foreach(lc, xids)
	{
		if (lfirst_oid(lc) != last)
			appendStringInfo(&buf, "%c%u", buf.len == 0 ? '{' : ',', lfirst_oid(lc));
		last = lfirst_oid(lc);
	}
	appendStringInfoChar(&buf, '}');
	list_free(xids);
	return buf.data;
}

/* candidates (of Candidate) by their shards: of ShardWork */
static List *
make_works(List *candidates)
{
	List	   *works = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, candidates)
	{
		Candidate  *candidate = lfirst(lc);
		ShardWork  *work = NULL;

		foreach(lc2, works)
		{
			work = lfirst(lc2);
			if (work->shardno == candidate->shardno)
				break;
			work = NULL;
		}
		if (work == NULL)
		{
			work = palloc0(sizeof(ShardWork));
			work->shardno = candidate->shardno;
			works = lappend(works, work);
		}
		work->candidates = lappend(work->candidates, candidate);
	}
	return works;
}

/* The text of template for a shard. */
static char *
work_sql(const ShardMap *map, const ShardTemplate *template, int shardno)
{
	const char *relations[1];
	StringInfoData sql;

	relations[0] = psprintf("ONLY %s", map->shards[shardno].relation);
	initStringInfo(&sql);
	shard_param_render(&sql, template, relations, NULL, false, NULL);
	return sql.data;
}

/* To lock the first n rows of a shard, as it does for its own clients. */
static ShardWork *
first_rows_work(const ShardTakeState *state, int shardno, int n)
{
	ShardWork  *work = palloc0(sizeof(ShardWork));

	work->shardno = shardno;
	work->sql = psprintf("%s LIMIT %d %s", work_sql(state->map, state->plan->candidates, shardno), n, state->plan->locking);
	work->nparams = shard_param_count(state->plan->candidates, NIL);
	work->params = state->values;
	return work;
}

/* Text and parameters of what template says is to be done with the candidates of works. */
static void
prepare_works(ShardTakeState *state, List *works, const ShardTemplate *template)
{
	const ShardTakePlan *plan = state->plan;
	bool		by_rows_only = template == plan->lock && plan->operation != CMD_SELECT;
	int			nothers = by_rows_only ? 0 : state->nparams - plan->limit_param;
	ListCell   *lc;

	foreach(lc, works)
	{
		ShardWork  *work = lfirst(lc);

		work->sql = work_sql(state->map, template, work->shardno);
		work->nparams = shard_param_count(template, NIL);
		work->params = palloc0(sizeof(char *) * (nothers + 3));
		memcpy(work->params, state->values + plan->limit_param, sizeof(char *) * nothers);
		work->params[by_rows_only ? 0 : plan->ctids_param - 1] = ctids_of(work->candidates);
		work->params[by_rows_only ? 1 : nothers] = xmins_of(work->candidates);
		work->params[by_rows_only ? 2 : nothers + 1] = psprintf("%u", ((Candidate *) linitial(work->candidates))->file);
	}
}

/* Locks shards against moves.  False: the table's map is another one now. */
static bool
lock_shards(ShardTakeState *state, List *works)
{
	bool		current = true;
	ListCell   *lc;

	foreach(lc, works)
		current &= shard_map_lock(state->map, ((ShardWork *) lfirst(lc))->shardno,
								  state->plan->operation == CMD_SELECT ? RowShareLock : RowExclusiveLock);
	return current;
}

/* Runs works on their shards, at the same time where these are on different nodes; take gets the number of the work with each row. */
static void
run_works(ShardTakeState *state, List *works, int ncolumns, RowTaker take)
{
	MemoryContext cxt = AllocSetContextCreate(state->run_cxt, "shard works", ALLOCSET_SMALL_SIZES);
	bool		only_locks = state->plan->operation == CMD_SELECT;
	ShardSnapshot *snapshot = shard_txn_snapshot(cxt);
	ShardStream **streams = palloc(sizeof(ShardStream *) * list_length(works));
	ListCell   *lc;

	foreach(lc, works)
	{
		const ShardWork *work = lfirst(lc);
		const Shard *shard = &state->map->shards[work->shardno];
		ShardStreamSpec spec = {0};

		spec.serverid = shard->serverid;
		spec.userid = state->userid;
		spec.sql = work->sql;
		spec.label = shard->name;
		spec.ncolumns = ncolumns;
		spec.portable_text = state->decoder && shard_decode_has_styled_text(state->decoder);
		spec.as_writer = true;
		spec.only_locks = only_locks;
		spec.level = only_locks ? NULL : state->level;
		spec.workers = -1;
		spec.nparams = work->nparams;
		spec.params = work->params;
		streams[foreach_current_index(lc)] = shard_stream_open(cxt, snapshot, &spec);
	}
	read_streams(state, streams, list_length(works), take, works);
	pfree(streams);
	MemoryContextDelete(cxt);
}

/* The columns of row from first on, as one of the statement's rows. */
static TupleTableSlot *
decode_output(ShardTakeState *state, const ShardRow *row, int first)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	ShardRow	rest = {row->ncols - first, row->values + first, row->lens + first};

	MemoryContextReset(state->row_cxt);
	shard_decode_row(state->decoder, &rest, slot, state->row_cxt);
	return slot;
}

static void
add_output(ShardTakeState *state, const ShardRow *row, int first)
{
	tuplestore_puttupleslot(state->rows, decode_output(state, row, first));
}

static void
count_changed(ShardTakeState *state, int64 nchanged)
{
	state->nchanged += nchanged;
	if (state->plan->set_processed)
		state->css.ss.ps.state->es_processed += nchanged;
	if (state->css.ss.ps.instrument && !state->plan->returns_rows)
		state->css.ss.ps.instrument->tuplecount += nchanged;
}

static int64
int8_of(const ShardRow *row, int colno)
{
	uint64		value;

	if (row->lens[colno] != sizeof(value))
		elog(ERROR, "a node has returned a count of %d bytes", row->lens[colno]);
	memcpy(&value, row->values[colno], sizeof(value));
	return (int64) pg_ntoh64(value);
}

static ShardClaimRow
claim_row(const ShardTakeState *state, const Candidate *candidate)
{
	ShardClaimRow row = {state->map->shards[candidate->shardno].relid, candidate->xmin, candidate->ctid};

	return row;
}

/* ---------- one row ---------- */

/* A row of the command that locks and changes one row: whether it was free, and what became of it. */
static void
take_one_row(ShardTakeState *state, int i, const ShardRow *row, void *arg)
{
	ShardWork  *work = linitial((List *) arg);
	Candidate  *candidate = linitial(work->candidates);

	if (int8_of(row, 0) == 0)
		return;
	candidate->locked = true;
	if (!state->plan->returns_rows)
	{
		candidate->changed = int8_of(row, 1) > 0;
		count_changed(state, int8_of(row, 1));
	}
	else if (row->lens[1] >= 0)
	{
		candidate->changed = true;
		add_output(state, row, 2);
	}
}

/* Locks and changes the row of work, if it is free. */
static void
take_one(ShardTakeState *state, ShardWork *work)
{
	const Shard *shard = &state->map->shards[work->shardno];
	Candidate  *candidate = linitial(work->candidates);
	ShardCommand command = {0};
	int64		nlocked;
	int64		nchanged;

	prepare_works(state, list_make1(work), state->plan->take);
	command.serverid = shard->serverid;
	command.userid = state->userid;
	command.label = shard->name;
	command.sql = work->sql;
	command.nparams = work->nparams;
	command.params = work->params;
	if (!state->plan->returns_rows && shard_autocommit_possible() &&
		shard_statement_view_is_alone(state->css.ss.ps.state) && shard_autocommit_take(&command, &nlocked, &nchanged))
	{
		candidate->locked = nlocked > 0;
		candidate->changed = nchanged > 0;
		count_changed(state, nchanged);
		return;
	}
	run_works(state, list_make1(work), 2 + (state->plan->returns_rows ? state->plan->noutputs : 0), take_one_row);
}

/* ---------- several rows ---------- */

/* A row that has been locked: its ctid, and what SELECT returns of it. */
static void
take_locked_row(ShardTakeState *state, int i, const ShardRow *row, void *arg)
{
	ShardWork  *work = list_nth((List *) arg, i);
	uint32		block;
	uint16		offset;
	Candidate	key = {.shardno = work->shardno};
	Candidate  *candidate;

	if (row->lens[0] != sizeof(block) + sizeof(offset))
		elog(ERROR, "a node has returned a ctid of %d bytes", row->lens[0]);
	memcpy(&block, row->values[0], sizeof(block));
	memcpy(&offset, row->values[0] + sizeof(block), sizeof(offset));
	ItemPointerSet(&key.ctid, pg_ntoh32(block), pg_ntoh16(offset));
	candidate = find_candidate(work->candidates, &key);
	if (candidate == NULL)
		elog(ERROR, "a node has locked a row that was not asked for");
	candidate->locked = true;
	if (state->plan->operation == CMD_SELECT)
		candidate->row = ExecCopySlotMinimalTuple(decode_output(state, row, 1));
}

static void
lock_several(ShardTakeState *state, List *works)
{
	ListCell   *lc;

	foreach(lc, works)
		list_sort(((ShardWork *) lfirst(lc))->candidates, compare_places);
	prepare_works(state, works, state->plan->lock);
	run_works(state, works, 1 + (state->plan->operation == CMD_SELECT ? state->plan->noutputs : 0), take_locked_row);
}

/* A row of UPDATE or DELETE ... RETURNING. */
static void
take_changed_row(ShardTakeState *state, int i, const ShardRow *row, void *arg)
{
	add_output(state, row, 1);
	state->nchanged++;
}

static void
run_changes(ShardTakeState *state, List *works)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * list_length(works));
	ListCell   *lc;

	foreach(lc, works)
	{
		const ShardWork *work = lfirst(lc);
		const Shard *shard = &state->map->shards[work->shardno];
		ShardCommand *command = &commands[foreach_current_index(lc)];

		command->serverid = shard->serverid;
		command->userid = state->userid;
		command->label = shard->name;
		command->sql = work->sql;
		command->nparams = work->nparams;
		command->params = work->params;
		command->inlines = true;
	}
	shard_command_run(commands, list_length(works), SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < list_length(works); i++)
		count_changed(state, strtoi64(PQcmdTuples(commands[i].result), NULL, 10));
	shard_command_free(commands, list_length(works));
}

/* Changes what has been locked. */
static void
change_several(ShardTakeState *state)
{
	List	   *works = make_works(state->locked);
	ListCell   *lc;

	prepare_works(state, works, state->plan->change);
	if (state->plan->returns_rows)
		run_works(state, works, 1 + state->plan->noutputs, take_changed_row);
	else
		run_changes(state, works);
	foreach(lc, state->nchanged == list_length(state->locked) ? state->locked : NIL)
	{
		ShardClaimRow row = claim_row(state, lfirst(lc));

		shard_claim_end(&row, true);
	}
}

/* ------------------------------------------------------------------------
 * Exec
 * ------------------------------------------------------------------------ */

static bool
has_enough(const ShardTakeState *state)
{
	return list_length(state->locked) >= state->nwanted;
}

/*
 * Locks what works name, and changes it where one row is wanted.  False: the table's map is another one now, and nothing has been
 * locked (has_locks: by the statement).
 */
static bool
try_works(ShardTakeState *state, List *works, bool has_locks)
{
	if (!lock_shards(state, works))
	{
		resolve_map(state);
		if (!has_locks)
			return false;
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("shards of \"%s\" have moved while the statement ran", get_rel_name(state->plan->relid)),
				 errhint("The transaction might succeed if retried.")));
	}
	if (state->nwanted == 1 && state->plan->operation != CMD_SELECT)
		take_one(state, linitial(works));
	else
		lock_several(state, works);
	return true;
}

/* Tries candidates until there are enough.  False: the table's map is another one now, and nothing has been locked. */
static bool
try_candidates(ShardTakeState *state)
{
	int			next = 0;

	while (!has_enough(state) && next < state->ncandidates)
	{
		uint64		nlacking = state->nwanted - list_length(state->locked);
		List	   *tried = NIL;
		List	   *works;
		ListCell   *lc;

		CHECK_FOR_INTERRUPTS();
		while (next < state->ncandidates && list_length(tried) < nlacking)
		{
			Candidate  *candidate = &state->candidates[next++];
			ShardClaimRow row = claim_row(state, candidate);

			state->tried = candidate;
			if (!state->plan->is_exclusive || shard_claim_begin(&row, state->since))
				tried = lappend(tried, candidate);
		}
		if (tried == NIL)
			break;
		works = make_works(tried);
		if (!try_works(state, works, state->locked != NIL))
			return false;
		foreach(lc, tried)
		{
			Candidate  *candidate = lfirst(lc);
			ShardClaimRow row = claim_row(state, candidate);

			if (candidate->locked)
				state->locked = lappend(state->locked, candidate);
			/* who has several changes them in the end */
			if (!candidate->locked || candidate->changed)
				shard_claim_end(&row, candidate->changed);
		}
	}
	return true;
}

static NodeCandidates *
make_nodes(int first, int nnodes)
{
	NodeCandidates *nodes = palloc0(sizeof(NodeCandidates) * nnodes);

	for (int i = 0; i < nnodes; i++)
		nodes[i].nodeno = first + i;
	return nodes;
}

/* ---------- waiting for others ---------- */

typedef enum WaitingResult
{
	WAITING_DONE,				/* enough, or all candidates, are locked */
	WAITING_CHANGED,			/* a candidate was changed: they have to be read anew */
	WAITING_MOVED				/* the table's map is another one now, and nothing has been locked */
} WaitingResult;

static void
ignore_row(ShardTakeState *state, int i, const ShardRow *row, void *arg)
{
}

/* The next candidates to be locked by one step, from *next on; those that are held, which sorted lists, count as locked before them. */
static List *
next_candidates(ShardTakeState *state, const List *sorted, int *next)
{
	List	   *step = NIL;

	while (*next < state->ncandidates && list_length(state->locked) + list_length(step) < state->nwanted)
	{
		Candidate  *candidate = &state->candidates[*next];
		Candidate  *own = find_candidate(sorted, candidate);

		/* a lock of keys lets others write another version, and later another row there */
		if (own != NULL && (own->xmin != candidate->xmin || own->file != candidate->file))
			own = NULL;
		if (step != NIL && (own != NULL ||
							(state->nwanted <= MAX_IN_ORDER && ((Candidate *) linitial(step))->shardno != candidate->shardno)))
			break;
		if (own != NULL)
			state->locked = lappend(state->locked, own);
		else
			step = lappend(step, candidate);
		(*next)++;
	}
	return step;
}

/* How many candidates of its shard there are up to this one. */
static int
place_in_shard(const ShardTakeState *state, const Candidate *candidate)
{
	int			place = 0;

	for (const Candidate *other = state->candidates; other <= candidate; other++)
		place += other->shardno == candidate->shardno;
	return place;
}

/* Locks candidates until there are enough.  held: all that the statement has locked in this way; *changed: one that was changed. */
static WaitingResult
wait_for_candidates(ShardTakeState *state, List **held, const Candidate **changed)
{
	List	   *sorted = list_copy(*held);
	int			next = 0;
	List	   *step;

	list_sort(sorted, compare_places);
	while ((step = next_candidates(state, sorted, &next)) != NIL)
	{
		ListCell   *lc;

		CHECK_FOR_INTERRUPTS();
		if (!try_works(state, make_works(step), *held != NIL || state->locked != NIL))
			return WAITING_MOVED;
		foreach(lc, step)
		{
			Candidate  *candidate = lfirst(lc);

			if (candidate->locked)
			{
				state->locked = lappend(state->locked, candidate);
				*held = lappend(*held, candidate);
			}
			else if (*changed == NULL)
				*changed = candidate;
		}
		if (*changed != NULL)
			return WAITING_CHANGED;
	}
	return WAITING_DONE;
}

/* Takes rows of nodes, those that others have locked, too, when they let go of them.  Returns as take_from(). */
static bool
take_waiting(ShardTakeState *state, int first, int nnodes)
{
	NodeCandidates *nodes = make_nodes(first, nnodes);
	List	   *before = state->locked;
	List	   *held = NIL;
	int			ntimes = 0;
	WaitingResult result;

	do
	{
		const Candidate *changed = NULL;

		for (int i = 0; i < nnodes; i++)
			nodes[i].rows = NIL;
		state->locked = list_copy(before);
		(void) read_candidates(state, nodes, nnodes, Min(state->nwanted, PG_INT64_MAX));
		result = wait_for_candidates(state, &held, &changed);
		if (result == WAITING_CHANGED && ++ntimes % MAX_READ_ANEW == 0)
			run_works(state, list_make1(first_rows_work(state, changed->shardno, place_in_shard(state, changed))),
					  CANDIDATE_COLUMNS + state->plan->nsort, ignore_row);
	} while (result == WAITING_CHANGED);
	if (result == WAITING_MOVED)
		(void) take_waiting(state, 0, state->map->nnodes);
	return result != WAITING_MOVED;
}

/* ---------- leaving out what others have locked ---------- */

/* Takes rows of nodes until there are enough, or no more.  Returns as take_from(). */
static bool
take_skipping(ShardTakeState *state, int first, int nnodes)
{
	NodeCandidates *nodes = make_nodes(first, nnodes);
	uint64		limit = 2 * Min(state->nwanted, PG_INT32_MAX) + SPARE_CANDIDATES;
	bool		more = true;

	while (more && !has_enough(state))
	{
		for (int i = 0; i < nnodes; i++)
			nodes[i].rows = NIL;
		/* who has nothing yet may begin anew */
		if (state->locked == NIL)
			state->tried = NULL;
		more = may_share(state) ? share_candidates(state, nodes, nnodes, limit) : read_candidates(state, nodes, nnodes, limit);
		if (!try_candidates(state))
		{
			(void) take_skipping(state, 0, state->map->nnodes);
			return false;
		}
		limit = Min(limit * MORE_CANDIDATES, PG_INT64_MAX / MORE_CANDIDATES);
	}
	return true;
}

/* Takes rows of some nodes.  False: the table's map has become another one, and rows of all nodes were taken instead. */
static bool
take_from(ShardTakeState *state, int first, int nnodes)
{
	return state->plan->skips ? take_skipping(state, first, nnodes) : take_waiting(state, first, nnodes);
}

/* Values of the parameters, each evaluated once. */
static void
evaluate(ShardTakeState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;

	state->values = palloc0(sizeof(char *) * state->nparams);
	for (int i = 1; i <= state->nparams; i++)
	{
		bool		isnull;
		Datum		value = shard_param_value(state->params, i, econtext, &isnull);

		if (i == state->plan->limit_param)
		{
			if (!isnull && DatumGetInt64(value) < 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
						 errmsg("LIMIT must not be negative")));
			state->nwanted = isnull ? PG_UINT64_MAX : DatumGetInt64(value);
		}
		else if (!isnull)
			state->values[i - 1] = shard_param_text(state->params, i, value);
	}
}

/* Does all that the statement does. */
static void
run(ShardTakeState *state)
{
	static int	turn = -1;
	MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);
	ListCell   *lc;

	state->started = true;
	evaluate(state);
	if (state->plan->returns_rows)
		state->rows = tuplestore_begin_heap(false, false, work_mem);
	resolve_map(state);
	if (IsolationUsesXactSnapshot())
		shard_map_check_unmoved(state->map, NULL);
	if (state->plan->nsort > 0)
		(void) take_from(state, 0, state->map->nnodes);
	else
	{
		/* any rows will do: each session begins with another node, and goes on with the next one */
		turn = (turn < 0 ? MyProcPid : turn + 1) % state->map->nnodes;
		for (int i = 0; i < state->map->nnodes && !has_enough(state); i++)
		{
			if (!take_from(state, (turn + i) % state->map->nnodes, 1))
				break;
		}
	}
	if (state->plan->operation == CMD_SELECT)
	{
		foreach(lc, state->locked)
		{
			ExecStoreMinimalTuple(((Candidate *) lfirst(lc))->row, state->row_slot, false);
			tuplestore_puttupleslot(state->rows, state->row_slot);
		}
	}
	else if (state->nwanted > 1 && state->locked != NIL)
		change_several(state);
	MemoryContextSwitchTo(oldcxt);
}

static TupleTableSlot *
take_exec(CustomScanState *node)
{
	ShardTakeState *state = (ShardTakeState *) node;

	if (!state->started)
		run(state);
	if (state->rows == NULL)
		return ExecClearTuple(node->ss.ss_ScanTupleSlot);
	/* row by row, as SPI, which may want no more than two, compares the count with what it has got */
	if (tuplestore_gettupleslot(state->rows, true, false, state->row_slot) && state->plan->set_processed)
		node->ss.ps.state->es_processed++;
	return state->row_slot;
}

static void
take_end(CustomScanState *node)
{
	ShardTakeState *state = (ShardTakeState *) node;

	if (state->rows != NULL)
	{
		ExecClearTuple(state->row_slot);
		tuplestore_end(state->rows);
	}
	shard_scan_close_rels(state->rels);
}

static void
take_rescan(CustomScanState *node)
{
	if (((ShardTakeState *) node)->started)
		elog(ERROR, "a statement that changes or locks rows cannot be run again");
}

/* ------------------------------------------------------------------------
 * EXPLAIN
 * ------------------------------------------------------------------------ */

static void
take_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ShardTakeState *state = (ShardTakeState *) node;
	const ShardTakePlan *plan = state->plan;
	Bitmapset  *all = bms_add_range(NULL, 0, state->map->nshards - 1);

	shard_explain_shards(state->map, all, state->map->nshards, es);
	shard_explain_remote_sql(candidates_sql(state, 0, 0), es);
	if (es->verbose)
		shard_explain_lock_sql(work_sql(state->map, plan->take ? plan->take : plan->lock, 0), es);
	if (es->analyze && plan->returns_rows)
		shard_explain_received(state->nrows, state->nbytes, 0, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = SHARD_TAKE_NAME,
	.BeginCustomScan = take_begin,
	.ExecCustomScan = take_exec,
	.EndCustomScan = take_end,
	.ReScanCustomScan = take_rescan,
	.ExplainCustomScan = take_explain
};

static Node *
take_create(CustomScan *cscan)
{
	ShardTakeState *state = palloc0(sizeof(ShardTakeState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {
	SHARD_TAKE_NAME,
	take_create
};

void
shard_take_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
