/*
 * job.h
 *	  The journal of jobs, shardfdw_internal.job.  It describes work; where a shard is,
 *	  the catalogs say.
 */
#ifndef SHARDFDW_JOB_H
#define SHARDFDW_JOB_H

#include "postgres.h"

#include "move/job/move.h"
#include "port/atomics.h"
#include "storage/dsm.h"

/* What a background worker is told, in bgw_extra. */
typedef struct ShardJobArgs
{
	dsm_handle	link;			/* a ShardJobLink, as long as the caller waits for the number */
	Oid			database;
	Oid			userid;
	Oid			converted;		/* a table that is to be sharded, made plain or imported into; else there are shards */
	bool		back;			/* it is to be made plain */
	bool		imported;		/* it is to get the rows of a table elsewhere */
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
	char		plan[FLEXIBLE_ARRAY_MEMBER];	/* what does not fit into ShardJobArgs, as text */
} ShardJobLink;

/*
 * Starts the process of a job, which has database, userid and link filled in.  Returns the job's number.
 * Errors: ERRCODE_INSUFFICIENT_RESOURCES; ERRCODE_ACTIVE_SQL_TRANSACTION when this transaction has made or changed a table of it.
 */
extern int64 shard_job_start(ShardJobArgs *args, const char *plan);

/* May the current user remove what job id has left?  Of a job that the journal does not know any more, everybody may, with the rights that he has. */
extern bool shard_job_may_clear(int64 id, bool *is_in_journal);

/*
 * Returns a number for the job, which its caller learns and this process claims, and the plan, palloc'd.  Raises
 * ERRCODE_ADMIN_SHUTDOWN when the caller is gone.
 */
extern int64 shard_job_link(const ShardJobArgs *args, char **plan);

/* The stage of an import that has copied, and follows the source until it is told to cut over. */
#define SHARD_JOB_FOLLOWING "following"

/* A job that begins. */
typedef struct ShardJobRow
{
	int64		id;
	const char *kind;
	int			ntables;
	const Oid  *relids;
	const char *const *names;	/* qualified and quoted */
	const char *source_name;	/* NULL: no node */
	const char *target_name;
	const char *mode;
	Oid			userid;
} ShardJobRow;

/* Each writes into the row of a job, in a transaction of its own, whatever the current user's rights. */
extern void shard_job_insert(const ShardJobRow *row);
extern void shard_job_set_stage(int64 id, const char *stage);
extern void shard_job_set_nodes(int64 id, const char *source_name, const char *target_name);
extern void shard_job_set_progress(int64 id, ShardJobProgress *progress);
extern void shard_job_set_pause(int64 id, int64 pause_us);
extern void shard_job_set_waiting(int64 id, const char *waits_for);	/* NULL: for nobody */
extern void shard_job_end(int64 id, const ErrorData *error);	/* error NULL: done */

/*
 * Makes a dropped table what a job that has failed says, if one of its tables has been dropped: what it has run into otherwise
 * depends on the moment.  For jobs that have not replaced their tables themselves.  Memory: current context.
 */
extern void shard_job_name_dropped(int64 id, ErrorData *error);

/* The same within the current transaction; for the stage that is to be seen when that commits. */
extern void shard_job_set_stage_here(int64 id, const char *stage);

/* Likewise: shards of these names (qualified and quoted) have taken the place of those that the job works on. */
extern void shard_job_set_tables_here(int64 id, const List *names);

#endif
