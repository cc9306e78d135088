/*
 * scan_cursor.c
 *	  Scans of a shard whose rows are locked one by one when they are returned, and which a LIMIT
 *	  ends early.
 *
 *	 DECLARE, FETCH 16 --> FETCH 32 --> ... --> CLOSE, when the scan ends
 *
 * The cursor is on the connection that writes, since the rows will be locked there.  The cursor
 * itself writes nothing.  So a node that got nothing else takes no part in the two-phase commit.
 * While the cursor is open, its snapshot prevents the node from reusing the ctids of its rows
 * (executor/modify/row_lock.c searches for them).  The end of the transaction closes cursors.
 */
#include "postgres.h"

#include "executor/scan/scan.h"
#include "executor/scan/statement_alone.h"
#include "remote/run/command.h"

/* Rows of the first and of the largest batch.  Each is twice as large as the previous one. */
#define FIRST_BATCH	16
#define LAST_BATCH	16384

static char *
fetch_sql(const ShardScanSource *source)
{
	return psprintf("FETCH %d FROM %s", source->batch, source->cursor);
}

void
shard_scan_cursor_declare(ShardScanState *state, ShardScanSource *source, ShardStreamSpec *spec)
{
	static uint32 ncursors = 0;

	source->cursor = psprintf("shardfdw_%u", ncursors++);
	source->cursor_level = shard_txn_level_create(state->run_cxt);
	source->batch = FIRST_BATCH;
	spec->sql = psprintf("DECLARE %s BINARY NO SCROLL CURSOR FOR %s; %s", source->cursor, spec->sql, fetch_sql(source));
	spec->makes_cursor = spec->only_reads = true;
	spec->is_prepared = false;
}

bool
shard_scan_cursor_next(ForeignScanState *node, int i)
{
	ShardScanState *state = node->fdw_state;
	ShardScanSource *source = &state->sources[i];
	ShardStreamSpec spec = {0};
	MemoryContext oldcxt;

	if (source->cursor == NULL || shard_stream_rows(state->streams[i]) < source->batch)
		return false;
	shard_scan_close_stream(node, i);
	oldcxt = MemoryContextSwitchTo(state->run_cxt);
	source->batch = Min(source->batch * 2, LAST_BATCH);
	spec.serverid = state->maps[0]->shards[source->shardno].serverid;
	spec.userid = state->userid;
	spec.label = state->maps[0]->shards[source->shardno].name;
	spec.sql = fetch_sql(source);
	spec.ncolumns = shard_decode_nremote(state->decoder);
	spec.portable_text = shard_decode_has_styled_text(state->decoder);
	spec.as_writer = spec.only_locks = spec.only_reads = true;
	spec.limit = state->limit;
	spec.workers = -1;
	state->streams[i] = shard_stream_open(state->run_cxt, state->snapshot, &spec);
	MemoryContextSwitchTo(oldcxt);
	return true;
}

void
shard_scan_cursor_close_all(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;

	for (int i = 0; i < state->nsources; i++)
	{
		const ShardScanSource *source = &state->sources[i];
		ShardCommand command = {0};

		/* undone: the rollback of a savepoint has removed the cursor */
		if (source->cursor == NULL || !source->cursor_made || source->cursor_level->undone ||
			shard_statement_is_alone(node->ss.ps.state))
			continue;
		command.serverid = state->maps[0]->nodes[source->nodeno].serverid;
		command.userid = state->userid;
		command.only_reads = true;
		command.sql = psprintf("CLOSE %s", source->cursor);
		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
}
