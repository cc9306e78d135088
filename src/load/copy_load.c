/*
 * copy_load.c
 *	  COPY FROM into a sharded table.
 *
 *	 input -> lines -> [FIXED_WIDTH] -> [FILTER] -+-> key -> shard -> COPY stream     raw mode
 *	                                              |
 *	                                              +-> core's CopyFrom() -> FDW insert   parsed mode
 *
 * Raw mode reads only the end of each line and the shard key.  The shard parses the line.  If a line is not plain,
 * core's parser reads it (line_probe.c), and returns its meaning or raises core's error.  Parsed mode handles
 * everything else.  A load that began in raw mode can continue in parsed mode, but not the other way round.
 *
 * The load raises the error of the first wrong line.  So if the coordinator finds an error, it waits until the nodes
 * have accepted all lines before that line.
 *
 * Without an option of ours, parsed mode runs core's CopyFrom() on the input itself.  With such an option, a callback
 * passes single lines to CopyFrom(), so that its line numbers stay those of the input.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "catalog/route.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "load/copy_load.h"
#include "load/input/copy_input.h"
#include "load/load_private.h"
#include "load/spread.h"
#include "miscadmin.h"
#include "remote/copy/copy_stat.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define BUSY_WAIT_MS 10			/* for input, while nodes can accept rows */
#define IDLE_WAIT_MS 1000		/* for input, while there are no rows for nodes */
#define STREAM_BYTES (512 * 1024)	/* an input of unknown size with at least this many bytes counts as large ... */
#define SPREAD_WAIT_MS 2000		/* ... unless they take longer than this to arrive */

/* ShardCopyIdleHook */
static int
serve_nodes(void *arg)
{
	ShardLoad  *load = arg;

	return load->set && shard_copy_set_pump(load->set) ? BUSY_WAIT_MS : IDLE_WAIT_MS;
}

static int
no_data(void *outbuf, int minread, int maxread)
{
	return 0;
}

/* Opens FILTER.  Its output has lines of COPY's text format with all columns. */
static void
open_filter(ShardLoad *load)
{
	if (load->stmt->attlist != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY FILTER cannot be used with a column list"),
				 errhint("The function returns whole rows of the table.")));
	load->filter = shard_filter_open(load->cxt, load->options->filter, load->rel);
	initStringInfo(&load->filtered);
	load->attnamelist = NIL;
	load->core_options = NIL;
	load->cstate = BeginCopyFrom(load->pstate, load->rel, load->where, NULL, false, no_data, NIL, NIL);
}

/* Opens FIXED_WIDTH.  Its output has lines of COPY's text format. */
static void
open_fixed_width(ShardLoad *load)
{
	List	   *attnos = NIL;

	if (load->filter == NULL)
		attnos = CopyGetAttnums(RelationGetDescr(load->rel), load->rel, load->stmt->attlist);
	load->fixed = shard_fixed_width_open(load->cxt, load->options, load->rel, attnos);
	initStringInfo(&load->spelled);
}

static void
say_mode(const ShardLoad *load)
{
	shard_copy_stat_explain(load->source, load->plan.reason);
	if (load->plan.reason)
		ereport(DEBUG1,
				(errmsg_internal("COPY %s: rows are parsed on the coordinator: %s",
								 RelationGetRelationName(load->rel), load->plan.reason)));
	else
		ereport(DEBUG1,
				(errmsg_internal("COPY %s: lines are forwarded to the shards as they are",
								 RelationGetRelationName(load->rel))));
}

/* Number of connections to each node that the load writes over. */
static int
connections_per_node(const ShardLoad *load, const ShardCopyInput *input,
					 ProcessUtilityContext context, CommandDest dest)
{
	uint64		nbytes;

	if (load->options->calls_functions)
		return 1;
	/* rows that shards note for their replicas are searched on the writing connections only, see shard_load_raw() */
	if (load->map->has_replicas &&
		(load->rejects || load->fixed || load->options->duplicate != SHARD_DUPLICATE_ERROR))
		return 1;
	if (load->resume && shard_resume_part_bytes(load->resume, PG_UINT64_MAX) < STREAM_BYTES)
		return 1;
	nbytes = shard_copy_input_bytes(input);
	if (nbytes == PG_UINT64_MAX && !shard_copy_lines_fill(load->lines, STREAM_BYTES, SPREAD_WAIT_MS))
		return 1;
	if (load->resume)
		nbytes = shard_resume_part_bytes(load->resume, nbytes);
	return shard_spread_connections(load->map, GetUserId(), context, dest,
									load->options->duplicate == SHARD_DUPLICATE_KEEP_NEW, nbytes);
}

/* Reads the input in the mode of load->plan. */
static void
load_lines(ShardLoad *load, ProcessUtilityContext context, CommandDest dest)
{
	const ShardCopyOptions *options = load->options;
	ShardCopyInput *input = load->resume ? shard_resume_input(load->resume) :
		shard_copy_input_create(load->source, serve_nodes, load);
	const ShardFixedLayout *layout = load->fixed ? shard_fixed_width_layout(load->fixed) : NULL;
	int			nheader = load->fixed ? options->fixed_header : shard_copy_header_lines(&load->source->opts);
	ShardLineProbe *probe;
	ShardLineFormat source_format;
	bool		done = false;

	load->source_probe = shard_line_probe_create(load->cxt, load->pstate, load->source,
												 load->stmt->attlist, options->core);
	load->probe = load->source_probe;
	if (load->filter)
		load->probe = shard_line_probe_create(load->cxt, load->pstate, load->cstate, NIL, NIL);
	if (load->plan.reason == NULL)
	{
		load->keys = shard_key_reader_create(load->cxt, load->cstate, &load->format);
		load->format.nfields = load->plan.nfields;
	}
	else
		shard_line_probe_format(load->cstate, &load->format);
	source_format = load->format;
	if (load->filter)
		shard_line_probe_format(load->source, &source_format);
	probe = load->fixed ? NULL : load->source_probe;
	if (load->resume)
		load->lines = shard_resume_lines(load->resume, &source_format, layout, nheader, probe);
	else
		load->lines = shard_copy_lines_create(load->cxt, input, &source_format, layout, nheader, probe, options);

	load->context.callback = shard_load_row_context;
	load->context.arg = load;
	load->context.previous = error_context_stack;
	error_context_stack = &load->context;

	load->quiet = true;
	shard_copy_lines_header(load->lines);
	load->quiet = false;
	if (load->rejects)
		shard_reject_begin(load->rejects, load->lines->header, load->lines->header_bytes,
						   load->lines->header ? load->lines->lineno : 0, load->source->file_encoding, options->record_length > 0);
	if (load->resume)
		shard_resume_plan(load->resume, load->rejects);
	if (load->plan.reason == NULL)
		done = shard_load_raw(load, connections_per_node(load, input, context, dest));
	if (!done)
		shard_load_parsed(load);
	/* errors from here on do not refer to a line */
	error_context_stack = load->context.previous;
	if (load->rejects)
		shard_reject_finish(load->rejects);
	if (load->rejects && (load->resume == NULL || shard_resume_is_last(load->resume)))
		shard_reject_report(load->rejects);
}

/* Opens the input.  False: nothing is left to load. */
static bool
open_source(ShardLoad *load)
{
	const CopyStmt *stmt = load->stmt;

	if (load->resume == NULL)
	{
		load->source = BeginCopyFrom(load->pstate, load->rel, load->where, stmt->filename, stmt->is_program, load->feed,
									 stmt->attlist, load->options->core);
		return true;
	}
	load->source = BeginCopyFrom(load->pstate, load->rel, load->where, NULL, false, no_data,
								 stmt->attlist, load->options->core);
	return shard_resume_open(load->resume, stmt, load->where, load->source, serve_nodes, load);
}

/*
 * Raises an error if an open cursor reads shards: the connection that drops indexes would wait for the cursor's
 * connection.
 */
static void
check_unused(Relation parent, const ShardMap *map)
{
	List	   *relids = get_partition_ancestors(RelationGetRelid(parent));

	CheckTableNotInUse(parent, "COPY");
	for (int i = 0; i < map->nshards; i++)
		relids = lappend_oid(relids, map->shards[i].relid);
	foreach_oid(relid, relids)
	{
		Relation	rel = RelationIdGetRelation(relid);

		if (!RelationIsValid(rel))
			continue;
		CheckTableNotInUse(rel, "COPY");
		RelationClose(rel);
	}
}

uint64
shard_copy_load(ParseState *pstate, const CopyStmt *stmt, Relation parent, Node *where,
				const ShardCopyOptions *options, ShardResume *resume, copy_data_source_cb feed,
				ProcessUtilityContext context, CommandDest dest)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw load",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardLoad  *load = palloc0(sizeof(ShardLoad));
	bool		has_rows;
	uint64		nrows = 0;

	load->cxt = cxt;
	load->pstate = pstate;
	load->stmt = stmt;
	load->feed = feed;
	load->rel = parent;
	load->map = shard_route_pin(parent, &load->partdesc);
	if (load->map == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" is not a sharded table any more", RelationGetRelationName(parent))));
	load->userid = GetUserId();
	load->where = where;
	load->options = options;
	load->resume = resume;
	load->attnamelist = stmt->attlist;
	load->core_options = options->core;

	/* raise errors of our options before asking the client for data */
	if (options->filter)
		open_filter(load);
	if (options->fixed_width)
		open_fixed_width(load);
	if (resume)
		shard_resume_begin(resume, parent, options);
	if (options->ignore_errors || options->duplicate != SHARD_DUPLICATE_ERROR)
		load->rejects = shard_reject_open(cxt, options, parent, resume ? shard_resume_rejects(resume) : NULL);
	if (options->defer_indexes)
	{
		check_unused(parent, load->map);
		load->deferred = shard_deferred_index_open(cxt, load->map);
	}
	has_rows = open_source(load);
	if (load->cstate == NULL)
		load->cstate = load->source;
	shard_raw_mode_plan(load->cstate, load->map, where != NULL, &load->plan);
	load->plan.binary = load->fixed != NULL && load->filter == NULL && load->plan.suffix == NULL &&
		shard_fixed_width_is_binary(load->fixed, load->source);
	say_mode(load);

	if (load->plan.reason != NULL && !options->by_lines)
		nrows = shard_load_parsed_all(load);
	else if (has_rows)
	{
		load_lines(load, context, dest);
		nrows = load->nsent + load->nparsed - load->nrefused;
	}
	if (resume)
		shard_resume_end(resume, nrows, load->rejects);

	if (load->cstate != load->source)
		EndCopyFrom(load->cstate);
	EndCopyFrom(load->source);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return nrows;
}
