/*
 * job.h
 *	  The journal of jobs, shardfdw_internal.job.  It describes work.  Only the catalogs show where a shard is.
 */
#ifndef SHARDFDW_JOB_H
#define SHARDFDW_JOB_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "port/atomics.h"
#include "storage/dsm.h"
#include "utils/timestamp.h"

#define SHARD_MOVE_MAX_SHARDS 16

/* The types of jobs, see move/worker.c. */
typedef enum ShardJobType
{
	SHARD_JOB_MOVE,				/* also splits and merges */
	SHARD_JOB_CONVERSION,
	SHARD_JOB_IMPORT,
	SHARD_JOB_SERIES
} ShardJobType;

/* The arguments of a background worker, in bgw_extra. */
typedef struct ShardJobArgs
{
	dsm_handle	link;			/* a ShardJobLink, while the caller waits for the number */
	Oid			database;
	Oid			userid;
	ShardJobType type;
	Oid			relid;			/* table of the job; InvalidOid: it has none, or works on shards */
	int			nshards;
	Oid			shards[SHARD_MOVE_MAX_SHARDS];
	Oid			target;			/* of a series: the node that is drained, or InvalidOid */
	int			series;			/* the process of the series that starts the job; 0: none */
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

/* Progress, for the view shardfdw.jobs. */
typedef struct ShardJobProgress
{
	int64		nrows;			/* copied */
	int64		nbytes;			/* copied, in COPY format */
	int64		nchanges;		/* applied */
	int64		lag_bytes;		/* -1: unknown */
	TimestampTz noted_at;		/* when the progress was last recorded */
} ShardJobProgress;

/* What all jobs have.  The state of each kind of job begins with it. */
typedef struct ShardJob
{
	MemoryContext cxt;			/* for all data of the job */
	int64		id;
	Oid			userid;			/* whose rights and user mappings are used */
	Oid			relid;			/* as in ShardJobArgs */
	bool		online;
	bool		verify;
	char	   *plan;			/* the text passed to shard_job_start() */
	ShardJobProgress progress;
	const char *awaited;		/* see shard_attempts_await(); NULL: no wait is limited */
	TimestampTz awaited_until;
} ShardJob;

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

/* The stage of an import that has copied the rows, and follows the source until a cut-over is requested. */
#define SHARD_JOB_FOLLOWING "following"

/* The row of a new job. */
typedef struct ShardJobRow
{
	const char *kind;
	int			ntables;
	const Oid  *relids;
	const char *const *names;	/* qualified and quoted */
	const char *source_name;	/* NULL: no node */
	const char *target_name;
	const char *mode;
} ShardJobRow;

/* A kind of job. */
typedef struct ShardJobKind
{
	Size		size;			/* of its state, which begins with ShardJob; the rest is zero at first */

	/*
	 * Completes the state and the row.  The row of a job with a table already has that table.  Called in a transaction,
	 * in the memory of the job.
	 */
	void		(*describe) (ShardJob *job, const ShardJobArgs *args, ShardJobRow *row);
	void		(*run) (ShardJob *job);

	/* Removes what a failed job has made, as far as possible.  May complete the error.  NULL: there is nothing. */
	void		(*undo) (ShardJob *job, ErrorData *error);
} ShardJobKind;

/* The kinds: move_job.c, conversion.c, import_job.c, series.c. */
extern const ShardJobKind shard_move_kind;
extern const ShardJobKind shard_conversion_kind;
extern const ShardJobKind shard_import_kind;
extern const ShardJobKind shard_series_kind;

/*
 * Each function writes to the row of a job, in the current transaction or in a separate one if none is open, whatever
 * the current user's rights.
 */
extern void shard_job_insert(const ShardJob *job, const ShardJobRow *row);
extern void shard_job_enter_stage(const ShardJob *job, const char *stage);
extern void shard_job_set_nodes(const ShardJob *job, const char *source_name, const char *target_name);
extern void shard_job_set_progress(ShardJob *job);
extern void shard_job_set_pause(const ShardJob *job, int64 pause_us);
extern void shard_job_set_waiting(const ShardJob *job, const char *waits_for);	/* NULL: the job does not wait */
extern void shard_job_set_remark(const ShardJob *job, const char *remark);	/* what a job that is done has left undone, or NULL */
extern void shard_job_end(const ShardJob *job, const ErrorData *error);	/* error NULL: success */

/* Shards with these names (qualified and quoted) have replaced the shards of the job. */
extern void shard_job_set_tables(const ShardJob *job, const List *names);

/*
 * Records the progress of a ShardJob, unless that was done less than a second ago or a transaction is open.  To be called
 * often.
 */
extern void shard_job_note_progress(void *job);

/*
 * If a table of a failed job has been dropped, replaces the job's error by one that says so.  The original error would
 * depend on the moment of the drop.  For jobs that have not replaced their tables themselves.  Memory: current context.
 */
extern void shard_job_name_dropped(const ShardJob *job, ErrorData *error);

#endif
