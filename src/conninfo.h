/*
 * conninfo.h
 *	  Builds connection parameters from the options of server and user mapping, and defines which options are libpq's.
 *	  Also has the names by which nodes identify this coordinator.
 */
#ifndef SHARDFDW_CONNINFO_H
#define SHARDFDW_CONNINFO_H

#include "postgres.h"

#include "foreign/foreign.h"

/*
 * Is keyword a libpq connection option that is allowed on a user mapping (user, password, sslcert,
 * sslkey, sslpassword...) or on a server (all others that are safe there)? client_encoding and
 * fallback_application_name are set by shardfdw and are not options.
 */
extern bool shard_conninfo_is_server_option(const char *keyword);
extern bool shard_conninfo_is_user_option(const char *keyword);

/* Server options that read files of the operating system user: service, servicefile, passfile. */
extern bool shard_conninfo_is_superuser_option(const char *keyword);

/* A server in the list of option standbys. */
typedef struct ShardStandby
{
	char	   *host;
	char	   *port;			/* NULL: the node's port */
} ShardStandby;

/*
 * Parses value, a list "host[:port], ...".  Returns a list of ShardStandby; NIL if value is
 * invalid.  Memory: current context.
 */
extern List *shard_conninfo_parse_standbys(const char *value);

/*
 * Builds NULL-terminated keyword/value arrays for PQconnectStartParams from a server and a user
 * mapping. standby: one of the server's standbys, which must be in recovery; NULL: the node itself.
 *
 * Adds client_encoding (the database's), fallback_application_name, connect_timeout 10 if none is
 * given, and the application_name of the setting postgres_fdw.application_name or the server, with
 * postgres_fdw's escapes expanded.  With use_scram_passthrough also the SCRAM keys of the session's
 * login.
 *
 * Memory: current context, except strings owned by server and user.
 */
extern void shard_conninfo_build(ForeignServer *server, UserMapping *user, const ShardStandby *standby,
								 const char ***keywords, const char ***values);

/*
 * The same from a connection string that userid has passed.  Memory: current context.
 *
 * Errors: ERRCODE_SYNTAX_ERROR; the message does not contain the string, since it may contain a
 * password.  For users who are not superusers: ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED
 * without a password, and ERRCODE_INSUFFICIENT_PRIVILEGE for options that read files.
 */
extern void shard_conninfo_parse(const char *conninfo, Oid userid, const char ***keywords, const char ***values);

/* Describes the server of a connection string for messages: host, port and database.  Memory: current context. */
extern char *shard_conninfo_place(const char *conninfo);

/*
 * Returns the application_name of the connections of process pid of this server, unless the user
 * has set another one: shardfdw:<system identifier>:<pid>.  Memory: current context.
 */
extern const char *shard_conninfo_session_name(int pid);

/*
 * Returns the name of the table in schema shardfdw of a node whose comment is the identity of the
 * coordinator that uses the node.  Memory: current context.
 */
extern char *shard_conninfo_note_name(void);

/*
 * Raises ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED if a user who is not a superuser would
 * connect without a password from a user mapping (postgres_fdw's rule; password_required = false
 * removes it).
 */
extern void shard_conninfo_check_password(ForeignServer *server, UserMapping *user,
										  const char *const *keywords, const char *const *values);

/*
 * Raises ERRCODE_INSUFFICIENT_PRIVILEGE if the owner of the server may not execute add_node().  The owner can map users
 * to any role of the node.  So no role uses such a server (docs/security.md).
 */
extern void shard_conninfo_check_owner(const ForeignServer *server);

/* Does userid have a mapping for the server, its own or the public one? */
extern bool shard_conninfo_has_mapping(Oid userid, Oid serverid);

/*
 * May a role that is not a superuser connect without a password?  True if the mapping has
 * password_required 'false', or the SCRAM keys of its client are passed on.
 */
extern bool shard_conninfo_password_optional(ForeignServer *server, UserMapping *user);

#endif
