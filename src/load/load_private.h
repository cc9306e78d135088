/*
 * load_private.h
 *	  What the parts of COPY FROM (copy_load.c, load_*.c) share.
 */
#ifndef SHARDFDW_LOAD_PRIVATE_H
#define SHARDFDW_LOAD_PRIVATE_H

#include "postgres.h"

#include "catalog/shard_map.h"
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
	copy_data_source_cb feed;	/* gives the input; NULL: stmt says where that is */
	Relation	rel;
	const ShardMap *map;
	PartitionDesc partdesc;		/* that map fits */
	Oid			userid;			/* whose load it is: a FILTER can SET ROLE */
	Node	   *where;
	const ShardCopyOptions *options;
	ShardResume *resume;		/* what it is a part of; NULL: it is loaded in one */

	CopyFromState source;		/* the input */
	ShardCopyLines *lines;
	ShardLineProbe *source_probe;

	/* how rows are read: as the input, or as COPY text, which FIXED_WIDTH and FILTER make */
	CopyFromState cstate;
	List	   *attnamelist;
	List	   *core_options;
	ShardLineProbe *probe;
	ShardFixedWidth *fixed;
	ShardFilter *filter;
	StringInfoData spelled;		/* the record as a line of COPY text */
	StringInfoData filtered;	/* the line that FILTER has made */
	ShardLineFormat format;
	ShardLine	made_line;		/* of one of them */

	/* the current row */
	const char *row;
	const ShardLine *row_line;
	bool		made;			/* FIXED_WIDTH and FILTER have made the row */
	bool		routed;			/* shardno is known; a fixed-width record that has not been made a line */
	int			shardno;
	bool		must_parse;		/* only parsed mode loads it exactly */
	bool		ended;			/* the line is the end of the data, not a row */
	bool		ends_here;		/* the row is the last one */

	/* the key of the row before, as it is in the input: rows of one key often follow each other */
	char		last_key[SHARD_LAST_KEY_BYTES];
	size_t		last_key_bytes; /* 0: not known */
	int			last_shardno;

	/* raw mode */
	ShardRawPlan plan;
	ShardKeyReader *keys;
	ShardLineCheck *check;		/* NULL: lines are sent without this check */
	ShardLineClock *clock;		/* lines go to copies of shards, too; NULL: they do not, or triggers see to it */
	ShardCopySet *set;
	int			nconns;			/* that it may have to a node */
	bool		spread;			/* over several connections of a node */
	ShardCopyTarget **targets;	/* by shardno; NULL: no row yet */
	ShardDuplicates *duplicates;
	ShardDeferredIndexes *deferred; /* NULL: indexes stay */
	ShardRejects *rejects;		/* NULL: no row may be rejected */
	ShardCopyStat *stat;
	uint64		nsent;
	bool		may_run;		/* rows of one key may be sent together */
	bool		by_position;	/* keys are read from fixed-width records */
	uint64		next_report;	/* progress is reported when nsent reaches this */
	uint64		nrejected;		/* rows that were rejected before they were sent */
	uint64		nrefused;		/* rows that nodes have refused */
	uint64		nparsed;		/* loaded in parsed mode */

	/* parsed mode */
	CopyFromState parsed;
	List	   *fed_targets;	/* valid until CopyFrom() ends */
	size_t		nfeed;			/* bytes of the row that CopyFrom() gets */
	size_t		nfed;			/* how many of them it has got */
	bool		numbered;		/* CopyFrom() has begun to read the row, and its line number is set */
	StringInfoData kept;		/* the row before, which CopyFrom() still uses while numbered is false */

	/* context of errors */
	ErrorContextCallback context;
	bool		quiet;			/* core's parser adds its own context */
	bool		about_bad_line;
	uint64		bad_lineno;
	const char *bad_place;
} ShardLoad;

/*
 * load_row.c: one row of the input at a time
 */

/* Moves on to the next row; false at the end. */
extern bool shard_load_row_next(ShardLoad *load);

/* Rows are not the lines of the input. */
static inline bool
shard_load_row_is_made(const ShardLoad *load)
{
	return load->filter != NULL || load->fixed != NULL;
}

/* Makes the record, which has all fields, the row: a line of COPY text. */
extern void shard_load_row_spell(ShardLoad *load);

/*
 * Gives the current row, which is not plain, to core's parser, and in raw mode finds
 * its shard.  An error of the parser is raised, or the row rejected: then returns
 * false.  False also at the end of the data: load->ended.
 */
extern bool shard_load_row_probe(ShardLoad *load);

/* True for an error that is about the row at hand rather than about the load. */
extern bool shard_load_row_is_about_row(int sqlstate);

/* How the row's line ends; parser_eol: what core knows of that before the row, nothing before the first line. */
extern ShardLineEol shard_load_row_eol(const ShardLoad *load);
extern ShardLineEol shard_load_row_parser_eol(const ShardLoad *load);

/*
 * In CSV, and in the first line, core takes a CR for the end of a line only after it
 * has looked at the byte behind it.  When no valid character begins there, core's
 * error names the line with the CR.  True when the current row begins so.
 */
extern bool shard_load_row_breaks_line_before(const ShardLoad *load);

extern void shard_load_row_context(void *arg);	/* of errors, as an ErrorContextCallback */
extern void shard_load_row_note_bad_line(void *arg, uint64 lineno, const char *place);	/* ShardCopyErrorHook */
extern void shard_load_row_refused(void *arg, const ShardCopyRefusal *refusal); /* ShardCopyRefuseHook */

/* Adds the rows of target that ON_DUPLICATE has replaced to the sum of load. */
extern void shard_load_row_count_replaced(ShardLoad *load, const ShardCopyTarget *target);

/* Forwards lines.  False: the row at hand and all that follow have to go through core's parser. */
extern bool shard_load_raw(ShardLoad *load, int nconns);

/* Lets core's CopyFrom() load the whole input, read by itself.  Returns its rows. */
extern uint64 shard_load_parsed_all(ShardLoad *load);

/* Lets core's CopyFrom() load the row at hand, if there is one, and all that follow. */
extern void shard_load_parsed(ShardLoad *load);

#endif
