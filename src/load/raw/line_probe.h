/*
 * line_probe.h
 *	  Runs core's own parser on one line of COPY FROM, which gives an error, values, or
 *	  the end of the data.
 */
#ifndef SHARDFDW_LINE_PROBE_H
#define SHARDFDW_LINE_PROBE_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "load/raw/line_scan.h"

typedef struct ShardLineProbe ShardLineProbe;

/*
 * When a line ends in an invalid multibyte sequence, core's error shows at most this
 * many bytes of the input behind the line; ntail below need not be more.
 */
#define SHARD_LINE_PROBE_TAIL 16

typedef enum ShardProbeResult
{
	SHARD_PROBE_ROW,			/* a row like any other */

	/*
	 * A row whose text goes up to the first unescaped \. of the line (text
	 * format; 15 to 17 take that for the marker also behind data).  Input
	 * from STDIN ends with this row; a file or program goes on.
	 */
	SHARD_PROBE_ROW_MARKER,
	SHARD_PROBE_END				/* the end-of-data marker (or nothing): the load ends here */
} ShardProbeResult;

/*
 * cstate: as BeginCopyFrom() made it for the input; options: core's, as given to it.
 * Memory: in cxt, whose reset frees all.
 */
extern ShardLineProbe *shard_line_probe_create(MemoryContext cxt, ParseState *pstate,
											   CopyFromState cstate, List *attnamelist, List *options);

/*
 * Parses the nbytes at bytes (one line with its end, as the scanner found it)
 * as line lineno_before + 1 of a file whose lines end by eol.  ntail: bytes of
 * the input that follow the line at bytes + nbytes (up to SHARD_LINE_PROBE_TAIL
 * as far as there are any; they matter for the words of an encoding error only).
 * Result ROW: values and isnull of all columns of the relation, valid until the
 * next call.  Columns that the input leaves out are NULL: their defaults are not
 * evaluated (those of a DEFAULT marker are).
 * Errors: exactly core's, with its context (table, line, column); the caller
 * has no CopyFromErrorCallback on the stack.
 */
extern ShardProbeResult shard_line_probe_row(ShardLineProbe *probe, const char *bytes, size_t nbytes,
											 size_t ntail, uint64 lineno_before, ShardLineEol eol,
											 Datum **values, bool **isnull);

/* The same, stopping at the fields' texts in the database's encoding (before conversion; NULL for NULL). */
extern ShardProbeResult shard_line_probe_fields(ShardLineProbe *probe, const char *bytes, size_t nbytes,
												size_t ntail, uint64 lineno_before, ShardLineEol eol,
												char ***fields, int *nfields);

/*
 * Header lines: lets core read and check them (HEADER MATCH).  bytes: all lines
 * of the header (19: HEADER n has n).  ROW: go on with the line that follows; END: the
 * data end within it.  Errors: core's.
 */
extern ShardProbeResult shard_line_probe_header(ShardLineProbe *probe, const char *bytes, size_t nbytes,
												size_t ntail);

/*
 * Adds the line that was parsed last to the context of errors from now on; the caller
 * removes *context from the stack.
 */
extern void shard_line_probe_push_context(ShardLineProbe *probe, ErrorContextCallback *context);

/*
 * The column whose value the last error was about; NULL if it was another error.  The
 * next call returns NULL.
 */
extern const char *shard_line_probe_take_column(ShardLineProbe *probe);

/*
 * True when the bytes, of which there are enough for a character, begin with none
 * that core could read from the input of cstate.
 */
extern bool shard_line_probe_is_no_character(CopyFromState cstate, const char *bytes, size_t nbytes);

/* How lines of the input are scanned, without any field to be found. */
extern void shard_line_probe_format(CopyFromState cstate, ShardLineFormat *format);

/* Core's name of a kind of line end. */
extern EolType shard_line_probe_core_eol(ShardLineEol eol);

#endif
