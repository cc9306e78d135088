/*
 * reference_turn.h
 *	  Reference tables where there are several coordinators.
 */
#ifndef SHARDFDW_REFERENCE_TURN_H
#define SHARDFDW_REFERENCE_TURN_H

#include "postgres.h"

/* Does another coordinator write here, which tells nodes and other coordinators itself? */
extern bool shard_reference_follows(void);

/* Has queries that lock rows of reference tables take turns. */
extern void shard_reference_turn_init(void);

#endif
