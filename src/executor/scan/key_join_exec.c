/*
 * key_join_exec.c
 *	  Executes a key join: sends the keys of batches of outer rows to the inner side, which then
 *	  returns only rows that can match.
 *
 *	   outer --> batch: rows in a hash table, distinct keys in sets (keys.c)
 *					|
 *					v keys
 *	   inner, restarted for each batch --> row --> probe --> joined rows
 *					|
 *					v end of the inner rows
 *	   LEFT, ANTI: rows of the batch without a match
 *
 * SEMI, ANTI: the planner may expect that most keys have rows in several shards.  Then some of the
 * shards are queried first, and the others only for those keys of the batch that have found no row
 * there.
 *
 * The inner side may return rows that do not match, but must return all that do, since every row is
 * checked here.  The first batch is as large as the planner's estimate of the outer side.  Each
 * further one is four times as large as the previous one, until memory limits them.  So after a
 * wrong estimate the inner side runs a few times, not once per row.
 *
 * All expressions refer to the scan slot, which has the columns of both sides
 * (ShardKeyJoinPlan.columns).
 *
 * Assumptions: join operators are strict and hashable, as in a hash join. mark_changed() supports
 * all node types below the inner side, down to the scan.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "catalog/integer.h"
#include "commands/explain.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/scan/key_join_exec.h"
#include "executor/scan/keys.h"
#include "executor/scan/scan.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "plan/plan_private.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

/* The smallest first batch, in rows.  So few keys cost little, and low estimates are often wrong. */
#define MIN_BATCH_ROWS 1000

/* Growth factor from one batch to the next. */
#define BATCH_GROWTH 4

/* When a batch has this many distinct keys in one column, it is full. */
#define MAX_BATCH_KEYS 50000

/* Memory is checked each time this many rows have been added. */
#define MEMORY_CHECK_ROWS 64

/* With fewer distinct keys, a second round of queries costs more time than it saves. */
#define MIN_ROUND_KEYS 500

typedef enum KeyJoinPhase
{
	KEY_JOIN_READ,				/* read the next batch */
	KEY_JOIN_PROBE,				/* join inner rows */
	KEY_JOIN_UNMATCHED,			/* return rows of the batch without a match */
	KEY_JOIN_DONE
} KeyJoinPhase;

/* A row of the batch. */
typedef struct KeyJoinEntry
{
	struct KeyJoinEntry *next;	/* in the same bucket */
	uint32		hash;
	bool		has_key;		/* no key is NULL, or a value that no inner row can have */
	bool		matched;
	MinimalTuple tuple;
} KeyJoinEntry;

typedef struct KeyJoinKey
{
	ExprState  *outer;
	ExprState  *inner;
	FmgrInfo	outer_hash;
	FmgrInfo	inner_hash;
	Oid			collation;
	Oid			outer_type;
	Oid			value_type;		/* of the keys */
	ShardKeys  *keys;
} KeyJoinKey;

typedef struct KeyJoinState
{
	CustomScanState css;
	ShardKeyJoinPlan *plan;
	PlanState  *outer;
	PlanState  *inner;
	int			ncolumns;
	int		   *columns;		/* see ShardKeyJoinPlan.columns */
	int			nkeys;
	KeyJoinKey *keys;
	ExprState  *join_qual;
	TupleTableSlot *outer_slot; /* holds the current entry */

	KeyJoinPhase phase;
	bool		outer_ended;
	bool		inner_used;		/* was run before, so it must be restarted */
	ForeignScanState *round_scan;	/* the inner side, if it may run in rounds; or NULL */
	bool		first_round;	/* the current run reads only some of the shards */
	bool		leaves_rounds;	/* other code may run in and between the rounds: the caller, functions */
	double		batch_limit;	/* maximum number of rows of the next batch */

	/* the batch; in batch_cxt */
	MemoryContext batch_cxt;
	int			nentries;
	int			maxentries;
	KeyJoinEntry *entries;
	uint32		nbuckets;		/* power of two */
	KeyJoinEntry **buckets;
	int			next_unmatched;
	KeyJoinEntry *candidate;	/* next candidate for the current inner row */
	uint32		inner_hash;		/* of the current inner row */

	/* for EXPLAIN ANALYZE */
	int64		nbatches;
	int64		nkeys_sent;		/* sum over all rounds */
} KeyJoinState;

static Node *key_join_create(CustomScan *cscan);

static const CustomScanMethods scan_methods = {
	SHARD_KEY_JOIN_NAME,
	key_join_create
};

/* ------------------------------------------------------------------------
 * Begin and end
 * ------------------------------------------------------------------------ */

static void
init_key(KeyJoinState *state, int keyno, Expr *outer, Expr *inner)
{
	KeyJoinKey *key = &state->keys[keyno];
	ShardKeyJoinKey *plan = &state->plan->keys[keyno];
	PlanState  *ps = &state->css.ss.ps;

	key->outer = ExecInitExpr(outer, ps);
	key->inner = ExecInitExpr(inner, ps);
	fmgr_info(plan->outer_hash, &key->outer_hash);
	fmgr_info(plan->inner_hash, &key->inner_hash);
	key->collation = plan->collation;
	key->outer_type = exprType((Node *) outer);
	key->value_type = plan->value_type;
	key->keys = shard_keys_create(ps->state, plan->paramid, key->value_type);
}

static void
key_join_begin(CustomScanState *node, EState *estate, int eflags)
{
	KeyJoinState *state = (KeyJoinState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;
	List	   *outer_keys = lsecond_node(List, cscan->custom_exprs);
	List	   *inner_keys = lthird_node(List, cscan->custom_exprs);
	int			i = 0;

	state->plan = shard_plan_private_unpack(SHARD_PLAN_KEY_JOIN, cscan->custom_private);
	state->nkeys = state->plan->nkeys;
	state->keys = palloc0(sizeof(KeyJoinKey) * state->nkeys);
	for (int keyno = 0; keyno < state->nkeys; keyno++)
		init_key(state, keyno, list_nth(outer_keys, keyno), list_nth(inner_keys, keyno));
	state->join_qual = ExecInitQual(linitial_node(List, cscan->custom_exprs), &node->ss.ps);

	state->ncolumns = list_length(state->plan->columns);
	state->columns = palloc(sizeof(int) * Max(state->ncolumns, 1));
	foreach_int(column, state->plan->columns)
		state->columns[i++] = column;

	/* the sets of keys exist now; the scans below look them up when they are initialized */
	state->outer = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	state->inner = ExecInitNode(lsecond(cscan->custom_plans), estate, eflags);
	node->custom_ps = list_make2(state->outer, state->inner);
	if (state->plan->in_rounds && IsA(state->inner, ForeignScanState) &&
		shard_scan_first_shards((ForeignScanState *) state->inner) != NULL)
		state->round_scan = (ForeignScanState *) state->inner;
	state->leaves_rounds = state->plan->jointype == JOIN_SEMI ||
		contain_volatile_functions((Node *) cscan->custom_exprs) ||
		contain_volatile_functions((Node *) state->inner->plan->qual) ||
		contain_volatile_functions((Node *) state->inner->plan->targetlist);

	state->outer_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(state->outer),
											   &TTSOpsMinimalTuple);
	state->batch_cxt = AllocSetContextCreate(estate->es_query_cxt, "key join batch",
											 ALLOCSET_DEFAULT_SIZES);
	state->phase = KEY_JOIN_READ;
	state->batch_limit = Max(state->plan->first_rows, MIN_BATCH_ROWS);
}

static void
key_join_end(CustomScanState *node)
{
	KeyJoinState *state = (KeyJoinState *) node;

	ExecEndNode(state->outer);
	ExecEndNode(state->inner);
}

/* ------------------------------------------------------------------------
 * Reading a batch
 * ------------------------------------------------------------------------ */

/* Copies the columns of one side (outer: sign 1, inner: -1) to the scan slot. from NULL: sets them to NULL. */
static void
fill_columns(KeyJoinState *state, TupleTableSlot *from, int sign)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;

	if (from != NULL)
		slot_getallattrs(from);
	for (int i = 0; i < state->ncolumns; i++)
	{
		int			colno = state->columns[i] * sign - 1;

		if (colno < 0)
			continue;
		slot->tts_values[i] = from == NULL ? (Datum) 0 : from->tts_values[colno];
		slot->tts_isnull[i] = from == NULL || from->tts_isnull[colno];
	}
}

/* Marks the scan slot as filled. */
static void
store_scan_tuple(KeyJoinState *state)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;

	if (TTS_EMPTY(slot))
		ExecStoreVirtualTuple(slot);
	state->css.ss.ps.ps_ExprContext->ecxt_scantuple = slot;
}

/*
 * Computes the hash of the keys of one side of the scan slot.  False if a key cannot equal any key
 * of the other side. collect: also adds the keys to the sets.
 */
static bool
hash_keys(KeyJoinState *state, bool outer, bool collect, uint32 *hash)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext oldcxt = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	Datum		values[INDEX_MAX_KEYS];
	uint32		hashes[INDEX_MAX_KEYS];
	bool		isnull = false;

	*hash = 0;
	for (int i = 0; i < state->nkeys && !isnull; i++)
	{
		KeyJoinKey *key = &state->keys[i];

		values[i] = ExecEvalExpr(outer ? key->outer : key->inner, econtext, &isnull);
		if (isnull)
			break;
		hashes[i] = DatumGetUInt32(FunctionCall1Coll(outer ? &key->outer_hash : &key->inner_hash,
													 key->collation, values[i]));
		/* a value that the inner type cannot represent equals no inner value, like NULL */
		if (outer && key->outer_type != key->value_type)
			isnull = !shard_integer_convert(&values[i], key->outer_type, key->value_type);
		*hash = ((*hash << 1) | (*hash >> 31)) ^ hashes[i];
	}
	if (!isnull && collect)
	{
		for (int i = 0; i < state->nkeys; i++)
			shard_keys_add(state->keys[i].keys, values[i], hashes[i]);
	}
	MemoryContextSwitchTo(oldcxt);
	return !isnull;
}

/* Adds an outer row to the batch, unless it can neither match nor be returned. */
static void
add_outer_row(KeyJoinState *state, TupleTableSlot *slot)
{
	KeyJoinEntry *entry;
	bool		has_key;
	uint32		hash;
	MemoryContext oldcxt;

	ResetExprContext(state->css.ss.ps.ps_ExprContext);
	fill_columns(state, slot, 1);
	store_scan_tuple(state);
	has_key = hash_keys(state, true, true, &hash);
	if (!has_key && state->plan->jointype != JOIN_LEFT && state->plan->jointype != JOIN_ANTI)
		return;

	oldcxt = MemoryContextSwitchTo(state->batch_cxt);
	if (state->nentries == state->maxentries)
	{
		state->maxentries = Max(state->maxentries * 2, 256);
		if (state->entries == NULL)
			state->entries = palloc(sizeof(KeyJoinEntry) * state->maxentries);
		else
			state->entries = repalloc_huge(state->entries,
										   sizeof(KeyJoinEntry) * (Size) state->maxentries);
	}
	entry = &state->entries[state->nentries++];
	entry->next = NULL;
	entry->hash = hash;
	entry->has_key = has_key;
	entry->matched = false;
	entry->tuple = ExecCopySlotMinimalTuple(slot);
	MemoryContextSwitchTo(oldcxt);
}

/* Is the current batch as large as it may be? */
static bool
batch_is_full(const KeyJoinState *state)
{
	Size		used;

	if (state->nentries >= state->batch_limit)
		return true;
	if (state->nentries % MEMORY_CHECK_ROWS != 0)
		return false;
	used = MemoryContextMemAllocated(state->batch_cxt, false);
	for (int i = 0; i < state->nkeys; i++)
	{
		if (shard_keys_count(state->keys[i].keys) >= MAX_BATCH_KEYS)
			return true;
		used += shard_keys_memory(state->keys[i].keys);
	}
	return used >= get_hash_memory_limit();
}

/* Chains the rows that have keys into buckets. */
static void
build_buckets(KeyJoinState *state)
{
	state->nbuckets = 16;
	while (state->nbuckets < (uint32) state->nentries && state->nbuckets < (1U << 30))
		state->nbuckets *= 2;
	state->buckets = MemoryContextAllocExtended(state->batch_cxt,
												sizeof(KeyJoinEntry *) * (Size) state->nbuckets,
												MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < state->nentries; i++)
	{
		KeyJoinEntry *entry = &state->entries[i];
		KeyJoinEntry **bucket = &state->buckets[entry->hash & (state->nbuckets - 1)];

		if (!entry->has_key)
			continue;
		entry->next = *bucket;
		*bucket = entry;
	}
}

static void
clear_batch(KeyJoinState *state)
{
	MemoryContextReset(state->batch_cxt);
	state->nentries = state->maxentries = 0;
	state->entries = NULL;
	state->buckets = NULL;
	state->candidate = NULL;
	for (int i = 0; i < state->nkeys; i++)
		shard_keys_clear(state->keys[i].keys);
}

/* Reads the next batch. False: there are no more outer rows. */
static bool
read_batch(KeyJoinState *state)
{
	clear_batch(state);
	while (!state->outer_ended && !batch_is_full(state))
	{
		TupleTableSlot *slot = ExecProcNode(state->outer);

		if (TupIsNull(slot))
			state->outer_ended = true;
		else
			add_outer_row(state, slot);
	}
	state->batch_limit *= BATCH_GROWTH;
	if (state->nentries == 0)
		return false;
	build_buckets(state);
	return true;
}

/* ------------------------------------------------------------------------
 * The inner side
 * ------------------------------------------------------------------------ */

/*
 * Tells every plan node of the inner side that the keys have changed, so that none reuses its rows.
 * Core does not know the keys as a parameter.  The number that is added to chgParam is used for no
 * other parameter of the statement.
 */
static void
mark_changed(const KeyJoinState *state)
{
	PlanState  *ps = state->inner;

	while (ps != NULL)
	{
		ps->chgParam = bms_add_member(ps->chgParam, state->plan->change_param);
		if (IsA(ps, SubqueryScanState))
			ps = ((SubqueryScanState *) ps)->subplan;
		else
			ps = outerPlanState(ps);
	}
}

static int
count_keys(const KeyJoinState *state)
{
	int			nkeys = 0;

	for (int i = 0; i < state->nkeys; i++)
		nkeys += shard_keys_count(state->keys[i].keys);
	return nkeys;
}

/* Starts the inner side with the current keys, over the given part of its shards. */
static void
run_inner(KeyJoinState *state, ShardScanPart part)
{
	if (state->inner_used)
		mark_changed(state);
	state->inner_used = true;
	state->nkeys_sent += count_keys(state);
	state->first_round = part == SHARD_SCAN_FIRST;
	if (state->round_scan != NULL)
	{
		if (state->inner->chgParam != NULL)
			ExecReScan(state->inner);
		shard_scan_set_part(state->round_scan, part);
	}
}

/* Starts the inner side.  False if no row of the batch has a key. */
static bool
start_inner(KeyJoinState *state)
{
	int			nkeys = count_keys(state);

	if (nkeys == 0)
		return false;
	state->nbatches++;
	/* in rounds only if both see the same rows, since the first round decides for which keys the second one runs */
	run_inner(state, state->round_scan != NULL && nkeys >= MIN_ROUND_KEYS &&
			  shard_scan_sees_one_moment(state->round_scan, state->leaves_rounds) ?
			  SHARD_SCAN_FIRST : SHARD_SCAN_ALL);
	return true;
}

/* Returns the next inner row whose keys are in a bucket.  False at the end. */
static bool
fetch_inner(KeyJoinState *state)
{
	for (;;)
	{
		TupleTableSlot *slot = ExecProcNode(state->inner);

		if (TupIsNull(slot))
			return false;
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
		fill_columns(state, slot, -1);
		store_scan_tuple(state);
		if (!hash_keys(state, false, false, &state->inner_hash))
			continue;
		state->candidate = state->buckets[state->inner_hash & (state->nbuckets - 1)];
		if (state->candidate != NULL)
			return true;
	}
}

/* ------------------------------------------------------------------------
 * Joining
 * ------------------------------------------------------------------------ */

static void
fill_outer_entry(KeyJoinState *state, KeyJoinEntry *entry)
{
	ExecStoreMinimalTuple(entry->tuple, state->outer_slot, false);
	fill_columns(state, state->outer_slot, 1);
}

/* Returns the result row for the scan slot, or NULL if the conditions above the join are false. */
static TupleTableSlot *
make_result(KeyJoinState *state)
{
	ScanState  *ss = &state->css.ss;

	if (!ExecQual(ss->ps.qual, ss->ps.ps_ExprContext))
	{
		InstrCountFiltered1(ss, 1);
		return NULL;
	}
	if (ss->ps.ps_ProjInfo == NULL)
		return ss->ss_ScanTupleSlot;
	return ExecProject(ss->ps.ps_ProjInfo);
}

/* Returns the next result among the matches of the current inner row, or NULL. */
static TupleTableSlot *
next_match(KeyJoinState *state)
{
	JoinType	jointype = state->plan->jointype;

	while (state->candidate != NULL)
	{
		KeyJoinEntry *entry = state->candidate;
		ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
		TupleTableSlot *result;

		state->candidate = entry->next;
		if (entry->hash != state->inner_hash ||
			(entry->matched && (jointype == JOIN_SEMI || jointype == JOIN_ANTI)))
			continue;

		ResetExprContext(econtext);
		fill_outer_entry(state, entry);
		if (!ExecQual(state->join_qual, econtext))
		{
			InstrCountFiltered2(&state->css.ss, 1);
			continue;
		}
		entry->matched = true;
		if (jointype != JOIN_ANTI && (result = make_result(state)) != NULL)
			return result;
	}
	return NULL;
}

/*
 * After the first round: keeps only the keys of rows without a match, and queries the other shards
 * for them.  False if no row is left, or if there was no first round.
 */
static bool
start_second_round(KeyJoinState *state)
{
	if (!state->first_round)
		return false;
	for (int i = 0; i < state->nkeys; i++)
		shard_keys_clear(state->keys[i].keys);
	for (int i = 0; i < state->nentries; i++)
	{
		KeyJoinEntry *entry = &state->entries[i];
		uint32		hash;

		if (!entry->has_key || entry->matched)
			continue;
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
		fill_outer_entry(state, entry);
		store_scan_tuple(state);
		(void) hash_keys(state, true, true, &hash);
	}
	if (count_keys(state) == 0)
		return false;
	run_inner(state, SHARD_SCAN_OTHERS);
	return true;
}

/* Returns the next row of the batch without a match, or NULL. */
static TupleTableSlot *
next_unmatched(KeyJoinState *state)
{
	while (state->next_unmatched < state->nentries)
	{
		KeyJoinEntry *entry = &state->entries[state->next_unmatched++];
		TupleTableSlot *result;

		if (entry->matched)
			continue;
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
		fill_outer_entry(state, entry);
		fill_columns(state, NULL, -1);
		store_scan_tuple(state);
		if ((result = make_result(state)) != NULL)
			return result;
	}
	return NULL;
}

static TupleTableSlot *
key_join_exec(CustomScanState *node)
{
	KeyJoinState *state = (KeyJoinState *) node;
	bool		keeps_unmatched = state->plan->jointype == JOIN_LEFT ||
		state->plan->jointype == JOIN_ANTI;
	TupleTableSlot *result;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (state->phase)
		{
			case KEY_JOIN_READ:
				if (!read_batch(state))
					state->phase = KEY_JOIN_DONE;
				else if (start_inner(state))
					state->phase = KEY_JOIN_PROBE;
				else
					state->phase = keeps_unmatched ? KEY_JOIN_UNMATCHED : KEY_JOIN_READ;
				state->next_unmatched = 0;
				break;
			case KEY_JOIN_PROBE:
				if ((result = next_match(state)) != NULL)
					return result;
				if (!fetch_inner(state) && !start_second_round(state))
					state->phase = keeps_unmatched ? KEY_JOIN_UNMATCHED : KEY_JOIN_READ;
				break;
			case KEY_JOIN_UNMATCHED:
				if ((result = next_unmatched(state)) != NULL)
					return result;
				state->phase = KEY_JOIN_READ;
				break;
			case KEY_JOIN_DONE:
				return NULL;
		}
	}
}

static void
key_join_rescan(CustomScanState *node)
{
	KeyJoinState *state = (KeyJoinState *) node;

	if (node->ss.ps.chgParam != NULL)
	{
		UpdateChangedParamSet(state->outer, node->ss.ps.chgParam);
		UpdateChangedParamSet(state->inner, node->ss.ps.chgParam);
	}
	if (state->outer->chgParam == NULL)
		ExecReScan(state->outer);
	/* the inner side is restarted when there are keys */

	clear_batch(state);
	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	state->phase = KEY_JOIN_READ;
	state->outer_ended = false;
	state->batch_limit = Max(state->plan->first_rows, MIN_BATCH_ROWS);
}

/* ------------------------------------------------------------------------
 * EXPLAIN
 * ------------------------------------------------------------------------ */

static const char *
join_type_name(JoinType jointype)
{
	switch (jointype)
	{
		case JOIN_INNER:
			return "Inner";
		case JOIN_LEFT:
			return "Left";
		case JOIN_SEMI:
			return "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			elog(ERROR, "unexpected type of a key join: %d", (int) jointype);
	}
}

static void
key_join_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	KeyJoinState *state = (KeyJoinState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	Node	   *condition = (Node *) make_ands_explicit(linitial_node(List, cscan->custom_exprs));

	ExplainPropertyText("Join Type", join_type_name(state->plan->jointype), es);
	ExplainPropertyText("Key Cond", deparse_expression(condition, context, true, false), es);
	if (state->round_scan != NULL)
		ExplainPropertyInteger("Shards Asked First", NULL,
							   bms_num_members(shard_scan_first_shards(state->round_scan)), es);
	if (es->analyze)
	{
		ExplainPropertyInteger("Batches", NULL, state->nbatches, es);
		ExplainPropertyInteger("Keys Sent", NULL, state->nkeys_sent, es);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = SHARD_KEY_JOIN_NAME,
	.BeginCustomScan = key_join_begin,
	.ExecCustomScan = key_join_exec,
	.EndCustomScan = key_join_end,
	.ReScanCustomScan = key_join_rescan,
	.ExplainCustomScan = key_join_explain
};

static Node *
key_join_create(CustomScan *cscan)
{
	KeyJoinState *state = palloc0(sizeof(KeyJoinState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

void
shard_key_join_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
