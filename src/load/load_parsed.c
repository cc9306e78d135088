/*
 * load_parsed.c
 *	  COPY FROM in parsed mode: passes lines to core's CopyFrom().
 *
 *	 lines -> callback, a row at a time -> CopyFrom() -> FDW insert -> COPY stream
 *
 * remote/copy/copy_context.h tells the streams of that insert how to handle rows that nodes reject.  Core does not
 * pass this information.
 */
#include "postgres.h"

#include "compat.h"
#include "deparse/dml.h"
#include "load/input/progress.h"
#include "load/load_private.h"
#include "remote/copy/copy_context.h"
#include "remote/copy/copy_stat.h"
#include "utils/lsyscache.h"

/* The load whose lines core's CopyFrom() is reading. */
static ShardLoad *feeding = NULL;

/* Moves to the next row that core's parser will accept.  False at the end. */
static bool
next_parsable_row(ShardLoad *load)
{
	while (shard_load_row_next(load))
	{
		if (!load->options->ignore_errors || shard_load_row_probe(load))
			return true;
		if (load->ended)
			break;
	}
	return false;
}

/* Copies the current row: core still uses it when it reads the next one. */
static void
keep_row(ShardLoad *load)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);

	if (load->kept.data == NULL)
		initStringInfo(&load->kept);
	resetStringInfo(&load->kept);
	appendBinaryStringInfo(&load->kept, load->lines->bytes, load->lines->line.nbytes);
	MemoryContextSwitchTo(oldcxt);
}

/*
 * Number of bytes of the row for core.  A row from the client ends at an end-of-data marker.  If core read from the
 * client, it would discard the following bytes, but here it reads from a callback.
 */
static size_t
bytes_to_feed(const ShardLoad *load)
{
	const char *p = load->row;
	const char *end = p + load->row_line->nbytes;

	if (!load->ends_here)
		return load->row_line->nbytes;
	while (end - p > 2 && !(p[0] == '\\' && p[1] == '.'))
		p += *p == '\\' ? 2 : 1;
	p += 2 + (shard_load_row_parser_eol(load) == SHARD_EOL_CRNL ? 2 : 1);
	return Min(p, end) - load->row;
}

/* Is core within a line?  It has unprocessed bytes, or bytes that begin a character. */
static bool
has_pending_bytes(CopyFromState cstate)
{
	int			nunverified = cstate->raw_buf == cstate->input_buf ?
		cstate->raw_buf_len - cstate->input_buf_len : RAW_BUF_BYTES(cstate);

	return INPUT_BUF_BYTES(cstate) > 0 || nunverified > 0;
}

/*
 * Data source for CopyFrom(): never returns more than one row, so that the line number can be set when core begins to
 * read the row.  After a CR, and after bytes that are not a valid character, core reads on before it ends the line.
 * Then this function returns single bytes.
 */
static int
feed_row(void *outbuf, int minread, int maxread)
{
	ShardLoad  *load = feeding;
	CopyFromState parsed = load->parsed;
	bool		in_line = has_pending_bytes(parsed);
	size_t		nbytes;

	if (load->row == NULL || load->nfed == load->nfeed)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);
		bool		more;

		if (in_line && load->rejects)
			keep_row(load);
		more = next_parsable_row(load);
		MemoryContextSwitchTo(oldcxt);
		if (!more)
			return 0;
		load->nfed = 0;
		load->nfeed = bytes_to_feed(load);
		load->numbered = false;
	}
	if (!load->numbered && !in_line)
	{
		parsed->cur_lineno = load->lines->lineno_before + 1;
		parsed->eol_type = shard_line_probe_core_eol(shard_load_row_parser_eol(load));
		load->numbered = true;
	}
	nbytes = load->numbered ? Min(load->nfeed - load->nfed, (size_t) maxread) : 1;
	memcpy(outbuf, load->row + load->nfed, nbytes);
	load->nfed += nbytes;
	return (int) nbytes;
}

/*
 * Data source for CopyFrom() if no option of ours works by lines: core splits the rest of the input.  (After an
 * end-of-data marker behind a row of a file, core may find other line ends than our scanner.)
 */
static int
feed_bytes(void *outbuf, int minread, int maxread)
{
	return (int) shard_copy_lines_read(feeding->lines, outbuf, maxread);
}

/* For ShardCopyContext: the line from which core's parser has made the row. */
static const char *
fed_source(void *arg, size_t *nbytes)
{
	ShardLoad  *load = arg;

	if (!load->numbered)
	{
		*nbytes = load->kept.len;
		return load->kept.data;
	}
	*nbytes = load->lines->line.nbytes;
	return load->lines->bytes;
}

static int
fed_shardno(const ShardLoad *load, Oid shard_relid)
{
	int			shardno = shard_map_find(load->map, shard_relid);

	/* core looks up partitions later than the load did, and may find a new one */
	if (shardno < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("partition \"%s\" was attached while the load ran", get_rel_name(shard_relid))));
	return shardno;
}

static const ShardCopyStaging *
fed_staging(void *arg, Oid shard_relid, const char *copy_sql)
{
	ShardLoad  *load = arg;

	return shard_duplicate_staging(load->duplicates, fed_shardno(load, shard_relid), copy_sql);
}

static const ShardCopyFrame *
fed_frame(void *arg, Oid shard_relid)
{
	ShardLoad  *load = arg;

	return shard_deferred_index_frame(load->deferred, fed_shardno(load, shard_relid), 1);
}

static void
fed_target_opened(void *arg, ShardCopyTarget *target)
{
	ShardLoad  *load = arg;
	MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);

	load->fed_targets = lappend(load->fed_targets, target);
	MemoryContextSwitchTo(oldcxt);
	load->stat = shard_copy_stat_of(target);
}

static void
fed_targets_closing(void *arg)
{
	ShardLoad  *load = arg;

	foreach_ptr(ShardCopyTarget, target, load->fed_targets)
		shard_load_row_count_replaced(load, target);
	load->fed_targets = NIL;
	shard_copy_stat_set_rejected(load->stat, load->nrejected);
	load->stat = NULL;
}

typedef struct ParsedCopy
{
	ShardLoad  *load;
	CopyFromState cstate;
	const ShardCopyContext *context;
	uint64		nrows;
} ParsedCopy;

/* Runs CopyFrom() with its context. */
static void
copy_step(void *arg)
{
	ParsedCopy *copy = arg;
	const ShardCopyContext *outer_context = shard_copy_context_set(copy->context);
	ShardLoad  *outer = feeding;

	PG_TRY();
	{
		feeding = copy->load;
		copy->nrows = CopyFrom(copy->cstate);
	}
	PG_FINALLY();
	{
		feeding = outer;
		shard_copy_context_set(outer_context);
	}
	PG_END_TRY();
}

static uint64
run_copy(ShardLoad *load, const ShardCopyContext *context, CopyFromState cstate)
{
	ParsedCopy	copy = {load, cstate, context};

	shard_load_row_hold_error(load, copy_step, &copy);
	return copy.nrows;
}

uint64
shard_load_parsed_all(ShardLoad *load)
{
	ShardCopyContext context = {0};

	context.cstate = load->source;
	context.arg = load;
	context.frame = load->deferred ? fed_frame : NULL;
	context.opened = fed_target_opened;
	context.closing = fed_targets_closing;
	return run_copy(load, &context, load->source);
}

/* Lets core's CopyFrom() load the current row, if there is one, and all following rows. */
void
shard_load_parsed(ShardLoad *load)
{
	const ShardCopyOptions *options = load->options;
	ShardCopyContext context = {0};
	ShardProgress progress;
	bool		by_lines = options->by_lines || load->ends_here;

	if (!by_lines)
		shard_copy_lines_push_back(load->lines);
	load->quiet = true;
	load->nfed = 0;
	shard_progress_save(&progress);
	load->parsed = BeginCopyFrom(load->pstate, load->rel, load->where, NULL, false,
								 by_lines ? feed_row : feed_bytes,
								 load->attnamelist, load->core_options);
	shard_progress_restore(&progress);
	load->parsed->cur_lineno = load->row ? load->lines->lineno_before : load->lines->lineno;
	load->parsed->eol_type = shard_line_probe_core_eol(shard_load_row_parser_eol(load));
	load->nfeed = load->row ? bytes_to_feed(load) : 0;
	load->numbered = true;

	shard_copy_stat_explain(load->parsed, load->plan.reason ? load->plan.reason :
							"only the coordinator can tell what is in a line");
	context.cstate = load->parsed;
	context.arg = load;
	if (load->rejects)
	{
		context.on_error = options->ignore_errors;
		context.refuse = shard_load_row_refused;
		context.source = fed_source;
	}
	if (options->duplicate != SHARD_DUPLICATE_ERROR)
	{
		load->duplicates = shard_duplicate_open(load->cxt, load->map, shard_dml_all_attnos(load->rel),
												options->duplicate);
		context.staging = fed_staging;
	}
	context.frame = load->deferred ? fed_frame : NULL;
	context.opened = fed_target_opened;
	context.closing = fed_targets_closing;

	load->nparsed = run_copy(load, &context, load->parsed);
	EndCopyFrom(load->parsed);
	shard_progress_restore(&progress);
	load->quiet = false;
}

