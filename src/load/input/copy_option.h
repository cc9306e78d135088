/*
 * copy_option.h
 *	  Options of COPY FROM that only sharded tables have, or that core has only in later major versions.
 */
#ifndef SHARDFDW_COPY_OPTION_H
#define SHARDFDW_COPY_OPTION_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "parser/parse_node.h"

typedef enum ShardCopyDuplicate
{
	SHARD_DUPLICATE_ERROR,
	SHARD_DUPLICATE_KEEP_OLD,	/* keep the existing row, or the first one */
	SHARD_DUPLICATE_KEEP_NEW	/* the later row replaces it */
} ShardCopyDuplicate;

typedef enum ShardCopyVerbosity
{
	SHARD_VERBOSITY_DEFAULT,
	SHARD_VERBOSITY_VERBOSE,	/* a NOTICE for each rejected row */
	SHARD_VERBOSITY_SILENT
} ShardCopyVerbosity;

typedef struct ShardCopyOptions
{
	bool		ignore_errors;	/* ON_ERROR 'ignore' */
	int64		reject_limit;	/* REJECT_LIMIT: maximum number of rejected rows; 0 = no limit */
	char	   *reject_file;	/* REJECT_FILE: path on the server; NULL = none */
	char	   *reject_table;	/* REJECT_TABLE: name as given; NULL = none */
	ShardCopyDuplicate duplicate;	/* ON_DUPLICATE */
	int64		skip;			/* SKIP: number of data lines (after a header) to skip */
	int64		max_rows;		/* MAX_ROWS: maximum number of lines to read; -1 = all */
	char	   *filter;			/* FILTER: name of the function as given; NULL = none */
	char	   *fixed_width;	/* FIXED_WIDTH: the layout; NULL = none */
	int64		record_length;	/* RECORD_LENGTH: bytes; 0: records are lines */
	char	   *fixed_null;		/* NULL option with FIXED_WIDTH; NULL = not given */
	bool		fixed_header;	/* HEADER option with FIXED_WIDTH */
	char	   *resume;			/* RESUME: name of the load; NULL = one transaction */
	int64		commit_rows;	/* COMMIT_ROWS: lines between two commits; 0 = by bytes */
	bool		defer_indexes;	/* INDEXES DEFERRED */
	ShardCopyVerbosity verbosity;	/* LOG_VERBOSITY */
	bool		by_lines;		/* some option works by lines or rows: parsed mode reads by lines */
	bool		calls_functions;	/* functions of some option may read the rows of the load */
	List	   *core;			/* the remaining options, for core */
	List	   *described;		/* the same before FIXED_WIDTH has removed some */
} ShardCopyOptions;

/*
 * Removes our options from options (DefElems of a COPY FROM into a sharded table).  ON_ERROR 'stop', and ON_ERROR
 * 'set_null' where core has it, are left to core.  Errors, in core's words:
 *
 * - an option is given twice, or has an invalid value
 * - REJECT_LIMIT without ON_ERROR 'ignore'
 * - REJECT_FILE or REJECT_TABLE without an option that rejects rows
 * - format binary together with one of our options
 * - FIXED_WIDTH together with core options about lines
 * - REJECT_FILE without the privileges of pg_write_server_files
 */
extern void shard_copy_option_parse(ParseState *pstate, List *options, ShardCopyOptions *result);

/* Appends ", name value" for each of our options that determines how lines become rows. */
extern void shard_copy_option_describe(const ShardCopyOptions *options, StringInfo out);

/* Do the options contain INDEXES DEFERRED?  Does not check whether it is allowed. */
extern bool shard_copy_option_defers_indexes(const List *options);

/* Do the options contain RESUME?  Ignores its value. */
extern bool shard_copy_option_is_resume(const List *options);

#endif
