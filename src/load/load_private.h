/*
 * load_private.h
 *	  Data and functions that the parts of COPY FROM (copy_load.c, load_*.c) share.
 */
#ifndef SHARDFDW_LOAD_PRIVATE_H
#define SHARDFDW_LOAD_PRIVATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "catch.h"
#include "commands/copyfrom_internal.h"
#include "load/deferred_index.h"
#include "load/duplicate.h"
#include "load/input/copy_option.h"
#include "load/input/reject.h"
#include "load/raw/copy_lines.h"
#include "load/raw/filter.h"
#include "load/raw/fixed_width.h"
#include "load/raw/key_reader.h"
#include "load/raw/line_check.h"
#include "load/raw/line_clock.h"
#include "load/raw/line_probe.h"
#include "load/raw/raw_mode.h"
#include "load/resume.h"
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
	copy_data_source_cb feed;	/* callback for the input; NULL: stmt says where the input is */
	Relation	rel;
	const ShardMap *map;
	PartitionDesc partdesc;		/* the descriptor that matches map */
	Oid			userid;			/* user of the load: a FILTER function can SET ROLE */
	Node	   *where;
	const ShardCopyOptions *options;
	ShardResume *resume;		/* the load with RESUME that this is a part of, or NULL */

	CopyFromState source;		/* the input */
	ShardCopyLines *lines;
	ShardLineProbe *source_probe;

	/* how rows are read: as in the input, or as COPY text that FIXED_WIDTH or FILTER makes */
	CopyFromState cstate;
	List	   *attnamelist;
	List	   *core_options;
	ShardLineProbe *probe;
	ShardFixedWidth *fixed;
	ShardFilter *filter;
	StringInfoData spelled;		/* the record as a line of COPY text */
	StringInfoData filtered;	/* the line made by FILTER */
	ShardLineFormat format;
	ShardLine	made_line;		/* line of spelled or filtered */

	/* the current row */
	const char *row;
	const ShardLine *row_line;
	bool		made;			/* the row was made by FIXED_WIDTH or FILTER */
	bool		routed;			/* shardno is known, and the fixed-width record has not been made a line */
	int			shardno;
	bool		must_parse;		/* only parsed mode loads the row exactly */
	bool		ended;			/* the line is the end of the data */
	bool		ends_here;		/* the row is the last one */

	/* the key of the previous row, as in the input: rows with the same key often follow each other */
	char		last_key[SHARD_LAST_KEY_BYTES];
	size_t		last_key_bytes; /* 0: unknown */
	int			last_shardno;

	/* raw mode */
	ShardRawPlan plan;
	ShardKeyReader *keys;
	ShardLineCheck *check;		/* NULL: lines are sent without this check */
	ShardLineClock *clock;		/* lines go to replicas of shards, too; NULL: they do not, or triggers send them */
	ShardCopySet *set;
	int			nconns;			/* maximum number of connections to a node */
	bool		spread;			/* uses several connections to a node */
	ShardCopyTarget **targets;	/* by shardno; NULL: no row yet */
	ShardDuplicates *duplicates;
	ShardDeferredIndexes *deferred; /* NULL: indexes are kept */
	ShardRejects *rejects;		/* NULL: no row may be rejected */
	ShardCopyStat *stat;
	uint64		nsent;
	bool		may_run;		/* rows with the same key may be sent together */
	bool		by_position;	/* keys are read directly from fixed-width records */
	uint64		next_report;	/* value of nsent for the next progress report */
	uint64		nrejected;		/* rows that were rejected before they were sent */
	uint64		nrefused;		/* rows that nodes have rejected */
	uint64		nparsed;		/* rows loaded in parsed mode */

	/* parsed mode */
	CopyFromState parsed;
	List	   *fed_targets;	/* valid until CopyFrom() ends */
	size_t		nfeed;			/* bytes of the row for CopyFrom() */
	size_t		nfed;			/* bytes passed so far */
	bool		numbered;		/* CopyFrom() has begun to read the row, and its line number is set */
	StringInfoData kept;		/* the previous row, which CopyFrom() still uses while numbered is false */

	/* error context */
	ErrorContextCallback context;
	bool		quiet;			/* core's parser adds its own context to errors */
	bool		about_bad_line;
	uint64		bad_lineno;
	const char *bad_place;
} ShardLoad;

/*
 * load_row.c: one row of the input at a time
 */

/* Moves to the next row; false at the end. */
extern bool shard_load_row_next(ShardLoad *load);

/* Are rows different from the lines of the input? */
static inline bool
shard_load_row_is_made(const ShardLoad *load)
{
	return load->filter != NULL || load->fixed != NULL;
}

/* Turns the record, which has all fields, into the current row: a line of COPY text. */
extern void shard_load_row_spell(ShardLoad *load);

/*
 * Passes the current row, which is not plain, to core's parser, and in raw mode finds its shard.  If the parser
 * raises an error, the error is raised or the row is rejected.  Returns false if the row was rejected, or at the end
 * of the data (load->ended).
 */
extern bool shard_load_row_probe(ShardLoad *load);

/*
 * Runs a step.  If it raises an error, holds the error back until the nodes have accepted or rejected all earlier
 * lines. An earlier line may have an error, too, which must be raised first.
 */
extern void shard_load_row_hold_error(ShardLoad *load, ShardStep step, void *arg);

/*
 * eol: the line end of the row. parser_eol: the line end that core knows before the row (unknown for the first line).
 */
extern ShardLineEol shard_load_row_eol(const ShardLoad *load);
extern ShardLineEol shard_load_row_parser_eol(const ShardLoad *load);

/*
 * In CSV, and in the first line, core takes a CR for a line end only after it has looked at the next byte.  If no
 * valid character begins there, core's error names the line with the CR.  True if the current row begins with such a
 * byte.
 */
extern bool shard_load_row_breaks_line_before(const ShardLoad *load);

extern void shard_load_row_context(void *arg);	/* error context callback */
extern void shard_load_row_note_bad_line(void *arg, uint64 lineno, const char *place);	/* ShardCopyErrorHook */
extern void shard_load_row_refused(void *arg, const ShardCopyRefusal *refusal); /* ShardCopyRefuseHook */

/* Adds the rows that ON_DUPLICATE has replaced in target to the sum of load. */
extern void shard_load_row_count_replaced(ShardLoad *load, const ShardCopyTarget *target);

/* Forwards lines.  False: core's parser has to read the current row and all following rows. */
extern bool shard_load_raw(ShardLoad *load, int nconns);

/* Lets core's CopyFrom() read and load the whole input.  Returns the number of rows. */
extern uint64 shard_load_parsed_all(ShardLoad *load);

/* Lets core's CopyFrom() load the current row, if there is one, and all following rows. */
extern void shard_load_parsed(ShardLoad *load);

#endif
