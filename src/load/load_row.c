/*
 * load_row.c
 *	  Handles one row of COPY FROM's input at a time: reads and filters it, passes it to core's parser if it is
 *	  not plain, rejects it.
 *
 * If bad rows are rejected, a step that may fail runs in a subtransaction.  Otherwise its error is held back until
 * the nodes have accepted all earlier lines, so that the error of the first wrong line is raised.
 */
#include "postgres.h"

#include "catalog/route.h"
#include "compat.h"
#include "load/input/progress.h"
#include "load/load_private.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

void
shard_load_row_context(void *arg)
{
	ShardLoad  *load = arg;
	const char *name = RelationGetRelationName(load->rel);

	if (load->quiet)
		return;
	if (!load->about_bad_line && load->lines->lineno > 0)
		errcontext("COPY %s, line %llu", name, (unsigned long long) load->lines->lineno);
	else if (load->about_bad_line && load->bad_lineno > 0)
		errcontext("COPY %s, line %llu%s", name, (unsigned long long) load->bad_lineno,
				   load->bad_place ? load->bad_place : "");
	else
		errcontext("COPY %s", name);
}

/* Removes the suffix that was added to the line from place, where a node shows the line as it was sent. */
static const char *
without_suffix(const ShardLoad *load, const char *place)
{
	size_t		nplace = place ? strlen(place) : 0;
	size_t		nsuffix = load->plan.suffix ? strlen(load->plan.suffix) : 0;

	if (nsuffix == 0 || nplace <= nsuffix || place[0] == ',' || place[nplace - 1] != '"' ||
		memcmp(place + nplace - 1 - nsuffix, load->plan.suffix, nsuffix) != 0)
		return place;
	return psprintf("%.*s\"", (int) (nplace - 1 - nsuffix), place);
}

/* ShardCopyErrorHook */
void
shard_load_row_note_bad_line(void *arg, uint64 lineno, const char *place)
{
	ShardLoad  *load = arg;

	load->quiet = false;
	load->about_bad_line = true;
	load->bad_lineno = lineno;
	load->bad_place = without_suffix(load, place);
}

/* Is an error with this SQLSTATE about the current row, not about the load? */
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

	shard_copy_stat_set_rejected(load->stat, ++load->nrejected);
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

/* Runs a step that may fail, in a load that rejects bad rows.  False: the row was rejected. */
static bool
run_step_or_reject(ShardLoad *load, ShardStep step)
{
	ShardProgress progress;
	ErrorData  *edata;

	shard_progress_save(&progress);
	edata = shard_catch_in_subtransaction(step, load, true);
	if (edata == NULL)
		return true;
	shard_progress_restore(&progress);
	/* a step that needs a node may raise an error about earlier rows */
	if (!is_about_row(edata->sqlerrcode) ||
		(load->set && shard_copy_set_is_lost(load->set)))
		ReThrowError(edata);
	reject_row(load, edata);
	FreeErrorData(edata);
	return false;
}

void
shard_load_row_hold_error(ShardLoad *load, ShardStep step, void *arg)
{
	ErrorData  *edata = shard_catch_error(step, arg);
	ShardCopySet *set;

	if (edata == NULL)
		return;
	set = load->fed_targets == NIL ? load->set : shard_copy_target_get_set(linitial(load->fed_targets));
	if (set != NULL && !shard_copy_set_is_lost(set) && is_about_row(edata->sqlerrcode))
	{
		shard_copy_set_flush(set);
		load->quiet = true;
	}
	ReThrowError(edata);
}

/* False: the row was rejected. */
static bool
run_step(ShardLoad *load, ShardStep step)
{
	bool		kept = true;
	bool		quiet = load->quiet;	/* in parsed mode core's parser adds the line number */

	load->quiet = true;
	if (load->options->ignore_errors)
		kept = run_step_or_reject(load, step);
	else
		shard_load_row_hold_error(load, step, load);
	load->quiet = quiet;
	return kept;
}

/* ShardCopyRefuseHook */
void
shard_load_row_refused(void *arg, const ShardCopyRefusal *refusal)
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

void
shard_load_row_count_replaced(ShardLoad *load, const ShardCopyTarget *target)
{
	ShardCopyTargetStat stat;

	if (load->rejects == NULL)
		return;
	shard_copy_target_stat(target, &stat);
	shard_reject_replaced(load->rejects, stat.nreplaced);
}

/* Stores what the parser has found out about an end-of-data marker. */
static void
note_end(ShardLoad *load, ShardProbeResult result)
{
	if (result == SHARD_PROBE_END)
		load->ended = true;
	else if (result == SHARD_PROBE_ROW_MARKER)
	{
		/* a node would end its COPY at the marker */
		load->must_parse = true;
		load->ends_here = load->source->copy_src == COPY_FRONTEND;
	}
}

static void
filter_step(ShardLoad *load)
{
	ShardCopyLines *lines = load->lines;
	const char *bytes = load->fixed ? load->spelled.data : lines->bytes;
	size_t		nbytes = load->fixed ? load->spelled.len : lines->line.nbytes;
	char	  **fields;
	int			nfields;

	note_end(load, shard_line_probe_fields(load->source_probe, bytes, nbytes,
										   load->fixed ? 0 : shard_copy_lines_following(lines),
										   lines->lineno_before,
										   lines->lineno_before == 0 ? SHARD_EOL_UNKNOWN : lines->scan.eol,
										   &fields, &nfields));
	if (load->ended)
		return;
	resetStringInfo(&load->filtered);
	/*
	 * The parser adds its own context to its errors.  From here on, our callback adds the line number; in parsed mode
	 * CopyFrom() does.
	 */
	load->quiet = load->parsed != NULL;
	load->made = shard_filter_row(load->filter, fields, nfields, &load->filtered);
}

/* Makes a line of the record, which may be too short, or the end of the data. */
static void
record_step(ShardLoad *load)
{
	if (load->lines->line.oddity == SHARD_LINE_ODD_MARKER)
	{
		load->ended = true;
		return;
	}
	load->quiet = load->parsed != NULL;
	resetStringInfo(&load->spelled);
	(void) shard_fixed_width_append_line(load->fixed, load->lines->bytes, &load->lines->line, &load->spelled);
	appendStringInfoChar(&load->spelled, '\n');
	load->made = true;
}

static void
make_step(void *arg)
{
	ShardLoad  *load = arg;

	if (load->fixed)
		record_step(load);
	load->made = load->made && load->filter == NULL;
	if (load->filter && !load->ended)
		filter_step(load);
}

/* Finds the fields of the made line. */
static void
scan_made(ShardLoad *load)
{
	const StringInfoData *made = load->filter ? &load->filtered : &load->spelled;
	ShardLineScan scan;

	load->row = made->data;
	load->row_line = &load->made_line;
	shard_line_scan_init(&scan, &load->format);
	scan.eol = SHARD_EOL_NL;
	(void) shard_line_scan_next(&scan, load->row, made->len, true, &load->made_line);
}

void
shard_load_row_spell(ShardLoad *load)
{
	record_step(load);
	scan_made(load);
}

/* Finds the shard of a fixed-width record by its key only.  False: the record has to be made a line. */
static bool
route_record(ShardLoad *load)
{
	const ShardCopyLines *lines = load->lines;
	const Datum *values;
	const bool *isnull;

	if (!shard_fixed_width_key(load->fixed, lines->bytes, &lines->line, &values, &isnull))
		return false;
	load->shardno = shard_route_key(load->rel, load->partdesc, values, isnull);
	return load->shardno >= 0;
}

/* Moves to the next row; false at the end. */
bool
shard_load_row_next(ShardLoad *load)
{
	ShardCopyLines *lines = load->lines;

	if (unlikely(load->ends_here))
	{
		shard_copy_lines_stop(lines);
		return false;
	}
	if (!shard_load_row_is_made(load))
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
		if (load->by_position && (load->routed = route_record(load)))
			return true;
		load->made = false;
		if (load->filter == NULL && lines->line.oddity == SHARD_LINE_NOT_ODD)
			record_step(load);
		else if (run_step(load, make_step) && load->ended)
		{
			shard_copy_lines_stop(lines);
			return false;
		}
	} while (!load->made);
	scan_made(load);
	return true;
}

ShardLineEol
shard_load_row_eol(const ShardLoad *load)
{
	return shard_load_row_is_made(load) ? SHARD_EOL_NL : load->lines->scan.eol;
}

/*
 * The line end that core knows before the row, by which it counts line breaks within quotes.  Unknown before the
 * first line.
 */
ShardLineEol
shard_load_row_parser_eol(const ShardLoad *load)
{
	if (!shard_load_row_is_made(load) && load->lines->lineno_before == 0)
		return SHARD_EOL_UNKNOWN;
	return shard_load_row_eol(load);
}

/*
 * In CSV, and in the first line, core takes a CR for a line end only after it has looked at the next byte.  If no
 * valid character begins there, core's error names the line with the CR.
 */
bool
shard_load_row_breaks_line_before(const ShardLoad *load)
{
	return load->lines->scan.eol == SHARD_EOL_CR && !shard_load_row_is_made(load) &&
		load->lines->lineno_before > 0 &&
		(load->lines->lineno_before == 1 || shard_copy_is_csv(&load->cstate->opts)) &&
		shard_line_probe_is_no_character(load->source, load->row, load->row_line->nbytes);
}

static void
route_values(ShardLoad *load, const Datum *values, const bool *isnull)
{
	load->shardno = shard_route_key(load->rel, load->partdesc, values, isnull);
	if (unlikely(load->shardno < 0))
	{
		ErrorContextCallback context;

		shard_line_probe_push_context(load->probe, &context);
		shard_route_raise_no_shard(load->rel, values, isnull);
	}
}

/* Passes a row that is not plain to core's parser, and finds its shard. */
static void
probe_step(void *arg)
{
	ShardLoad  *load = arg;
	PartitionKey key = RelationGetPartitionKey(load->rel);
	ShardCopyLines *lines = load->lines;
	Datum		key_values[PARTITION_MAX_KEYS];
	bool		key_isnull[PARTITION_MAX_KEYS];
	Datum	   *values;
	bool	   *isnull;

	note_end(load, shard_line_probe_row(load->probe, load->row, load->row_line->nbytes,
										shard_load_row_is_made(load) ? 0 : shard_copy_lines_following(lines),
										lines->lineno_before - shard_load_row_breaks_line_before(load), shard_load_row_parser_eol(load),
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

bool
shard_load_row_probe(ShardLoad *load)
{
	return run_step(load, probe_step) && !load->ended;
}
