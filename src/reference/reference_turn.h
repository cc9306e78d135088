/*
 * reference_turn.h
 *	  Reference tables where there are several coordinators.
 */
#ifndef SHARDFDW_REFERENCE_TURN_H
#define SHARDFDW_REFERENCE_TURN_H

#include "postgres.h"

#include "executor/execdesc.h"

/* Does another coordinator write here, which tells nodes and other coordinators itself? */
extern bool shard_reference_follows(void);

/* A statement starts: if it locks rows of reference tables, it takes its turn. */
extern void shard_reference_turn_start(const QueryDesc *desc, int eflags);

#endif
