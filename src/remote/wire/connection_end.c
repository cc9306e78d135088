/*
 * connection_end.c
 *	  Ends what runs on a connection, in bounded time and without errors: in abort, and for rows
 *	  that are not needed any more.
 *
 *	 read what has arrived --> idle? --no--> cancel request --> read on --> idle, or broken
 */
#include "postgres.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "miscadmin.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"

#define HURRY_MS 500			/* longest wait after the user has cancelled */
#define SAVEPOINT_WAIT_MS 100	/* time for a slow node to create a savepoint */
#define SILENT_MS 2000			/* how long a node that did not answer a cancel request is treated as dead */

/* The node that last did not answer a cancel request in time, and when. */
static Oid	silent_server = InvalidOid;
static TimestampTz silent_since = 0;

#ifndef LIBPQ_HAS_ASYNC_CANCEL
/*
 * In this libpq, PQcancel() waits for the node's postmaster without a limit.  It is safe in a
 * signal handler, and therefore after fork().  So a child process calls it, and this process waits
 * for the child until deadline.  A timer ends the child in any case.
 */
static void
cancel_in_child(PGcancel *cancel, TimestampTz deadline)
{
	int			done[2];		/* the child's end is closed when it exits */
	long		timeout_ms = shard_connection_remaining_ms(deadline);
	pid_t		pid;

	if (pipe(done) != 0)
		return;
	shard_wait_sockets_changed();
	pid = fork();
	if (pid == 0)
	{
		char		message[256];
		sigset_t	none;

		signal(SIGALRM, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		alarm((unsigned int) (timeout_ms / 1000 + 1));
		(void) PQcancel(cancel, message, sizeof(message));
		_exit(0);
	}
	close(done[1]);
	if (pid > 0)
	{
		while ((timeout_ms = shard_connection_remaining_ms(deadline)) > 0 &&
			   shard_wait_socket(done[0], WL_SOCKET_READABLE, timeout_ms, true) == 0)
			;					/* the latch was set */
		shard_wait_sockets_changed();
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(done[0]);
}
#endif

/* Sends a cancel request for what conn runs, within deadline. */
static void
request_cancel(ShardConn *conn, TimestampTz deadline)
{
#ifdef LIBPQ_HAS_ASYNC_CANCEL
	PGcancelConn *cancel = PQcancelCreate(conn->pg);
	int			events = WL_SOCKET_WRITEABLE;

	if (cancel && PQcancelStart(cancel))
	{
		shard_wait_sockets_changed();
		for (;;)
		{
			PostgresPollingStatusType status;
			long		timeout_ms = shard_connection_remaining_ms(deadline);

			if (timeout_ms == 0)
				break;
			if (!(shard_wait_socket(PQcancelSocket(cancel), events, timeout_ms, true) & events))
				continue;		/* the latch was set, or the time has passed */
			status = PQcancelPoll(cancel);
			shard_wait_sockets_changed();
			if (status == PGRES_POLLING_READING)
				events = WL_SOCKET_READABLE;
			else if (status == PGRES_POLLING_WRITING)
				events = WL_SOCKET_WRITEABLE;
			else
				break;
		}
	}
	PQcancelFinish(cancel);
	shard_wait_sockets_changed();
#else
	PGcancel   *cancel = PQgetCancel(conn->pg);

	if (cancel)
	{
		cancel_in_child(cancel, deadline);
		PQfreeCancel(cancel);
	}
#endif
}

void
shard_connection_request_cancel(ShardConn *conn, int timeout_ms)
{
	request_cancel(conn, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms));
}

/*
 * Reads and discards what conn still sends, until it is idle.  If may_wait is false, reads only
 * what has arrived.  Returns whether conn is idle.  Makes a COPY to the node fail.
 */
static bool
drain(ShardConn *conn, TimestampTz deadline, bool may_wait)
{
	bool		copying = false;
	bool		hurried = false;
	uint64		nrows = 0;

	for (;;)
	{
		if (!hurried && shard_wait_is_urged())
		{
			hurried = true;
			deadline = Min(deadline, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), HURRY_MS));
		}
		if (copying)
		{
			char	   *row = NULL;
			int			len = PQgetCopyData(conn->pg, &row, 1);

			if (len > 0)
			{
				PQfreemem(row);
				if ((++nrows & 0xff) == 0 && shard_connection_remaining_ms(deadline) == 0)
					return false;
				continue;
			}
			copying = len == 0;
			if (PQstatus(conn->pg) == CONNECTION_BAD)
				return false;
			if (!copying)
				continue;
		}
		else if (shard_connection_result_is_here(conn))
		{
			PGresult   *res = shard_connection_take_result(conn);
			ExecStatusType status;

			if (!res)
				return PQstatus(conn->pg) == CONNECTION_OK;
			status = PQresultStatus(res);
			shard_connection_note_result(conn, res);
			PQclear(res);
			copying = status == PGRES_COPY_OUT;
			if (status == PGRES_COPY_IN)
				PQputCopyEnd(conn->pg, "canceled by the coordinator");
			if (status == PGRES_COPY_BOTH || PQstatus(conn->pg) == CONNECTION_BAD ||
				shard_connection_remaining_ms(deadline) == 0)
				return false;
			continue;
		}

		/* no complete result has arrived */
		if (!may_wait || !shard_connection_wait_input(conn, deadline, true))
			return false;
	}
}

bool
shard_connection_settle_noerror(ShardConn *conn, TimestampTz deadline)
{
	while (!shard_connection_settle(conn))
		if (!shard_connection_wait_input(conn, deadline, true))
			return false;
	return true;
}

bool
shard_connection_drain_noerror(ShardConn *conn, int timeout_ms)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	while (conn->state == SHARD_CONN_READY && !shard_wait_is_urged() &&
		   (timeout_ms == 0 || GetCurrentTimestamp() < until))
	{
		TimestampTz soon = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 100);

		if (drain(conn, timeout_ms == 0 ? soon : Min(soon, until), true))
			return true;
		if (PQstatus(conn->pg) != CONNECTION_OK)
			conn->state = SHARD_CONN_BROKEN;
	}
	return false;
}

/*
 * If a cancel request arrives before the node has created the savepoint that precedes the
 * statement, it aborts the whole transaction on the node.  So the node gets some time to create it.
 */
static void
await_savepoint(ShardConn *conn, TimestampTz deadline)
{
	TimestampTz until = TimestampTzPlusMilliseconds(conn->xact.savepoint_sent, SAVEPOINT_WAIT_MS);

	if (conn->xact.savepoint_sent == 0)
		return;
	shard_connection_flush(conn);
	(void) shard_wait_socket(PQsocket(conn->pg), WL_SOCKET_READABLE,
							 TimestampDifferenceMilliseconds(GetCurrentTimestamp(), Min(until, deadline)), true);
	shard_connection_consume(conn);
}

bool
shard_connection_cancel_noerror(ShardConn *conn, int timeout_ms)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	bool		idle;

	if (conn->state != SHARD_CONN_READY || PQstatus(conn->pg) != CONNECTION_OK)
	{
		conn->state = SHARD_CONN_BROKEN;
		return false;
	}
	if (PQtransactionStatus(conn->pg) == PQTRANS_ACTIVE)
	{
		/* do not wait again and again for a node that has just not answered */
		if (conn->serverid == silent_server &&
			!TimestampDifferenceExceeds(silent_since, GetCurrentTimestamp(), SILENT_MS))
			deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1);

		await_savepoint(conn, deadline);

		/* the result may have arrived already; and a COMMIT must not be cancelled */
		shard_connection_consume(conn);
		idle = drain(conn, deadline, conn->end_pending);
		if (!idle && !conn->end_pending && PQstatus(conn->pg) == CONNECTION_OK)
		{
			request_cancel(conn, deadline);
			idle = drain(conn, deadline, true);
		}
		if (!idle)
		{
			if (PQstatus(conn->pg) == CONNECTION_OK)
			{
				silent_server = conn->serverid;
				silent_since = GetCurrentTimestamp();
			}
			conn->state = SHARD_CONN_BROKEN;
			shard_connection_drop_notices(conn);
			return false;
		}
	}
	conn->end_pending = false;
	conn->ncommits_asked = 0;
	return true;
}
