/*
 * job.h
 *	  The journal of jobs, shardfdw_internal.job.  It describes work.  Only the catalogs show where a shard is.
 */
#ifndef SHARDFDW_JOB_H
#define SHARDFDW_JOB_H

#include "postgres.h"

#include "move/job/move.h"
#include "port/atomics.h"
#include "storage/dsm.h"

/* The arguments of a background worker, in bgw_extra. */
typedef struct ShardJobArgs
{
	dsm_handle	link;			/* a ShardJobLink, while the caller waits for the number */
	Oid			database;
	Oid			userid;
	Oid			converted;		/* the table to be sharded, made plain or imported into; else the job has shards */
	bool		back;			/* make it plain */
	bool		imported;		/* fill it with the rows of a table elsewhere */
	bool		series;			/* run other jobs; converted or target says for which table or node */
	int			nshards;
	Oid			shards[SHARD_MOVE_MAX_SHARDS];
	Oid			target;
	int			npieces;
	bool		online;
	bool		verify;
} ShardJobArgs;

/* Shared memory of the worker and its caller. */
typedef struct ShardJobLink
{
	pg_atomic_uint64 number;	/* of the job; 0: unknown */
	char		plan[FLEXIBLE_ARRAY_MEMBER];	/* text that does not fit into ShardJobArgs */
} ShardJobLink;

/*
 * Starts the process of a job, and fills in database, userid and link of args.  Returns the job's number.  Errors:
 * insufficient_resources; active_sql_transaction if this transaction has made or changed a table of the job.
 */
extern int64 shard_job_start(ShardJobArgs *args, const char *plan);

/*
 * May the current user remove what job id has left?  Any user may if the journal does not have the job, within the
 * user's rights.
 */
extern bool shard_job_may_clear(int64 id, bool *is_in_journal);

/*
 * Returns a number for the job, reports it to the caller, and claims it for this process.  *plan: palloc'd.  Raises
 * admin_shutdown if the caller has gone.
 */
extern int64 shard_job_link(const ShardJobArgs *args, char **plan);

/* The stage of an import that has copied, and follows the source until a cut-over is requested. */
#define SHARD_JOB_FOLLOWING "following"

/* The row of a new job. */
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

/* Each function writes to the row of a job in a separate transaction, whatever the current user's rights. */
extern void shard_job_insert(const ShardJobRow *row);
extern void shard_job_set_stage(int64 id, const char *stage);
extern void shard_job_set_nodes(int64 id, const char *source_name, const char *target_name);
extern void shard_job_set_progress(int64 id, ShardJobProgress *progress);
extern void shard_job_set_pause(int64 id, int64 pause_us);
extern void shard_job_set_waiting(int64 id, const char *waits_for);	/* NULL: the job does not wait */
extern void shard_job_end(int64 id, const ErrorData *error);	/* error NULL: success */

/*
 * If a table of a failed job has been dropped, changes the job's error to say so.  The original error depends on the
 * moment.  For jobs that have not replaced their tables themselves.  Memory: current context.
 */
extern void shard_job_name_dropped(int64 id, ErrorData *error);

/* The same within the current transaction, so that the stage becomes visible when it commits. */
extern void shard_job_set_stage_here(int64 id, const char *stage);

/* The same: shards with these names (qualified and quoted) have replaced the shards of the job. */
extern void shard_job_set_tables_here(int64 id, const List *names);

#endif
