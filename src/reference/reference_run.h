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

/* Runs commands; each must change nrows rows. */
extern void shard_reference_run_commands(ShardReferenceWrite *write, ShardCommand *commands,
										 int ncommands, int64 nrows, ShardReferenceCount count);

/* Runs a command that locks the replicas on nodes (OIDs of servers) against reads. */
extern void shard_reference_run_exclusive(ShardReferenceWrite *write, List *nodes, const char *sql);

/* Runs sql for a chunk, with the arrays of keys, then those of values (NULL: none), and empties them. */
extern void shard_reference_run_arrays(ShardReferenceWrite *write, const char *sql,
									   ShardReferenceParams *keys, ShardReferenceParams *values,
									   int64 nrows, ShardReferenceCount count);

/* Runs sql for a single row.  Its parameters are the current values of keys, then those of values (NULL: none). */
extern void shard_reference_run_row(ShardReferenceWrite *write, const char *sql,
									const ShardReferenceParams *keys, const ShardReferenceParams *values,
									ShardReferenceCount count);

#endif
