/*
 * command_lane.c
 *	  The steps of a lane, which runs its commands one after the other over one connection.
 *
 *	 CONNECT --> SEND --> [PREFIX] --> COMMAND --> (next command: SEND) --> END
 *											 |	failed, in a savepoint
 *											 +--> ROLLBACK --> (next command)
 *
 * The prefix of a command (settings, BEGIN, savepoints) is sent in one message with the command,
 * which then has the values of short parameters as literals.  It is sent separately before other
 * commands with parameters, which need the extended protocol, and in AUTOCOMMIT mode, where a
 * command (VACUUM) may have to be alone in its message.
 *
 * A server that is not the coordinator of the node sends each command of that mode in one message
 * with SET TRANSACTION READ ONLY.  A session without state (session_state off) gets each such
 * command in one message with its settings.  If the node answers that the command has to be alone in
 * its message, it is sent again without them (send_alone).
 */
#include "postgres.h"

#include <ctype.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "catch.h"
#include "identity.h"
#include "miscadmin.h"
#include "remote/run/command_private.h"
#include "remote/wire/answer.h"
#include "remote/wire/error.h"
#include "remote/xact/twophase.h"
#include "storage/latch.h"
#include "utils/builtins.h"

/*
 * If the text with the values of the parameters would be longer than this, the command is sent with
 * parameters.  The node may have a plan for it, or will have one soon, which is worth more than a
 * round trip.
 */
#define MAX_INLINED_BYTES 8192

/* Appends the prefix of the lane's command. */
static void
append_prefix(ShardCommandRun *run, ShardCommandLane *lane, StringInfo text)
{
	const ShardCommand *command = &run->commands[lane->current];
	StringInfoData xact;

	initStringInfo(&xact);
	if (run->writes)
	{
		shard_txn_check_writer(lane->conn);
		shard_txn_writer_preamble(lane->conn, GetCurrentTransactionNestLevel(), command->only_reads, &xact);
		if (!command->only_reads && !command->keeps_rows)
			shard_txn_note_written(lane->conn, GetCurrentTransactionNestLevel(), run->cid);
	}
	else if (run->mode == SHARD_COMMAND_READ)
	{
		while (!shard_txn_reader_preamble(lane->conn, run->snapshot, GetCurrentTransactionNestLevel(), &xact, &lane->exporting))
		{
			/* a stream is exporting the transaction's snapshot; make it read until that is done */
			shard_pool_foreach(conn, lane->pool)
			{
				if (conn->holder && conn != lane->conn)
				{
					shard_connection_yield(conn);
					break;
				}
			}
		}
	}
	/* code of that role may have changed settings of its session, such as search_path: they are sent again */
	if (command->userid != GetUserId())
		shard_connection_resend_settings(lane->conn);
	shard_connection_append_preamble(lane->conn, command->portable_text ? SHARD_SETTINGS_PORTABLE :
									 SHARD_SETTINGS_USER,
									 command->workers ? *command->workers : -1,
									 command->cpu_factor, &xact, text);
	if (run->guarded)
		appendStringInfoString(text, "SAVEPOINT shardfdw_command; ");
	pfree(xact.data);
}

/* Sends the command without a prefix. */
static void
send_command(ShardCommandRun *run, ShardCommandLane *lane)
{
	ShardCommand *command = &run->commands[lane->current];

	if (command->nparams > 0 && !command->for_values &&
		shard_connection_start_prepare(lane->conn, command->sql, command->nparams))
	{
		lane->step = LANE_PREFIX;	/* comes back here after the answer */
		return;
	}
	lane->step = LANE_COMMAND;
	lane->sent = lane->unanswered = true;
	if (command->nparams > 0)
		shard_connection_send_params(lane->conn, command->sql, command->nparams,
									 command->params, false);
	else
		shard_connection_send_statement(lane->conn, command->sql);
}

/*
 * Appends the command's text with the values of its parameters.  False if it must be sent with
 * parameters.  Strings and names are quoted in the same way as by pg_get_querydef().
 */
static bool
append_inlined(const ShardCommand *command, StringInfo text)
{
	int			before = text->len;
	char		quote = '\0';
	const char *c;

	if (command->nparams > 0 && (!command->inlines || strlen(command->sql) > MAX_INLINED_BYTES))
		return false;
	for (c = command->sql; command->nparams > 0 && *c != '\0'; c++)
	{
		if (quote == '\0' && c[0] == '$' && isdigit((unsigned char) c[1]))
		{
			char	   *end;
			long		paramno = strtol(c + 1, &end, 10);
			const char *value;

			Assert(paramno >= 1 && paramno <= command->nparams);
			value = command->params[paramno - 1];
			if (value != NULL && strlen(value) > MAX_INLINED_BYTES)
				break;
			appendStringInfoString(text, value ? quote_literal_cstr(value) : "NULL");
			c = end - 1;
			continue;
		}
		/* a doubled quote ends a string and begins the next one; in E'' a backslash is always doubled */
		if (quote == '\0' && (*c == '\'' || *c == '"'))
			quote = *c;
		else if (*c == quote)
			quote = '\0';
		appendStringInfoChar(text, *c);
	}
	if (command->nparams == 0)
		appendStringInfoString(text, command->sql);
	else if (*c != '\0' || text->len - before > MAX_INLINED_BYTES)
	{
		text->len = before;
		text->data[before] = '\0';
		return false;
	}
	return true;
}

/*
 * The node commits the lane's command by itself.  Must the command be read-only, since this server
 * is not the coordinator of the node?
 *
 * Functions of the extension also use such commands for queries, so the node refuses only those that
 * write.  A command for a shard always writes.
 */
static bool
must_be_read_only(const ShardCommandRun *run, ShardCommandLane *lane)
{
	const ShardCommand *command = &run->commands[lane->current];

	if ((run->mode != SHARD_COMMAND_AUTOCOMMIT && run->mode != SHARD_COMMAND_SETTLE) || command->only_reads)
		return false;
	if (command->label != NULL && !command->changes_session)
	{
		shard_twophase_require_coordinator(&lane->conn, 1);
		return false;
	}
	return RecoveryInProgress() || !shard_identity_is_confirmed() ||
		(command->changes_session && shard_twophase_is_taken_over(lane->conn));
}

/* Begins the lane's current command. */
static void
begin_command(ShardCommandRun *run, ShardCommandLane *lane)
{
	ShardCommand *command = &run->commands[lane->current];
	bool		commits = run->mode >= SHARD_COMMAND_AUTOCOMMIT;
	bool		is_read_only = must_be_read_only(run, lane);
	bool		has_settings = commits && lane->conn->stateless && !lane->is_alone;
	StringInfoData text;

	lane->may_be_alone = has_settings && !is_read_only;
	initStringInfo(&text);
	append_prefix(run, lane, &text);
	if (is_read_only)
		appendStringInfoString(&text, "SET TRANSACTION READ ONLY; ");
	if (has_settings)
		shard_connection_append_message_settings(lane->conn, command->portable_text ? SHARD_SETTINGS_PORTABLE :
												 SHARD_SETTINGS_USER, &text);
	if (text.len == 0)
		send_command(run, lane);
	else
	{
		bool		is_one_message = !commits || is_read_only || has_settings;

		if (is_one_message && !run->guarded && append_inlined(command, &text))
		{
			lane->step = LANE_COMMAND;
			lane->sent = lane->unanswered = true;
			shard_connection_send_statement(lane->conn, text.data);
		}
		else if (commits && is_one_message)
			elog(ERROR, "a command with parameters cannot be sent in one message with its settings");
		else
		{
			lane->step = LANE_PREFIX;
			shard_connection_send(lane->conn, text.data);
		}
	}
	pfree(text.data);
}

/* Processes one result of the lane's current step. */
static void
take_result(ShardCommandRun *run, ShardCommandLane *lane, PGresult *res)
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
			/* the node answers CopyFail with an error, and nothing else must be sent */
			lane->copied = true;
			if (PQputCopyEnd(lane->conn->pg, "COPY is not possible here") != 1)
				shard_error_protocol(lane->conn, command->label, "COPY is not possible here");
			return;
		default:
			PQclear(res);
			shard_error_protocol(lane->conn, command->label, "not the kind of result that was asked for");
	}
	if (lane->step == LANE_COMMAND)
		shard_command_set_result(run, lane->current, res);
	else
		PQclear(res);
}

/* The lane continues with its next command, or ends. */
static void
next_of_lane(ShardCommandRun *run, int laneno)
{
	ShardCommandLane *lane = &run->lanes[laneno];

	lane->current = shard_command_next(run, laneno, lane->current + 1);
	lane->copied = lane->is_alone = false;
	lane->step = lane->current < run->ncommands ? LANE_SEND : LANE_END;
}

/*
 * Must the lane's command, which has failed, be alone in its message?  That is what VACUUM and
 * COMMIT PREPARED answer (25001), and procedures that commit (2D000).  A single statement has done
 * nothing then.
 */
static bool
must_be_alone(const ShardCommandRun *run, const ShardCommandLane *lane)
{
	const char *sql = run->commands[lane->current].sql;
	const char *end = strchr(sql, ';');
	int			sqlstate;

	if (!lane->may_be_alone || run->failures[lane->current] == NULL ||
		(end != NULL && end[1 + strspn(end + 1, " \t\r\n")] != '\0'))
		return false;
	sqlstate = shard_error_sqlstate(run->failures[lane->current]);
	return sqlstate == ERRCODE_ACTIVE_SQL_TRANSACTION || sqlstate == ERRCODE_INVALID_TRANSACTION_TERMINATION;
}

static void
send_alone(ShardCommandRun *run, ShardCommandLane *lane)
{
	PQclear(run->failures[lane->current]);
	run->failures[lane->current] = NULL;
	lane->is_alone = true;
	lane->step = LANE_SEND;
}

/* A command of a run. */
typedef struct RunCommand
{
	ShardCommandRun *run;
	int			commandno;
} RunCommand;

static void
raise_failure(void *arg)
{
	const RunCommand *failed = arg;

	shard_command_raise_failure(failed->run, failed->commandno);
}

/* The current command has failed.  Its failure is stored. */
static void
command_failed(ShardCommandRun *run, int laneno)
{
	ShardCommandLane *lane = &run->lanes[laneno];
	ShardCommand *command = &run->commands[lane->current];
	bool		lost = PQstatus(lane->conn->pg) != CONNECTION_OK;

	shard_command_set_result(run, lane->current, NULL);
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

	command->error = shard_catch_error(raise_failure, &(RunCommand) {run, lane->current});

	if (lost || lane->conn->state != SHARD_CONN_READY)
	{
		lane->conn->state = SHARD_CONN_BROKEN;
		shard_command_fail_rest(run, laneno, command->error);
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

/* Raises unless the command has a result with the expected number of columns. */
static void
check_answer(const ShardCommand *command, ShardConn *conn)
{
	if (command->result == NULL)
		shard_error_protocol(conn, command->label, "the command has no result");
	if (command->nfields > 0 &&
		(PQresultStatus(command->result) != PGRES_TUPLES_OK || PQnfields(command->result) != command->nfields))
		shard_error_protocol(conn, command->label, "number of columns differs");
}

/* COMMIT or ROLLBACK within the text of a command breaks the transaction on all nodes. */
static void
raise_ended(ShardConn *conn)
{
	conn->state = SHARD_CONN_BROKEN;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
			 errmsg("the command has ended the transaction on node \"%s\"", conn->node)));
}

/* The node has completely answered the current step. */
static void
end_step(ShardCommandRun *run, int laneno)
{
	ShardCommandLane *lane = &run->lanes[laneno];
	bool		in_xact = PQtransactionStatus(lane->conn->pg) == PQTRANS_INTRANS;

	if (PQstatus(lane->conn->pg) == CONNECTION_OK)
		lane->unanswered = false;
	if (lane->step == LANE_ROLLBACK)
	{
		if (!in_xact)
		{
			if (PQstatus(lane->conn->pg) == CONNECTION_OK)
				raise_ended(lane->conn);
			lane->conn->state = SHARD_CONN_BROKEN;
			shard_command_raise_failure(run, lane->current);
		}
		next_of_lane(run, laneno);
		return;
	}
	if (must_be_alone(run, lane) && PQstatus(lane->conn->pg) == CONNECTION_OK)
	{
		send_alone(run, lane);
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

	if (run->writes && !in_xact)
		raise_ended(lane->conn);
	if (run->guarded)
	{
		/* after this only the savepoint must be released; LANE_ROLLBACK then continues with the next command */
		lane->step = LANE_ROLLBACK;
		shard_connection_send(lane->conn, "RELEASE SAVEPOINT shardfdw_command");
		return;
	}
	next_of_lane(run, laneno);
}

/* Discards the data of a COPY that have arrived.  False if more data must arrive. */
static bool
skip_copy_data(ShardCommandLane *lane)
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

int
shard_command_advance(ShardCommandRun *run, int laneno)
{
	ShardCommandLane *lane = &run->lanes[laneno];
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
			PGresult   *res = shard_connection_take_result(conn);

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
