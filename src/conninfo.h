/*
 * conninfo.h
 *	  Makes connection parameters of the options of server and user mapping; knows
 *	  which options are libpq's, and by which names nodes know this coordinator.
 */
#ifndef SHARDFDW_CONNINFO_H
#define SHARDFDW_CONNINFO_H

#include "postgres.h"

#include "foreign/foreign.h"

/*
 * True when keyword is a libpq connection option that may stand on a user
 * mapping (user, password, sslcert, sslkey, sslpassword...) or on a server
 * (every other one that is safe there).  client_encoding and
 * fallback_application_name are set by shardfdw and are not options.
 */
extern bool shard_conninfo_is_server_option(const char *keyword);
extern bool shard_conninfo_is_user_option(const char *keyword);

/* Server options that read files of the operating system's user: service, servicefile, passfile. */
extern bool shard_conninfo_is_superuser_option(const char *keyword);

/* A server that option standbys lists. */
typedef struct ShardStandby
{
	char	   *host;
	char	   *port;			/* NULL: that of the node */
} ShardStandby;

/* Servers (ShardStandby) that value lists as "host[:port], ..."; NIL when it is no such list.  Memory: current context. */
extern List *shard_conninfo_parse_standbys(const char *value);

/*
 * Fills NULL-terminated keyword/value arrays for PQconnectStartParams from a
 * server and a user mapping.  standby: one of those that the server lists, which has to
 * be in recovery; NULL: the node itself.  Adds client_encoding (the database's),
 * fallback_application_name, connect_timeout 10 when none is given, and the
 * application_name of the setting postgres_fdw.application_name or the server,
 * with escapes as postgres_fdw knows them expanded; with use_scram_passthrough the
 * SCRAM keys of the session's login.
 * Memory: current context, but for strings owned by server and user.
 */
extern void shard_conninfo_build(ForeignServer *server, UserMapping *user, const ShardStandby *standby,
								 const char ***keywords, const char ***values);

/*
 * The same from a connection string that userid has given.  Memory: current context.
 * Errors: ERRCODE_SYNTAX_ERROR, without a word of the string, which may have a password; for those that are no superusers
 * ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED when it has no password, and ERRCODE_INSUFFICIENT_PRIVILEGE for
 * options that read files.
 */
extern void shard_conninfo_parse(const char *conninfo, Oid userid, const char ***keywords, const char ***values);

/* What messages call the server that a connection string leads to: its host, port and database.  Memory: current context. */
extern char *shard_conninfo_place(const char *conninfo);

/*
 * The application_name by which nodes know the connections of process pid of this
 * server, unless the user has set another one: shardfdw:<system identifier>:<pid>.
 * Memory: current context.
 */
extern const char *shard_conninfo_session_name(int pid);

/*
 * Name of the table in schema shardfdw of a node whose comment is the identity
 * of the coordinator that uses it.  Memory: current context.
 */
extern char *shard_conninfo_note_name(void);

/*
 * Raises ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED when a user who is
 * not a superuser would connect without a password of the user's own mapping
 * (postgres_fdw's rules: password_required = false lifts it).
 */
extern void shard_conninfo_check_password(ForeignServer *server, UserMapping *user,
										  const char *const *keywords, const char *const *values);

/* True when userid has a mapping for the server: a mapping of its own or the public one. */
extern bool shard_conninfo_has_mapping(Oid userid, Oid serverid);

/*
 * True when a role that is not a superuser needs no password: password_required
 * 'false' stands on the mapping, or its client's SCRAM keys are passed on.
 */
extern bool shard_conninfo_password_optional(ForeignServer *server, UserMapping *user);

#endif
