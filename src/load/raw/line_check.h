/*
 * line_check.h
 *	  Quick check of a line's fields: might a shard reject the line?
 */
#ifndef SHARDFDW_LINE_CHECK_H
#define SHARDFDW_LINE_CHECK_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"

typedef struct ShardLineCheck ShardLineCheck;

/* Makes a check for the columns of cstate's input, in a format that raw mode forwards.  Memory: in cxt. */
extern ShardLineCheck *shard_line_check_create(MemoryContext cxt, CopyFromState cstate);

/*
 * Returns false if the line has a wrong number of fields, or a field without the plain form of its type. nbytes
 * excludes the line end.  Then core's parser should check the line before it is sent to a shard.  True does not mean
 * that the line is right.
 */
extern bool shard_line_check_passes(ShardLineCheck *check, const char *bytes, size_t nbytes);

/*
 * Call it if core's parser has accepted the last line that did not pass.  Columns for which this happens often are no
 * longer checked.
 */
extern void shard_line_check_was_good(ShardLineCheck *check);

#endif
