/*
 * row_sink.c
 *	  Sends rows of one statement to shards by COPY.
 *
 *	 ExecForeignInsert --> encoder --> target's buffer --> COPY stream of the node
 *
 * One sink serves a whole statement (EState), with any number of shards and ModifyTable nodes.  So
 * there is one set of streams and one memory limit.  The last relation to end flushes it.  Core
 * ends foreign result relations in ExecutorEnd (and at the end of COPY FROM).  That is after the
 * statement's triggers, but still within the statement, so an error there makes it fail.
 *
 * Reads in between (triggers, functions) find the rows.  They request the node's writer, and the
 * stream that holds it sends its rows before it releases the connection.
 *
 * Core's COPY FROM adds the current input line to an error's context, by an error context callback.
 * Nodes report errors later, about earlier lines.  So that callback is replaced when a node reports
 * an error.
 */
#include "postgres.h"

#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "plan/statement_entry.h"
#include "replica/replica.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "deparse/dml.h"
#include "deparse/remote_table.h"
#include "executor/executor.h"
#include "executor/modify/row_sink.h"
#include "foreign/fdwapi.h"
#include "remote/copy/copy_context.h"
#include "remote/copy/copy_stat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/*
 * Progress of INSERTs is visible to other sessions from this many rows on.  It is not worth the
 * shared memory for smaller ones.
 */
#define PUBLISH_ROWS 1000

struct ShardRowSink
{
	ShardStatementEntry entry;	/* in sinks */
	int			nusers;			/* number of gets without release */
	ShardCopySet *set;
	ShardCopyStat *stat;		/* of set */
	uint64		nrows;			/* rows put into set */

	/* COPY FROM only */
	bool		from_copy;
	CopyFromState cstate;		/* NULL: unknown */
	const ShardCopyContext *load;	/* settings of the load that has called CopyFrom(); NULL: none */
	uint64		bad_lineno;		/* line about which a node has reported an error; 0: unknown */
	const char *bad_place;		/* the node's description of the place in the line */
	ErrorContextCallback context;
};

struct ShardRowTarget
{
	ShardRowSink *sink;
	ShardCopyTarget *stream;
	ShardEncoder *encoder;
	const uint64 *lineno;		/* line that is being read; never NULL */
};

/* Sinks of running statements, innermost first. */
static slist_head sinks = SLIST_STATIC_INIT(sinks);

static const uint64 no_lineno = 0;

/* Error context callback for an error that a node has raised about a row of COPY FROM. */
static void
copy_context(void *arg)
{
	ShardRowSink *sink = arg;

	if (sink->bad_lineno > 0)
		errcontext("%s%s", psprintf(_("COPY %s, line %llu"), sink->cstate->cur_relname,
									(unsigned long long) sink->bad_lineno),
				   sink->bad_place ? sink->bad_place : "");
	else
		errcontext("COPY %s", sink->cstate->cur_relname);
}

/*
 * ShardCopyErrorHook: an error about the row of input line lineno is about to be raised.  While
 * COPY reads rows, its callback is replaced, which would name the line that is being read now.
 * After that, core's callback is gone and ours is pushed.
 */
static void
name_bad_line(void *arg, uint64 lineno, const char *place)
{
	ShardRowSink *sink = arg;

	if (sink->cstate == NULL)
		return;
	sink->bad_lineno = lineno;
	sink->bad_place = place;
	for (ErrorContextCallback *cb = error_context_stack; cb != NULL; cb = cb->previous)
	{
		if (cb->callback == copy_context && cb->arg == sink)
			return;
		if (cb->callback == CopyFromErrorCallback && cb->arg == sink->cstate)
		{
			cb->callback = copy_context;
			cb->arg = sink;
			return;
		}
	}
	sink->context.callback = copy_context;
	sink->context.arg = sink;
	sink->context.previous = error_context_stack;
	error_context_stack = &sink->context;
}

/* Finds the COPY FROM that feeds the sink.  Called within its row loop. */
static void
find_copy_state(ShardRowSink *sink)
{
	for (ErrorContextCallback *cb = error_context_stack; cb != NULL; cb = cb->previous)
	{
		if (cb->callback == CopyFromErrorCallback)
		{
			sink->cstate = cb->arg;
			return;
		}
	}
}

ShardRowSink *
shard_row_sink_get(EState *estate, bool from_copy)
{
	ShardRowSink *sink = shard_statement_entry_find(&sinks, estate, 0);

	if (sink == NULL)
	{
		sink = shard_statement_entry_add(&sinks, estate, 0, sizeof(ShardRowSink));
		sink->from_copy = from_copy;
	}
	sink->nusers++;
	return sink;
}

void
shard_row_sink_release(ShardRowSink *sink)
{
	ShardCopySet *set = sink->set;

	Assert(sink->nusers > 0);
	if (--sink->nusers > 0 || set == NULL)
		return;
	shard_copy_set_complete(set);
	if (sink->load)
		sink->load->closing(sink->load->arg);
	shard_copy_stat_end(sink->stat);
	sink->stat = NULL;
	sink->set = NULL;
	shard_copy_set_finish(set);
}

/* Creates the set of streams.  Within CopyFrom(), applies the settings of the load that has called it. */
static void
open_set(ShardRowSink *sink)
{
	sink->set = shard_copy_set_create(sink->entry.estate->es_query_cxt,
									  sink->from_copy ? name_bad_line : NULL, sink);
	if (sink->cstate)
		sink->load = shard_copy_context_get(sink->cstate);
	if (sink->load && sink->load->refuse)
		shard_copy_set_guard(sink->set, sink->load->on_error, sink->load->refuse, sink->load->arg);
}

bool
shard_row_sink_is_guarded(ShardRowSink *sink)
{
	const ShardCopyContext *load;

	if (sink->from_copy && sink->cstate == NULL)
		find_copy_state(sink);
	load = sink->cstate ? shard_copy_context_get(sink->cstate) : NULL;
	return load != NULL && (load->refuse != NULL || load->staging != NULL);
}

static void
begin_stat(ShardRowSink *sink, Relation rel)
{
	/* progress is shown for the sharded table, whichever of its shards comes first */
	Oid			relid = shard_map_top(RelationGetRelid(rel));

	sink->nrows = 0;
	sink->stat = shard_copy_stat_begin(sink->entry.estate->es_query_cxt, sink->set, relid,
									   sink->from_copy ? "parsed" : "insert",
									   shard_copy_stat_reason(sink->cstate));
	if (sink->from_copy)
		shard_copy_stat_publish(sink->stat);
}

ShardRowTarget *
shard_row_sink_open(ShardRowSink *sink, Relation rel, Oid userid, List *attnos)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(sink->entry.estate->es_query_cxt);
	ShardRowTarget *target = palloc0(sizeof(ShardRowTarget));
	Oid			relid = RelationGetRelid(rel);
	Oid			serverid = shard_map_server(RelationGetRelid(rel));
	const char *label;
	const char *copy_sql;
	bool		binary;

	if (sink->from_copy && sink->cstate == NULL)
		find_copy_state(sink);
	if (sink->set == NULL)
	{
		open_set(sink);
		begin_stat(sink, rel);
	}
	target->encoder = shard_encode_create_list(RelationGetDescr(rel), attnos);
	if (shard_encode_is_binary(target->encoder) &&
		!shard_remote_table_same_types(relid, serverid, userid))
		shard_encode_use_text(target->encoder);
	binary = shard_encode_is_binary(target->encoder);

	label = shard_qualified_relation(RelationGetRelid(rel));
	copy_sql = shard_dml_copy(relid, attnos, binary);
	target->sink = sink;
	target->stream = shard_copy_target_open(sink->set, serverid, userid, copy_sql, binary, label);
	shard_copy_stat_add(sink->stat, target->stream, relid, serverid);
	if (sink->load)
		sink->load->opened(sink->load->arg, target->stream);
	if (sink->load && sink->load->staging)
		shard_copy_target_set_staging(target->stream,
									  sink->load->staging(sink->load->arg, relid, copy_sql));
	if (sink->load && sink->load->frame)
		shard_copy_target_set_frame(target->stream, sink->load->frame(sink->load->arg, relid));
	if (sink->load == NULL || (sink->load->refuse == NULL && sink->load->staging == NULL))
		shard_replica_mirror(target->stream, relid);
	target->lineno = sink->cstate ? &sink->cstate->cur_lineno : &no_lineno;

	MemoryContextSwitchTo(oldcxt);
	return target;
}

void
shard_row_sink_put(ShardRowTarget *target, EState *estate, TupleTableSlot *slot)
{
	StringInfo	buf = shard_copy_target_buffer(target->stream);
	MemoryContext oldcxt;

	if (++target->sink->nrows == PUBLISH_ROWS)
		shard_copy_stat_publish(target->sink->stat);

	/* core resets this context before the next row, which frees what the encoder has allocated */
	oldcxt = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	shard_encode_row(target->encoder, slot, buf);
	MemoryContextSwitchTo(oldcxt);

	if (target->sink->load && target->sink->load->source)
	{
		size_t		nbytes;
		const char *source = target->sink->load->source(target->sink->load->arg, &nbytes);

		shard_copy_target_put_row(target->stream, *target->lineno, 1, source, nbytes);
	}
	else
		shard_copy_target_put(target->stream, *target->lineno);
}
