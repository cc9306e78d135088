/*
 * line_probe.h
 *	  What core's own parser makes of one line of COPY FROM: its error, its
 *	  values, or the end of the data.
 */
#ifndef SHARDFDW_LINE_PROBE_H
#define SHARDFDW_LINE_PROBE_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "load/line_scan.h"

typedef struct ShardLineProbe ShardLineProbe;

typedef enum ShardProbeResult
{
	SHARD_PROBE_ROW,			/* a row like any other */
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
 * as line lineno_before + 1 of a file whose lines end by eol.
 * Result ROW: values and isnull of all columns of the relation, valid until the next call.
 * Errors: exactly core's, with its context (table, line, column).
 */
extern ShardProbeResult shard_line_probe_row(ShardLineProbe *probe, const char *bytes, size_t nbytes,
											 uint64 lineno_before, ShardLineEol eol,
											 Datum **values, bool **isnull);

/* The same, stopping at the fields' texts in the database's encoding (before conversion; NULL for NULL). */
extern ShardProbeResult shard_line_probe_fields(ShardLineProbe *probe, const char *bytes, size_t nbytes,
												uint64 lineno_before, ShardLineEol eol,
												char ***fields, int *nfields);

/*
 * Header lines: lets core read and check them (HEADER MATCH).  bytes: all lines
 * of the header; eol: how they end (SHARD_EOL_UNKNOWN: the input ended before).
 * False: the data end within it.  Errors: core's.
 */
extern bool shard_line_probe_header(ShardLineProbe *probe, const char *bytes, size_t nbytes,
									ShardLineEol eol);

#endif
