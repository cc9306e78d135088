/*
 * job.h
 *	  The journal of jobs, shardfdw_internal.job.  It describes work; where a shard is,
 *	  the catalogs say.
 */
#ifndef SHARDFDW_JOB_H
#define SHARDFDW_JOB_H

#include "postgres.h"

#include "move/move.h"
#include "port/atomics.h"
#include "storage/dsm.h"

/* What a background worker is told, in bgw_extra. */
typedef struct ShardJobArgs
{
	dsm_handle	link;			/* a ShardJobLink, as long as the caller waits for the number */
	Oid			database;
	Oid			userid;
	int			nshards;
	Oid			shards[SHARD_MOVE_MAX_SHARDS];
	Oid			target;
	int			npieces;
	bool		online;
	bool		verify;
} ShardJobArgs;

/* What the worker and its caller tell each other. */
typedef struct ShardJobLink
{
	pg_atomic_uint64 number;	/* of the job; 0: not known yet */
	char		at[FLEXIBLE_ARRAY_MEMBER];	/* a text array as text: where the shard is split */
} ShardJobLink;

/*
 * Takes a number for the job, which the caller of start_job() learns, and learns from it where
 * the shard is split.  Raises ERRCODE_ADMIN_SHUTDOWN when the caller is gone.
 */
extern void shard_job_link(ShardMove *move, const ShardJobArgs *args);

/* Each writes into the row of a job, in a transaction of its own, whatever the current user's rights. */
extern void shard_job_insert(const ShardMove *move);
extern void shard_job_set_stage(const ShardMove *move, const char *stage);
extern void shard_job_set_nodes(const ShardMove *move);
extern void shard_job_set_progress(ShardMove *move);
extern void shard_job_set_pause(const ShardMove *move, int64 pause_us);
extern void shard_job_set_waiting(const ShardMove *move, const char *waits_for);	/* NULL: for nobody */
extern void shard_job_end(const ShardMove *move, const ErrorData *error);	/* error NULL: done */

/* The same within the current transaction; for the stage that is to be seen when that commits. */
extern void shard_job_set_stage_here(const ShardMove *move, const char *stage);

/* Likewise: shards of these names (qualified and quoted) have taken the place of those that the job works on. */
extern void shard_job_set_tables_here(const ShardMove *move, const List *names);

#endif
