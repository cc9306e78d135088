/*
 * worker.h
 *	  The process of a job.
 */
#ifndef SHARDFDW_MOVE_WORKER_H
#define SHARDFDW_MOVE_WORKER_H

#include "postgres.h"

/* Entry point of the background worker; bgw_extra has ShardJobArgs. */
extern PGDLLEXPORT void shard_mover_main(Datum arg);

#endif
