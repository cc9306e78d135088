/*
 * connection.c
 *	  One libpq connection to one node for one user.
 *
 * Opening never blocks, so that callers open many at once:
 *
 *	 start --> CONNECTING --poll...--> accepted --(SET, if the node needs it)--> READY
 *				   |  failure, connect_timeout, password rules
 *				   +--> BROKEN (error raised)
 *
 * Assumptions:
 *	- libpq's socket may change while connecting (several hosts, GSS), so it is
 *	  asked for each time; sets of sockets are told (shard_wait_sockets_changed).
 *	- The connection is in libpq's nonblocking mode; what is sent must be
 *	  flushed, and while it does not fit, input is read too.
 *	- With TLS libpq may hold bytes that the socket does not show; reading goes
 *	  on until nothing comes, and waits on such sockets are bounded.
 *	- SET is transactional on nodes: what was sent in a transaction that ended
 *	  badly is forgotten here (note_result) and sent again.
 */
#include "postgres.h"

#include <poll.h>

#include "compat.h"
#include "conninfo.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/connection_private.h"
#include "remote/error.h"
#include "remote/wait.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define MAX_NOTICES 100			/* kept per connection until they are passed on */
#define MAX_NOTICE_BYTES 2048
#define ENCRYPTED_WAIT_MS 1000	/* longest wait on a socket with TLS or GSS */
#define WORKERS_UNKNOWN (-2)

struct ShardNotice
{
	ShardNotice *next;
	int			elevel;
	int			sqlstate;
	char		text[FLEXIBLE_ARRAY_MEMBER];
};

/* Session settings that results depend on; value NULL: follow the user's. */
static const struct
{
	const char *name;
	const char *value;
}			session_settings[] = {
	{"search_path", "pg_catalog"},
	{"TimeZone", NULL},
	{"timezone_abbreviations", NULL},
	{"DateStyle", NULL},
	{"IntervalStyle", NULL},
	{"extra_float_digits", NULL},
	{"bytea_output", NULL},
	{"xmloption", NULL},
	{"array_nulls", "on"}
};

MemoryContext shard_connection_cxt = NULL;

/* ---------- notices ---------- */

static int
notice_level(const PGresult *res)
{
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);

	if (!severity)
		return DEBUG1;
	if (strcmp(severity, "WARNING") == 0)
		return WARNING;
	if (strcmp(severity, "NOTICE") == 0)
		return NOTICE;
	if (strcmp(severity, "INFO") == 0)
		return INFO;
	return DEBUG1;
}

/*
 * libpq's notice receiver: keeps the message until libpq is left, because
 * ereport could raise through libpq's code.
 */
static void
keep_notice(void *arg, const PGresult *res)
{
	ShardConn  *conn = arg;
	const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	ShardNotice *notice;
	ShardNotice **last = &conn->notices;
	int			len;

	if (!message || conn->nnotices >= MAX_NOTICES)
		return;
	len = strnlen(message, MAX_NOTICE_BYTES);
	notice = MemoryContextAllocExtended(shard_connection_cxt,
										offsetof(ShardNotice, text) + len + 1, MCXT_ALLOC_NO_OOM);
	if (!notice)
		return;
	notice->next = NULL;
	notice->elevel = notice_level(res);
	notice->sqlstate = sqlstate && strlen(sqlstate) == 5 ?
		MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4]) : 0;
	memcpy(notice->text, message, len);
	notice->text[len] = '\0';
	while (*last)
		last = &(*last)->next;
	*last = notice;
	conn->nnotices++;
}

static ShardNotice *
pop_notice(ShardConn *conn)
{
	ShardNotice *notice = conn->notices;

	if (notice)
	{
		conn->notices = notice->next;
		conn->nnotices--;
	}
	return notice;
}

void
shard_connection_flush_notices(ShardConn *conn)
{
	ShardNotice *notice;

	while ((notice = pop_notice(conn)) != NULL)
	{
		char	   *text = shard_error_clean_text(notice->text);
		int			elevel = notice->elevel;
		int			sqlstate = notice->sqlstate;

		pfree(notice);

		/* the end of the connection: if that matters, an error says so */
		if (sqlstate == ERRCODE_ADMIN_SHUTDOWN || sqlstate == ERRCODE_CRASH_SHUTDOWN)
			continue;
		ereport(elevel,
				(sqlstate ? errcode(sqlstate) : 0,
				 errmsg_internal("%s", text),
				 errdetail("Node \"%s\".", conn->node)));
	}
}

void
shard_connection_drop_notices(ShardConn *conn)
{
	ShardNotice *notice;

	while ((notice = pop_notice(conn)) != NULL)
		pfree(notice);
}

/* ---------- opening ---------- */

/* Raises why conn could not be opened; it is broken afterwards. */
static void
fail_connecting(ShardConn *conn, const char *reason)
{
	char	   *detail = shard_error_clean_text(reason ? reason : PQerrorMessage(conn->pg));

	conn->state = SHARD_CONN_BROKEN;
	shard_connection_drop_notices(conn);
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to node \"%s\"", conn->node),
			 errdetail_internal("%s", detail)));
}

static TimestampTz
connect_deadline(const char *const *keywords, const char *const *values)
{
	int			seconds = 0;

	for (int i = 0; keywords[i]; i++)
		if (strcmp(keywords[i], "connect_timeout") == 0)
			seconds = atoi(values[i]);
	return seconds > 0 ? TimestampTzPlusMilliseconds(GetCurrentTimestamp(), seconds * INT64CONST(1000)) : 0;
}

static void
free_connection(ShardConn *conn)
{
	shard_connection_drop_notices(conn);
	shard_connection_free_prepared(conn);
	if (conn->settings)
	{
		for (int i = 0; i < lengthof(session_settings); i++)
			if (conn->settings[i])
				pfree(conn->settings[i]);
		pfree(conn->settings);
	}
	pfree(conn->node);
	pfree(conn);
}

/* The user's own mapping, or the public one; core's error for none names no node on every major. */
static UserMapping *
find_mapping(const ForeignServer *server, Oid userid)
{
	if (!shard_conninfo_has_mapping(userid, server->serverid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("user mapping not found for user \"%s\" on node \"%s\"",
						MappingUserName(userid), server->servername),
				 errhint("Create one with CREATE USER MAPPING FOR %s SERVER %s.",
						 quote_identifier(MappingUserName(userid)),
						 quote_identifier(server->servername))));
	return GetUserMapping(userid, server->serverid);
}

ShardConn *
shard_connection_start(Oid serverid, Oid userid)
{
	ForeignServer *server = GetForeignServer(serverid);
	UserMapping *user = find_mapping(server, userid);
	const char **keywords;
	const char **values;
	MemoryContext oldcxt;
	ShardConn  *conn;

	shard_conninfo_build(server, user, &keywords, &values);
	shard_conninfo_check_password(server, user, keywords, values);

	if (!shard_connection_cxt)
		shard_connection_cxt = AllocSetContextCreate(TopMemoryContext, "shardfdw connections",
											   ALLOCSET_DEFAULT_SIZES);
	oldcxt = MemoryContextSwitchTo(shard_connection_cxt);
	conn = palloc0(sizeof(ShardConn));
	conn->node = pstrdup(server->servername);
	conn->settings = palloc0(lengthof(session_settings) * sizeof(char *));
	MemoryContextSwitchTo(oldcxt);
	conn->serverid = serverid;
	conn->userid = userid;
	conn->workers = -1;
	conn->needs_password = !superuser_arg(userid) && !shard_conninfo_password_optional(user);
	conn->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	conn->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(user->umid));
	conn->connect_deadline = connect_deadline(keywords, values);

	if (!AcquireExternalFD())
	{
		free_connection(conn);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to node \"%s\"", server->servername),
				 errdetail("There are too many open files on the local server."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits, or lower shardfdw.max_connections_per_node.")));
	}

	/* not expand_dbname: a database name is no connection string */
	conn->pg = PQconnectStartParams(keywords, values, 0);
	if (!conn->pg || PQstatus(conn->pg) == CONNECTION_BAD)
	{
		char	   *reason = shard_error_clean_text(conn->pg ? PQerrorMessage(conn->pg) : _("out of memory"));

		PQfinish(conn->pg);
		ReleaseExternalFD();
		free_connection(conn);
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to node \"%s\"", server->servername),
				 errdetail_internal("%s", reason)));
	}
	PQsetNoticeReceiver(conn->pg, keep_notice, conn);
	conn->state = SHARD_CONN_CONNECTING;
	conn->connect_events = WL_SOCKET_WRITEABLE; /* what PQconnectPoll wants first */
	shard_wait_sockets_changed();
	return conn;
}

/* True when conn's socket is ready for events right now. */
static bool
socket_is_ready(ShardConn *conn, int events)
{
	struct pollfd pfd;

	pfd.fd = PQsocket(conn->pg);
	if (pfd.fd < 0)
		return true;			/* libpq will say what is wrong */
	pfd.events = ((events & WL_SOCKET_READABLE) ? POLLIN : 0) |
		((events & WL_SOCKET_WRITEABLE) ? POLLOUT : 0);
	pfd.revents = 0;
	return poll(&pfd, 1, 0) > 0;
}

/*
 * The node has accepted us: checks the password rule, starts what the session
 * needs before any statement is parsed.  True when nothing is under way.
 */
static bool
accept_session(ShardConn *conn)
{
	const char *conforming = PQparameterStatus(conn->pg, "standard_conforming_strings");

	conn->connected = true;
	if (conn->needs_password && !PQconnectionUsedPassword(conn->pg))
	{
		conn->state = SHARD_CONN_BROKEN;
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("password is required"),
				 errdetail("Non-superuser cannot connect if node \"%s\" does not request a password.",
						   conn->node),
				 errhint("Target server's authentication method must be changed or password_required=false set in the user mapping attributes.")));
	}
	if (PQsetnonblocking(conn->pg, 1) != 0)
		fail_connecting(conn, NULL);
	conn->server_version = PQserverVersion(conn->pg);

	/* Remote SQL is written for it: it must hold before the first one is read. */
	if (conforming && strcmp(conforming, "on") == 0)
		return true;
	if (!PQsendQuery(conn->pg, "SET standard_conforming_strings = on"))
		fail_connecting(conn, NULL);
	return false;
}

/* Moves the SET of accept_session on; true when it has ended. */
static bool
setup_ended(ShardConn *conn)
{
	PGresult   *res;

	shard_connection_flush(conn);
	if (!shard_connection_consume(conn))
		fail_connecting(conn, NULL);
	while (!PQisBusy(conn->pg))
	{
		res = PQgetResult(conn->pg);
		if (!res)
			return true;
		if (PQresultStatus(res) != PGRES_COMMAND_OK)
		{
			conn->state = SHARD_CONN_BROKEN;
			shard_error_report(ERROR, res, conn, NULL, NULL);
		}
		PQclear(res);
	}
	return false;
}

int
shard_connection_poll(ShardConn *conn)
{
	if (conn->state == SHARD_CONN_READY)
		return 0;
	if (conn->state == SHARD_CONN_BROKEN)
		fail_connecting(conn, NULL);

	/* PQconnectPoll takes its being called as news that the socket is ready. */
	if (!socket_is_ready(conn, conn->connect_events))
	{
		if (conn->connect_deadline && GetCurrentTimestamp() >= conn->connect_deadline)
			fail_connecting(conn, _("connect_timeout expired"));
		return conn->connect_events;
	}

	if (!conn->connected)
	{
		PostgresPollingStatusType status = PQconnectPoll(conn->pg);

		shard_wait_sockets_changed();
		if (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING)
		{
			if (conn->connect_deadline && GetCurrentTimestamp() >= conn->connect_deadline)
				fail_connecting(conn, _("connect_timeout expired"));
			conn->connect_events = status == PGRES_POLLING_READING ?
				WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
			return conn->connect_events;
		}
		if (status != PGRES_POLLING_OK)
			fail_connecting(conn, NULL);
		if (!accept_session(conn))
		{
			conn->connect_events = WL_SOCKET_READABLE;
			return conn->connect_events;
		}
	}
	else if (!setup_ended(conn))
		return conn->connect_events;

	conn->state = SHARD_CONN_READY;
	return 0;
}

/* Milliseconds until deadline, at least 0; -1 when there is none (0). */
long
shard_connection_remaining_ms(TimestampTz deadline)
{
	return deadline ? TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline) : -1;
}

void
shard_connection_finish(ShardConn *conn)
{
	int			events;

	while ((events = shard_connection_poll(conn)) != 0)
	{
		long		timeout_ms = shard_connection_remaining_ms(conn->connect_deadline);

		/* rounded up, so that the deadline has passed when it wakes */
		shard_wait_socket(PQsocket(conn->pg), events, timeout_ms < 0 ? -1 : timeout_ms + 1, false);
	}
}

/* ---------- settings ---------- */

static void
forget_settings(ShardConn *conn)
{
	for (int i = 0; i < lengthof(session_settings); i++)
	{
		if (conn->settings[i])
			pfree(conn->settings[i]);
		conn->settings[i] = NULL;
	}
	conn->workers = WORKERS_UNKNOWN;
}

void
shard_connection_distrust(ShardConn *conn)
{
	forget_settings(conn);
	conn->invalidated = true;
}

void
shard_connection_sync_settings(ShardConn *conn, int workers, StringInfo buf)
{
	for (int i = 0; i < lengthof(session_settings); i++)
	{
		const char *name = session_settings[i].name;
		const char *value = session_settings[i].value;
		char	   *copy;

		if (!value)
			value = GetConfigOption(name, false, false);
		if (conn->settings[i] && strcmp(conn->settings[i], value) == 0)
			continue;
		copy = MemoryContextStrdup(shard_connection_cxt, value);
		appendStringInfo(buf, "SET %s = %s; ", name, quote_literal_cstr(value));
		if (conn->settings[i])
			pfree(conn->settings[i]);
		conn->settings[i] = copy;
	}
	if (conn->workers != workers)
	{
		if (workers < 0)
			appendStringInfoString(buf, "RESET max_parallel_workers_per_gather; ");
		else
			appendStringInfo(buf, "SET max_parallel_workers_per_gather = %d; ", workers);
		conn->workers = workers;
	}
}

void
shard_connection_note_result(ShardConn *conn, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	if (status == PGRES_FATAL_ERROR ||
		(status == PGRES_COMMAND_OK && strcmp(PQcmdStatus(res), "ROLLBACK") == 0))
		forget_settings(conn);
	if (status == PGRES_FATAL_ERROR)
		conn->preparing = NULL;
}

/* ---------- holders ---------- */

void
shard_connection_hold(ShardConn *conn, const ShardConnHolder *holder)
{
	Assert(conn->holder == NULL);
	conn->holder = holder;
}

void
shard_connection_release(ShardConn *conn)
{
	const ShardConnHolder *holder = conn->holder;

	conn->holder = NULL;
	if (holder && holder->lost)
		holder->lost(conn, holder->arg);
}

void
shard_connection_yield(ShardConn *conn)
{
	if (conn->holder)
		conn->holder->yield(conn, conn->holder->arg);
	if (conn->holder)
		elog(ERROR, "connection to node \"%s\" was not given up by its holder", conn->node);
}

/* ---------- statements ---------- */

bool
shard_connection_flush(ShardConn *conn)
{
	/* A failed write shows up when the answer is read. */
	return PQflush(conn->pg) <= 0;
}

bool
shard_connection_consume(ShardConn *conn)
{
	if (!PQconsumeInput(conn->pg))
		return false;
	/* The rest of a TLS record may be inside the library, where no wait sees it. */
	if (PQsslInUse(conn->pg) && !PQconsumeInput(conn->pg))
		return false;
	return true;
}

/* Longest wait for conn's socket: timeout_ms, but bounded where the socket may not tell all. */
static long
bounded_wait(ShardConn *conn, long timeout_ms)
{
	if ((PQsslInUse(conn->pg) || PQgssEncInUse(conn->pg)) &&
		(timeout_ms < 0 || timeout_ms > ENCRYPTED_WAIT_MS))
		return ENCRYPTED_WAIT_MS;
	return timeout_ms;
}

/*
 * Waits for conn's socket (to be writable too, if something is not sent yet)
 * and reads.  False when deadline (0: none) has passed.
 */
bool
shard_connection_wait_input(ShardConn *conn, TimestampTz deadline, bool noerror)
{
	int			events = WL_SOCKET_READABLE;
	long		timeout_ms = shard_connection_remaining_ms(deadline);

	if (timeout_ms == 0)
		return false;
	if (!shard_connection_flush(conn))
		events |= WL_SOCKET_WRITEABLE;
	if (PQsocket(conn->pg) >= 0)
		shard_wait_socket(PQsocket(conn->pg), events, bounded_wait(conn, timeout_ms), noerror);
	shard_connection_consume(conn); /* a failure shows in PQstatus */
	return true;
}

/* True when PQgetResult will not wait. */
bool
shard_connection_result_is_here(ShardConn *conn)
{
	return PQstatus(conn->pg) == CONNECTION_BAD || !PQisBusy(conn->pg);
}

/*
 * Next result into *res; false when deadline has passed.
 */
bool
shard_connection_next_result(ShardConn *conn, TimestampTz deadline, bool noerror, PGresult **res)
{
	while (!shard_connection_result_is_here(conn))
		if (!shard_connection_wait_input(conn, deadline, noerror))
			return false;
	*res = PQgetResult(conn->pg);
	if (*res)
		shard_connection_note_result(conn, *res);
	if (PQstatus(conn->pg) == CONNECTION_BAD)
		conn->state = SHARD_CONN_BROKEN;
	return true;
}

/* True when res is the last message of a session. */
static bool
is_fatal(const PGresult *res)
{
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);

	return severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

bool
shard_connection_is_lost(const ShardConn *conn, const PGresult *res)
{
	return PQstatus(conn->pg) == CONNECTION_BAD || is_fatal(res);
}

bool
shard_connection_settle(ShardConn *conn)
{
	if (!conn->end_pending)
		return true;
	shard_connection_flush(conn);
	if (!shard_connection_result_is_here(conn))
		shard_connection_consume(conn);
	while (shard_connection_result_is_here(conn))
	{
		PGresult   *res = PQgetResult(conn->pg);

		if (!res)
		{
			conn->end_pending = false;
			if (PQstatus(conn->pg) == CONNECTION_BAD)
				conn->state = SHARD_CONN_BROKEN;
			return true;
		}
		shard_connection_note_result(conn, res);
		if (is_fatal(res))
		{
			/* the session has ended; nothing was at stake */
			conn->end_pending = false;
			conn->state = SHARD_CONN_BROKEN;
			PQclear(res);
			return true;
		}
		if (PQresultStatus(res) == PGRES_FATAL_ERROR && PQstatus(conn->pg) == CONNECTION_OK)
			shard_error_report(WARNING, res, conn, NULL, NULL);
		else
			PQclear(res);
	}
	return false;
}

bool
shard_connection_is_alive(const ShardConn *conn)
{
	return conn->state == SHARD_CONN_CONNECTING ||
		(conn->state == SHARD_CONN_READY && PQstatus(conn->pg) != CONNECTION_BAD);
}

bool
shard_connection_usable(ShardConn *conn)
{
	PGTransactionStatusType status;

	if (conn->state != SHARD_CONN_READY)
		return false;
	if (PQstatus(conn->pg) != CONNECTION_OK)
	{
		conn->state = SHARD_CONN_BROKEN;
		return false;
	}
	if (!shard_connection_settle(conn))
		return true;			/* its COMMIT has not ended; settled before the next statement */
	if (conn->state != SHARD_CONN_READY)
		return false;
	status = PQtransactionStatus(conn->pg);
	if (status == PQTRANS_ACTIVE || status == PQTRANS_UNKNOWN)
	{
		/* somebody left in the middle of a statement */
		conn->state = SHARD_CONN_BROKEN;
		return false;
	}

	/*
	 * Nobody asked for anything, so input is the end of the connection, or a
	 * message that libpq takes care of.
	 */
	for (int i = 0; i < 10 && socket_is_ready(conn, WL_SOCKET_READABLE); i++)
	{
		if (!PQconsumeInput(conn->pg) || PQstatus(conn->pg) != CONNECTION_OK)
		{
			conn->state = SHARD_CONN_BROKEN;
			shard_connection_drop_notices(conn);
			return false;
		}
		/* lets libpq look at it: a FATAL message is followed by the end */
		(void) PQisBusy(conn->pg);
	}
	return true;
}

void
shard_connection_log(ShardConn *conn, const char *sql)
{
	if (shard_guc_log_remote_sql)
		ereport(LOG,
				(errmsg("remote SQL on node \"%s\": %s", conn->node, sql),
				 errhidestmt(true), errhidecontext(true)));
}

/* What must be true before a statement is sent; logs it. */
void
shard_connection_prepare_to_send(ShardConn *conn, const char *sql)
{
	if (conn->state == SHARD_CONN_CONNECTING)
		shard_connection_finish(conn);
	while (!shard_connection_settle(conn))
		shard_connection_wait_input(conn, 0, false);
	conn->used = true;
	conn->preparing = NULL;
	shard_connection_log(conn, sql);
}

void
shard_connection_send(ShardConn *conn, const char *sql)
{
	shard_connection_prepare_to_send(conn, sql);
	if (!PQsendQuery(conn->pg, sql))
		shard_error_report(ERROR, NULL, conn, NULL, sql);
	shard_connection_flush(conn);
}

void
shard_connection_send_params(ShardConn *conn, const char *sql, int nparams,
							 const char *const *params, bool binary_result)
{
	char		name[NAMEDATALEN];
	bool		prepared = nparams > 0 && shard_connection_find_prepared(conn, sql, name, sizeof(name));
	int			sent;

	shard_connection_prepare_to_send(conn, sql);
	if (prepared)
		sent = PQsendQueryPrepared(conn->pg, name, nparams, params, NULL, NULL, binary_result ? 1 : 0);
	else
		sent = PQsendQueryParams(conn->pg, sql, nparams, NULL, params, NULL, NULL, binary_result ? 1 : 0);
	if (!sent)
		shard_error_report(ERROR, NULL, conn, NULL, sql);
	shard_connection_flush(conn);
}

PGresult *
shard_connection_get_result(ShardConn *conn)
{
	PGresult   *res = NULL;

	(void) shard_connection_next_result(conn, 0, false, &res);
	if (conn->notices)
		shard_connection_flush_notices(conn);
	return res;
}

void
shard_connection_exec(ShardConn *conn, const char *sql)
{
	PGresult   *res;
	PGresult   *volatile failed = NULL;

	shard_connection_send(conn, sql);

	/* All results are read before an error is raised: the connection stays usable. */
	PG_TRY();
	{
		while ((res = shard_connection_get_result(conn)) != NULL)
		{
			ExecStatusType status = PQresultStatus(res);

			if (!failed && status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK &&
				status != PGRES_EMPTY_QUERY)
				failed = res;
			else
				PQclear(res);
			if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH)
			{
				conn->state = SHARD_CONN_BROKEN;	/* not what was asked for */
				break;
			}
		}
	}
	PG_CATCH();
	{
		PQclear(failed);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (failed)
		shard_error_report(ERROR, failed, conn, NULL, sql);
}

void
shard_connection_close(ShardConn *conn)
{
	if (conn->holder)
		shard_connection_release(conn);
	PQfinish(conn->pg);
	ReleaseExternalFD();
	shard_wait_sockets_changed();
	free_connection(conn);
}
