/*
 * scan_cursor.c
 *	  Scans of a shard whose rows are locked one by one, as they are taken, and which LIMIT stops early.
 *
 *	 DECLARE --> FETCH 16 --> FETCH 32 --> ... --> CLOSE, when the scan ends
 *
 * All cursors of a scan that begins are declared at once, and so they are closed: one message for a node.
 *
 * The cursor is on the connection that writes, since the rows will be locked there.  It writes nothing itself, so a
 * node that has seen nothing else takes no part in the two-phase commit.  As long as it is open its snapshot
 * keeps the node from giving the ctids of its rows to others (executor/modify/row_lock.c looks for them).
 */
#include "postgres.h"

#include "executor/scan/scan.h"
#include "remote/run/command.h"

/* Rows of the first and of the largest batch; each is twice the one before. */
#define FIRST_BATCH	16
#define LAST_BATCH	16384

/* One that is open. */
typedef struct ScanCursor
{
	const char *name;
	Oid			serverid;
	ShardTxnLevel *level;		/* undone: it has gone with the savepoint in which it was made */
	const char *declare;		/* its DECLARE; NULL: that was sent */
	const char *label;
	int			nparams;
	const char *const *params;
} ScanCursor;

static char *
fetch_sql(const ShardScanSource *source)
{
	return psprintf("FETCH %d FROM %s", source->batch, source->cursor);
}

void
shard_scan_cursor_make(ShardScanState *state, ShardScanSource *source, ShardStreamSpec *spec)
{
	static uint32 ncursors = 0;
	ScanCursor *cursor = palloc0(sizeof(ScanCursor));

	cursor->name = source->cursor = psprintf("shardfdw_%u", ncursors++);
	cursor->serverid = spec->serverid;
	cursor->level = shard_txn_level_create(state->run_cxt);
	cursor->declare = psprintf("DECLARE %s NO SCROLL CURSOR FOR %s", cursor->name, spec->sql);
	cursor->label = spec->label;
	cursor->nparams = spec->nparams;
	cursor->params = spec->params;
	state->cursors = lappend(state->cursors, cursor);

	source->batch = FIRST_BATCH;
	spec->sql = fetch_sql(source);
	spec->only_reads = true;
	spec->nparams = 0;
	spec->is_prepared = false;
}

/*
 * Adds a command to those of the same node where it can be part of one message: without parameters.
 * label: for the message of an error, if the command stays alone.
 */
static void
add_command(const ShardScanState *state, ShardCommand *commands, int *ncommands, const ScanCursor *cursor, const char *sql, int nparams)
{
	ShardCommand *command;

	for (int i = 0; i < *ncommands; i++)
	{
		if (commands[i].serverid != cursor->serverid || commands[i].nparams > 0 || nparams > 0)
			continue;
		commands[i].sql = psprintf("%s; %s", commands[i].sql, sql);
		commands[i].label = NULL;
		return;
	}
	command = &commands[(*ncommands)++];
	command->serverid = cursor->serverid;
	command->userid = state->userid;
	command->only_reads = true;
	command->sql = sql;
	command->label = cursor->label;
	command->nparams = nparams;
	command->params = cursor->params;
}

/* Runs commands that were added, if any. */
static void
run_commands(ShardCommand *commands, int ncommands)
{
	if (ncommands == 0)
		return;
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, ncommands);
}

void
shard_scan_cursor_declare(ShardScanState *state)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(list_length(state->cursors), 1));
	int			ncommands = 0;
	ListCell   *lc;

	foreach(lc, state->cursors)
	{
		ScanCursor *cursor = lfirst(lc);

		if (cursor->declare == NULL)
			continue;
		add_command(state, commands, &ncommands, cursor, cursor->declare, cursor->nparams);
		cursor->declare = NULL;
	}
	run_commands(commands, ncommands);
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
	spec.workers = -1;
	state->streams[i] = shard_stream_open(state->run_cxt, state->snapshot, &spec);
	MemoryContextSwitchTo(oldcxt);
	return true;
}

void
shard_scan_cursor_close_all(ShardScanState *state)
{
	ShardCommand *commands;
	int			ncommands = 0;
	ListCell   *lc;

	if (state->cursors == NIL)
		return;
	commands = palloc0(sizeof(ShardCommand) * list_length(state->cursors));
	foreach(lc, state->cursors)
	{
		const ScanCursor *cursor = lfirst(lc);

		if (cursor->level->undone)
			continue;
		add_command(state, commands, &ncommands, cursor, psprintf("CLOSE %s", cursor->name), 0);
	}
	state->cursors = NIL;
	run_commands(commands, ncommands);
}
