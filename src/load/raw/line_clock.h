/*
 * line_clock.h
 *	  Whether a line means the same on servers whose clocks differ.
 */
#ifndef SHARDFDW_LINE_CLOCK_H
#define SHARDFDW_LINE_CLOCK_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"

typedef struct ShardLineClock ShardLineClock;

/* For the columns of cstate's input, in a format that raw mode forwards.  Memory: in cxt. */
extern ShardLineClock *shard_line_clock_create(MemoryContext cxt, CopyFromState cstate);

/* Does every line pass? */
extern bool shard_line_clock_is_idle(const ShardLineClock *clock);

/*
 * False when a value of the line (nbytes without its end) may depend on the clock of the server that reads it, as 'now' and
 * 'today' do: then the coordinator has to read it, once for all.
 */
extern bool shard_line_clock_passes(const ShardLineClock *clock, const char *bytes, size_t nbytes);

#endif
