/*
 * resume.h
 *	  COPY with the option RESUME: a load that commits in parts, and can continue after the last committed part.
 */
#ifndef SHARDFDW_RESUME_H
#define SHARDFDW_RESUME_H

#include "postgres.h"

#include "load/input/copy_input.h"
#include "load/input/copy_option.h"
#include "load/input/reject.h"
#include "load/raw/copy_lines.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"

typedef struct ShardResume ShardResume;

/* Loads the next part: does everything that COPY does, except the commit. */
typedef void (*ShardResumePart) (void *arg, ShardResume *resume);

/*
 * Loads part after part, each in a separate transaction.  The first part uses the current transaction, which must be
 * empty.  Returns the number of rows of all parts, including those of earlier sessions.  Errors: COPY is in a
 * transaction block or a function; the commit would not be atomic; errors of a part.  Committed parts stay.
 */
extern uint64 shard_resume_run(bool is_top_level, ShardResumePart part, void *arg);

/*
 * A part calls the following functions, in this order.
 *
 * begin: locks the load that options name and the table rel, and reads the position of the load.  Errors: the load is
 * running; it was started for another table.
 */
extern void shard_resume_begin(ShardResume *resume, Relation rel, const ShardCopyOptions *options);

/* Rejected rows of earlier parts; NULL: this is the first part. */
extern const ShardRejectCounts *shard_resume_rejects(const ShardResume *resume);

/*
 * Before the first part of the session: opens the input and compares its beginning with the loaded input. source:
 * made by BeginCopyFrom() for the statement, without opening the input.  False: nothing is left to load.  Errors:
 * columns, options or input have changed.
 */
extern bool shard_resume_open(ShardResume *resume, const CopyStmt *stmt, const Node *where, CopyFromState source,
							  ShardCopyIdleHook idle, void *arg);
extern ShardCopyInput *shard_resume_input(const ShardResume *resume);

/* The lines of the input from the beginning of the part. */
extern ShardCopyLines *shard_resume_lines(ShardResume *resume, const ShardLineFormat *format,
										  const ShardFixedLayout *layout, int nheader, ShardLineProbe *probe);

/* After the header: sets the end of the part. rejects: NULL if rows are never rejected. */
extern void shard_resume_plan(ShardResume *resume, const ShardRejects *rejects);

/* Maximum size of the part's input. nbytes: size of the whole input (PG_UINT64_MAX: unknown). */
extern uint64 shard_resume_part_bytes(const ShardResume *resume, uint64 nbytes);

/* Is this the last part? */
extern bool shard_resume_is_last(const ShardResume *resume);

/* Writes the position of the load in the transaction of the part's rows. nrows: rows that the part has loaded. */
extern void shard_resume_end(ShardResume *resume, uint64 nrows, const ShardRejects *rejects);

#endif
