/*
 * line_check.h
 *	  A quick check of a line's fields: whether a shard may refuse the line.
 */
#ifndef SHARDFDW_LINE_CHECK_H
#define SHARDFDW_LINE_CHECK_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"

typedef struct ShardLineCheck ShardLineCheck;

/*
 * For the columns of cstate's input, in a format that raw mode forwards.
 * Memory: in cxt.
 */
extern ShardLineCheck *shard_line_check_create(MemoryContext cxt, CopyFromState cstate);

/*
 * False when a field of the line (nbytes without its end) is not of the plain
 * form of its type, or the number of fields is not that of the columns: then
 * core's parser should look at it before a shard does.  True does not mean that the
 * line is right.
 */
extern bool shard_line_check_passes(ShardLineCheck *check, const char *bytes, size_t nbytes);

/*
 * To be called when core's parser has accepted the last line that did not pass.
 * Columns for which this happens often are not checked any more.
 */
extern void shard_line_check_was_good(ShardLineCheck *check);

#endif
