/*
 * merge.c
 *	  Merges the sorted streams of a shard scan.
 *
 *	   stream --row--> head of the stream, decoded --> heap --> first of all
 *
 * The row that was returned to the caller stays the first one in the heap.  Its stream is asked for
 * another head only when the caller wants the next row.  So no row is copied: each stream has its
 * own slot, and its own memory for the values in it.
 *
 * Assumptions: all streams of the scan are open (scan.c ensures this), and none is opened later.  A
 * stream may wait for the connection of another one whose head has arrived.  Then that other stream
 * spills its rows (remote/run/stream_open.c).
 */
#include "postgres.h"

#include "executor/executor.h"
#include "compat.h"
#include "executor/scan/scan.h"
#include "lib/binaryheap.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"

struct ShardMerge
{
	MemoryContext cxt;			/* exists as long as the scan */
	int			nkeys;
	SortSupport keys;

	int			maxsources;		/* size of these arrays */
	TupleTableSlot **heads;
	MemoryContext *memory;		/* of the values in heads */
	ShardStream **waiting;		/* temporary array */

	/* state of one execution */
	bool		begun;
	binaryheap *heap;			/* numbers of the sources that have a head */
	int			nlacking;
	int		   *lacking;		/* sources that need a head */
};

/* Compares the heads of two sources.  The first one counts as the greatest, as binaryheap requires. */
static int
compare_heads(Datum a, Datum b, void *arg)
{
	ShardMerge *merge = arg;
	TupleTableSlot *left = merge->heads[DatumGetInt32(a)];
	TupleTableSlot *right = merge->heads[DatumGetInt32(b)];

	for (int i = 0; i < merge->nkeys; i++)
	{
		SortSupport key = &merge->keys[i];
		int			column = key->ssup_attno - 1;
		int			order = ApplySortComparator(left->tts_values[column], left->tts_isnull[column],
												right->tts_values[column], right->tts_isnull[column],
												key);

		if (order != 0)
			return order < 0 ? 1 : -1;
	}
	return 0;
}

static ShardMerge *
create_merge(MemoryContext cxt, const ShardScanPlan *plan)
{
	ShardMerge *merge = palloc0(sizeof(ShardMerge));

	merge->cxt = cxt;
	merge->nkeys = list_length(plan->sort_columns);
	merge->keys = palloc0(sizeof(SortSupportData) * merge->nkeys);
	for (int i = 0; i < merge->nkeys; i++)
	{
		SortSupport key = &merge->keys[i];

		key->ssup_cxt = cxt;
		key->ssup_collation = list_nth_oid(plan->sort_collations, i);
		key->ssup_nulls_first = list_nth_int(plan->sort_nulls_first, i) != 0;
		key->ssup_attno = list_nth_int(plan->sort_columns, i);
		PrepareSortSupportFromOrderingOp(list_nth_oid(plan->sort_operators, i), key);
	}
	return merge;
}

/* Makes room for nsources heads. */
static void
grow(ShardMerge *merge, int nsources, TupleDesc desc)
{
	if (nsources <= merge->maxsources)
		return;
	if (merge->maxsources == 0)
	{
		merge->heads = palloc(sizeof(TupleTableSlot *) * nsources);
		merge->memory = palloc(sizeof(MemoryContext) * nsources);
		merge->waiting = palloc(sizeof(ShardStream *) * nsources);
		merge->lacking = palloc(sizeof(int) * nsources);
	}
	else
	{
		merge->heads = repalloc(merge->heads, sizeof(TupleTableSlot *) * nsources);
		merge->memory = repalloc(merge->memory, sizeof(MemoryContext) * nsources);
		merge->waiting = repalloc(merge->waiting, sizeof(ShardStream *) * nsources);
		merge->lacking = repalloc(merge->lacking, sizeof(int) * nsources);
		binaryheap_free(merge->heap);
	}
	while (merge->maxsources < nsources)
	{
		merge->heads[merge->maxsources] = shard_make_tuple_slot(desc, &TTSOpsVirtual);
		merge->memory[merge->maxsources++] = AllocSetContextCreate(merge->cxt, "shard merge",
																   ALLOCSET_SMALL_SIZES);
	}
	merge->heap = binaryheap_allocate(nsources, compare_heads, merge);
}

/* Begins to merge a scan that was started.  All its sources need their first rows. */
static void
begin(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	MemoryContext cxt = node->ss.ps.state->es_query_cxt;
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);

	if (state->merge == NULL)
		state->merge = create_merge(cxt, state->plan);
	grow(state->merge, state->nsources, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	MemoryContextSwitchTo(oldcxt);

	for (int i = 0; i < state->nsources; i++)
		state->merge->lacking[i] = i;
	state->merge->nlacking = state->nsources;
	state->merge->begun = true;
}

/*
 * Reads heads for the sources that lack one, as far as rows have arrived.  Returns the number of
 * sources for which the caller must wait.
 */
static int
take_heads(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	ShardMerge *merge = state->merge;
	int			nleft = 0;

	for (int n = 0; n < merge->nlacking; n++)
	{
		int			i = merge->lacking[n];
		ShardRow	row;

		switch (shard_stream_next(state->streams[i], &row))
		{
			case SHARD_STREAM_ROW:
				MemoryContextReset(merge->memory[i]);
				shard_scan_store_row(node, i, &row, merge->heads[i], merge->memory[i]);
				binaryheap_add_unordered(merge->heap, Int32GetDatum(i));
				break;
			case SHARD_STREAM_DONE:
				shard_scan_close_stream(node, i);
				break;
			case SHARD_STREAM_WAIT:
				merge->waiting[nleft] = state->streams[i];
				merge->lacking[nleft++] = i;
				break;
		}
	}
	merge->nlacking = nleft;
	return nleft;
}

/*
 * Reads the next row of the first source.  True if it has arrived, or if there is none.  False if
 * the caller must wait.
 */
static bool
replace_first(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	ShardMerge *merge = state->merge;
	int			i = DatumGetInt32(binaryheap_first(merge->heap));
	ShardRow	row;

	switch (shard_stream_next(state->streams[i], &row))
	{
		case SHARD_STREAM_ROW:
			MemoryContextReset(merge->memory[i]);
			shard_scan_store_row(node, i, &row, merge->heads[i], merge->memory[i]);
			binaryheap_replace_first(merge->heap, Int32GetDatum(i));
			return true;
		case SHARD_STREAM_DONE:
			binaryheap_remove_first(merge->heap);
			shard_scan_close_stream(node, i);
			return true;
		case SHARD_STREAM_WAIT:
			break;
	}
	return false;
}

TupleTableSlot *
shard_merge_next(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	ShardMerge *merge = state->merge;

	if (merge == NULL || !merge->begun)
	{
		begin(node);
		merge = state->merge;
		while (take_heads(node) > 0)
			shard_stream_wait(merge->waiting, merge->nlacking, state->wait_set);
		binaryheap_build(merge->heap);
	}
	else if (!binaryheap_empty(merge->heap))
	{
		while (!replace_first(node))
		{
			ShardStream *stream = state->streams[DatumGetInt32(binaryheap_first(merge->heap))];

			shard_stream_wait(&stream, 1, state->wait_set);
		}
	}
	if (binaryheap_empty(merge->heap))
		return ExecClearTuple(node->ss.ss_ScanTupleSlot);
	return merge->heads[DatumGetInt32(binaryheap_first(merge->heap))];
}

void
shard_merge_reset(ShardMerge *merge)
{
	merge->begun = false;
	merge->nlacking = 0;
	binaryheap_reset(merge->heap);
	for (int i = 0; i < merge->maxsources; i++)
	{
		ExecClearTuple(merge->heads[i]);
		MemoryContextReset(merge->memory[i]);
	}
}
