/*
 * line_clock.h
 *	  Decides whether a line means the same on servers whose clocks differ.
 */
#ifndef SHARDFDW_LINE_CLOCK_H
#define SHARDFDW_LINE_CLOCK_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"

typedef struct ShardLineClock ShardLineClock;

/* Makes a check for the columns of cstate's input, in a format that raw mode forwards.  Memory: in cxt. */
extern ShardLineClock *shard_line_clock_create(MemoryContext cxt, CopyFromState cstate);

/* Does every line pass? */
extern bool shard_line_clock_is_idle(const ShardLineClock *clock);

/*
 * Returns false if a value of the line may depend on the clock of the server that reads it, like 'now' and 'today'.
 * nbytes excludes the line end.  Then the coordinator has to read the line, once for all servers.
 */
extern bool shard_line_clock_passes(const ShardLineClock *clock, const char *bytes, size_t nbytes);

#endif
