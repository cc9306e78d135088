/*
 * copy_stat.h
 *	  Figures of loads in progress, for other sessions to read, and of this
 *	  session's last one.
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
	Oid			relid;			/* as given to shard_copy_stat_add */
	Oid			serverid;
	ShardCopyTargetStat figures;
} ShardCopyStatTarget;

/* One load. */
typedef struct ShardCopyStatLoad
{
	int			pid;
	Oid			userid;			/* of the session */
	Oid			relid;			/* as given to shard_copy_stat_begin */
	char		mode[16];
	char		reason[128];	/* empty: none */
	TimestampTz started;
	TimestampTz finished;		/* 0 = in progress */
	uint64		nrejected;		/* rows that never came to a target */
	int			ntargets;
	ShardCopyStatTarget targets[FLEXIBLE_ARRAY_MEMBER];
} ShardCopyStatLoad;

/*
 * A load into the targets of set begins; relid, mode and reason (NULL: none) are
 * only shown.  Uses the set's progress hook until the end, or after an error until
 * the reset of cxt.
 * Returns NULL inside another load of this session: only the outermost one is
 * shown.  The functions below do nothing with NULL, and nothing after the end.
 */
extern ShardCopyStat *shard_copy_stat_begin(MemoryContext cxt, ShardCopySet *set, Oid relid,
											const char *mode, const char *reason);

/*
 * Lets other sessions see it from now on.  Costs a segment of shared memory at
 * the first time in a session, so small loads had better do without.
 * Errors: shared memory cannot be had; not when there are too many segments.
 */
extern void shard_copy_stat_publish(ShardCopyStat *stat);

/* The load that target was added to; NULL: none that is shown. */
extern ShardCopyStat *shard_copy_stat_of(const ShardCopyTarget *target);

/*
 * Why the COPY of cstate (CopyFromState) is parsed on the coordinator, for
 * whoever begins a load for it; NULL: not known.
 */
extern void shard_copy_stat_explain(const void *cstate, const char *reason);
extern const char *shard_copy_stat_reason(const void *cstate);

/* A target of the set that has been opened. */
extern void shard_copy_stat_add(ShardCopyStat *stat, ShardCopyTarget *target, Oid relid, Oid serverid);

/* Rows that were set aside before they came to a target, so far. */
extern void shard_copy_stat_set_rejected(ShardCopyStat *stat, uint64 nrejected);

/* The load is done; call it between shard_copy_set_flush and shard_copy_set_finish. */
extern void shard_copy_stat_end(ShardCopyStat *stat);

/*
 * ShardCopyStatLoad *: this session's load, in progress or the last one that
 * came to its end, and those that other sessions of this database have published.
 * Memory: in the current context.
 */
extern List *shard_copy_stat_read(void);

#endif
