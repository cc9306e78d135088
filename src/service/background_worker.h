/*
 * background_worker.h
 *	  Describes and begins background workers of this library.
 */
#ifndef SHARDFDW_BACKGROUND_WORKER_H
#define SHARDFDW_BACKGROUND_WORKER_H

#include "postgres.h"

#include "postmaster/bgworker.h"

/*
 * Returns a worker that can be registered.  PostgreSQL does not restart the worker, unless the caller changes that.
 * function: the entry point of the worker, which the library exports.
 */
extern BackgroundWorker shard_background_worker(const char *function, const char *name);

/*
 * Call it first in the entry point.  Connects to a database as superuser.  Then makes the settings on which the library
 * relies, whatever the defaults of the database or its roles are.
 */
extern void shard_background_worker_begin(Oid database);

#endif
