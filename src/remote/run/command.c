/*
 * command.c
 *	  Commands on nodes that return few rows or none.
 *
 * All commands of one node and user form a lane.  A lane has one connection and runs its commands
 * in order.  Lanes run in parallel, in one wait loop.
 *
 * In SETTLE mode, lanes run in rounds, and a round closes its connections before the next one.  Many
 * nodes may have one address, whose connections this run would otherwise take from all sessions, or
 * wait for although it holds them itself.  A round has at most SETTLE_LANES lanes.  It may wait only
 * for the connection of its first lane, while the run holds no other one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catch.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/command_private.h"
#include "remote/run/stream.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "remote/xact/committed.h"
#include "remote/xact/fence.h"
#include "remote/xact/txn.h"
#include "remote/xact/txn_level.h"
#include "utils/memutils.h"
#include "version.h"

#define CANCEL_TIMEOUT_MS 600
#define SETTLE_LANES 16

static const ShardConnHolder command_holder = {NULL, NULL, NULL};

static ShardCommandRun *
make_run(ShardCommand *commands, int ncommands, ShardCommandMode mode, bool noerror)
{
	ShardCommandRun *run = shard_command_alloc(ncommands);

	Assert(mode != SHARD_COMMAND_SETTLE || noerror);
	/* checked here, since with noerror it would count as an error of the node */
	shard_version_check();
	run->commands = commands;
	run->mode = mode;
	run->noerror = noerror;
	run->writes = mode == SHARD_COMMAND_WRITE || mode == SHARD_COMMAND_EXCLUSIVE;
	/* a user's text may end the transaction and begin another one, which has no such savepoint */
	run->guarded = run->writes && (noerror || commands[0].changes_session);
	run->cid = run->writes ? shard_txn_level_command() : InvalidCommandId;
	commands[0].memory = run->cxt;
	run->snapshot_cxt = AllocSetContextCreate(run->cxt, "shardfdw snapshot", ALLOCSET_SMALL_SIZES);
	if (mode == SHARD_COMMAND_WATCH)
		run->timeout_ms = shard_guc_watch_timeout_ms;
	else if (mode == SHARD_COMMAND_SETTLE)
		run->timeout_ms = SHARD_COMMAND_SETTLE_MS;
	else if (mode == SHARD_COMMAND_SPARE)
		run->timeout_ms = SHARD_COMMAND_SPARE_MS;
	if (run->timeout_ms > 0)
		run->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), run->timeout_ms);
	run->wait_ms = run->timeout_ms;
	if (mode == SHARD_COMMAND_READ)
		run->snapshot = shard_txn_snapshot(run->snapshot_cxt);

	for (int i = 0; i < ncommands; i++)
	{
		ShardPool  *pool = shard_txn_reader_pool(run->snapshot, commands[i].serverid, commands[i].userid);
		int			laneno;

		commands[i].result = NULL;
		commands[i].error = NULL;
		for (laneno = 0; laneno < run->nlanes; laneno++)
			if (run->lanes[laneno].pool == pool)
				break;
		if (laneno == run->nlanes)
		{
			run->nlanes++;
			run->lanes[laneno].pool = pool;
			run->lanes[laneno].current = i;
			if (run->snapshot)
				shard_snapshot_expect(run->snapshot, commands[i].serverid, commands[i].userid, 1);
		}
		run->laneno[i] = laneno;
	}
	return run;
}

/* ---------- connections ---------- */

/* Returns a connection for reading.  If all connections have holders, makes one of them yield. */
static ShardConn *
reader_connection(ShardCommandRun *run, ShardPool *pool)
{
	ShardConn  *conn = shard_txn_acquire_reader(pool, run->snapshot);

	if (conn)
		return conn;
	if (pool->writer && pool->writer->holder && shard_txn_uses_writer(pool, run->snapshot))
		shard_connection_yield(pool->writer);
	else
	{
		shard_pool_foreach(held, pool)
		{
			if (held->holder && !held->is_extra)
			{
				shard_connection_yield(held);
				break;
			}
		}
	}
	conn = shard_txn_acquire_reader(pool, run->snapshot);
	if (!conn)
		elog(ERROR, "no connection for a command");
	return conn;
}

static void
acquire(ShardCommandRun *run, ShardCommandLane *lane)
{
	switch (run->mode)
	{
		case SHARD_COMMAND_WRITE:
		case SHARD_COMMAND_EXCLUSIVE:
			lane->conn = shard_txn_writer_start(lane->pool->key_serverid, lane->pool->key_userid,
												GetCurrentTransactionNestLevel());
			if (run->mode == SHARD_COMMAND_EXCLUSIVE)
				shard_txn_end_readers(lane->pool);
			break;
		case SHARD_COMMAND_READ:
			shard_stream_drain_below(lane->pool, GetCurrentTransactionNestLevel());
			lane->conn = reader_connection(run, lane->pool);
			shard_connection_hold(lane->conn, &command_holder);
			lane->held = true;
			break;
		case SHARD_COMMAND_AUTOCOMMIT:
			lane->conn = shard_pool_start_free(lane->pool);
			lane->held = true;
			break;
		case SHARD_COMMAND_SETTLE:
			lane->conn = shard_pool_start_within(lane->pool, lane == &run->lanes[run->first_lane] ? run->wait_ms : 0);
			lane->held = lane->conn != NULL;
			break;
		case SHARD_COMMAND_WATCH:
		case SHARD_COMMAND_SPARE:
			lane->conn = shard_pool_start_spare(lane->pool);
			if (!lane->conn)
				ereport(ERROR,
						(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
						 errmsg("other sessions have all connections to the node")));
			lane->held = true;
			lane->passing = lane->conn->state == SHARD_CONN_CONNECTING && lane->conn->quota_node >= 0;
			break;
	}
}

/*
 * Releases the connection of a lane.  After an error, a command outside the transaction is cancelled
 * here.  The rollback of the transaction cancels those inside.
 */
static void
release_lane(ShardCommandRun *run, int laneno, bool failed)
{
	ShardCommandLane *lane = &run->lanes[laneno];
	ShardConn  *conn = lane->conn;

	lane->conn = NULL;
	if (!conn)
		return;
	if (run->commands[shard_command_next(run, laneno, 0)].changes_session && conn->state != SHARD_CONN_CONNECTING)
		shard_connection_distrust(conn);
	if (!lane->held)
		return;
	lane->held = false;
	if (conn->holder)
		shard_connection_release(conn);
	if (failed && conn->state == SHARD_CONN_READY)
		(void) shard_connection_cancel_noerror(conn, CANCEL_TIMEOUT_MS);
	if (conn->state == SHARD_CONN_CONNECTING && !lane->passing)
		shard_connection_pause(conn);
	else if (conn->state != SHARD_CONN_READY || lane->passing)
		shard_pool_discard(conn);
}

static void
release_lanes(ShardCommandRun *run, bool failed)
{
	for (int i = 0; i < run->nlanes; i++)
		release_lane(run, i, failed);
}

/* ---------- running ---------- */

/* Like shard_command_advance(), but raises if the node's time limit has passed. */
static int
advance_in_time(ShardCommandRun *run, int laneno)
{
	int			events = shard_command_advance(run, laneno);

	if (events != 0 && run->deadline != 0 && GetCurrentTimestamp() >= run->deadline)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("node \"%s\" has not answered within %d ms", run->lanes[laneno].conn->node, run->timeout_ms)));
	return events;
}

/* A lane on which a step is run. */
typedef struct LaneStep
{
	ShardCommandRun *run;
	int			laneno;
	int			events;			/* to wait for */
} LaneStep;

static void
advance_step(void *arg)
{
	LaneStep   *step = arg;

	step->events = advance_in_time(step->run, step->laneno);
}

static void
acquire_step(void *arg)
{
	LaneStep   *step = arg;

	acquire(step->run, &step->run->lanes[step->laneno]);
}

/*
 * Is this an error that says nothing about a node?  Such an error is raised again, because there is
 * no subtransaction that could undo what the failed code has done. 58000 is the error of a node
 * that cannot be reached.  If a command has ended its transaction, the transaction is lost on all
 * nodes.
 */
static bool
is_of_coordinator(int code)
{
	return code == ERRCODE_QUERY_CANCELED || code == ERRCODE_ADMIN_SHUTDOWN || code == ERRCODE_OUT_OF_MEMORY ||
		code == ERRCODE_INVALID_TRANSACTION_TERMINATION ||
		ERRCODE_TO_CATEGORY(code) == ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR) ||
		/* system_error is the code of a lost connection to a node, others of this class are not */
		(code != ERRCODE_SYSTEM_ERROR && ERRCODE_TO_CATEGORY(code) == ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR));
}

/* Runs a step of a lane.  With noerror, an error is stored, and ends the lane; then the result is false. */
static bool
run_step(ShardStep run_it, LaneStep *step)
{
	ErrorData  *error = NULL;

	if (step->run->noerror)
		error = shard_catch_error(run_it, step);
	else
		run_it(step);
	if (error == NULL)
		return true;
	if (is_of_coordinator(error->sqlerrcode))
		ReThrowError(error);
	shard_command_fail_rest(step->run, step->laneno, error);
	return false;
}

/* Advances a lane.  Returns the socket events to wait for, or 0 when it has ended. */
static int
advance_lane(ShardCommandRun *run, int laneno)
{
	LaneStep	step = {run, laneno};

	if (run_step(advance_step, &step))
		return step.events;
	run->lanes[laneno].conn->state = SHARD_CONN_BROKEN;
	return 0;
}

/* Longest wait: encrypted sockets may not show everything, connecting has a deadline, and the run may have one. */
static long
wait_limit(ShardCommandRun *run)
{
	long		limit_ms = run->deadline == 0 ? -1 : TimestampDifferenceMilliseconds(GetCurrentTimestamp(), run->deadline);

	for (int i = 0; i < run->nlanes; i++)
	{
		ShardCommandLane *lane = &run->lanes[i];
		long		lane_ms = -1;

		if (lane->step == LANE_END || !lane->conn)
			continue;
		if (lane->step == LANE_CONNECT && (lane_ms = shard_connection_poll_ms(lane->conn)) < 0)
			lane_ms = 500;
		else if (lane->step != LANE_CONNECT && shard_connection_is_encrypted(lane->conn))
			lane_ms = SHARD_ENCRYPTED_WAIT_MS;
		if (lane_ms >= 0 && (limit_ms < 0 || lane_ms < limit_ms))
			limit_ms = lane_ms;
	}
	return limit_ms;
}

/* Begins to open the connections of the next round of lanes.  Returns the lane after its last one. */
static int
start_round(ShardCommandRun *run)
{
	bool		is_settle = run->mode == SHARD_COMMAND_SETTLE;
	int			end = run->first_lane;
	TimestampTz began = GetCurrentTimestamp();

	for (; end < run->nlanes && (!is_settle || end < run->first_lane + SETTLE_LANES); end++)
	{
		if (run_step(acquire_step, &(LaneStep) {run, end}) && run->lanes[end].conn == NULL)
			break;
		/* the waits of all rounds together are limited */
		if (is_settle && end == run->first_lane)
			run->wait_ms = Max(1, run->wait_ms - TimestampDifferenceMilliseconds(began, GetCurrentTimestamp()));
	}
	if (is_settle)
		run->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), run->timeout_ms);
	return end;
}

/* Closes the connections of the lanes before end, for the next round. */
static void
end_round(ShardCommandRun *run, int end)
{
	for (; run->first_lane < end; run->first_lane++)
	{
		release_lane(run, run->first_lane, false);
		shard_pool_drop_idle(run->lanes[run->first_lane].pool);
	}
}

static void
run_round(ShardCommandRun *run, int end, ShardWaitSet *set, ShardWaitItem *items)
{
	for (;;)
	{
		int			nwaiting = 0;

		for (int i = run->first_lane; i < end; i++)
		{
			ShardCommandLane *lane = &run->lanes[i];

			items[i].fd = -1;
			if (lane->step == LANE_END)
				continue;
			items[i].events = advance_lane(run, i);
			if (items[i].events == 0)
				continue;
			items[i].fd = PQsocket(lane->conn->pg);
			nwaiting++;
		}
		if (nwaiting == 0)
			break;
		shard_wait_set_wait(set, &items[run->first_lane], end - run->first_lane, wait_limit(run), false);
	}
}

static void
run_lanes(ShardCommandRun *run)
{
	ShardWaitSet *set = shard_wait_set_create(run->snapshot_cxt);
	ShardWaitItem *items = palloc0(run->nlanes * sizeof(ShardWaitItem));

	/* a search for deadlocks would send another query to a node that does not answer */
	if (run->mode == SHARD_COMMAND_WATCH)
		shard_wait_set_skip_stalls(set);

	while (run->first_lane < run->nlanes)
	{
		/* begins to open all connections before waiting for any */
		int			end = start_round(run);

		run_round(run, end, set, items);
		/* the next run may have to wait for the connections of several rounds, but one round keeps them */
		if (run->first_lane == 0 && end == run->nlanes)
			break;
		end_round(run, end);
	}
	pfree(items);
}

/* Called before release_lanes(), which cancels unanswered commands and releases the connections. */
static void
note_commits(ShardCommandRun *run)
{
	for (int i = 0; i < run->nlanes; i++)
	{
		const ShardCommandLane *lane = &run->lanes[i];

		if (!lane->sent || run->commands[shard_command_next(run, i, 0)].only_reads)
			continue;
		shard_committed_note(lane->pool->key_serverid, NULL);
		/* a node that has lost its client still commits when it has run the command */
		if (lane->unanswered)
			shard_committed_doubt(lane->pool->key_serverid);
	}
}

void
shard_command_run(ShardCommand *commands, int ncommands, ShardCommandMode mode, bool noerror)
{
	ShardCommandRun *run;
	bool		commits = mode == SHARD_COMMAND_AUTOCOMMIT || mode == SHARD_COMMAND_SETTLE;

	if (ncommands <= 0)
		return;
	run = make_run(commands, ncommands, mode, noerror);
	PG_TRY();
	{
		/*
		 * each command may commit; cluster snapshots and restore points must not contain it without
		 * earlier commits
		 */
		if (commits)
			shard_fence_pass();
		run_lanes(run);
		if (commits)
			shard_fence_pass_noerror();
		for (int i = 0; i < ncommands; i++)
		{
			if (run->failures[i] || (!noerror && !commands[i].result &&
									 run->lanes[run->laneno[i]].current == i))
				shard_command_raise_failure(run, i);
		}
	}
	PG_CATCH();
	{
		/* other commands may have committed before one failed */
		if (commits)
			note_commits(run);
		release_lanes(run, true);
		shard_command_free(commands, ncommands);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (commits)
		note_commits(run);
	release_lanes(run, false);
	MemoryContextDelete(run->snapshot_cxt);
}

bool
shard_command_is_fixed(Oid serverid, Oid userid)
{
	return shard_txn_is_fixed(serverid, userid);
}

bool
shard_command_has_written(void)
{
	return shard_txn_has_writers();
}
