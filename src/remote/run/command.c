/*
 * command.c
 *	  Commands on nodes that return few rows or none.
 *
 * The commands of one node and user form a lane, which has one connection and
 * runs them in order; lanes run at the same time, in one wait loop:
 *
 *	 CONNECT --> SEND --> [PREFIX] --> COMMAND --> (next command: SEND) --> END
 *							   |  failed, in a savepoint
 *							   +--> ROLLBACK --> (next command)
 *
 * What must precede a command (settings, BEGIN, savepoints) goes in one message
 * with it, but for commands with parameters, which take the extended protocol,
 * and in FREE mode, where a command may be one that takes no company (VACUUM).
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/command.h"
#include "remote/wire/answer.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "remote/xact/txn.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "version.h"

#define CANCEL_TIMEOUT_MS 600

typedef enum LaneStep
{
	LANE_CONNECT,
	LANE_SEND,
	LANE_PREFIX,
	LANE_COMMAND,
	LANE_ROLLBACK,
	LANE_END
} LaneStep;

typedef struct Lane
{
	ShardPool  *pool;
	ShardConn  *conn;			/* NULL: could not get one */
	bool		held;			/* to be released at the end */
	bool		passing;		/* and closed, since others wait for one */
	int			current;		/* index of its current command */
	LaneStep	step;
	bool		exporting;
	PGresult   *rows;			/* of a result whose end has not come */
	bool		copying;		/* the node sends the data of a COPY, which nobody wants */
	bool		copied;			/* the current command was such a COPY */
} Lane;

/*
 * In a context of its own, whose reset clears the results; libpq's memory would
 * outlive an error.
 */
typedef struct CommandRun
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	ShardCommand *commands;		/* only while they run */
	int			ncommands;
	int		   *laneno;			/* of each command */
	PGresult  **results;		/* of each command */
	PGresult  **failures;		/* of each command, until it is raised or kept */
	Lane	   *lanes;
	int			nlanes;
	ShardCommandMode mode;
	bool		noerror;
	bool		guarded;		/* each command in a savepoint */
	ShardSnapshot *snapshot;	/* READ */
	MemoryContext snapshot_cxt;
	MemoryContext caller_cxt;
} CommandRun;

static void refuse_yield(ShardConn *conn, void *arg);

static const ShardConnHolder command_holder = {refuse_yield, NULL, NULL};

static void
refuse_yield(ShardConn *conn, void *arg)
{
	elog(ERROR, "connection to node \"%s\" is in use by a command", conn->node);
}

/* Index of lane's first command from start on; ncommands when there is none. */
static int
next_command(CommandRun *run, int laneno, int start)
{
	while (start < run->ncommands && run->laneno[start] != laneno)
		start++;
	return start;
}

/* ---------- memory ---------- */

static void
clear_result(PGresult **res)
{
	PQclear(*res);
	*res = NULL;
}

/* The result of command i; takes ownership of res, which may be NULL. */
static void
set_result(CommandRun *run, int i, PGresult *res)
{
	PQclear(run->results[i]);
	run->results[i] = res;
	run->commands[i].result = res;
}

static void
clear_in_reset(void *arg)
{
	CommandRun *run = arg;

	for (int i = 0; i < run->nlanes; i++)
		clear_result(&run->lanes[i].rows);
	for (int i = 0; i < run->ncommands; i++)
	{
		clear_result(&run->results[i]);
		clear_result(&run->failures[i]);
	}
}

/* Room for a run of ncommands, in a context of its own. */
static CommandRun *
alloc_run(int ncommands)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw commands", ALLOCSET_SMALL_SIZES);
	CommandRun *run = MemoryContextAllocZero(cxt, sizeof(CommandRun));

	run->cxt = cxt;
	run->caller_cxt = CurrentMemoryContext;
	run->laneno = MemoryContextAlloc(cxt, ncommands * sizeof(int));
	run->results = MemoryContextAllocZero(cxt, ncommands * sizeof(PGresult *));
	run->failures = MemoryContextAllocZero(cxt, ncommands * sizeof(PGresult *));
	run->lanes = MemoryContextAllocZero(cxt, ncommands * sizeof(Lane));
	run->ncommands = ncommands;
	run->callback.func = clear_in_reset;
	run->callback.arg = run;
	MemoryContextRegisterResetCallback(cxt, &run->callback);
	return run;
}

void
shard_command_free(ShardCommand *commands, int ncommands)
{
	if (ncommands <= 0)
		return;
	MemoryContextDelete(commands[0].memory);
	commands[0].memory = NULL;
	for (int i = 0; i < ncommands; i++)
		commands[i].result = NULL;
}

static CommandRun *
make_run(ShardCommand *commands, int ncommands, ShardCommandMode mode, bool noerror)
{
	CommandRun *run = alloc_run(ncommands);

	/* no error of a node, which noerror would have noted */
	shard_version_check();
	run->commands = commands;
	run->mode = mode;
	run->noerror = noerror;
	run->guarded = noerror && mode == SHARD_COMMAND_WRITE;
	commands[0].memory = run->cxt;
	run->snapshot_cxt = AllocSetContextCreate(run->cxt, "shardfdw snapshot", ALLOCSET_SMALL_SIZES);
	if (mode == SHARD_COMMAND_READ)
		run->snapshot = shard_txn_snapshot(run->snapshot_cxt);

	for (int i = 0; i < ncommands; i++)
	{
		ShardPool  *pool = shard_pool_get(commands[i].serverid, commands[i].userid);
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

/* ---------- errors ---------- */

/*
 * In PG_CATCH: the current error as data in the caller's context; those of our
 * own that must not be caught go on.
 */
static ErrorData *
catch_error(CommandRun *run, bool from_node)
{
	ErrorData  *error;

	MemoryContextSwitchTo(run->caller_cxt);
	error = CopyErrorData();
	if (!from_node &&
		(error->sqlerrcode == ERRCODE_QUERY_CANCELED || error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
		 error->sqlerrcode == ERRCODE_OUT_OF_MEMORY))
		PG_RE_THROW();
	FlushErrorState();
	return error;
}

/* What failed of command i, as an error that is raised; takes ownership of the result. */
static void
raise_failure(CommandRun *run, int i)
{
	PGresult   *res = run->failures[i];
	Lane	   *lane = &run->lanes[run->laneno[i]];

	if (!res && lane->copied && lane->current == i)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY from or to the client is not possible in a command for nodes"),
				 errdetail("Node \"%s\".", lane->conn->node)));

	run->failures[i] = NULL;
	if (run->commands[i].is_users)
		shard_error_report_as_is(res, lane->conn, run->commands[i].label, run->commands[i].sql);
	shard_error_report(ERROR, res, lane->conn, run->commands[i].label,
					   run->commands[i].sql);
}

/* noerror: all commands of the lane from its current one on have failed with the current error. */
static void
fail_rest(CommandRun *run, int laneno, ErrorData *error)
{
	Lane	   *lane = &run->lanes[laneno];

	for (int i = next_command(run, laneno, lane->current); i < run->ncommands;
		 i = next_command(run, laneno, i + 1))
	{
		set_result(run, i, NULL);
		clear_result(&run->failures[i]);
		run->commands[i].error = error;
	}
	lane->step = LANE_END;
}

/* ---------- connections ---------- */

/* A connection for reading; who holds the pool's connections yields if need be. */
static ShardConn *
reader_connection(CommandRun *run, ShardPool *pool)
{
	ShardConn  *conn = shard_txn_acquire_reader(pool, run->snapshot);
	dlist_iter	iter;

	if (conn)
		return conn;
	if (pool->writer && pool->writer->holder && shard_txn_uses_writer(pool, run->snapshot))
		shard_connection_yield(pool->writer);
	else
	{
		dlist_foreach(iter, &pool->conns)
		{
			conn = dlist_container(ShardConn, link, iter.cur);
			if (conn->holder && !conn->is_extra)
			{
				shard_connection_yield(conn);
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
acquire(CommandRun *run, Lane *lane)
{
	switch (run->mode)
	{
		case SHARD_COMMAND_WRITE:
			lane->conn = shard_txn_writer_start(lane->pool->key_serverid, lane->pool->key_userid);
			break;
		case SHARD_COMMAND_READ:
			lane->conn = reader_connection(run, lane->pool);
			shard_connection_hold(lane->conn, &command_holder);
			lane->held = true;
			break;
		case SHARD_COMMAND_AUTOCOMMIT:
			lane->conn = shard_pool_start_free(lane->pool);
			lane->held = true;
			break;
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
 * Gives connections back.  After an error those of commands outside the
 * transaction are stopped here; the others are the transaction's business.
 */
static void
release_lanes(CommandRun *run, bool failed)
{
	for (int i = 0; i < run->nlanes; i++)
	{
		Lane	   *lane = &run->lanes[i];

		if (!lane->conn)
			continue;
		if (run->commands[next_command(run, i, 0)].is_users && lane->conn->state != SHARD_CONN_CONNECTING)
			shard_connection_distrust(lane->conn);
		if (!lane->held)
			continue;
		lane->held = false;
		if (lane->conn->holder)
			shard_connection_release(lane->conn);
		if (failed && lane->conn->state == SHARD_CONN_READY)
			(void) shard_connection_cancel_noerror(lane->conn, CANCEL_TIMEOUT_MS);
		if (lane->conn->state == SHARD_CONN_CONNECTING && !lane->passing)
			shard_connection_pause(lane->conn);
		else if (lane->conn->state != SHARD_CONN_READY || lane->passing)
			shard_pool_discard(lane->conn);
	}
}

/* ---------- running ---------- */

/* Appends what must stand before the lane's command. */
static void
append_prefix(CommandRun *run, Lane *lane, StringInfo text)
{
	const ShardCommand *command = &run->commands[lane->current];
	StringInfoData xact;

	initStringInfo(&xact);
	if (run->mode == SHARD_COMMAND_WRITE)
	{
		shard_txn_check_writer(lane->conn);
		shard_txn_writer_preamble(lane->conn, GetCurrentTransactionNestLevel(), &xact);
	}
	else if (run->mode == SHARD_COMMAND_READ)
	{
		while (!shard_txn_reader_preamble(lane->conn, run->snapshot, &xact, &lane->exporting))
		{
			/* a stream is exporting the transaction's snapshot: it reads on */
			dlist_iter	iter;

			dlist_foreach(iter, &lane->pool->conns)
			{
				ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

				if (conn->holder && conn != lane->conn)
				{
					shard_connection_yield(conn);
					break;
				}
			}
		}
	}
	shard_connection_append_preamble(lane->conn, command->portable_text ? SHARD_SETTINGS_PORTABLE :
									 SHARD_SETTINGS_USER,
									 command->workers ? *command->workers : -1,
									 command->cpu_factor, &xact, text);
	if (run->guarded)
		appendStringInfoString(text, "SAVEPOINT shardfdw_command; ");
	pfree(xact.data);
}

/* Sends the command by itself. */
static void
send_command(CommandRun *run, Lane *lane)
{
	ShardCommand *command = &run->commands[lane->current];

	if (command->nparams > 0 &&
		shard_connection_start_prepare(lane->conn, command->sql, command->nparams))
	{
		lane->step = LANE_PREFIX;	/* comes back here */
		return;
	}
	lane->step = LANE_COMMAND;
	if (command->nparams > 0)
		shard_connection_send_params(lane->conn, command->sql, command->nparams,
									 command->params, false);
	else
		shard_connection_send(lane->conn, command->sql);
}

/* Begins the lane's current command. */
static void
begin_command(CommandRun *run, Lane *lane)
{
	ShardCommand *command = &run->commands[lane->current];
	StringInfoData text;

	initStringInfo(&text);
	append_prefix(run, lane, &text);
	if (text.len == 0)
		send_command(run, lane);
	else if (command->nparams > 0 || run->mode >= SHARD_COMMAND_AUTOCOMMIT || run->guarded)
	{
		lane->step = LANE_PREFIX;
		shard_connection_send(lane->conn, text.data);
	}
	else
	{
		lane->step = LANE_COMMAND;
		appendStringInfoString(&text, command->sql);
		shard_connection_send(lane->conn, text.data);
	}
	pfree(text.data);
}

/* Takes one result of the lane's current step. */
static void
take_result(CommandRun *run, Lane *lane, PGresult *res)
{
	ShardCommand *command = &run->commands[lane->current];

	shard_connection_note_result(lane->conn, res);
	res = shard_answer_add(&lane->rows, res, command->max_bytes ? command->max_bytes : SHARD_ANSWER_BYTES,
						   lane->conn, command->label);
	if (!res)
		return;
	switch (PQresultStatus(res))
	{
		case PGRES_COMMAND_OK:
		case PGRES_EMPTY_QUERY:
			break;
		case PGRES_TUPLES_OK:
			if (lane->exporting && PQntuples(res) == 1 && PQnfields(res) == 1)
			{
				lane->exporting = false;
				shard_snapshot_exported(lane->conn, PQgetvalue(res, 0, 0));
				PQclear(res);
				return;
			}
			break;
		case PGRES_FATAL_ERROR:
			if (run->failures[lane->current])
				PQclear(res);
			else
				run->failures[lane->current] = res;
			return;
		case PGRES_COPY_OUT:
			lane->copying = lane->copied = true;
			PQclear(res);
			return;
		case PGRES_COPY_IN:
			PQclear(res);
			/* the node answers with an error; nothing else waits to be sent */
			lane->copied = true;
			if (PQputCopyEnd(lane->conn->pg, "COPY is not possible here") != 1)
				shard_error_protocol(lane->conn, command->label, "COPY is not possible here");
			return;
		default:
			PQclear(res);
			shard_error_protocol(lane->conn, command->label, "not the kind of result that was asked for");
	}
	if (lane->step == LANE_COMMAND)
		set_result(run, lane->current, res);
	else
		PQclear(res);
}

/* The lane goes on with its next command, or ends. */
static void
next_of_lane(CommandRun *run, int laneno)
{
	Lane	   *lane = &run->lanes[laneno];

	lane->current = next_command(run, laneno, lane->current + 1);
	lane->copied = false;
	lane->step = lane->current < run->ncommands ? LANE_SEND : LANE_END;
}

/* The current command has failed; its failure is kept. */
static void
command_failed(CommandRun *run, int laneno)
{
	Lane	   *lane = &run->lanes[laneno];
	ShardCommand *command = &run->commands[lane->current];
	bool		lost = PQstatus(lane->conn->pg) != CONNECTION_OK;

	set_result(run, lane->current, NULL);
	if (command->nparams > 0 && run->failures[lane->current] &&
		shard_connection_is_stale(run->failures[lane->current]))
		shard_connection_forget_prepared(lane->conn, command->sql);
	if (!run->noerror)
	{
		if (lost)
			lane->conn->state = SHARD_CONN_BROKEN;
		lane->step = LANE_END;	/* raised when all lanes have ended */
		return;
	}

	PG_TRY();
	{
		raise_failure(run, lane->current);
	}
	PG_CATCH();
	{
		command->error = catch_error(run, true);
	}
	PG_END_TRY();

	if (lost || lane->conn->state != SHARD_CONN_READY)
	{
		lane->conn->state = SHARD_CONN_BROKEN;
		fail_rest(run, laneno, command->error);
	}
	else if (run->guarded)
	{
		lane->copied = false;
		lane->step = LANE_ROLLBACK;
		shard_connection_send(lane->conn,
							  "ROLLBACK TO SAVEPOINT shardfdw_command; RELEASE SAVEPOINT shardfdw_command");
	}
	else
		next_of_lane(run, laneno);
}

/* Whoever reads the result goes by what was asked for, not by what a node makes of it. */
static void
check_answer(const ShardCommand *command, ShardConn *conn)
{
	if (command->result == NULL)
		shard_error_protocol(conn, command->label, "the command has no result");
	if (command->nfields > 0 &&
		(PQresultStatus(command->result) != PGRES_TUPLES_OK || PQnfields(command->result) != command->nfields))
		shard_error_protocol(conn, command->label, "number of columns differs");
}

/* The node has answered the current step completely. */
static void
end_step(CommandRun *run, int laneno)
{
	Lane	   *lane = &run->lanes[laneno];
	bool		in_xact = PQtransactionStatus(lane->conn->pg) == PQTRANS_INTRANS;

	if (lane->step == LANE_ROLLBACK)
	{
		if (!in_xact)
		{
			lane->conn->state = SHARD_CONN_BROKEN;
			raise_failure(run, lane->current);
		}
		next_of_lane(run, laneno);
		return;
	}
	if (run->failures[lane->current] || lane->copied || PQstatus(lane->conn->pg) != CONNECTION_OK)
	{
		command_failed(run, laneno);
		return;
	}
	if (lane->step == LANE_PREFIX)
	{
		send_command(run, lane);
		return;
	}

	check_answer(&run->commands[lane->current], lane->conn);

	/* COMMIT or ROLLBACK in the text of a command would break the transaction of all nodes. */
	if (run->mode == SHARD_COMMAND_WRITE && !in_xact)
	{
		lane->conn->state = SHARD_CONN_BROKEN;
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("the command has ended the transaction on node \"%s\"", lane->conn->node)));
	}
	if (run->guarded)
	{
		/* no failures any more: nothing but the savepoint is left of it */
		lane->step = LANE_ROLLBACK;
		shard_connection_send(lane->conn, "RELEASE SAVEPOINT shardfdw_command");
		return;
	}
	next_of_lane(run, laneno);
}

/* Throws away what is here of a COPY's data; false when more must come. */
static bool
skip_copy_data(Lane *lane)
{
	char	   *row;
	int			len;

	while ((len = PQgetCopyData(lane->conn->pg, &row, 1)) > 0)
	{
		PQfreemem(row);
		CHECK_FOR_INTERRUPTS();
	}
	lane->copying = len == 0 && PQstatus(lane->conn->pg) == CONNECTION_OK;
	return !lane->copying;
}

/* Moves a lane on as far as it goes; the socket events to wait for, 0 when it has ended. */
static int
advance(CommandRun *run, int laneno)
{
	Lane	   *lane = &run->lanes[laneno];
	bool		dry = false;

	while (lane->step != LANE_END)
	{
		ShardConn  *conn = lane->conn;

		if (lane->step == LANE_CONNECT)
		{
			int			events = shard_connection_poll(conn);

			if (events != 0)
				return events;
			if (!shard_connection_settle(conn))
				return WL_SOCKET_READABLE;
			lane->step = LANE_SEND;
		}
		else if (lane->step == LANE_SEND)
		{
			begin_command(run, lane);
			dry = false;
		}
		else if (lane->copying && skip_copy_data(lane))
			continue;
		else if (!lane->copying && (PQstatus(conn->pg) == CONNECTION_BAD || !PQisBusy(conn->pg)))
		{
			PGresult   *res = PQgetResult(conn->pg);

			if (res)
				take_result(run, lane, res);
			else
			{
				if (conn->notices)
					shard_connection_flush_notices(conn);
				end_step(run, laneno);
				dry = false;
			}
		}
		else if (dry)
			return WL_SOCKET_READABLE | (shard_connection_flush(conn) ? 0 : WL_SOCKET_WRITEABLE);
		else
		{
			shard_connection_flush(conn);
			shard_connection_consume(conn);
			dry = true;
		}
	}
	return 0;
}

/* The same; with noerror an error that is raised ends the lane and is kept. */
static int
advance_lane(CommandRun *run, int laneno)
{
	volatile int events = 0;

	if (!run->noerror)
		return advance(run, laneno);
	PG_TRY();
	{
		events = advance(run, laneno);
	}
	PG_CATCH();
	{
		ErrorData  *error = catch_error(run, false);

		fail_rest(run, laneno, error);
		if (run->lanes[laneno].conn)
			run->lanes[laneno].conn->state = SHARD_CONN_BROKEN;
	}
	PG_END_TRY();
	return events;
}

static void
acquire_lane(CommandRun *run, int laneno)
{
	if (!run->noerror)
	{
		acquire(run, &run->lanes[laneno]);
		return;
	}
	PG_TRY();
	{
		acquire(run, &run->lanes[laneno]);
	}
	PG_CATCH();
	{
		fail_rest(run, laneno, catch_error(run, false));
	}
	PG_END_TRY();
}

/* Longest wait: encrypted sockets may not show everything, connecting has a deadline. */
static long
wait_limit(CommandRun *run)
{
	long		limit_ms = -1;

	for (int i = 0; i < run->nlanes; i++)
	{
		Lane	   *lane = &run->lanes[i];
		long		lane_ms = -1;

		if (lane->step == LANE_END || !lane->conn)
			continue;
		if (lane->step == LANE_CONNECT && (lane_ms = shard_connection_poll_ms(lane->conn)) < 0)
			lane_ms = 500;
		else if (lane->step != LANE_CONNECT &&
				 (PQsslInUse(lane->conn->pg) || PQgssEncInUse(lane->conn->pg)))
			lane_ms = 500;
		if (lane_ms >= 0 && (limit_ms < 0 || lane_ms < limit_ms))
			limit_ms = lane_ms;
	}
	return limit_ms;
}

static void
run_lanes(CommandRun *run)
{
	ShardWaitSet *set = shard_wait_set_create(run->snapshot_cxt);
	ShardWaitItem *items = palloc0(run->nlanes * sizeof(ShardWaitItem));

	/* all connections begin to open before any is waited for */
	for (int i = 0; i < run->nlanes; i++)
		acquire_lane(run, i);
	for (;;)
	{
		int			nwaiting = 0;

		for (int i = 0; i < run->nlanes; i++)
		{
			Lane	   *lane = &run->lanes[i];

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
		shard_wait_set_wait(set, items, run->nlanes, wait_limit(run), false);
	}
	pfree(items);
}

void
shard_command_run(ShardCommand *commands, int ncommands, ShardCommandMode mode, bool noerror)
{
	CommandRun *run;

	if (ncommands <= 0)
		return;
	run = make_run(commands, ncommands, mode, noerror);
	PG_TRY();
	{
		run_lanes(run);
		for (int i = 0; i < ncommands; i++)
		{
			if (run->failures[i] || (!noerror && !commands[i].result &&
									 run->lanes[run->laneno[i]].current == i))
				raise_failure(run, i);
		}
	}
	PG_CATCH();
	{
		release_lanes(run, true);
		shard_command_free(commands, ncommands);
		PG_RE_THROW();
	}
	PG_END_TRY();
	release_lanes(run, false);
	MemoryContextDelete(run->snapshot_cxt);
}

int64
shard_command_write(Oid serverid, Oid userid, const char *sql, const char *label)
{
	ShardCommand command = {0};
	int64		affected;

	command.serverid = serverid;
	command.userid = userid;
	command.sql = sql;
	command.label = label;
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	affected = atoll(PQcmdTuples(command.result));
	shard_command_free(&command, 1);
	return affected;
}

bool
shard_command_is_fixed(Oid serverid, Oid userid)
{
	return shard_txn_is_fixed(serverid, userid);
}
