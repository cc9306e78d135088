/*
 * reject.h
 *	  Rejected rows of a load: counts them, writes them to REJECT_FILE and REJECT_TABLE, checks REJECT_LIMIT, and
 *	  reports a summary.
 */
#ifndef SHARDFDW_REJECT_H
#define SHARDFDW_REJECT_H

#include "postgres.h"

#include "load/input/copy_option.h"
#include "utils/relcache.h"

typedef struct ShardRejects ShardRejects;

typedef struct ShardReject
{
	uint64		lineno;			/* line number in the input, 1-based, as in error contexts */
	const char *source;			/* bytes of the input: one line, including its line end if it has one */
	size_t		source_bytes;
	int			sqlstate;
	const char *message;
	const char *column;			/* NULL: unknown */
	const char *shard;			/* NULL: the coordinator has rejected the row */
	const char *node;
	bool		duplicate;		/* rejected by ON_DUPLICATE, not by ON_ERROR */
} ShardReject;

/* Counts of the rows so far; for a load in parts, of all its parts. */
typedef struct ShardRejectCounts
{
	uint64		nrejected;
	uint64		nduplicates;
	uint64		nreplaced;
	bool		other_errors;	/* some row was rejected for another reason than a value of wrong type, which
								 * core's ON_ERROR does not accept */
	int64		load;			/* load number in REJECT_TABLE; 0: none yet */
} ShardRejectCounts;

/*
 * Opens REJECT_FILE (overwriting it) and REJECT_TABLE.  The table has the columns load, line, column, shard,
 * SQLSTATE, message and raw line (see docs/reference.md).  It was created by shardfdw.create_reject_table() or by the
 * user.  The user needs INSERT on it.  Memory: in cxt.  Its reset closes the file, and removes the file if finish was
 * not called. before: counts of the parts before this one; NULL: the load has one part, or this is the first one.
 * Errors: the file or table cannot be opened, or the table has other columns.
 */
extern ShardRejects *shard_reject_open(MemoryContext cxt, const ShardCopyOptions *options,
									   Relation parent, const ShardRejectCounts *before);

/*
 * Call it before the first row.
 *
 * - header: first lines of the file, with their line ends, or NULL. nheader: their number
 * - source_encoding: encoding of the input; the table gets lines in the database encoding
 * - records: lines are records of arbitrary bytes, without line ends
 */
extern void shard_reject_begin(ShardRejects *rejects, const char *header, size_t header_bytes, uint64 nheader,
							   int source_encoding, bool records);

/*
 * Adds one row; rows may come in any order.  Errors: REJECT_LIMIT is exceeded (in the words of core 18); all of the
 * first 1,000 lines were rejected (the format is wrong; the message names the likely reason).
 */
extern void shard_reject_add(ShardRejects *rejects, const ShardReject *reject);
extern void shard_reject_replaced(ShardRejects *rejects, uint64 nrows); /* replaced by ON_DUPLICATE keep_new */

/* After begin: the number of the last of the first lines. */
extern uint64 shard_reject_first_lines_end(const ShardRejects *rejects);

/* Writes the remaining rows, and closes file and table. */
extern void shard_reject_finish(ShardRejects *rejects);

/* After finish: reports one NOTICE, unless LOG_VERBOSITY is silent or there is nothing to report. */
extern void shard_reject_report(const ShardRejects *rejects);

extern const ShardRejectCounts *shard_reject_counts(const ShardRejects *rejects);

#endif
