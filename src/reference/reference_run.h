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

/* A change of one reference table, sent to its replicas. */
typedef struct ShardReferenceWrite
{
	Relation	rel;
	const char *relation;		/* qualified name here and on the nodes */
	Oid			userid;
	List	   *nodes;			/* OIDs of servers: those of peers, then nodes */
	List	   *peers;			/* the other coordinators */
	MemoryContext cxt;			/* lives as long as the write */
	MemoryContext row_cxt;		/* reset for each row */
} ShardReferenceWrite;

/* Switches to write->cxt; end switches back and frees it. */
extern void shard_reference_run_begin(ShardReferenceWrite *write, Relation rel);
extern void shard_reference_run_end(ShardReferenceWrite *write, MemoryContext caller_cxt);

/* What to do when a node has changed fewer rows than it should. */
typedef enum ShardReferenceCount
{
	SHARD_REFERENCE_COUNT_ONCE, /* an error */
	SHARD_REFERENCE_COUNT_AGAIN,	/* settle and run it once more, which changes all rows again */
	SHARD_REFERENCE_COUNT_REST	/* settle and run it once more, which changes the others */
} ShardReferenceCount;

/*
 * Waits until the transactions of this coordinator that are prepared on the nodes now are
 * committed there: the coordinator shows their rows already, the nodes do not yet.  Those
 * that are left from a crash are not waited for.
 */
extern void shard_reference_run_settle(ShardReferenceWrite *write);

/* Runs commands; each must change nrows rows. */
extern void shard_reference_run_commands(ShardReferenceWrite *write, ShardCommand *commands,
										 int ncommands, int64 nrows, ShardReferenceCount count);

/* Runs a command that locks the replicas on nodes (OIDs of servers) against reading. */
extern void shard_reference_run_exclusive(ShardReferenceWrite *write, List *nodes, const char *sql);

/* A chunk: the arrays of keys, then those of values (NULL: none), which are emptied. */
extern void shard_reference_run_arrays(ShardReferenceWrite *write, const char *sql,
									   ShardReferenceParams *keys, ShardReferenceParams *values,
									   int64 nrows, ShardReferenceCount count);

/* A single row: the keys' values at hand, then those of values (NULL: none), are parameters. */
extern void shard_reference_run_row(ShardReferenceWrite *write, const char *sql,
									const ShardReferenceParams *keys, const ShardReferenceParams *values,
									ShardReferenceCount count);

#endif
