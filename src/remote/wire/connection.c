/*
 * connection.c
 *	  One libpq connection to one node for one user: its settings, notices and results.
 *
 * Assumptions:
 *
 *	- The connection is in libpq's nonblocking mode.  What is sent must be flushed.  If it cannot be
 *	  sent completely, input is read at the same time.
 *	- With TLS, libpq may have buffered bytes that the socket does not show.  So reading continues
 *	  until nothing arrives, and waits on such sockets are bounded.
 *	- SET is transactional on nodes.  If a transaction fails, note_result() forgets which settings
 *	  were sent, so that they are sent again.
 */
#include "postgres.h"

#include <poll.h>

#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "pgtime.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/position.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/xml.h"

#define MAX_NOTICES 100			/* per connection, until they are sent to the client */
#define MAX_NOTICE_BYTES 2048
#define WORKERS_UNKNOWN (-2)
#define CPU_FACTOR_UNKNOWN (-1)

struct ShardNotice
{
	ShardNotice *next;
	int			elevel;
	int			sqlstate;
	char		text[FLEXIBLE_ARRAY_MEMBER];
};

/* Session settings that results depend on. value NULL: the user's value is sent. */
static const struct
{
	const char *name;
	const char *value;
}			session_settings[] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"TimeZone", NULL},
	{"timezone_abbreviations", NULL},
	{"DateStyle", NULL},
	{"IntervalStyle", NULL},
	{"extra_float_digits", NULL},
	{"bytea_output", NULL},
	{"xmloption", NULL},
	{"quote_all_identifiers", NULL},	/* quote_ident(), format(), names of types */
	{"array_nulls", "on"},
	{"lc_monetary", "C"},		/* money as text is parsed and formatted by text_form.c */
	{"transform_null_equals", "off"},
	{"role", "none"}			/* the owner of the node's database may have set another one for its sessions */
};

/* positions in session_settings */
#define SEARCH_PATH 0
#define ABBREVIATIONS 2
#define DATE_STYLE 3
#define INTERVAL_STYLE 4
#define FLOAT_DIGITS 5
#define XML_OPTION 7

/* The planner's cost settings that represent CPU time. */
static const char *const cpu_costs[] = {"cpu_tuple_cost", "cpu_index_tuple_cost", "cpu_operator_cost"};

MemoryContext shard_connection_cxt = NULL;

/* ---------- notices ---------- */

/* Is res the last message of a session? */
static bool
is_fatal(const PGresult *res)
{
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);

	return severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

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
 * libpq's notice receiver.  Stores the message until libpq's function has returned, because an
 * error raised here would jump out of libpq's code.
 */
void
shard_connection_keep_notice(void *arg, const PGresult *res)
{
	ShardConn  *conn = arg;
	const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	ShardNotice *notice;
	ShardNotice **last = &conn->notices;
	int			len;

	/* if no query is running, this arrives as a notice, too */
	if (is_fatal(res))
		conn->ending = true;
	if (!message || conn->nnotices >= MAX_NOTICES)
		return;
	len = strnlen(message, MAX_NOTICE_BYTES);
	notice = MemoryContextAllocExtended(shard_connection_cxt,
										offsetof(ShardNotice, text) + len + 1, MCXT_ALLOC_NO_OOM);
	if (!notice)
		return;
	notice->next = NULL;
	notice->elevel = notice_level(res);
	notice->sqlstate = shard_error_sqlstate(res);
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

		/* the end of the connection; an error reports it if it matters */
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

/* ---------- settings ---------- */

char	  **
shard_connection_make_settings(void)
{
	return palloc0(lengthof(session_settings) * sizeof(char *));
}

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
	conn->cpu_factor = CPU_FACTOR_UNKNOWN;
}

void
shard_connection_free_settings(ShardConn *conn)
{
	if (!conn->settings)
		return;
	forget_settings(conn);
	pfree(conn->settings);
	conn->settings = NULL;
}

void
shard_connection_resend_settings(ShardConn *conn)
{
	if (conn->settings)
		forget_settings(conn);
}

void
shard_connection_distrust(ShardConn *conn)
{
	forget_settings(conn);
	conn->invalidated = true;
}

/*
 * Appends SET commands for the CPU cost settings: the user's values multiplied by factor, or the
 * node's own values if factor is 0.  Appends nothing if they have these values.
 */
static void
sync_cpu_costs(ShardConn *conn, int factor, StringInfo buf)
{
	if (conn->cpu_factor == factor)
		return;
	for (int i = 0; i < lengthof(cpu_costs); i++)
	{
		if (factor == 0 && conn->stateless)
			appendStringInfo(buf, "SET LOCAL %s TO DEFAULT; ", cpu_costs[i]);
		else if (factor == 0)
			appendStringInfo(buf, "RESET %s; ", cpu_costs[i]);
		else
			appendStringInfo(buf, "SET %s%s = %g; ", conn->stateless ? "LOCAL " : "", cpu_costs[i],
							 factor * strtod(GetConfigOption(cpu_costs[i], false, false), NULL));
	}
	conn->cpu_factor = factor;
}

void
shard_connection_forget_settings(ShardConn *conn)
{
	if (conn->settings && conn->stateless)
		forget_settings(conn);
}

/*
 * Collects the variables behind the user's settings.  Each statement compares them with those of
 * the previous statement, which is cheaper than looking up all settings by name.
 */
static void
look_at_settings(ShardSettings settings, ShardUserSettings *now)
{
	memset(now, 0, sizeof(*now));
	now->timezone = session_timezone;
	now->date_style = DateStyle;
	now->date_order = DateOrder;
	now->interval_style = IntervalStyle;
	now->float_digits = extra_float_digits;
	now->bytea_output = bytea_output;
	now->xml_option = xmloption;
	now->quote_all = quote_all_identifiers;
	if (settings == SHARD_SETTINGS_PORTABLE)
	{
		now->date_style = USE_ISO_DATES;
		now->interval_style = INTSTYLE_POSTGRES;
		now->float_digits = Max(extra_float_digits, 1);
	}
	if (settings != SHARD_SETTINGS_LINES)
		now->xml_option = XMLOPTION_CONTENT;
}

/* Value of the setting at position i. */
static const char *
setting_value(ShardSettings settings, int i)
{
	if (settings == SHARD_SETTINGS_PORTABLE)
	{
		if (i == DATE_STYLE && DateStyle != USE_ISO_DATES)
			return "ISO";
		if (i == INTERVAL_STYLE)
			return "postgres";
		if (i == FLOAT_DIGITS && extra_float_digits < 1)
			return "1";
	}
	if (settings != SHARD_SETTINGS_LINES && i == XML_OPTION)
		return "content";
	return session_settings[i].value ? session_settings[i].value :
		GetConfigOption(session_settings[i].name, false, false);
}

/* Does conn's session have the user's settings? */
static bool
is_in_line(ShardConn *conn, ShardSettings settings)
{
	ShardUserSettings now;
	const char *abbreviations = conn->settings[ABBREVIATIONS];

	look_at_settings(settings, &now);
	return abbreviations && memcmp(&now, &conn->user_settings, sizeof(now)) == 0 &&
		strcmp(abbreviations, GetConfigOption(session_settings[ABBREVIATIONS].name, false, false)) == 0;
}

/* Appends SET for each setting that differs. */
static void
append_settings(ShardConn *conn, ShardSettings settings, const char *local, StringInfo buf)
{
	for (int i = 0; i < lengthof(session_settings); i++)
	{
		const char *name = session_settings[i].name;
		const char *value = setting_value(settings, i);
		char	   *copy;

		if (conn->settings[i] && strcmp(conn->settings[i], value) == 0)
			continue;
		copy = MemoryContextStrdup(shard_connection_cxt, value);
		/* quoted, a list of schemas would be the name of one schema */
		appendStringInfo(buf, "SET %s%s = %s; ", local, name, i == SEARCH_PATH ? value : quote_literal_cstr(value));
		if (conn->settings[i])
			pfree(conn->settings[i]);
		conn->settings[i] = copy;
	}
	look_at_settings(settings, &conn->user_settings);
}

void
shard_connection_append_settings(StringInfo buf)
{
	for (int i = 0; i < lengthof(session_settings); i++)
	{
		appendStringInfoString(buf, setting_value(SHARD_SETTINGS_USER, i));
		appendStringInfoChar(buf, '\0');
	}
}

void
shard_connection_sync_settings(ShardConn *conn, ShardSettings settings, int workers,
							   int cpu_factor, StringInfo buf)
{
	const char *local = conn->stateless ? "LOCAL " : "";

	/* behind a pooler, SET outside a transaction could change the session of another client */
	if (conn->stateless && !shard_connection_in_xact(conn))
		return;
	if (!is_in_line(conn, settings))
		append_settings(conn, settings, local, buf);
	if (conn->workers != workers)
	{
		if (workers >= 0)
			appendStringInfo(buf, "SET %smax_parallel_workers_per_gather = %d; ", local, workers);
		else if (conn->stateless)
			appendStringInfoString(buf, "SET LOCAL max_parallel_workers_per_gather TO DEFAULT; ");
		else
			appendStringInfoString(buf, "RESET max_parallel_workers_per_gather; ");
		conn->workers = workers;
	}
	sync_cpu_costs(conn, cpu_factor, buf);
}

void
shard_connection_append_message_settings(ShardConn *conn, ShardSettings settings, StringInfo buf)
{
	Assert(conn->stateless && !shard_connection_in_xact(conn));
	forget_settings(conn);
	append_settings(conn, settings, "LOCAL ", buf);
	forget_settings(conn);
}

void
shard_connection_append_preamble(ShardConn *conn, ShardSettings settings, int workers,
								 int cpu_factor, const StringInfoData *xact, StringInfo buf)
{
	if (conn->stateless)
		appendBinaryStringInfo(buf, xact->data, xact->len);
	shard_connection_sync_settings(conn, settings, workers, cpu_factor, buf);
	if (!conn->stateless)
		appendBinaryStringInfo(buf, xact->data, xact->len);
}

/* ---------- statements and results ---------- */

/*
 * Returns the text of a statement for the log.  CREATE ROLE and the definitions of user mappings contain a password,
 * or its verifier.
 */
static const char *
text_for_log(const char *sql)
{
	for (const char *word = sql; *word != '\0'; word++)
		if (pg_strncasecmp(word, "password", strlen("password")) == 0)
			return "(not shown because it may contain a password)";
	return sql;
}

/* If durations are logged, records that sql was sent.  Never raises.  If there is no memory, sql is not logged. */
static void
begin_timing(ShardConn *conn, const char *sql)
{
	if (conn->timed_sql)
		pfree(conn->timed_sql);
	conn->timed_sql = NULL;
	if (shard_guc_log_min_remote_duration_ms < 0)
		return;
	conn->timed_sql = MemoryContextAllocExtended(shard_connection_cxt, strlen(sql) + 1, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (!conn->timed_sql)
		return;
	strcpy(conn->timed_sql, sql);
	conn->sent_at = GetCurrentTimestamp();
}

/* The node has answered everything that was sent. */
static void
end_timing(ShardConn *conn)
{
	char	   *sql = conn->timed_sql;
	long		secs;
	int			usecs;

	if (!sql)
		return;
	conn->timed_sql = NULL;
	TimestampDifference(conn->sent_at, GetCurrentTimestamp(), &secs, &usecs);
	if (shard_guc_log_min_remote_duration_ms >= 0 &&
		secs * 1000 + usecs / 1000 >= shard_guc_log_min_remote_duration_ms)
		ereport(LOG,
				(errmsg("duration: %ld.%03d ms  remote SQL on node \"%s\": %s", secs * 1000 + usecs / 1000,
						usecs % 1000, conn->node, text_for_log(sql)),
				 errhidestmt(true), errhidecontext(true)));
	pfree(sql);
}

PGresult *
shard_connection_take_result(ShardConn *conn)
{
	PGresult   *res = PQgetResult(conn->pg);

	if (!res)
		end_timing(conn);
	return res;
}

void
shard_connection_note_sent(ShardConn *conn, const char *sql, int nparams, const char *const *params)
{
	begin_timing(conn, sql);
	shard_node_stat_add(conn->stat_node, SHARD_NODE_STATEMENTS, 1);
	conn->traffic.bytes_sent += strlen(sql);
	for (int i = 0; i < nparams; i++)
		if (params[i])
			conn->traffic.bytes_sent += strlen(params[i]);
}

/* Counts the rows of res, if it has any. */
static void
count_rows(ShardConn *conn, const PGresult *res)
{
	int			nrows = PQntuples(res);

	conn->traffic.rows_read += nrows;
	for (int row = 0; row < nrows; row++)
		for (int i = 0; i < PQnfields(res); i++)
			conn->traffic.bytes_received += PQgetlength(res, row, i);
}

/* Counts the rows that a statement has written or copied, from its command tag. */
static void
count_tag(ShardConn *conn, const PGresult *res)
{
	static const char *const writing[] = {"INSERT ", "UPDATE ", "DELETE ", "MERGE ", "COPY "};
	const char *tag = PQcmdStatus(unconstify(PGresult *, res));
	uint64		nrows = 0;

	for (int i = 0; i < lengthof(writing); i++)
		if (strncmp(tag, writing[i], strlen(writing[i])) == 0)
			nrows = strtou64(strrchr(tag, ' '), NULL, 10);
	if (conn->copies_out && strncmp(tag, "COPY ", strlen("COPY ")) == 0)
		conn->traffic.rows_read += nrows;
	else
		shard_node_stat_add(conn->stat_node, SHARD_NODE_ROWS_WRITTEN, nrows);
}

/* Adds the traffic of conn since the last call to the node's counters. */
void
shard_connection_report_traffic(ShardConn *conn)
{
	const ShardTraffic *now = &conn->traffic;
	ShardTraffic *last = &conn->reported;

	shard_node_stat_add(conn->stat_node, SHARD_NODE_ROWS_READ, now->rows_read - last->rows_read);
	shard_node_stat_add(conn->stat_node, SHARD_NODE_BYTES_SENT, now->bytes_sent - last->bytes_sent);
	shard_node_stat_add(conn->stat_node, SHARD_NODE_BYTES_RECEIVED, now->bytes_received - last->bytes_received);
	*last = *now;
}

void
shard_connection_count_result(ShardConn *conn, const PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	count_rows(conn, res);
	if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT)
		conn->copies_out = status == PGRES_COPY_OUT;
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		count_tag(conn, res);
	if (status == PGRES_FATAL_ERROR)
		shard_node_stat_add(conn->stat_node, SHARD_NODE_ERRORS, 1);
	/* more results follow if rows arrive one at a time or in chunks */
	if (PQntuples(res) == 0 || status == PGRES_TUPLES_OK)
		shard_connection_report_traffic(conn);
}

void
shard_connection_note_result(ShardConn *conn, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	shard_connection_count_result(conn, res);
	if (status == PGRES_FATAL_ERROR ||
		(status == PGRES_COMMAND_OK && strcmp(PQcmdStatus(res), "ROLLBACK") == 0))
		forget_settings(conn);
	if (status == PGRES_FATAL_ERROR)
		conn->preparing = NULL;
	/* earlier commands are short, and all answers arrive together */
	conn->xact.savepoint_sent = 0;
	if (status == PGRES_COMMAND_OK && conn->xact.import == SHARD_IMPORT_BEGUN)
		conn->xact.import = SHARD_IMPORT_NONE;
	else if (status == PGRES_COMMAND_OK && conn->xact.import == SHARD_IMPORT_SENT && strcmp(PQcmdStatus(res), "BEGIN") == 0)
		conn->xact.import = SHARD_IMPORT_BEGUN;
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
	if (conn->holder && conn->holder->yield == NULL)
		elog(ERROR, "connection to node \"%s\" is in use by a command", conn->node);
	if (conn->holder)
		conn->holder->yield(conn, conn->holder->arg);
	if (conn->holder)
		elog(ERROR, "connection to node \"%s\" was not given up by its holder", conn->node);
}

/* ---------- results ---------- */

/* Is conn's socket ready for events now? */
bool
shard_connection_socket_is_ready(ShardConn *conn, int events)
{
	struct pollfd pfd;

	pfd.fd = PQsocket(conn->pg);
	if (pfd.fd < 0)
		return true;			/* libpq will report the reason */
	pfd.events = ((events & WL_SOCKET_READABLE) ? POLLIN : 0) |
		((events & WL_SOCKET_WRITEABLE) ? POLLOUT : 0);
	pfd.revents = 0;
	return poll(&pfd, 1, 0) > 0;
}

/* Milliseconds until deadline, at least 0; -1 if there is no deadline (0). */
long
shard_connection_remaining_ms(TimestampTz deadline)
{
	return deadline ? TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline) : -1;
}

bool
shard_connection_flush(ShardConn *conn)
{
	/* a failed write is reported when the answer is read */
	return PQflush(conn->pg) <= 0;
}

bool
shard_connection_consume(ShardConn *conn)
{
	if (!PQconsumeInput(conn->pg))
		return false;
	/* the rest of a TLS record may be in the TLS library, where no wait can see it */
	if (PQsslInUse(conn->pg) && !PQconsumeInput(conn->pg))
		return false;
	return true;
}

/*
 * Waits for conn's socket (also until it is writable, if something is not sent yet) and reads.
 * False if deadline (0: none) has passed.
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
	if (shard_connection_is_encrypted(conn) && (timeout_ms < 0 || timeout_ms > SHARD_ENCRYPTED_WAIT_MS))
		timeout_ms = SHARD_ENCRYPTED_WAIT_MS;
	if (PQsocket(conn->pg) >= 0)
		shard_wait_socket(PQsocket(conn->pg), events, timeout_ms, noerror);
	shard_connection_consume(conn); /* PQstatus shows a failure */
	return true;
}

/* True if PQgetResult() will not block. */
bool
shard_connection_result_is_here(ShardConn *conn)
{
	return PQstatus(conn->pg) == CONNECTION_BAD || !PQisBusy(conn->pg);
}

bool
shard_connection_is_copy(const PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
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
		PGresult   *res = shard_connection_take_result(conn);

		if (!res)
		{
			conn->end_pending = false;
			conn->ncommits_asked = 0;
			if (PQstatus(conn->pg) == CONNECTION_BAD)
				conn->state = SHARD_CONN_BROKEN;
			return true;
		}
		shard_connection_note_result(conn, res);
		if (is_fatal(res) || shard_connection_is_copy(res) ||
			(PQresultStatus(res) == PGRES_FATAL_ERROR && !PQresultErrorField(res, PG_DIAG_SQLSTATE)))
		{
			/* the session has ended or violates the protocol; its transaction has only read, so nothing is lost */
			conn->end_pending = false;
			conn->ncommits_asked = 0;
			conn->state = SHARD_CONN_BROKEN;
			PQclear(res);
			return true;
		}
		if (conn->ncommits_asked > 0)
		{
			(void) shard_position_learn(conn->position, res, conn->ncommits_asked, conn->position_asked_at);
			PQclear(res);
		}
		else if (PQresultStatus(res) == PGRES_FATAL_ERROR && PQstatus(conn->pg) == CONNECTION_OK)
			shard_error_report(WARNING, res, conn, NULL, NULL);
		else
			PQclear(res);

		/* perhaps the end of the connection follows */
		if (!shard_connection_result_is_here(conn))
			shard_connection_consume(conn);
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
		return true;			/* its COMMIT has not ended; the next statement waits for it */
	if (conn->state != SHARD_CONN_READY)
		return false;
	status = PQtransactionStatus(conn->pg);
	if (status == PQTRANS_ACTIVE || status == PQTRANS_UNKNOWN ||
		(status != PQTRANS_IDLE && !shard_connection_in_xact(conn)))
	{
		/*
		 * a statement was not read to its end, or a command has begun a transaction that later
		 * statements would join
		 */
		conn->state = SHARD_CONN_BROKEN;
		return false;
	}

	/*
	 * No query is running, so any input is the end of the connection, or a message that libpq
	 * processes itself.  It may have arrived with the last answer.
	 */
	(void) PQisBusy(conn->pg);
	for (int i = 0; i < 10 && shard_connection_socket_is_ready(conn, WL_SOCKET_READABLE); i++)
	{
		if (!PQconsumeInput(conn->pg) || PQstatus(conn->pg) != CONNECTION_OK)
		{
			conn->state = SHARD_CONN_BROKEN;
			shard_connection_drop_notices(conn);
			return false;
		}
		/* lets libpq process it */
		(void) PQisBusy(conn->pg);
	}
	/* the backend's last message arrives some time before the connection ends */
	if (conn->ending)
	{
		conn->state = SHARD_CONN_BROKEN;
		shard_connection_drop_notices(conn);
		return false;
	}
	return true;
}
