/*
 * copy_option.h
 *	  Options of COPY FROM that only sharded tables know, or that core knows in
 *	  later majors only.
 */
#ifndef SHARDFDW_COPY_OPTION_H
#define SHARDFDW_COPY_OPTION_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "parser/parse_node.h"

typedef enum ShardCopyDuplicate
{
	SHARD_DUPLICATE_ERROR,
	SHARD_DUPLICATE_KEEP_OLD,	/* the row that is there, or came first, stays */
	SHARD_DUPLICATE_KEEP_NEW	/* the later row takes its place */
} ShardCopyDuplicate;

typedef enum ShardCopyVerbosity
{
	SHARD_VERBOSITY_SILENT = -1,
	SHARD_VERBOSITY_DEFAULT,
	SHARD_VERBOSITY_VERBOSE		/* a NOTICE for each row set aside */
} ShardCopyVerbosity;

typedef struct ShardCopyOptions
{
	bool		ignore_errors;	/* ON_ERROR 'ignore' */
	int64		reject_limit;	/* REJECT_LIMIT: rows that may be rejected; 0 = no limit */
	char	   *reject_file;	/* REJECT_FILE: path on the server; NULL none */
	char	   *reject_table;	/* REJECT_TABLE: name as given; NULL none */
	ShardCopyDuplicate duplicate;	/* ON_DUPLICATE */
	int64		skip;			/* SKIP: lines of data (after a header) left out */
	int64		max_rows;		/* MAX_ROWS: lines read at most; -1 = all */
	char	   *filter;			/* FILTER: function's name as given; NULL none */
	char	   *fixed_width;	/* FIXED_WIDTH: the layout; NULL: the input is not of fixed width */
	int64		record_length;	/* RECORD_LENGTH: bytes; 0: records are lines */
	char	   *fixed_null;		/* with FIXED_WIDTH: core's NULL; NULL: not given */
	bool		fixed_header;	/* with FIXED_WIDTH: core's HEADER */
	char	   *resume;			/* RESUME: name of the load; NULL: it commits once */
	int64		commit_rows;	/* COMMIT_ROWS: lines between two commits; 0 = by bytes */
	bool		defer_indexes;	/* INDEXES DEFERRED */
	ShardCopyVerbosity verbosity;	/* LOG_VERBOSITY */
	bool		any;			/* ON_ERROR 'ignore' or an option that core never has: parsed mode reads by lines */
	List	   *core;			/* the options that are left, for core */
} ShardCopyOptions;

/*
 * Takes ours out of options (DefElems of a COPY FROM on a sharded table).
 * ON_ERROR 'stop' and ON_ERROR 'set_null' (where core knows it) stay core's.
 * Errors, as core words them: an option twice, a bad value, REJECT_LIMIT without
 * ON_ERROR 'ignore', REJECT_FILE and REJECT_TABLE without something that rejects,
 * format binary together with one of ours, FIXED_WIDTH with options of core about lines; REJECT_FILE without pg_write_server_files.
 */
extern void shard_copy_option_parse(ParseState *pstate, List *options, ShardCopyOptions *result);

/* Is INDEXES DEFERRED among options?  It is not checked whether it may be. */
extern bool shard_copy_option_defers_indexes(const List *options);

/* Is RESUME among options?  Its value is not looked at. */
extern bool shard_copy_option_is_resume(const List *options);

#endif
