/*
 * resume.h
 *	  COPY with the option RESUME: a load that commits in parts, and can go on after
 *	  the last part that was committed.
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

/* Loads the next part: all that COPY does but for the commit. */
typedef void (*ShardResumePart) (void *arg, ShardResume *resume);

/*
 * Loads part after part, each in a transaction of its own; the first one in the current
 * transaction, which must have nothing else.  Returns the rows of all parts, those of
 * earlier sessions included.
 * Errors: COPY is in a transaction block or a function; the commit would not be atomic; those
 * of part.  What was committed before the error stays.
 */
extern uint64 shard_resume_run(bool is_top_level, ShardResumePart part, void *arg);

/*
 * The following are for a part, in this order.
 *
 * begin: locks the load that options name and the table rel, and reads how far the load has
 * come.  Errors: the load is running; it was begun with another table.
 */
extern void shard_resume_begin(ShardResume *resume, Relation rel, const ShardCopyOptions *options);

/* What was rejected before; NULL: this is the first part. */
extern const ShardRejectCounts *shard_resume_rejects(const ShardResume *resume);

/*
 * Opens the input, before the first part of the session, and compares what was loaded of it;
 * source is what BeginCopyFrom() has made of the statement, without opening it.  False:
 * nothing is left to be loaded.
 * Errors: other columns, options or another input than before.
 */
extern bool shard_resume_open(ShardResume *resume, const CopyStmt *stmt, const Node *where, CopyFromState source,
							  ShardCopyIdleHook idle, void *arg);
extern ShardCopyInput *shard_resume_input(const ShardResume *resume);

/* The lines of the input, from where the part begins. */
extern ShardCopyLines *shard_resume_lines(ShardResume *resume, const ShardLineFormat *format,
										  const ShardFixedLayout *layout, int nheader, ShardLineProbe *probe);

/* After the header: says where the part is to end.  rejects: NULL if no row may be rejected. */
extern void shard_resume_plan(ShardResume *resume, const ShardRejects *rejects);

/* Bytes of input that the part may have, given those that all of the input has (PG_UINT64_MAX: not known). */
extern uint64 shard_resume_part_bytes(const ShardResume *resume, uint64 nbytes);

/* Is this the last part? */
extern bool shard_resume_is_last(const ShardResume *resume);

/* Writes, in the transaction of the part's rows, how far the load has come.  nrows: rows that the part has loaded. */
extern void shard_resume_end(ShardResume *resume, uint64 nrows, const ShardRejects *rejects);

#endif
