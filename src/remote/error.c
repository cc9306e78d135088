/*
 * error.c
 *	  The one funnel through which errors of nodes become errors here.
 *
 * Texts of a node are not trusted: they are cut and checked for the database's
 * encoding (libpq does not), and the libpq result is cleared before anything
 * can raise.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "remote/error.h"

#define MAX_TEXT_BYTES 16384	/* of one field of a message */

char *
shard_error_clean_text(const char *text)
{
	int			len;
	char	   *copy;

	if (!text)
		return NULL;
	len = strnlen(text, MAX_TEXT_BYTES);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (!pg_verify_mbstr(GetDatabaseEncoding(), text, len, true))
	{
		/* cut inside a character, or the node does not keep to the encoding */
		int			clipped = pg_encoding_mbcliplen(GetDatabaseEncoding(), text, len,
													len > 0 ? len - 1 : 0);

		copy = pnstrdup(text, len);
		if (pg_verify_mbstr(GetDatabaseEncoding(), text, clipped, true))
			copy[clipped] = '\0';
		else
		{
			for (char *c = copy; *c; c++)
				if (IS_HIGHBIT_SET(*c))
					*c = '?';
		}
		return copy;
	}
	return pnstrdup(text, len);
}

/* What a node said, copied out of libpq. */
typedef struct RemoteError
{
	int			sqlstate;
	char	   *message;
	char	   *detail;			/* node's own, then the place */
	char	   *hint;
	char	   *context;
	char	   *schema;
	char	   *table;
	char	   *column;
	char	   *datatype;
	char	   *constraint;
} RemoteError;

static char *
field(const PGresult *res, int code)
{
	return res ? shard_error_clean_text(PQresultErrorField(res, code)) : NULL;
}

/* The DETAIL line that names node and shard, after the node's own detail. */
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

static void
take_error(RemoteError *error, PGresult *res, ShardConn *conn, const char *label)
{
	const char *sqlstate = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
	const char *severity = res ? PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED) : NULL;
	bool		lost = conn && PQstatus(conn->pg) != CONNECTION_OK;

	if (sqlstate && strlen(sqlstate) == 5)
		error->sqlstate = MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2],
										sqlstate[3], sqlstate[4]);
	else
		error->sqlstate = ERRCODE_CONNECTION_FAILURE;

	/*
	 * The node's "terminating connection" (57P01 and its kind) must not tell
	 * our client that this server goes away.
	 */
	if (severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
	{
		error->sqlstate = ERRCODE_CONNECTION_FAILURE;
		lost = true;
	}

	error->message = field(res, PG_DIAG_MESSAGE_PRIMARY);
	error->detail = field(res, PG_DIAG_MESSAGE_DETAIL);
	error->hint = field(res, PG_DIAG_MESSAGE_HINT);
	error->context = field(res, PG_DIAG_CONTEXT);
	error->schema = field(res, PG_DIAG_SCHEMA_NAME);
	error->table = field(res, PG_DIAG_TABLE_NAME);
	error->column = field(res, PG_DIAG_COLUMN_NAME);
	error->datatype = field(res, PG_DIAG_DATATYPE_NAME);
	error->constraint = field(res, PG_DIAG_CONSTRAINT_NAME);

	if (!error->message || error->message[0] == '\0')
	{
		char	   *text = res ? shard_error_clean_text(PQresultErrorMessage(res)) : NULL;

		if ((!text || text[0] == '\0') && conn)
			text = shard_error_clean_text(PQerrorMessage(conn->pg));
		if (lost && conn)
		{
			/* what libpq adds when it is asked for the reason once more */
			char	   *echo = text ? strstr(text, "\ninvalid socket") : NULL;

			if (echo)
				*echo = '\0';
			error->message = psprintf(_("lost connection to node \"%s\""), conn->node);
			error->detail = text;
		}
		else
			error->message = text && text[0] ? text : pstrdup(_("could not obtain message string for remote error"));
	}
	error->detail = add_place(error->detail, conn, label);

	if (conn && lost)
		conn->state = SHARD_CONN_BROKEN;
}

static int
set_field(int code, const char *value)
{
	return value ? err_generic_string(code, value) : 0;
}

static void
report_error(int elevel, RemoteError *error, const char *sql)
{
	ereport(elevel,
			(errcode(error->sqlstate),
			 errmsg_internal("%s", error->message),
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->hint ? errhint("%s", error->hint) : 0,
			 error->context ? errcontext("%s", error->context) : 0,
			 sql ? errcontext("remote SQL command: %s", sql) : 0,
			 set_field(PG_DIAG_SCHEMA_NAME, error->schema),
			 set_field(PG_DIAG_TABLE_NAME, error->table),
			 set_field(PG_DIAG_COLUMN_NAME, error->column),
			 set_field(PG_DIAG_DATATYPE_NAME, error->datatype),
			 set_field(PG_DIAG_CONSTRAINT_NAME, error->constraint)));
}

/* Copies what the node said, and clears res whatever happens. */
static void
consume_error(RemoteError *error, PGresult *res, ShardConn *conn, const char *label)
{
	memset(error, 0, sizeof(RemoteError));

	/* Nothing below raises but for lack of memory. */
	PG_TRY();
	{
		take_error(error, res, conn, label);
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

	consume_error(&error, res, conn, label);
	report_error(elevel, &error, sql);
}

void
shard_error_report_context(int elevel, PGresult *res, ShardConn *conn,
						   const char *label, const char *context)
{
	RemoteError error;

	consume_error(&error, res, conn, label);
	error.context = unconstify(char *, context);
	report_error(elevel, &error, NULL);
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
