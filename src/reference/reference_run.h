/*
 * reference_run.h
 *	  Commands that change rows in all replicas of a reference table.
 */
#ifndef SHARDFDW_REFERENCE_RUN_H
#define SHARDFDW_REFERENCE_RUN_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "reference/reference_param.h"
#include "remote/run/command.h"
#include "utils/rel.h"

/* A change of one reference table, which is sent to its replicas. */
typedef struct ShardReferenceWrite
{
	Relation	rel;
	const char *relation;		/* qualified name, the same here and on the nodes */
	Oid			userid;
	List	   *nodes;			/* OIDs of servers: first peers, then nodes */
	List	   *peers;			/* the other coordinators */
	MemoryContext cxt;			/* exists as long as the write */
	MemoryContext row_cxt;		/* reset for each row */
} ShardReferenceWrite;

/* begin switches to write->cxt; end switches back and frees it. */
extern void shard_reference_run_begin(ShardReferenceWrite *write, Relation rel);
extern void shard_reference_run_end(ShardReferenceWrite *write, MemoryContext caller_cxt);

/* What to do if a node has changed fewer rows than it should. */
typedef enum ShardReferenceCount
{
	SHARD_REFERENCE_COUNT_ONCE, /* raise an error */
	SHARD_REFERENCE_COUNT_AGAIN,	/* wait for prepared transactions and run it once more, which changes all rows again */
	SHARD_REFERENCE_COUNT_REST	/* wait for prepared transactions and run it once more, which changes the remaining rows */
} ShardReferenceCount;

/*
 * Waits until the transactions of this coordinator that are prepared on the nodes now have been
 * committed there.  The coordinator shows their rows already, but the nodes do not yet.  Does not
 * wait for transactions that a crash has left.
 */
extern void shard_reference_run_settle(ShardReferenceWrite *write);

/*
 * Runs sql on all nodes, once for each element of params: lists of nparams parameters.  Each command must change nrows
 * rows.
 */
extern void shard_reference_run_rows(ShardReferenceWrite *write, const char *sql, int nparams, List *params,
									 int64 nrows, ShardReferenceCount count);

/* Runs sql with the parameters of keys and values (NULL: none), for nrows rows, and empties their arrays. */
extern void shard_reference_run(ShardReferenceWrite *write, const char *sql, ShardReferenceParams *keys,
								ShardReferenceParams *values, int64 nrows, ShardReferenceCount count);

/* Runs a command that locks the replicas on nodes (OIDs of servers) against reads. */
extern void shard_reference_run_exclusive(ShardReferenceWrite *write, List *nodes, const char *sql);

#endif
