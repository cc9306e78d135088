/*
 * error.h
 *	  Turns errors of nodes into errors of this session.  No other file does.
 */
#ifndef SHARDFDW_ERROR_H
#define SHARDFDW_ERROR_H

#include "postgres.h"

#include "remote/wire/connection.h"

/* Names in an error of a node; each may be NULL. */
typedef struct ShardErrorNames
{
	char	   *message;		/* primary message, which may contain the other names in quotes */
	char	   *schema;
	char	   *table;
	char	   *column;
	char	   *constraint;
	char	   *hint;			/* set by the hook: replaces the node's HINT */
} ShardErrorNames;

/*
 * Replaces the node's names by the user's. schema and table are not NULL, except for undefined functions. detail: the
 * node's, or NULL.  Called in a transaction; may read catalogs.  Result: may the current user read the values
 * of the row that an error with this SQLSTATE shows in DETAIL?  False if that is unknown.
 */
typedef bool (*ShardErrorHook) (Oid serverid, int sqlstate, const char *detail,
								ShardErrorNames *names);
extern void shard_error_set_hook(ShardErrorHook hook);

/* The SQLSTATE of a node's message. 0 if res is NULL or the node's code is invalid. */
extern int	shard_error_sqlstate(const PGresult *res);

/*
 * Reports res (NULL: the state of conn) at elevel, with the node's SQLSTATE, message, detail, hint,
 * context and constraint/table/column fields.  A lost connection is 58000 (system_error): with
 * class 08, connection pools would close the client's own session, which still works.  Values of a
 * row that the current user may not read are omitted.  A separate DETAIL line names the node and
 * the shard (label, if not NULL). sql, if not NULL, goes to CONTEXT as "remote SQL command".  Takes
 * ownership of res, and clears it also if it raises.
 */
extern void shard_error_report(int elevel, PGresult *res, ShardConn *conn,
							   const char *label, const char *sql);

/*
 * The same at ERROR, for a command that the user has written for the node: the node's names and
 * values are not replaced.  sql NULL: the error shows neither the command nor the node's CONTEXT.
 */
extern void shard_error_report_as_is(PGresult *res, ShardConn *conn, const char *label,
									 const char *sql);

/* The same at ERROR, with context in place of the node's CONTEXT (NULL: none). */
extern void shard_error_report_context(PGresult *res, ShardConn *conn, const char *label, const char *context);

/* Primary message of an error of conn's node, with the user's names; or NULL. */
extern char *shard_error_message(const PGresult *res, const ShardConn *conn);

/*
 * Raises ERRCODE_PROTOCOL_VIOLATION: the node has sent something that was not requested.  The
 * connection is broken afterwards.
 */
extern void shard_error_protocol(ShardConn *conn, const char *label, const char *what) __attribute__((noreturn));

/*
 * Returns a copy of a node's text: truncated to a limit, valid in the database's encoding, without
 * trailing line ends.  NULL for NULL.
 */
extern char *shard_error_clean_text(const char *text);

/* The same into buf, which has size bytes.  Allocates nothing. */
extern void shard_error_copy_text(const char *text, char *buf, size_t size);

#endif
