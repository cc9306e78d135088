/*
 * line_probe.c
 *	  Runs core's parser of COPY FROM on one line of the input.
 *
 *	 line's bytes --> next_bytes() --> NextCopyFrom() --> values
 *									   NextCopyFromRawFields() --> texts of fields
 *
 * One CopyFromState, made like that of the load, handles all lines.  Its data source is a callback.  Before each
 * line, its parsing state is reset to the state that core would have before that line of a file. rewind_parser()
 * resets all of that state.  Core sets all other fields again for each line.
 *
 * Assumptions:
 *
 * - Core reads a line completely through CopyGetData() (the callback) before it converts values.  So the static
 *   pointer to the current line is safe even if an input function runs another COPY.
 * - The parser never reads beyond the end of a line, except for one byte after a CR.
 *
 * EndCopyFrom() is never called: a callback source has only memory, and EndCopyFrom() would end the progress report
 * of the load.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "commands/progress.h"
#include "compat.h"
#include "executor/executor.h"
#include "load/input/progress.h"
#include "load/raw/line_probe.h"
#include "mb/pg_wchar.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/rel.h"

struct ShardLineProbe
{
	CopyFromState cstate;
	int			header_line;	/* the HEADER option; opts.header_line of cstate is set only while the header is read */
	EState	   *estate;			/* its per-tuple context has a line's values */
	Datum	   *values;
	bool	   *isnull;

	/* rest of the line that is being read */
	const char *next;
	size_t		nleft;
};

/* The probe whose line core is reading. */
static ShardLineProbe *reading = NULL;

static int64
bytes_processed(void)
{
	return MyBEEntry ? MyBEEntry->st_progress_param[PROGRESS_COPY_BYTES_PROCESSED] : 0;
}

/* copy_data_source_cb */
static int
next_bytes(void *outbuf, int minread, int maxread)
{
	int			nbytes = (int) Min(reading->nleft, (size_t) maxread);

	memcpy(outbuf, reading->next, nbytes);
	reading->next += nbytes;
	reading->nleft -= nbytes;

	/* Core adds nbytes and reports the sum as progress.  But these bytes were already counted when they were read. */
	reading->cstate->bytes_processed = bytes_processed() - nbytes;
	return nbytes;
}

ShardLineProbe *
shard_line_probe_create(MemoryContext cxt, ParseState *pstate, CopyFromState cstate,
						List *attnamelist, List *options)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardLineProbe *probe = palloc0(sizeof(ShardLineProbe));
	int			natts = RelationGetNumberOfAttributes(cstate->rel);
	ShardProgress progress;

	shard_progress_save(&progress);
	probe->cstate = BeginCopyFrom(pstate, cstate->rel, NULL, NULL, false, next_bytes,
								  attnamelist, options);
	shard_progress_restore(&progress);

	/* the encoding of the input, even if client_encoding has changed since */
	Assert(probe->cstate->file_encoding == cstate->file_encoding);
	probe->header_line = probe->cstate->opts.header_line;

	/*
	 * Do not evaluate defaults of omitted columns: they may have side effects, which must not happen twice for a
	 * line.
	 */
	probe->cstate->num_defaults = 0;

	probe->estate = CreateExecutorState();
	probe->values = palloc(sizeof(Datum) * Max(natts, 1));
	probe->isnull = palloc(sizeof(bool) * Max(natts, 1));
	MemoryContextSwitchTo(oldcxt);
	return probe;
}

EolType
shard_line_probe_core_eol(ShardLineEol eol)
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

/*
 * Resets core's parser to read the nbytes at bytes.  After an error, the parser may have stopped anywhere in an
 * earlier line.
 */
static void
rewind_parser(ShardLineProbe *probe, const char *bytes, size_t nbytes,
			  uint64 lineno_before, ShardLineEol eol)
{
	CopyFromState cstate = probe->cstate;

	cstate->opts.header_line = COPY_HEADER_FALSE;
	cstate->eol_type = shard_line_probe_core_eol(eol);
	cstate->cur_lineno = lineno_before;
	cstate->cur_attname = NULL;
	cstate->cur_attval = NULL;
	cstate->line_buf_valid = false;
	resetStringInfo(&cstate->line_buf);
	resetStringInfo(&cstate->attribute_buf);
	cstate->raw_buf_index = 0;
	cstate->raw_buf_len = 0;
	cstate->raw_buf[0] = '\0';
	cstate->raw_reached_eof = false;
	cstate->input_buf_index = 0;
	cstate->input_buf_len = 0;
	cstate->input_buf[0] = '\0';
	cstate->input_reached_eof = false;
	cstate->input_reached_error = false;

	probe->next = bytes;
	probe->nleft = nbytes;
	reading = probe;
}

void
shard_line_probe_push_context(ShardLineProbe *probe, ErrorContextCallback *context)
{
	context->callback = CopyFromErrorCallback;
	context->arg = probe->cstate;
	context->previous = error_context_stack;
	error_context_stack = context;
}

/*
 * Classifies a row that core has read.  If \. is not escaped in text format, core has either raised an error or taken
 * it for the marker.
 */
static ShardProbeResult
classify_row(const ShardLineProbe *probe, const char *bytes, size_t nbytes)
{
	const char *end = bytes + nbytes;

	if (shard_copy_is_csv(&probe->cstate->opts))
		return SHARD_PROBE_ROW;
	while (bytes < end && (bytes = memchr(bytes, '\\', end - bytes)) != NULL)
	{
		if (bytes + 1 < end && bytes[1] == '.')
			return SHARD_PROBE_ROW_MARKER;
		bytes += 2;
	}
	return SHARD_PROBE_ROW;
}

ShardProbeResult
shard_line_probe_row(ShardLineProbe *probe, const char *bytes, size_t nbytes, size_t ntail,
					 uint64 lineno_before, ShardLineEol eol, Datum **values, bool **isnull)
{
	ErrorContextCallback context;
	MemoryContext oldcxt;
	ExprContext *econtext = GetPerTupleExprContext(probe->estate);
	bool		found;

	ResetPerTupleExprContext(probe->estate);
	rewind_parser(probe, bytes, nbytes + ntail, lineno_before, eol);

	shard_line_probe_push_context(probe, &context);
	oldcxt = MemoryContextSwitchTo(GetPerTupleMemoryContext(probe->estate));
	found = NextCopyFrom(probe->cstate, econtext, probe->values, probe->isnull);
	MemoryContextSwitchTo(oldcxt);
	error_context_stack = context.previous;

	*values = probe->values;
	*isnull = probe->isnull;
	return found ? classify_row(probe, bytes, nbytes) : SHARD_PROBE_END;
}

ShardProbeResult
shard_line_probe_fields(ShardLineProbe *probe, const char *bytes, size_t nbytes, size_t ntail,
						uint64 lineno_before, ShardLineEol eol, char ***fields, int *nfields)
{
	ErrorContextCallback context;
	bool		found;

	rewind_parser(probe, bytes, nbytes + ntail, lineno_before, eol);
	shard_line_probe_push_context(probe, &context);
	found = NextCopyFromRawFields(probe->cstate, fields, nfields);
	error_context_stack = context.previous;
	return found ? classify_row(probe, bytes, nbytes) : SHARD_PROBE_END;
}

/*
 * Core reads the header before the first data line, which is missing.  So core always returns false.  If it has
 * reached the end of the input, it was looking for that line, and the header was complete.
 */
ShardProbeResult
shard_line_probe_header(ShardLineProbe *probe, const char *bytes, size_t nbytes, size_t ntail)
{
	CopyFromState cstate = probe->cstate;
	ErrorContextCallback context;
	char	  **fields;
	int			nfields;

	/*
	 * The parser does not reach the tail if the header has an invalid sequence.  It does not reach it either if an
	 * invalid sequence follows a CR, because the parser looks at the byte after a CR.
	 */
	if (pg_encoding_verifymbstr(cstate->file_encoding, bytes, (int) nbytes) == (int) nbytes &&
		!(ntail > 0 && bytes[nbytes - 1] == '\r' &&
		  shard_line_probe_is_no_character(cstate, bytes + nbytes, ntail)))
		ntail = 0;
	rewind_parser(probe, bytes, nbytes + ntail, 0, SHARD_EOL_UNKNOWN);
	cstate->opts.header_line = probe->header_line;
	shard_line_probe_push_context(probe, &context);
	(void) NextCopyFromRawFields(cstate, &fields, &nfields);
	error_context_stack = context.previous;
	return cstate->input_reached_eof ? SHARD_PROBE_ROW : SHARD_PROBE_END;
}

const char *
shard_line_probe_take_column(ShardLineProbe *probe)
{
	const char *column = probe->cstate->cur_attname;

	probe->cstate->cur_attname = NULL;
	return column;
}

bool
shard_line_probe_is_no_character(CopyFromState cstate, const char *bytes, size_t nbytes)
{
	unsigned char converted[SHARD_LINE_PROBE_TAIL * MAX_CONVERSION_GROWTH + 1];

	nbytes = Min(nbytes, SHARD_LINE_PROBE_TAIL);
	if (bytes[0] != '\0' && !IS_HIGHBIT_SET(bytes[0]))
		return false;
	if (!cstate->need_transcoding)
		return pg_encoding_verifymbstr(cstate->file_encoding, bytes, (int) nbytes) == 0;
	return pg_do_encoding_conversion_buf(cstate->conversion_proc, cstate->file_encoding,
										 GetDatabaseEncoding(), (unsigned char *) unconstify(char *, bytes),
										 (int) nbytes, converted, sizeof(converted), true) == 0;
}

void
shard_line_probe_format(CopyFromState cstate, ShardLineFormat *format)
{
	memset(format, 0, sizeof(*format));
	format->csv = shard_copy_is_csv(&cstate->opts);
	format->delim = cstate->opts.delim[0];
	if (format->csv)
	{
		format->quote = cstate->opts.quote[0];
		format->escape = cstate->opts.escape[0];
	}
}
