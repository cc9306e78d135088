/*
 * line_probe.h
 *	  Runs core's parser on one line of COPY FROM.  The result is an error, values, or the end of the data.
 */
#ifndef SHARDFDW_LINE_PROBE_H
#define SHARDFDW_LINE_PROBE_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "load/raw/line_scan.h"

typedef struct ShardLineProbe ShardLineProbe;

/*
 * If a line ends in an invalid multibyte sequence, core's error shows at most this number of bytes after the line.
 * So ntail below need not be larger.
 */
#define SHARD_LINE_PROBE_TAIL 16

typedef enum ShardProbeResult
{
	SHARD_PROBE_ROW,			/* an ordinary row */

	/*
	 * A row that ends at the first unescaped \. of the line.  (In text format, 15 to 17 take \. for the marker even
	 * after data.)  Input from STDIN ends with this row.  A file or program continues.
	 */
	SHARD_PROBE_ROW_MARKER,
	SHARD_PROBE_END				/* the end-of-data marker (or nothing): the load ends */
} ShardProbeResult;

/*
 * cstate: as made by BeginCopyFrom() for the input. options: core's options, as passed to BeginCopyFrom().  Memory:
 * in cxt, whose reset frees everything.
 */
extern ShardLineProbe *shard_line_probe_create(MemoryContext cxt, ParseState *pstate,
											   CopyFromState cstate, List *attnamelist, List *options);

/*
 * Parses the nbytes at bytes (one line with its end, as the scanner found it) as line lineno_before + 1 of a file
 * with line end eol. ntail: number of bytes of the input after the line, up to SHARD_LINE_PROBE_TAIL.  They affect
 * only the text of an encoding error.
 *
 * Result ROW: values and isnull have all columns of the relation, valid until the next call.  Columns that the input
 * omits are NULL: their defaults are not evaluated (defaults for a DEFAULT marker are).
 *
 * Errors: exactly core's, with its context (table, line, column).  The caller must not have a CopyFromErrorCallback
 * on the stack.
 */
extern ShardProbeResult shard_line_probe_row(ShardLineProbe *probe, const char *bytes, size_t nbytes,
											 size_t ntail, uint64 lineno_before, ShardLineEol eol,
											 Datum **values, bool **isnull);

/* The same, but returns the texts of the fields in the database encoding, before conversion (NULL for NULL). */
extern ShardProbeResult shard_line_probe_fields(ShardLineProbe *probe, const char *bytes, size_t nbytes,
												size_t ntail, uint64 lineno_before, ShardLineEol eol,
												char ***fields, int *nfields);

/*
 * Lets core read and check header lines (HEADER MATCH). bytes: all lines of the header (19: HEADER n has n lines).
 * ROW: continue with the next line.  END: the data ends within the header.  Errors: core's.
 */
extern ShardProbeResult shard_line_probe_header(ShardLineProbe *probe, const char *bytes, size_t nbytes,
												size_t ntail);

/* Adds the last parsed line to the context of errors from now on.  The caller removes *context from the stack. */
extern void shard_line_probe_push_context(ShardLineProbe *probe, ErrorContextCallback *context);

/* The column whose value caused the last error; NULL for another error.  The next call returns NULL. */
extern const char *shard_line_probe_take_column(ShardLineProbe *probe);

/*
 * True if core cannot read a valid character at the beginning of bytes, in the encoding of cstate's input.  There
 * must be enough bytes for a character.
 */
extern bool shard_line_probe_is_no_character(CopyFromState cstate, const char *bytes, size_t nbytes);

/* The format for scanning lines of the input, without key fields. */
extern void shard_line_probe_format(CopyFromState cstate, ShardLineFormat *format);

/* Core's constant for a line end. */
extern EolType shard_line_probe_core_eol(ShardLineEol eol);

#endif
