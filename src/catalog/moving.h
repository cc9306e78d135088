/*
 * moving.h
 *	  Which jobs are running, and on which shards.
 */
#ifndef SHARDFDW_MOVING_H
#define SHARDFDW_MOVING_H

#include "postgres.h"

#include "storage/lock.h"

/*
 * This process begins to run job id.  Other sessions see that it is running until the process ends.
 * False: another process runs it.
 */
extern bool shard_moving_claim(int64 id);

/*
 * This transaction begins to remove the remainders of job id, which does not count as running then.
 * False: the job is running, or another session removes them.
 * is_in_journal: the job has a row in the journal, which names its owner.  Otherwise sessions of
 * other roles are not blocked.
 */
extern bool shard_moving_claim_leftovers(int64 id, bool is_in_journal);

/* Has this process called either function for job id? */
extern bool shard_moving_is_claimed_here(int64 id);

/* Returns the process that runs job id, according to its lock; 0: none. */
extern int	shard_moving_process(int64 id);

/* Does another process run job id? */
extern bool shard_moving_is_running(int64 id);

/*
 * Waits until no other job works on a node (classid: ForeignServerRelationId), or assigns numbers
 * to new shards of a table (RelationRelationId).  This job then has the turn until it gives it
 * back, or until the process ends.
 */
extern void shard_moving_take_turn(Oid classid, Oid objid);
extern bool shard_moving_try_turn(Oid classid, Oid objid);	/* false: another job has the turn; does not wait */
extern int64 shard_moving_turn_holder(Oid classid, Oid objid);	/* number of the job that has the turn; 0: unknown */
extern void shard_moving_give_turn(Oid classid, Oid objid);

/*
 * Between begin_wait and end_wait (or the end of the transaction) this session waits for a job. waiting returns the
 * transactions of such sessions, *n of them.  Jobs do not wait for these transactions, because they wait for jobs.
 */
extern void shard_moving_begin_wait(void);
extern void shard_moving_end_wait(void);
extern VirtualTransactionId *shard_moving_waiting(int *n);

typedef enum ShardCutOver
{
	SHARD_CUT_OVER_NONE,
	SHARD_CUT_OVER_LOCK,		/* the source's table must be locked and closed */
	SHARD_CUT_OVER_FREE			/* no session writes there any more */
} ShardCutOver;

/*
 * shard_moving_ask_cut_over() asks an importing job to cut over.  The request lasts until the transaction ends.
 * shard_moving_cut_over_asked() returns what other sessions have asked for.
 */
extern void shard_moving_ask_cut_over(int64 id, bool lock);
extern ShardCutOver shard_moving_cut_over_asked(int64 id);

/* The journal of jobs, and its columns. */
#define SHARD_JOB_TABLE "job"

enum
{
	SHARD_JOB_ID = 1,
	SHARD_JOB_KIND,
	SHARD_JOB_STATE,
	SHARD_JOB_STAGE,
	SHARD_JOB_TABLES,
	SHARD_JOB_NAMES,
	SHARD_JOB_SOURCE,
	SHARD_JOB_TARGET,
	SHARD_JOB_MODE,
	SHARD_JOB_ROLE,
	SHARD_JOB_PID,
	SHARD_JOB_WAITS_FOR = 19,
	SHARD_JOB_SQLSTATE,
	SHARD_JOB_MESSAGE,
	SHARD_JOB_DETAIL,
	SHARD_JOB_HINT
};

/*
 * Raises ERRCODE_OBJECT_IN_USE if a job of another process moves one of nrelids foreign tables,
 * whose definition is about to change.
 */
extern void shard_moving_check(const Oid *relids, int nrelids);

/*
 * Raises ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE if a job that has ended without success worked on one of nrelids foreign
 * tables, whose names or columns are about to be renamed, and has left objects on nodes.  Recovery finds tables by name.
 */
extern void shard_moving_check_names(const Oid *relids, int nrelids);

/* Raises ERRCODE_OBJECT_IN_USE if a job of another process works on a server, which is about to be dropped. */
extern void shard_moving_check_server(Oid serverid);

#endif
