/*
 * read_first.h
 *	  Runs statements that must read all rows that they need before they write.
 */
#ifndef SHARDFDW_READ_FIRST_H
#define SHARDFDW_READ_FIRST_H

#include "postgres.h"

#include "executor/execdesc.h"

/* Must the statement read first?  Then shard_read_first() must be called before it writes. */
extern bool shard_read_first_is_needed(const QueryDesc *desc);

/* Starts the statement's scans, and computes the rows that it will write.  Called within ExecutorRun(). */
extern void shard_read_first(EState *estate, PlanState *top);

/*
 * Runs source to its end, and stores its rows.  ExecProcNode() then returns the stored rows.  Does nothing if the rows
 * were stored before.  Call it in the query's memory context.
 */
extern void shard_read_first_store(EState *estate, PlanState *source);

#endif
