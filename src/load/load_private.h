/*
 * load_private.h
 *	  What the parts of COPY FROM (copy_load.c, load_*.c) share.
 */
#ifndef SHARDFDW_LOAD_PRIVATE_H
#define SHARDFDW_LOAD_PRIVATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "commands/copyfrom_internal.h"
#include "load/duplicate.h"
#include "load/input/copy_option.h"
#include "load/input/reject.h"
#include "load/raw/copy_lines.h"
#include "load/raw/filter.h"
#include "load/raw/key_reader.h"
#include "load/raw/line_check.h"
#include "load/raw/line_probe.h"
#include "load/raw/raw_mode.h"
#include "nodes/parsenodes.h"
#include "parser/parse_node.h"
#include "remote/copy/copy_stat.h"
#include "remote/copy/copy_stream.h"

#define SHARD_LAST_KEY_BYTES 32

typedef struct ShardLoad
{
	MemoryContext cxt;
	ParseState *pstate;
	const CopyStmt *stmt;
	Relation	rel;
	const ShardMap *map;
	PartitionDesc partdesc;		/* that map fits */
	Oid			userid;			/* whose load it is: a FILTER can SET ROLE */
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
	char		last_key[SHARD_LAST_KEY_BYTES];
	size_t		last_key_bytes; /* 0: not known */
	int			last_shardno;

	/* raw mode */
	ShardRawPlan plan;
	ShardKeyReader *keys;
	ShardLineCheck *check;		/* NULL: lines go to the shards unseen */
	ShardCopySet *set;
	ShardCopyTarget **targets;	/* by shardno; NULL: no row yet */
	ShardDuplicates *duplicates;
	ShardRejects *rejects;		/* NULL: no row may be rejected */
	ShardCopyStat *stat;
	uint64		nsent;
	bool		may_run;		/* rows of one key may be sent together */
	uint64		next_report;	/* of progress, when nsent is that */
	uint64		nrejected;		/* before they were sent */
	uint64		nrefused;		/* by nodes */
	uint64		nparsed;		/* loaded in parsed mode */

	/* parsed mode */
	CopyFromState parsed;
	List	   *fed_targets;	/* gone when CopyFrom() is */
	size_t		nfeed;			/* bytes of the row that it gets */
	size_t		nfed;			/* of them, those that it has */
	bool		numbered;		/* it has begun to read the row, and knows its line */
	StringInfoData kept;		/* the row before, which it still has in hand as long as it has not */

	/* context of errors */
	ErrorContextCallback context;
	bool		quiet;			/* core's parser gives its own */
	bool		about_bad_line;
	uint64		bad_lineno;
	const char *bad_place;
} ShardLoad;

/*
 * load_row.c: one row of the input at a time
 */

/* Moves on to the next row; false at the end. */
extern bool shard_load_row_next(ShardLoad *load);

/*
 * Core's parser reads the row, which is not plain: its error is raised (or the
 * row rejected: false), its shard found (in raw mode).  False also at the end of
 * the data: load->ended.
 */
extern bool shard_load_row_probe(ShardLoad *load);

/* True for an error that is about the row at hand rather than about the load. */
extern bool shard_load_row_is_about_row(int sqlstate);

/* How the row's line ends; and as core knows it in front of the row, none before the first line. */
extern ShardLineEol shard_load_row_eol(const ShardLoad *load);
extern ShardLineEol shard_load_row_parser_eol(const ShardLoad *load);

/*
 * Core takes a CR for the end of a line only after a look at the byte behind it:
 * in CSV, and in the first line.  When that byte begins no character, it is the
 * line with the CR that is complained about.
 */
extern bool shard_load_row_breaks_line_before(const ShardLoad *load);

extern void shard_load_row_context(void *arg);	/* of errors, as an ErrorContextCallback */
extern void shard_load_row_note_bad_line(void *arg, uint64 lineno, const char *place);	/* ShardCopyErrorHook */
extern void shard_load_row_refused(void *arg, const ShardCopyRefusal *refusal); /* ShardCopyRefuseHook */

/* Rows of target that ON_DUPLICATE has replaced go into the sum of load. */
extern void shard_load_row_count_replaced(ShardLoad *load, const ShardCopyTarget *target);

/* Forwards lines.  False: the row at hand and all that follow have to go through core's parser. */
extern bool shard_load_raw(ShardLoad *load, int nconns);

/* Lets core's CopyFrom() load the whole input, read by itself.  Returns its rows. */
extern uint64 shard_load_parsed_all(ShardLoad *load);

/* Lets core's CopyFrom() load the row at hand, if there is one, and all that follow. */
extern void shard_load_parsed(ShardLoad *load);

#endif
