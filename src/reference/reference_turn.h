/*
 * reference_turn.h
 *	  Reference tables where there are several coordinators.
 */
#ifndef SHARDFDW_REFERENCE_TURN_H
#define SHARDFDW_REFERENCE_TURN_H

#include "postgres.h"

#include "executor/execdesc.h"

/* Does another coordinator write here, which itself informs nodes and other coordinators? */
extern bool shard_reference_follows(void);

/* A statement starts.  If it locks rows of reference tables, takes their turns. */
extern void shard_reference_turn_start(const QueryDesc *desc, int eflags);

#endif
