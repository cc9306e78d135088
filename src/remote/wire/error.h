/*
 * error.h
 *	  Turns errors of nodes into errors of this session; nothing else does.
 */
#ifndef SHARDFDW_ERROR_H
#define SHARDFDW_ERROR_H

#include "postgres.h"

#include "remote/wire/connection.h"

/* Names in an error of a node; each may be NULL. */
typedef struct ShardErrorNames
{
	char	   *message;		/* primary message, which may have the others in quotes */
	char	   *schema;
	char	   *table;
	char	   *column;
	char	   *constraint;
} ShardErrorNames;

/*
 * Puts the user's names in the place of the node's.  schema and table are there.
 * detail: the node's, or NULL.  Called in a transaction; may look into catalogs.
 * Result: may the current user read the values of the row that an error of this SQLSTATE
 * shows in DETAIL?  False where that is not known.
 */
typedef bool (*ShardErrorHook) (Oid serverid, int sqlstate, const char *detail,
								ShardErrorNames *names);
extern void shard_error_set_hook(ShardErrorHook hook);

/* The SQLSTATE of a node's message; 0 where res is NULL, or what the node sent is none. */
extern int	shard_error_sqlstate(const PGresult *res);

/*
 * Reports res (or, when NULL, the state of conn) at elevel: SQLSTATE, message,
 * detail, hint and context of the node, its constraint/table/column fields.  A
 * lost connection is 58000 (system_error): for class 08, connection pools would
 * close the client's own session, which still works.  Values of a row that the
 * current user may not read are left out.  DETAIL (own line) names the node and, when given,
 * label (the shard).  sql, when given, goes to CONTEXT as "remote SQL command".
 * Takes ownership of res (cleared also when it raises).
 */
extern void shard_error_report(int elevel, PGresult *res, ShardConn *conn,
							   const char *label, const char *sql);

/* The same at ERROR, for a command that the user has written for the node: names and values stay the node's. */
extern void shard_error_report_as_is(PGresult *res, ShardConn *conn, const char *label,
									 const char *sql);

/* The same with context in place of the node's CONTEXT (NULL: none). */
extern void shard_error_report_context(int elevel, PGresult *res, ShardConn *conn,
									   const char *label, const char *context);

/* Primary message of an error of conn's node with the user's names, or NULL. */
extern char *shard_error_message(const PGresult *res, const ShardConn *conn);

/*
 * Raises ERRCODE_PROTOCOL_VIOLATION: what a node sent is not what was asked
 * for.  The connection is broken from then on.
 */
extern void shard_error_protocol(ShardConn *conn, const char *label, const char *what) __attribute__((noreturn));

/*
 * Copy of text that came from a node, cut to a bounded length, valid in the
 * database's encoding, without trailing line ends.  NULL for NULL.
 */
extern char *shard_error_clean_text(const char *text);

/* The same into buf, of size bytes; needs no memory. */
extern void shard_error_copy_text(const char *text, char *buf, size_t size);

#endif
