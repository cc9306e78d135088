/*
 * background_worker.h
 *	  Describes and begins background workers of this library.
 */
#ifndef SHARDFDW_BACKGROUND_WORKER_H
#define SHARDFDW_BACKGROUND_WORKER_H

#include "postgres.h"

#include "postmaster/bgworker.h"

/*
 * A worker that can be registered.  It is not restarted, unless the caller changes that. function: its entry point, which
 * the library exports.
 */
extern BackgroundWorker shard_background_worker(const char *function, const char *name);

/*
 * To be called first in the entry point: connects to a database as superuser, with settings on which the library relies,
 * whatever the defaults of the database or its roles.
 */
extern void shard_background_worker_begin(Oid database);

#endif
