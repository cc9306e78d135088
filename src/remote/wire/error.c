/*
 * error.c
 *	  Turns errors of nodes into errors of this session.  No other file does.
 *
 * Texts of a node are not trusted.  They are truncated, and checked for the database's encoding
 * (libpq does not do this).  The libpq result is cleared before anything can raise an error.  Nodes
 * report the names of shards and their constraints.  A layer that knows the tables replaces them by
 * the names that users know (shard_error_set_hook).
 *
 * If an error is about a row, the node's DETAIL and CONTEXT show values of that row.  PostgreSQL
 * omits columns that the user may not read.  The node cannot do that, since it only knows its own
 * role, which owns the shard.  So DETAIL and CONTEXT of such errors are omitted, unless the hook
 * says that the user may read them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "remote/wire/error.h"

#define MAX_TEXT_BYTES 16384	/* of one field of a message */
#define MAX_SQL_SHOWN 1000		/* bytes of a remote statement in CONTEXT */

void
shard_error_copy_text(const char *text, char *buf, size_t size)
{
	int			encoding = GetDatabaseEncoding();
	int			len = strnlen(text, size - 1);

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	memcpy(buf, text, len);
	buf[len] = '\0';
	if (!pg_verify_mbstr(encoding, buf, len, true))
	{
		/* truncated inside a character, or the node violates the encoding */
		int			clipped = pg_encoding_mbcliplen(encoding, buf, len, len > 0 ? len - 1 : 0);

		if (pg_verify_mbstr(encoding, buf, clipped, true))
			buf[clipped] = '\0';
		else
		{
			for (char *c = buf; *c; c++)
				if (IS_HIGHBIT_SET(*c))
					*c = '?';
		}
	}
}

char *
shard_error_clean_text(const char *text)
{
	size_t		size;
	char	   *copy;

	if (!text)
		return NULL;
	size = strnlen(text, MAX_TEXT_BYTES) + 1;
	copy = palloc(size);
	shard_error_copy_text(text, copy, size);
	return copy;
}

int
shard_error_sqlstate(const PGresult *res)
{
	const char *text = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;

	/* class 00 would tell the client that there was no error */
	if (!text || strlen(text) != 5 || strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 || strncmp(text, "00", 2) == 0)
		return 0;
	return MAKE_SQLSTATE(text[0], text[1], text[2], text[3], text[4]);
}

static ShardErrorHook error_hook = NULL;

/* An error of a node, copied out of libpq. */
typedef struct RemoteError
{
	int			sqlstate;
	char	   *detail;
	char	   *hint;
	char	   *context;
	char	   *datatype;
	ShardErrorNames names;
} RemoteError;

void
shard_error_set_hook(ShardErrorHook hook)
{
	error_hook = hook;
}

static char *
field(const PGresult *res, int code)
{
	return res ? shard_error_clean_text(PQresultErrorField(res, code)) : NULL;
}

/* Appends the DETAIL line that names node and shard to the node's own detail. */
static char *
add_place(char *detail, const ShardConn *conn, const char *label)
{
	char	   *place;

	if (!conn)
		return detail;
	if (label)
		place = psprintf(_("Node \"%s\", shard %s."), conn->node, label);
	else
		place = psprintf(_("Node \"%s\"."), conn->node);
	return detail && detail[0] ? psprintf("%s\n%s", detail, place) : place;
}

/*
 * Did a transaction fail to import another connection's snapshot, because that connection is gone?
 * The node's SQLSTATE for this would blame the user, so the case is recognized by the command that
 * has failed.  Errors of a cancel, or of a lack of resources on the node, are reported unchanged.
 */
static bool
is_lost_snapshot(const RemoteError *error, const ShardConn *conn)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlstate);

	return conn && shard_connection_in_xact(conn) && conn->xact.import == SHARD_IMPORT_BEGUN &&
		category != ERRCODE_OPERATOR_INTERVENTION && category != ERRCODE_INSUFFICIENT_RESOURCES;
}

static void
take_names(ShardErrorNames *names, const PGresult *res)
{
	names->message = field(res, PG_DIAG_MESSAGE_PRIMARY);
	names->schema = field(res, PG_DIAG_SCHEMA_NAME);
	names->table = field(res, PG_DIAG_TABLE_NAME);
	names->column = field(res, PG_DIAG_COLUMN_NAME);
	names->constraint = field(res, PG_DIAG_CONSTRAINT_NAME);
	names->hint = NULL;
}

/*
 * Replaces the node's names by those that users know.  True if the current user may read the row
 * that the error is about.  Names and rights are looked up in the catalogs.  So this does nothing
 * in a transaction that is being rolled back.
 */
static bool
ask_hook(ShardErrorNames *names, int sqlstate, const char *detail, const ShardConn *conn)
{
	return error_hook && conn && IsTransactionState() &&
		((names->table && names->schema) || (names->message && sqlstate == ERRCODE_UNDEFINED_FUNCTION)) &&
		error_hook(conn->serverid, sqlstate, detail, names);
}

/*
 * Is it an error for which PostgreSQL shows values of a row in DETAIL?  These are violations of
 * constraints (class 23), and of a view's check option.
 */
static bool
is_about_row(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION ||
		sqlstate == ERRCODE_WITH_CHECK_OPTION_VIOLATION;
}

static void
take_error(RemoteError *error, PGresult *res, ShardConn *conn)
{
	const char *severity = res ? PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED) : NULL;
	bool		lost = conn && PQstatus(conn->pg) != CONNECTION_OK;

	error->sqlstate = shard_error_sqlstate(res);
	if (error->sqlstate == 0)
		error->sqlstate = ERRCODE_SYSTEM_ERROR;

	/*
	 * The node's "terminating connection" (57P01 and similar codes) must not tell our client that
	 * this server shuts down.
	 */
	if (severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
	{
		error->sqlstate = ERRCODE_SYSTEM_ERROR;
		lost = true;
	}

	take_names(&error->names, res);
	error->detail = field(res, PG_DIAG_MESSAGE_DETAIL);
	error->hint = field(res, PG_DIAG_MESSAGE_HINT);
	error->context = field(res, PG_DIAG_CONTEXT);
	error->datatype = field(res, PG_DIAG_DATATYPE_NAME);

	if (!error->names.message || error->names.message[0] == '\0')
	{
		char	   *text = res ? shard_error_clean_text(PQresultErrorMessage(res)) : NULL;

		if ((!text || text[0] == '\0') && conn)
			text = shard_error_clean_text(PQerrorMessage(conn->pg));
		if (lost && conn)
		{
			/* added by libpq if it is asked for the reason again */
			char	   *echo = text ? strstr(text, "\ninvalid socket") : NULL;

			if (echo)
				*echo = '\0';
			error->names.message = psprintf(_("lost connection to node \"%s\""), conn->node);
			error->detail = text;
		}
		else
			error->names.message = text && text[0] ? text : pstrdup(_("could not obtain message string for remote error"));
	}
	if (!lost && is_lost_snapshot(error, conn))
	{
		error->sqlstate = ERRCODE_T_R_SERIALIZATION_FAILURE;
		error->detail = error->names.message;
		error->names.message = psprintf(_("the snapshot on node \"%s\" was lost with the query that had exported it"),
								  conn->node);
		error->hint = pstrdup(_("Roll back the transaction and try again."));
	}
	if (conn && lost)
		conn->state = SHARD_CONN_BROKEN;
}

static int
set_field(int code, const char *value)
{
	return value ? err_generic_string(code, value) : 0;
}

/* Shortens sql: statements with long lists of values would fill the logs. */
static const char *
shortened(const char *sql)
{
	char		beginning[MAX_SQL_SHOWN];

	if (strlen(sql) < sizeof(beginning))
		return sql;
	shard_error_copy_text(sql, beginning, sizeof(beginning));
	return psprintf("%s...", beginning);
}

static void
report_error(int elevel, RemoteError *error, const char *sql)
{
	ereport(elevel,
			(errcode(error->sqlstate),
			 errmsg_internal("%s", error->names.message),
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->hint ? errhint("%s", error->hint) : 0,
			 error->context ? errcontext("%s", error->context) : 0,
			 sql ? errcontext("remote SQL command: %s", shortened(sql)) : 0,
			 set_field(PG_DIAG_SCHEMA_NAME, error->names.schema),
			 set_field(PG_DIAG_TABLE_NAME, error->names.table),
			 set_field(PG_DIAG_COLUMN_NAME, error->names.column),
			 set_field(PG_DIAG_DATATYPE_NAME, error->datatype),
			 set_field(PG_DIAG_CONSTRAINT_NAME, error->names.constraint)));
}

/* Puts the user's names into error, and removes values that the user may not read. */
static void
fit_error(RemoteError *error, int elevel, const ShardConn *conn, const char *label)
{
	bool		may_read = elevel >= ERROR && ask_hook(&error->names, error->sqlstate, error->detail, conn);

	if (is_about_row(error->sqlstate) && !may_read)
		error->detail = error->context = NULL;
	if (error->names.hint)
		error->hint = error->names.hint;
	error->detail = add_place(error->detail, conn, label);
}

/* Copies the node's error, and clears res in any case. */
static void
consume_error(RemoteError *error, PGresult *res, ShardConn *conn)
{
	memset(error, 0, sizeof(RemoteError));

	/* only a lack of memory raises below */
	PG_TRY();
	{
		take_error(error, res, conn);
	}
	PG_CATCH();
	{
		PQclear(res);
		PG_RE_THROW();
	}
	PG_END_TRY();
	PQclear(res);
}

void
shard_error_report(int elevel, PGresult *res, ShardConn *conn,
				   const char *label, const char *sql)
{
	RemoteError error;

	consume_error(&error, res, conn);
	fit_error(&error, elevel, conn, label);
	report_error(elevel, &error, sql);
}

void
shard_error_report_as_is(PGresult *res, ShardConn *conn, const char *label, const char *sql)
{
	RemoteError error;

	consume_error(&error, res, conn);
	error.detail = add_place(error.detail, conn, label);
	/* the node's CONTEXT may show the command, too */
	if (sql == NULL)
		error.context = NULL;
	report_error(ERROR, &error, sql);
}

void
shard_error_report_context(PGresult *res, ShardConn *conn, const char *label, const char *context)
{
	RemoteError error;

	consume_error(&error, res, conn);
	error.context = unconstify(char *, context);
	fit_error(&error, ERROR, conn, label);
	report_error(ERROR, &error, NULL);
}

char *
shard_error_message(const PGresult *res, const ShardConn *conn)
{
	int			sqlstate = shard_error_sqlstate(res);
	ShardErrorNames names;

	take_names(&names, res);
	if (sqlstate != 0)
		(void) ask_hook(&names, sqlstate, field(res, PG_DIAG_MESSAGE_DETAIL), conn);
	return names.message;
}

void
shard_error_protocol(ShardConn *conn, const char *label, const char *what)
{
	conn->state = SHARD_CONN_BROKEN;
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("unexpected data from node \"%s\": %s", conn->node, what),
			 errdetail_internal("%s", add_place(NULL, conn, label))));
}
