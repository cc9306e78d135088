/*
 * reject.h
 *	  Rows of a load that were set aside: counted, written to REJECT_FILE and
 *	  REJECT_TABLE, held against REJECT_LIMIT, summed up at the end.
 */
#ifndef SHARDFDW_REJECT_H
#define SHARDFDW_REJECT_H

#include "postgres.h"

#include "load/input/copy_option.h"
#include "utils/relcache.h"

typedef struct ShardRejects ShardRejects;

typedef struct ShardReject
{
	uint64		lineno;			/* line of the input, 1-based, as in error contexts */
	const char *source;			/* bytes of the input: one line, its end included when it had one */
	size_t		source_bytes;
	int			sqlstate;
	const char *message;
	const char *column;			/* NULL: not known */
	const char *shard;			/* NULL: found on the coordinator */
	const char *node;
	bool		duplicate;		/* ON_DUPLICATE refused it, not ON_ERROR */
} ShardReject;

/* What is known of the rows so far; of a load in parts, of all of its parts. */
typedef struct ShardRejectCounts
{
	uint64		nrejected;
	uint64		nduplicates;
	uint64		nreplaced;
	bool		other_errors;	/* not all rejected rows had values of wrong type, as with core's ON_ERROR */
	int64		load;			/* number of the load in REJECT_TABLE; 0: none yet */
} ShardRejectCounts;

/*
 * Opens REJECT_FILE (written anew) and REJECT_TABLE (columns load, line, column,
 * shard, SQLSTATE, message, raw line: see docs/reference.md; made by
 * shardfdw.create_reject_table() or by hand; INSERT rights of the user are needed).
 * Memory: in cxt; its reset closes the file, and removes it when finish was not
 * called.  before: of the parts before this one; NULL: the load has one part, or this
 * is the first one.  Errors: the file or table cannot be opened or does not fit.
 */
extern ShardRejects *shard_reject_open(MemoryContext cxt, const ShardCopyOptions *options,
									   Relation parent, const ShardRejectCounts *before);

/*
 * Before the first row.  header: lines that the file begins with, with their ends;
 * NULL none.  source_encoding: of the input's bytes; the table gets lines in the
 * database's encoding.  records: lines are records of any bytes, without ends of lines.
 */
extern void shard_reject_begin(ShardRejects *rejects, const char *header, size_t header_bytes,
							   int source_encoding, bool records);

/*
 * One row; rows may come in any order.  Errors: REJECT_LIMIT is passed (as core
 * 18 words it); all of the first 1,000 lines were rejected (the format is wrong; names
 * the likely reason).
 */
extern void shard_reject_add(ShardRejects *rejects, const ShardReject *reject);
extern void shard_reject_replaced(ShardRejects *rejects, uint64 nrows); /* by ON_DUPLICATE keep_new */

/* After begin: the number of the last of those first lines. */
extern uint64 shard_reject_first_lines_end(const ShardRejects *rejects);

/* Writes what is left, and closes. */
extern void shard_reject_finish(ShardRejects *rejects);

/* Reports one NOTICE (none with LOG_VERBOSITY silent or when nothing happened); after finish. */
extern void shard_reject_report(const ShardRejects *rejects);

extern const ShardRejectCounts *shard_reject_counts(const ShardRejects *rejects);

#endif
