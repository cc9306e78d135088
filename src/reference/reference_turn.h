/*
 * reference_turn.h
 *	  Reference tables where there are several coordinators.
 */
#ifndef SHARDFDW_REFERENCE_TURN_H
#define SHARDFDW_REFERENCE_TURN_H

#include "postgres.h"

#include "executor/execdesc.h"

/*
 * Does this session run a statement of another coordinator, which informs the nodes and the other coordinators itself?
 */
extern bool shard_reference_follows(void);

/* A statement starts.  If it locks rows of reference tables, takes the turns of these tables. */
extern void shard_reference_turn_start(const QueryDesc *desc, int eflags);

#endif
