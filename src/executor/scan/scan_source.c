/*
 * scan_source.c
 *	  The streams of a scan's run: their rows, their end, and their figures for EXPLAIN ANALYZE.
 */
#include "postgres.h"

#include "executor/scan/scan.h"
#include "executor/tuptable.h"
#include "remote/run/stream.h"
#include "tuple/decode.h"
#include "utils/memutils.h"

static bool
add_connection(const void **conns, int *nconns, const void *conn)
{
	if (conn == NULL)
		return false;
	for (int i = 0; i < *nconns; i++)
	{
		if (conns[i] == conn)
			return false;
	}
	conns[(*nconns)++] = conn;
	return true;
}

static double
ms_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_MILLISEC(now);
}

void
shard_scan_count_source(ShardScanState *state, int i)
{
	ShardScanSource *source = &state->sources[i];
	ShardScanFigures *figures = &state->figures[source->shardno];
	double		total_ms = ms_since(source->opened);

	if (source->counted)
		return;
	source->counted = true;
	figures->nqueries++;
	figures->rows += shard_stream_rows(state->streams[i]);
	figures->bytes += shard_stream_bytes(state->streams[i]);
	figures->first_ms += source->has_rows ? source->first_ms : total_ms;
	figures->total_ms += total_ms;
}

void
shard_scan_close_stream(ForeignScanState *node, int i)
{
	ShardScanState *state = node->fdw_state;
	ShardStream *stream = state->streams[i];

	if (state->figures != NULL)
		shard_scan_count_source(state, i);
	state->rows += shard_stream_rows(stream);
	state->bytes += shard_stream_bytes(stream);
	if (state->nconns == state->maxconns)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);

		state->maxconns = Max(16, state->maxconns * 2);
		if (state->conns == NULL)
			state->conns = palloc(sizeof(void *) * state->maxconns);
		else
			state->conns = repalloc(state->conns, sizeof(void *) * state->maxconns);
		MemoryContextSwitchTo(oldcxt);
	}
	add_connection(state->conns, &state->nconns, shard_stream_conn_id(stream));
	state->streams[i] = NULL;
	state->sources[i].cursor_made |= shard_stream_is_sent(stream);
	shard_stream_close(stream);
}

void
shard_scan_store_row(ForeignScanState *node, int i, const ShardRow *row,
					 TupleTableSlot *slot, MemoryContext cxt)
{
	ShardScanState *state = node->fdw_state;
	const ShardMap *map = state->maps[0];
	ShardScanSource *source = &state->sources[i];

	if (state->figures != NULL && !source->has_rows)
	{
		source->has_rows = true;
		source->first_ms = ms_since(source->opened);
	}
	shard_decode_set_source(state->decoder, map->nodes[source->nodeno].name,
							map->shards[source->shardno].name);
	shard_decode_row(state->decoder, row, slot, cxt);
	if (((ForeignScan *) node->ss.ps.plan)->fsSystemCol)
		shard_decode_add_header(state->decoder, slot, cxt);
}

void
shard_scan_totals(const ShardScanState *state, uint64 *rows, uint64 *bytes, int *nconns)
{
	const void **conns = palloc(sizeof(void *) * (state->nconns + state->nsources + 1));

	*rows = state->rows;
	*bytes = state->bytes;
	*nconns = state->nconns;
	for (int i = 0; i < state->nconns; i++)
		conns[i] = state->conns[i];
	for (int i = 0; i < state->nsources; i++)
	{
		if (state->streams[i] == NULL)
			continue;
		*rows += shard_stream_rows(state->streams[i]);
		*bytes += shard_stream_bytes(state->streams[i]);
		add_connection(conns, nconns, shard_stream_conn_id(state->streams[i]));
	}
	pfree(conns);
}
