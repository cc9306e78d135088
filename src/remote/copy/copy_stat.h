/*
 * copy_stat.h
 *	  Figures of this session's last load, and of running loads, which other sessions can read.
 */
#ifndef SHARDFDW_COPY_STAT_H
#define SHARDFDW_COPY_STAT_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "remote/copy/copy_stream.h"

typedef struct ShardCopyStat ShardCopyStat;

/* One remote table of a load. */
typedef struct ShardCopyStatTarget
{
	Oid			relid;			/* see shard_copy_stat_add() */
	Oid			serverid;
	ShardCopyTargetStat figures;
} ShardCopyStatTarget;

/* One load. */
typedef struct ShardCopyStatLoad
{
	int			pid;
	Oid			userid;			/* of the session */
	Oid			relid;			/* see shard_copy_stat_begin() */
	char		mode[16];
	char		reason[128];	/* empty: none */
	TimestampTz started;
	TimestampTz finished;		/* 0: still running */
	uint64		nrejected;		/* rows that did not reach a target */
	int			ntargets;
	ShardCopyStatTarget targets[FLEXIBLE_ARRAY_MEMBER];
} ShardCopyStatLoad;

/*
 * A load into the targets of set begins. relid, mode and reason (NULL: none) are only displayed.
 * Uses the set's progress hook until the end; after an error, until the reset of cxt.  Returns NULL
 * within another load of this session, since only the outermost one is displayed.  With NULL, or
 * after the end, the functions below do nothing.
 */
extern ShardCopyStat *shard_copy_stat_begin(MemoryContext cxt, ShardCopySet *set, Oid relid,
											const char *mode, const char *reason);

/*
 * Makes the load visible to other sessions.  The first call in a session creates a segment of
 * shared memory, so it is not worth it for small loads.  Errors: no shared memory is available.  It
 * is no error if there are too many segments.
 */
extern void shard_copy_stat_publish(ShardCopyStat *stat);

/* The load to which target was added; NULL: none that is displayed. */
extern ShardCopyStat *shard_copy_stat_of(const ShardCopyTarget *target);

/*
 * Stores why the COPY of cstate (CopyFromState) is parsed on the coordinator, for the function that
 * begins a load for it.  NULL: unknown.
 */
extern void shard_copy_stat_explain(const void *cstate, const char *reason);
extern const char *shard_copy_stat_reason(const void *cstate);

/* A target of the set was opened. */
extern void shard_copy_stat_add(ShardCopyStat *stat, ShardCopyTarget *target, Oid relid, Oid serverid);

/* Sets the number of rows that were rejected before they reached a target. */
extern void shard_copy_stat_set_rejected(ShardCopyStat *stat, uint64 nrejected);

/* The load has finished.  Called between shard_copy_set_flush and shard_copy_set_finish. */
extern void shard_copy_stat_end(ShardCopyStat *stat);

/*
 * Returns a List of ShardCopyStatLoad: this session's load, running or the last one that has
 * finished, and those that other sessions of this database have published.  Memory: current
 * context.
 */
extern List *shard_copy_stat_read(void);

#endif
