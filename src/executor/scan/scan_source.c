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

/* Adds the connection that stream has used, if any. */
static List *
add_connection(List *conns, ShardStream *stream)
{
	const void *conn = shard_stream_conn_id(stream);

	return conn == NULL ? conns : list_append_unique_ptr(conns, unconstify(void *, conn));
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
	MemoryContext oldcxt;

	if (state->figures != NULL)
		shard_scan_count_source(state, i);
	state->rows += shard_stream_rows(stream);
	state->bytes += shard_stream_bytes(stream);
	oldcxt = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	state->conns = add_connection(state->conns, stream);
	MemoryContextSwitchTo(oldcxt);
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
	List	   *conns = list_copy(state->conns);

	*rows = state->rows;
	*bytes = state->bytes;
	for (int i = 0; i < state->nsources; i++)
	{
		if (state->streams[i] == NULL)
			continue;
		*rows += shard_stream_rows(state->streams[i]);
		*bytes += shard_stream_bytes(state->streams[i]);
		conns = add_connection(conns, state->streams[i]);
	}
	*nconns = list_length(conns);
	list_free(conns);
}
