/*
 * copy_load.c
 *	  COPY FROM into a sharded table.
 *
 *	 input -> lines -> [FILTER] -+-> key -> shard -> COPY stream     raw mode
 *	                             |
 *	                             +-> core's CopyFrom() -> FDW insert   parsed mode
 *
 * Raw mode reads of each line no more than its end and the shard key; the shard
 * parses it.  What a line means that is not plain is asked of core's own parser
 * (line_probe.c), which raises core's own error.  Parsed mode does all else.  A
 * load that began raw can go on parsed, not the other way round.
 *
 * The first line that is wrong is the one that is complained about: an error
 * found here is held back until the nodes have taken all lines before it.
 *
 * Without an option of ours parsed mode is core's CopyFrom() on the input
 * itself; with one, it gets the lines that it should see from a callback, one
 * at a time, so that its line numbers stay those of the input.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/route.h"
#include "commands/copyfrom_internal.h"
#include "commands/progress.h"
#include "compat.h"
#include "deparse/dml.h"
#include "guc.h"
#include "load/copy_input.h"
#include "load/copy_lines.h"
#include "load/copy_load.h"
#include "load/duplicate.h"
#include "load/filter.h"
#include "load/key_reader.h"
#include "load/progress.h"
#include "load/raw_mode.h"
#include "load/reject.h"
#include "load/spread.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "remote/copy_context.h"
#include "remote/copy_stream.h"
#include "utils/backend_progress.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/ruleutils.h"

#define PROGRESS_ROWS 1024		/* between two updates of pg_stat_progress_copy */
#define LAST_KEY_BYTES 32
#define MAX_CHAR_BYTES 16
#define BUSY_WAIT_MS 10			/* for input, while nodes have rows to take */
#define IDLE_WAIT_MS 1000
#define SPREAD_BYTES (1024 * 1024)	/* a smaller file is not worth more connections */

typedef struct ShardLoad
{
	MemoryContext cxt;
	ParseState *pstate;
	const CopyStmt *stmt;
	Relation	rel;
	const ShardMap *map;
	Node	   *where;
	const ShardCopyOptions *options;

	CopyFromState source;		/* the input */
	ShardCopyLines *lines;
	ShardLineProbe *source_probe;

	/* how rows are read: as the input, or behind FILTER as COPY text */
	CopyFromState cstate;
	List	   *attnamelist;
	List	   *core_options;
	ShardLineProbe *probe;
	ShardFilter *filter;
	StringInfoData filtered;
	ShardLineFormat format;
	ShardLine	filtered_line;

	/* the row at hand */
	const char *row;
	const ShardLine *row_line;
	bool		filter_kept;
	int			shardno;
	bool		must_parse;		/* only parsed mode loads it exactly */
	bool		ended;			/* it is the end of the data */
	bool		ends_here;		/* it is the last one */

	/* the key of the row before, as it is in the input: rows of one key often follow each other */
	char		last_key[LAST_KEY_BYTES];
	size_t		last_key_bytes; /* 0: not known */
	int			last_shardno;

	/* raw mode */
	ShardRawPlan plan;
	ShardKeyReader *keys;
	ShardCopySet *set;
	ShardCopyTarget **targets;	/* by shardno; NULL: no row yet */
	ShardDuplicates *duplicates;
	ShardRejects *rejects;		/* NULL: no row may be rejected */
	uint64		nsent;
	uint64		nrefused;		/* by nodes */
	uint64		nparsed;		/* loaded in parsed mode */

	/* parsed mode */
	CopyFromState parsed;
	List	   *fed_targets;	/* gone when CopyFrom() is */
	size_t		nfed;			/* bytes of the row that it has */

	/* context of errors */
	ErrorContextCallback context;
	bool		quiet;			/* core's parser gives its own */
	bool		about_bad_line;
	uint64		bad_lineno;
	const char *bad_place;
} ShardLoad;

/* The load whose lines core's CopyFrom() is reading. */
static ShardLoad *feeding = NULL;

/* ---------- errors ---------- */

static void
load_context(void *arg)
{
	ShardLoad  *load = arg;
	const char *name = RelationGetRelationName(load->rel);

	if (load->quiet)
		return;
	if (!load->about_bad_line)
		errcontext("COPY %s, line %llu", name, (unsigned long long) load->lines->lineno);
	else if (load->bad_lineno > 0)
		errcontext("COPY %s, line %llu%s", name, (unsigned long long) load->bad_lineno,
				   load->bad_place ? load->bad_place : "");
	else
		errcontext("COPY %s", name);
}

/* ShardCopyErrorHook */
static void
note_bad_line(void *arg, uint64 lineno, const char *place)
{
	ShardLoad  *load = arg;

	load->quiet = false;
	load->about_bad_line = true;
	load->bad_lineno = lineno;
	load->bad_place = place;
}

/* True for an error that is about the row at hand rather than about the load. */
static bool
is_about_row(int sqlstate)
{
	switch (ERRCODE_TO_CATEGORY(sqlstate))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
			return false;
		default:
			return true;
	}
}

static void
reject_row(ShardLoad *load, ErrorData *edata)
{
	ShardReject reject = {0};

	reject.lineno = load->lines->lineno;
	reject.source = load->lines->bytes;
	reject.source_bytes = load->lines->line.nbytes;
	reject.sqlstate = edata->sqlerrcode;
	reject.message = edata->message;
	reject.column = shard_line_probe_take_column(load->probe);
	if (edata->column_name)
		reject.column = edata->column_name;
	shard_reject_add(load->rejects, &reject);
}

typedef void (*ShardLoadStep) (ShardLoad *load);

/* A step that may fail, in a load that goes on without the row.  False: the row was rejected. */
static bool
run_step_or_reject(ShardLoad *load, ShardLoadStep step)
{
	MemoryContext oldcxt = CurrentMemoryContext;
	ResourceOwner oldowner = CurrentResourceOwner;
	ErrorContextCallback *oldstack = error_context_stack;
	ErrorData  *volatile edata = NULL;
	ShardProgress progress;

	shard_progress_save(&progress);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(oldcxt);
	PG_TRY();
	{
		step(load);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(load->cxt);
		edata = CopyErrorData();
		if (!is_about_row(edata->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		shard_progress_restore(&progress);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(oldcxt);
	CurrentResourceOwner = oldowner;
	error_context_stack = oldstack;

	if (edata == NULL)
		return true;
	reject_row(load, edata);
	FreeErrorData(edata);
	return false;
}

/*
 * A step that may fail.  Its error is raised after the nodes have had a say
 * about the lines before: they may raise another one.
 */
static void
run_step_or_raise(ShardLoad *load, ShardLoadStep step)
{
	ErrorContextCallback *oldstack = error_context_stack;

	PG_TRY();
	{
		step(load);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		if (load->set == NULL || !is_about_row(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(load->cxt);
		edata = CopyErrorData();
		FlushErrorState();
		error_context_stack = oldstack;
		shard_copy_set_flush(load->set);
		load->quiet = true;
		ReThrowError(edata);
	}
	PG_END_TRY();
}

/* False: the row was rejected. */
static bool
run_step(ShardLoad *load, ShardLoadStep step)
{
	bool		kept = true;

	load->quiet = true;
	if (load->options->ignore_errors)
		kept = run_step_or_reject(load, step);
	else
		run_step_or_raise(load, step);
	load->quiet = false;
	return kept;
}

/* ---------- rows ---------- */

/* What a marker for the end of the data means for this load. */
static void
note_end(ShardLoad *load, ShardProbeResult result)
{
	if (result == SHARD_PROBE_END)
		load->ended = true;
	else if (result == SHARD_PROBE_ROW_MARKER)
	{
		/* a node would take the marker for the end of what it is sent */
		load->must_parse = true;
		load->ends_here = load->source->copy_src == COPY_FRONTEND;
	}
}

static void
filter_step(ShardLoad *load)
{
	ShardCopyLines *lines = load->lines;
	char	  **fields;
	int			nfields;

	note_end(load, shard_line_probe_fields(load->source_probe, lines->bytes, lines->line.nbytes,
										   shard_copy_lines_following(lines),
										   lines->lineno_before,
										   lines->lineno_before == 0 ? SHARD_EOL_UNKNOWN : lines->scan.eol,
										   &fields, &nfields));
	if (load->ended)
		return;
	resetStringInfo(&load->filtered);
	/* the parser has said its own; from here on it is ours to say which line it is */
	load->quiet = false;
	load->filter_kept = shard_filter_row(load->filter, fields, nfields, &load->filtered);
}

/* Moves on to the next row; false at the end. */
static bool
next_row(ShardLoad *load)
{
	ShardCopyLines *lines = load->lines;
	ShardLineScan scan;

	if (unlikely(load->ends_here))
	{
		shard_copy_lines_stop(lines);
		return false;
	}
	if (load->filter == NULL)
	{
		if (!shard_copy_lines_next(lines))
			return false;
		load->row = lines->bytes;
		load->row_line = &lines->line;
		return true;
	}

	do
	{
		if (!shard_copy_lines_next(lines))
			return false;
		load->filter_kept = false;
		if (run_step(load, filter_step) && load->ended)
		{
			shard_copy_lines_stop(lines);
			return false;
		}
	} while (!load->filter_kept);

	load->row = load->filtered.data;
	load->row_line = &load->filtered_line;
	shard_line_scan_init(&scan, &load->format);
	scan.eol = SHARD_EOL_NL;
	(void) shard_line_scan_next(&scan, load->row, load->filtered.len, true, &load->filtered_line);
	return true;
}

static ShardLineEol
row_eol(const ShardLoad *load)
{
	return load->filter ? SHARD_EOL_NL : load->lines->scan.eol;
}

/*
 * Line end as core knows it in front of the row: none before the first line.
 * Line breaks within quotes are counted by that.
 */
static ShardLineEol
parser_eol(const ShardLoad *load)
{
	if (load->filter == NULL && load->lines->lineno_before == 0)
		return SHARD_EOL_UNKNOWN;
	return row_eol(load);
}

/*
 * Core takes a CR for the end of a line only after a look at the byte behind it:
 * in CSV, and in the first line.  When that byte begins no character, it is the
 * line with the CR that is complained about.
 */
static inline bool
breaks_line_before(const ShardLoad *load)
{
	return unlikely(load->lines->scan.eol == SHARD_EOL_CR) && load->filter == NULL &&
		load->lines->lineno_before > 0 &&
		(load->lines->lineno_before == 1 || shard_copy_is_csv(&load->cstate->opts)) &&
		(load->row[0] == '\0' || IS_HIGHBIT_SET(load->row[0])) &&
		pg_encoding_verifymbstr(load->source->file_encoding, load->row,
								(int) Min(load->row_line->nbytes, MAX_CHAR_BYTES)) == 0;
}

/* "(a, b) = (1, x)" of the key values, as core shows them. */
static char *
describe_key(ShardLoad *load, const Datum *values, const bool *isnull)
{
	PartitionKey key = RelationGetPartitionKey(load->rel);
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "(%s) = (", pg_get_partkeydef_columns(RelationGetRelid(load->rel), true));
	for (int i = 0; i < key->partnatts; i++)
	{
		Oid			output;
		bool		is_varlena;
		char	   *value = "null";

		if (!isnull[i])
		{
			getTypeOutputInfo(get_partition_col_typid(key, i), &output, &is_varlena);
			value = OidOutputFunctionCall(output, values[i]);
		}
		if (i > 0)
			appendStringInfoString(&buf, ", ");
		appendBinaryStringInfo(&buf, value, pg_mbcliplen(value, strlen(value), 64));
		if (pg_mbcliplen(value, strlen(value), 64) < (int) strlen(value))
			appendStringInfoString(&buf, "...");
	}
	appendStringInfoChar(&buf, ')');
	return buf.data;
}

static void
route_values(ShardLoad *load, const Datum *values, const bool *isnull)
{
	load->shardno = shard_route_key(load->rel, values, isnull);
	if (unlikely(load->shardno < 0))
	{
		ErrorContextCallback context;

		shard_line_probe_push_context(load->probe, &context);
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("no partition of relation \"%s\" found for row",
						RelationGetRelationName(load->rel)),
				 errdetail("Partition key of the failing row contains %s.",
						   describe_key(load, values, isnull)),
				 errtable(load->rel)));
	}
}

/* The row is not plain: what does core's parser make of it? */
static void
probe_step(ShardLoad *load)
{
	PartitionKey key = RelationGetPartitionKey(load->rel);
	ShardCopyLines *lines = load->lines;
	Datum		key_values[PARTITION_MAX_KEYS];
	bool		key_isnull[PARTITION_MAX_KEYS];
	Datum	   *values;
	bool	   *isnull;

	note_end(load, shard_line_probe_row(load->probe, load->row, load->row_line->nbytes,
										load->filter ? 0 : shard_copy_lines_following(lines),
										lines->lineno_before - breaks_line_before(load), parser_eol(load),
										&values, &isnull));
	if (load->ended || load->keys == NULL)
		return;
	for (int i = 0; i < key->partnatts; i++)
	{
		key_values[i] = values[key->partattrs[i] - 1];
		key_isnull[i] = isnull[key->partattrs[i] - 1];
	}
	route_values(load, key_values, key_isnull);
}

/*
 * True when the line may end in the middle of a character, so that the node
 * would take its end for a part of that, and core would name other bytes.
 */
static bool
ends_within_character(const ShardLoad *load)
{
	const char *end = load->row + load->row_line->content_bytes;
	int			encoding = load->filter ? GetDatabaseEncoding() : load->source->file_encoding;
	const char *p = end;

	if (likely(!load->row_line->high_tail))
		return false;
	if (encoding != PG_UTF8)
		return !pg_verify_mbstr(encoding, load->row, load->row_line->content_bytes, true);

	/* to the first byte of the last character */
	do
		p--;
	while (p > load->row && end - p < 4 && ((unsigned char) *p & 0xC0) == 0x80);
	return !pg_verify_mbstr(PG_UTF8, p, end - p, true);
}

/*
 * True when the last line has no line end, but a backslash, which would take
 * with it the one that is added.
 */
static inline bool
ends_in_backslash(const ShardLoad *load)
{
	const ShardLine *line = load->row_line;

	return unlikely(line->content_bytes == line->nbytes) && line->nbytes > 0 &&
		load->row[line->nbytes - 1] == '\\' && !shard_copy_is_csv(&load->cstate->opts);
}

/* True when the row has the very key of the row before: load->shardno is set. */
static inline bool
is_last_key(ShardLoad *load)
{
	const ShardLineField *field = &load->row_line->fields[0];

	if (field->nbytes != load->last_key_bytes || field->nbytes == 0 || !field->plain ||
		memcmp(load->row + field->start, load->last_key, field->nbytes) != 0)
		return false;
	load->shardno = load->last_shardno;
	return true;
}

static inline void
remember_key(ShardLoad *load)
{
	const ShardLineField *field = &load->row_line->fields[0];

	if (load->format.nkeys != 1 || !field->plain || field->nbytes > LAST_KEY_BYTES)
		return;
	memcpy(load->last_key, load->row + field->start, field->nbytes);
	load->last_key_bytes = field->nbytes;
	load->last_shardno = load->shardno;
}

/*
 * Finds the shard of the row: load->shardno.  False: there is none (the row was
 * rejected, or is the end of the data).
 */
static bool
route_row(ShardLoad *load)
{
	const Datum *values;
	const bool *isnull;
	bool		clock_word = false;

	load->must_parse = false;
	if (unlikely(load->row_line->oddity != SHARD_LINE_NOT_ODD || ends_within_character(load) ||
				 ends_in_backslash(load) || breaks_line_before(load)))
	{
		/* a node of another major may take \. for the end of data */
		load->must_parse = ends_in_backslash(load) ||
			(shard_copy_is_csv(&load->cstate->opts) &&
			 load->row_line->oddity == SHARD_LINE_ODD_MARKER);
		return run_step(load, probe_step) && !load->ended;
	}
	if (is_last_key(load))
		return true;
	if (likely(shard_key_reader_read(load->keys, load->row, load->row_line, &clock_word,
									 &values, &isnull)))
	{
		load->shardno = shard_route_key(load->rel, values, isnull);
		if (likely(load->shardno >= 0))
		{
			remember_key(load);
			return true;
		}
	}

	/* the node's clock must not tell another day than ours */
	load->must_parse = clock_word;
	return run_step(load, probe_step) && !load->ended;
}

/* ---------- raw mode ---------- */

/* ShardCopyRefuseHook */
static void
note_refusal(void *arg, const ShardCopyRefusal *refusal)
{
	ShardLoad  *load = arg;
	ShardReject reject = {0};

	load->nrefused++;
	reject.lineno = refusal->lineno;
	reject.source = refusal->source;
	reject.source_bytes = refusal->source_bytes;
	reject.sqlstate = refusal->sqlstate;
	reject.message = refusal->message;
	reject.column = refusal->column;
	reject.shard = refusal->label;
	reject.node = refusal->node;
	reject.duplicate = refusal->duplicate;
	shard_reject_add(load->rejects, &reject);
}

static void
open_set(ShardLoad *load, int nconns)
{
	const ShardCopyOptions *options = load->options;

	load->set = shard_copy_set_create(load->cxt, note_bad_line, load);
	load->targets = MemoryContextAllocZero(load->cxt, load->map->nshards * sizeof(ShardCopyTarget *));
	if (nconns > 1)
		shard_copy_set_spread(load->set, nconns);
	if (options->duplicate != SHARD_DUPLICATE_ERROR)
		load->duplicates = shard_duplicate_open(load->cxt, load->map, load->plan.attnos,
												options->duplicate);
}

static void
count_replaced(ShardLoad *load, const ShardCopyTarget *target)
{
	ShardCopyTargetStat stat;

	if (load->rejects == NULL)
		return;
	shard_copy_target_stat(target, &stat);
	shard_reject_replaced(load->rejects, stat.nreplaced);
}

static void
close_set(ShardLoad *load)
{
	ShardCopySet *set = load->set;

	shard_copy_set_flush(set);
	for (int i = 0; i < load->map->nshards; i++)
		if (load->targets[i])
			count_replaced(load, load->targets[i]);
	load->set = NULL;
	shard_copy_set_finish(set);
}

static ShardCopyTarget *
open_target(ShardLoad *load, int shardno)
{
	const Shard *shard = &load->map->shards[shardno];
	MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);
	char	   *sql = shard_raw_mode_copy_sql(load->cstate, &load->plan, shard->relid);
	ShardCopyTarget *target = shard_copy_target_open(load->set, shard->serverid, GetUserId(),
													 sql, false, shard->name);

	load->targets[shardno] = target;
	MemoryContextSwitchTo(oldcxt);
	return target;
}

static void
append_eol(StringInfo buf, ShardLineEol eol)
{
	if (eol == SHARD_EOL_CR || eol == SHARD_EOL_CRNL)
		appendStringInfoChar(buf, '\r');
	if (eol != SHARD_EOL_CR)
		appendStringInfoChar(buf, '\n');
}

static void
send_row(ShardLoad *load)
{
	const ShardLine *line = load->row_line;
	ShardCopyTarget *target = load->targets[load->shardno];
	StringInfo	buf;
	bool		is_source = load->filter == NULL && load->plan.suffix == NULL;

	if (unlikely(target == NULL))
		target = open_target(load, load->shardno);
	buf = shard_copy_target_buffer(target);
	if (likely(load->plan.suffix == NULL && line->content_bytes < line->nbytes))
		appendBinaryStringInfo(buf, load->row, line->nbytes);
	else
	{
		appendBinaryStringInfo(buf, load->row, line->content_bytes);
		if (load->plan.suffix)
			appendStringInfoString(buf, load->plan.suffix);
		append_eol(buf, row_eol(load));
	}
	shard_copy_target_put_row(target, load->lines->lineno, 1 + line->nbreaks,
							  is_source ? NULL : load->lines->bytes,
							  is_source ? 0 : load->lines->line.nbytes);
	load->nsent++;
	if (unlikely(load->nsent % PROGRESS_ROWS == 0))
		pgstat_progress_update_param(PROGRESS_COPY_TUPLES_PROCESSED, load->nsent - load->nrefused);
}

/* Returns false when the row at hand, and what follows, has to go through core's parser. */
static bool
load_raw(ShardLoad *load)
{
	while (next_row(load))
	{
		if (!route_row(load))
		{
			if (!load->ended)
				continue;
			shard_copy_lines_stop(load->lines);
			break;
		}
		if (unlikely(load->must_parse))
			return false;
		send_row(load);
	}
	return true;
}

/* ---------- parsed mode ---------- */

static EolType
core_eol(ShardLineEol eol)
{
	switch (eol)
	{
		case SHARD_EOL_NL:
			return EOL_NL;
		case SHARD_EOL_CR:
			return EOL_CR;
		case SHARD_EOL_CRNL:
			return EOL_CRNL;
		case SHARD_EOL_UNKNOWN:
			break;
	}
	return EOL_UNKNOWN;
}

/* A row that core's parser will accept; false at the end. */
static bool
next_parsable_row(ShardLoad *load)
{
	while (next_row(load))
	{
		if (!load->options->ignore_errors)
			return true;
		if (run_step(load, probe_step))
		{
			if (load->ended)
				break;
			return true;
		}
	}
	return false;
}

/*
 * Source of data for CopyFrom(): never more than one row, so that its line
 * number can be set when it asks for the next one.
 */
static int
feed_row(void *outbuf, int minread, int maxread)
{
	ShardLoad  *load = feeding;
	size_t		nbytes;

	if (load->row == NULL || load->nfed == load->row_line->nbytes)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);
		bool		more = next_parsable_row(load);

		MemoryContextSwitchTo(oldcxt);
		if (!more)
			return 0;
		load->nfed = 0;
		load->parsed->cur_lineno = load->lines->lineno_before + 1;
		load->parsed->eol_type = core_eol(parser_eol(load));
	}
	nbytes = Min(load->row_line->nbytes - load->nfed, (size_t) maxread);
	memcpy(outbuf, load->row + load->nfed, nbytes);
	load->nfed += nbytes;
	return (int) nbytes;
}

/* Of ShardCopyContext: the line that core's parser made the row of. */
static const char *
fed_source(void *arg, size_t *nbytes)
{
	ShardLoad  *load = arg;

	*nbytes = load->lines->line.nbytes;
	return load->lines->bytes;
}

static const ShardCopyStaging *
fed_staging(void *arg, Oid shard_relid, const char *copy_sql)
{
	ShardLoad  *load = arg;

	return shard_duplicate_staging(load->duplicates, shard_map_find(load->map, shard_relid), copy_sql);
}

static void
fed_target_opened(void *arg, ShardCopyTarget *target)
{
	ShardLoad  *load = arg;
	MemoryContext oldcxt = MemoryContextSwitchTo(load->cxt);

	load->fed_targets = lappend(load->fed_targets, target);
	MemoryContextSwitchTo(oldcxt);
}

static void
fed_targets_closing(void *arg)
{
	ShardLoad  *load = arg;
	ListCell   *lc;

	foreach(lc, load->fed_targets)
		count_replaced(load, lfirst(lc));
	load->fed_targets = NIL;
}

/* Lets core's CopyFrom() load the row at hand, if there is one, and all that follow. */
static void
load_parsed(ShardLoad *load)
{
	const ShardCopyOptions *options = load->options;
	const ShardCopyContext *outer_context;
	ShardLoad  *outer = feeding;
	ShardCopyContext context = {0};
	ShardProgress progress;

	load->quiet = true;
	load->nfed = 0;
	shard_progress_save(&progress);
	load->parsed = BeginCopyFrom(load->pstate, load->rel, load->where, NULL, false, feed_row,
								 load->attnamelist, load->core_options);
	shard_progress_restore(&progress);
	load->parsed->cur_lineno = load->row ? load->lines->lineno_before : load->lines->lineno;
	load->parsed->eol_type = core_eol(row_eol(load));

	context.cstate = load->parsed;
	context.arg = load;
	if (load->rejects)
	{
		context.on_error = options->ignore_errors;
		context.refuse = note_refusal;
		context.source = fed_source;
	}
	if (options->duplicate != SHARD_DUPLICATE_ERROR)
	{
		load->duplicates = shard_duplicate_open(load->cxt, load->map, shard_dml_all_attnos(load->rel),
												options->duplicate);
		context.staging = fed_staging;
	}
	context.opened = fed_target_opened;
	context.closing = fed_targets_closing;

	outer_context = shard_copy_context_set(&context);
	PG_TRY();
	{
		feeding = load;
		load->nparsed = CopyFrom(load->parsed);
	}
	PG_FINALLY();
	{
		feeding = outer;
		shard_copy_context_set(outer_context);
	}
	PG_END_TRY();
	EndCopyFrom(load->parsed);
	shard_progress_restore(&progress);
	load->quiet = false;
}

/* ---------- the whole ---------- */

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

/* Behind FILTER rows are lines of COPY text with all columns. */
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

static void
say_mode(const ShardLoad *load)
{
	if (load->plan.reason)
		ereport(DEBUG1,
				(errmsg_internal("COPY %s: rows are parsed on the coordinator: %s",
								 RelationGetRelationName(load->rel), load->plan.reason)));
	else
		ereport(DEBUG1,
				(errmsg_internal("COPY %s: lines are forwarded to the shards as they are",
								 RelationGetRelationName(load->rel))));
}

/* Over how many connections the load writes to each node. */
static int
connections_per_node(const ShardLoad *load, ProcessUtilityContext context, CommandDest dest)
{
	struct stat st;

	/* functions called on the way may want to see the rows */
	if (load->filter || load->options->reject_table)
		return 1;
	if (load->source->copy_src == COPY_FILE && !load->source->is_program &&
		fstat(fileno(load->source->copy_file), &st) == 0 && S_ISREG(st.st_mode) &&
		st.st_size < SPREAD_BYTES)
		return 1;
	return shard_spread_connections(load->map, GetUserId(), context, dest,
									load->options->duplicate == SHARD_DUPLICATE_KEEP_NEW,
									shard_guc_max_connections_per_node);
}

/* Reads the input, with load->plan telling how. */
static void
load_lines(ShardLoad *load, ProcessUtilityContext context, CommandDest dest)
{
	const ShardCopyOptions *options = load->options;
	ShardCopyInput *input = shard_copy_input_create(load->source, serve_nodes, load);
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
	load->lines = shard_copy_lines_create(load->cxt, input, &source_format,
										  shard_copy_header_lines(&load->source->opts),
										  load->source_probe, options);

	load->context.callback = load_context;
	load->context.arg = load;
	load->context.previous = error_context_stack;
	error_context_stack = &load->context;

	load->quiet = true;
	shard_copy_lines_header(load->lines);
	load->quiet = false;
	if (load->rejects)
		shard_reject_begin(load->rejects, load->lines->header, load->lines->header_bytes,
						   load->source->file_encoding);
	if (load->plan.reason == NULL)
	{
		open_set(load, connections_per_node(load, context, dest));
		done = load_raw(load);
		close_set(load);
	}
	if (!done)
		load_parsed(load);
	if (load->rejects)
		shard_reject_finish(load->rejects);
	error_context_stack = load->context.previous;
}

uint64
shard_copy_load(ParseState *pstate, const CopyStmt *stmt, Relation parent, const ShardMap *map,
				Node *where, const ShardCopyOptions *options,
				ProcessUtilityContext context, CommandDest dest)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw load",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardLoad  *load = palloc0(sizeof(ShardLoad));
	uint64		nrows;

	load->cxt = cxt;
	load->pstate = pstate;
	load->stmt = stmt;
	load->rel = parent;
	load->map = map;
	load->where = where;
	load->options = options;
	load->attnamelist = stmt->attlist;
	load->core_options = options->core;

	/* what may be wrong with our own options, before the client is asked for data */
	if (options->filter)
		open_filter(load);
	if (options->ignore_errors || options->duplicate != SHARD_DUPLICATE_ERROR)
		load->rejects = shard_reject_open(cxt, options, parent);
	load->source = BeginCopyFrom(pstate, parent, where, stmt->filename, stmt->is_program, NULL,
								 stmt->attlist, options->core);
	if (load->cstate == NULL)
		load->cstate = load->source;
	shard_raw_mode_plan(load->cstate, map, where != NULL, &load->plan);
	say_mode(load);
	if (options->ignore_errors || options->duplicate != SHARD_DUPLICATE_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY into a sharded table cannot set rows aside")));

	if (load->plan.reason != NULL && !options->any)
		nrows = CopyFrom(load->source);
	else
	{
		load_lines(load, context, dest);
		nrows = load->nsent + load->nparsed - load->nrefused;
	}

	if (load->cstate != load->source)
		EndCopyFrom(load->cstate);
	EndCopyFrom(load->source);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return nrows;
}
