/*
 * moving.h
 *	  Which jobs are at work, and on which shards.
 */
#ifndef SHARDFDW_MOVING_H
#define SHARDFDW_MOVING_H

#include "postgres.h"

#include "storage/lock.h"

/*
 * Notes that this process does job id: whoever asks learns that it is running, until the
 * process ends.  False: another process does it.
 */
extern bool shard_moving_claim(int64 id);

/*
 * Notes that this transaction removes what job id has left, which then is not said to be running.  False: the job is
 * running, or another session removes it.  is_in_journal: has the job a row in the journal, which says whose it is?  If
 * not, sessions of other roles are not kept off.
 */
extern bool shard_moving_claim_leftovers(int64 id, bool is_in_journal);

/* Has this process done either for job id? */
extern bool shard_moving_is_claimed_here(int64 id);

/* The process that does job id, as its lock says; 0: there is none. */
extern int	shard_moving_process(int64 id);

/* Does another process do job id? */
extern bool shard_moving_is_running(int64 id);

/*
 * Waits until no other job works on a node (classid: ForeignServerRelationId), or numbers new shards of a
 * table (RelationRelationId); this one does from now on, until it gives that back, or the process ends.
 */
extern void shard_moving_take_turn(Oid classid, Oid objid);
extern bool shard_moving_try_turn(Oid classid, Oid objid);	/* false: another job does; does not wait */
extern int64 shard_moving_turn_holder(Oid classid, Oid objid);	/* number of that job; 0: not known */
extern void shard_moving_give_turn(Oid classid, Oid objid);

/*
 * Who waits for a job, until the call of end_wait, or the end of the transaction.  waiting: their
 * transactions, *n: how many.  No job waits for these, since jobs wait for each other's turns.
 */
extern void shard_moving_begin_wait(void);
extern void shard_moving_end_wait(void);
extern VirtualTransactionId *shard_moving_waiting(int *n);

typedef enum ShardCutOver
{
	SHARD_CUT_OVER_NONE,
	SHARD_CUT_OVER_LOCK,		/* the source's table is to be locked, and closed */
	SHARD_CUT_OVER_FREE			/* nobody writes there any more */
} ShardCutOver;

/* Asks a job that imports to cut over, until the transaction ends; and whether somebody does. */
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
 * Raises ERRCODE_OBJECT_IN_USE when a job of another process moves one of nrelids foreign
 * tables, whose definition is about to change.
 */
extern void shard_moving_check(const Oid *relids, int nrelids);

/* The same when a job of another process works on a server, which is about to be dropped. */
extern void shard_moving_check_server(Oid serverid);

#endif
