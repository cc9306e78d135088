/*
 * connection_open.c
 *	  How a connection is opened and closed.
 *
 * Opening never blocks, so callers can open many connections in parallel:
 *
 *	 start --> CONNECTING --poll...--> accepted --(set-up, if the node needs it)--> READY
 *				|  ^		|
 *				|  |		+--> BROKEN: failure, connect_timeout, password rules (error raised)
 *				|  +-- back-off; or, after connect_timeout, the next host
 *				+--> refused, since the node has too many connections
 *
 * If a statement ends while its connection is still being opened, the attempt is kept (pause), and
 * the next statement continues it.  Otherwise statements with a timeout shorter than connecting
 * takes would always fail, and the node would start many sessions that are never used.  An attempt
 * that is older than connect_timeout and has no answer is replaced by a new one.
 *
 * If the server lists several hosts, each has connect_timeout. libpq proceeds by itself if a host
 * refuses, but not if it does not answer (for example, if the machine of the primary is lost).
 * Then a new attempt begins with the next host (host_list.h).  The host that has accepted is stored
 * for all sessions, so that each need not search.  Exception: if the order of the hosts expresses a
 * preference, it is not stored.
 *
 * Assumptions:
 *
 *	- libpq's socket may change while connecting (several hosts, GSS).  So it is fetched for each
 *	  wait, and sets of sockets are notified (shard_wait_sockets_changed).
 *	- libpq returns the SQLSTATE of a refusal only within its message, and only in verbose mode.
 *	  That part is removed again for our message.
 *	- A node that has too many connections now may have fewer soon: sessions end, and it takes the
 *	  node a moment to end a session that was just closed.
 */
#include "postgres.h"

#include <poll.h>

#include "access/xlog_internal.h"
#include "commands/defrem.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "conninfo.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "node_position.h"
#include "own_schema.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "remote/wire/host_list.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/position.h"
#include "remote/wire/quota.h"
#include "remote/wire/wait.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define FIRST_BACKOFF_MS 10		/* before the second attempt at a node that refused; doubled each time */
#define MAX_BACKOFF_MS 500

/*
 * A statement that is sent without BEGIN runs with these defaults.  The node's user or database may
 * have others.  They are sent in a separate message, since they do not affect the transaction in
 * which they are set.
 */
#define TRANSACTION_SQL \
	"SET default_transaction_isolation = 'read committed'; " \
	"SET default_transaction_read_only = off; SET default_transaction_deferrable = off; "

/* The queries that follow are not worth a parallel worker, whatever the node's settings are. */
#define NO_WORKERS_SQL "SET LOCAL max_parallel_workers_per_gather = 0; "

/* What a standby has replayed, and when its postmaster was started. */
#define STANDBY_SQL "pg_catalog.pg_last_wal_replay_lsn(), pg_catalog.pg_postmaster_start_time()"

/* WAL position, on a standby the replayed one, and the OID of the database. */
#define POSITION_SQL \
	"CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END," \
	" (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())"

/* Connections that the node allows, without those reserved for superusers and other roles. */
#define ALLOWED_SQL \
	"pg_catalog.current_setting('max_connections')::pg_catalog.int4 OPERATOR(pg_catalog.-)" \
	" pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4 OPERATOR(pg_catalog.-)" \
	" coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::pg_catalog.int4"

/*
 * Start of the next SQLSTATE in a verbose message ("FATAL: 53300: text"), or NULL.
 */
static char *
find_sqlstate(char *text)
{
	for (char *c = strstr(text, ":  "); c; c = strstr(c + 1, ":  "))
		if (strspn(c + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && strncmp(c + 8, ": ", 2) == 0)
			return c + 3;
	return NULL;
}

/* Removes the parts that only libpq's verbose mode has added. */
static void
make_terse(char *text)
{
	char	   *code;
	char	   *line;

	while ((code = find_sqlstate(text)) != NULL)
		memmove(code, code + 7, strlen(code + 7) + 1);

	/* the last line of each message is the location in the node's source */
	while ((line = strstr(text, "\nLOCATION:  ")) != NULL)
	{
		char	   *end = strchr(line + 1, '\n');

		if (end)
			memmove(line, end, strlen(end) + 1);
		else
			*line = '\0';
	}
}

/*
 * Did a host report too many connections, or is the queue of its Unix socket full? (Over TCP the
 * kernel tries again by itself.)
 */
static bool
was_refused(const ShardConn *conn)
{
	char	   *text = pstrdup(PQerrorMessage(conn->pg));
	bool		refused = PQhost(conn->pg)[0] == '/' && strstr(text, strerror(EAGAIN)) != NULL;

	for (char *code = find_sqlstate(text); code && !refused; code = find_sqlstate(code))
		refused = strncmp(code, "53300", 5) == 0;
	pfree(text);
	return refused;
}

static const char *(*connect_hint) (const char *node) = NULL;

void
shard_connection_set_hint(const char *(*hint) (const char *node))
{
	connect_hint = hint;
}

/* Advice about a node that cannot be connected to; NULL: none. */
static const char *
hint_for(const char *node)
{
	return connect_hint ? connect_hint(node) : NULL;
}

/* Raises the reason why conn could not be opened. conn is broken afterwards. */
static void
fail_connecting(ShardConn *conn, const char *reason)
{
	bool		refused = reason && conn->opening.nrefused > 0;
	const char *hint = refused ? NULL : hint_for(conn->node);
	char	   *detail;

	/* the time was spent on retries; if it is still known, report the node's reason */
	if (refused && conn->opening.stage == SHARD_OPEN_REFUSED)
		reason = NULL;
	detail = shard_error_clean_text(reason ? reason : PQerrorMessage(conn->pg));
	make_terse(detail);
	shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECT_FAILURES, 1);
	conn->state = SHARD_CONN_BROKEN;
	shard_connection_drop_notices(conn);
	ereport(ERROR,
			(errcode(refused ? ERRCODE_TOO_MANY_CONNECTIONS : ERRCODE_SYSTEM_ERROR),
			 errmsg("could not connect to node \"%s\"", conn->node),
			 errdetail_internal("%s", detail),
			 hint ? errhint("%s", hint) : 0));
}

/*
 * The node has too many connections.  Schedules the next attempt, with a random delay, so that
 * sessions that were refused at the same time do not return at the same time.
 */
static void
back_off(ShardConn *conn)
{
	ShardOpening *opening = &conn->opening;
	int			delay_ms = Min(FIRST_BACKOFF_MS << Min(opening->nrefused, 6), MAX_BACKOFF_MS);

	opening->nrefused++;
	delay_ms += (int) (pg_prng_double(&pg_global_prng_state) * delay_ms);
	opening->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay_ms);
	opening->stage = SHARD_OPEN_REFUSED;
	opening->events = WL_TIMEOUT;
}

/* In seconds; 0: none. */
static int
find_connect_timeout(const char *const *keywords, const char *const *values)
{
	int			seconds = 0;

	for (int i = 0; keywords[i]; i++)
		if (strcmp(keywords[i], "connect_timeout") == 0)
			seconds = atoi(values[i]);
	return Max(seconds, 0);
}

/* Starts the time limit of the present host. */
static void
start_host_clock(ShardConn *conn)
{
	ShardOpening *opening = &conn->opening;

	opening->deadline = opening->timeout == 0 ? 0 :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), opening->timeout * INT64CONST(1000));
}

/* A statement begins to wait for conn. */
static void
start_clock(ShardConn *conn)
{
	conn->opening.nhosts_left = conn->opening.hosts ? conn->opening.hosts->nhosts - 1 : 0;
	start_host_clock(conn);
}

static void
forget_hosts(ShardConn *conn)
{
	if (conn->opening.hosts)
		shard_host_list_free(conn->opening.hosts);
	conn->opening.hosts = NULL;
}

static void
free_connection(ShardConn *conn)
{
	dlist_delete(&conn->all_link);
	forget_hosts(conn);
	shard_connection_drop_notices(conn);
	shard_connection_free_prepared(conn);
	shard_connection_free_settings(conn);
	pfree(conn->node);
	if (conn->timed_sql)
		pfree(conn->timed_sql);
	pfree(conn);
}

/*
 * Returns the user's own mapping, or the public one.  Not all majors name the node in core's error
 * for a missing mapping.
 */
static UserMapping *
find_mapping(const ForeignServer *server, Oid userid)
{
	if (!shard_conninfo_has_mapping(userid, server->serverid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("user mapping not found for user \"%s\" on node \"%s\"",
						MappingUserName(userid), server->servername),
				 errhint("Create one with CREATE USER MAPPING FOR %s SERVER %s; shardfdw.add_user() does so for all nodes.",
						 quote_identifier(MappingUserName(userid)),
						 quote_identifier(server->servername))));
	return GetUserMapping(userid, server->serverid);
}

static const char *
server_option(const ForeignServer *server, const char *name)
{
	foreach_node(DefElem, def, server->options)
	{
		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

/* An option that is on unless it is set. */
static bool
server_flag(const ForeignServer *server, const char *name)
{
	const char *text = server_option(server, name);
	bool		value = true;

	if (text)
		(void) parse_bool(text, &value);
	return value;
}

int
shard_connection_count_standbys(Oid serverid)
{
	ForeignServer *server = GetForeignServer(serverid);
	const char *value = server_option(server, "standbys");

	return value && server_flag(server, "session_state") ? list_length(shard_conninfo_parse_standbys(value)) : 0;
}

/* NULL: the primary. */
static const ShardStandby *
find_standby(const ForeignServer *server, uint32 number)
{
	const char *value = number > 0 ? server_option(server, "standbys") : NULL;
	List	   *standbys = value ? shard_conninfo_parse_standbys(value) : NIL;

	if (number > list_length(standbys))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("node \"%s\" has no standby %u any more", server->servername, number)));
	return number > 0 ? list_nth(standbys, number - 1) : NULL;
}

char *
shard_connection_address(Oid serverid, uint32 number)
{
	static const char *const parts[] = {"host", "hostaddr", "port", "service"};
	ForeignServer *server = GetForeignServer(serverid);
	const ShardStandby *standby = find_standby(server, number);
	StringInfoData buf;

	/* a node's limit says nothing about the number of sessions of a pooler */
	if (!server_flag(server, "session_state") && shard_guc_max_shared_connections == 0)
		return NULL;
	if (standby)
		return psprintf("host=%s port=%s", standby->host, standby->port ? standby->port : "");
	initStringInfo(&buf);
	for (int i = 0; i < lengthof(parts); i++)
	{
		const char *value = server_option(server, parts[i]);

		if (value)
			appendStringInfo(&buf, "%s%s=%s", buf.len > 0 ? " " : "", parts[i], value);
	}
	return buf.data;
}

/* Returns a list of keywords or values with item added at the end.  Memory: current context. */
static const char **
append_item(const char **items, const char *item)
{
	int			n = 0;
	const char **longer;

	while (items[n])
		n++;
	longer = palloc0((n + 2) * sizeof(char *));
	memcpy(longer, items, n * sizeof(char *));
	longer[n] = item;
	return longer;
}

/* Begins with the host that has accepted the last connection of any session. */
static void
begin_with_known_host(ShardConn *conn)
{
	int			host = shard_node_stat_host(conn->opening.hosts_stat);

	/* the server's list may have changed; then this is only some host to begin with */
	if (host > 0 && host < conn->opening.hosts->nhosts)
		shard_host_list_begin_with(conn->opening.hosts, host);
}

static dlist_head all_connections = DLIST_STATIC_INIT(all_connections);	/* of this session */

static const char *
node_of_socket(int fd)
{
	dlist_iter	iter;

	dlist_foreach(iter, &all_connections)
	{
		const ShardConn *conn = dlist_container(ShardConn, all_link, iter.cur);

		if (conn->pg != NULL && PQsocket(conn->pg) == fd)
			return conn->node;
	}
	return NULL;
}

/* Creates a connection that is not open yet. name: used in messages.  Memory: shard_connection_cxt. */
static ShardConn *
make_connection(const char *name, const char *const *keywords, const char *const *values)
{
	MemoryContext oldcxt;
	ShardConn  *conn;

	if (!shard_connection_cxt)
		shard_connection_cxt = AllocSetContextCreate(TopMemoryContext, "shardfdw connections",
											   ALLOCSET_DEFAULT_SIZES);
	oldcxt = MemoryContextSwitchTo(shard_connection_cxt);
	shard_wait_node_of_socket = node_of_socket;
	conn = palloc0(sizeof(ShardConn));
	conn->node = pstrdup(name);
	conn->settings = shard_connection_make_settings();
	conn->opening.hosts = shard_host_list_make(keywords, values);
	MemoryContextSwitchTo(oldcxt);
	dlist_push_tail(&all_connections, &conn->all_link);
	conn->workers = -1;
	conn->opened_at = GetCurrentTimestamp();
	conn->opening.timeout = find_connect_timeout(keywords, values);
	conn->opening.began_at = conn->opened_at;
	conn->opening.stage = SHARD_OPEN_LOGIN;
	conn->opening.events = WL_SOCKET_WRITEABLE; /* the first event for PQconnectPoll() */
	return conn;
}

/* Begins to open conn. */
static void
begin_connection(ShardConn *conn, const char *const *keywords, const char *const *values)
{
	start_clock(conn);

	if (!shard_wait_acquire_handle())
	{
		char	   *name = pstrdup(conn->node);

		free_connection(conn);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to node \"%s\"", name),
				 errdetail("There are too many open files on the local server."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits, or lower shardfdw.max_connections_per_node.")));
	}

	/* no expand_dbname: a database name must not be parsed as a connection string */
	conn->pg = conn->opening.hosts ?
		PQconnectStartParams(conn->opening.hosts->keywords, conn->opening.hosts->values, 0) :
		PQconnectStartParams(keywords, values, 0);
	if (!conn->pg || (PQstatus(conn->pg) == CONNECTION_BAD && !was_refused(conn)))
	{
		char	   *reason = shard_error_clean_text(conn->pg ? PQerrorMessage(conn->pg) : _("out of memory"));
		char	   *name = pstrdup(conn->node);
		const char *hint = hint_for(name);

		shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECT_FAILURES, 1);
		PQfinish(conn->pg);
		ReleaseExternalFD();
		free_connection(conn);
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not connect to node \"%s\"", name),
				 errdetail_internal("%s", reason),
				 hint ? errhint("%s", hint) : 0));
	}
	PQsetNoticeReceiver(conn->pg, shard_connection_keep_notice, conn);
	PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
	conn->state = SHARD_CONN_CONNECTING;
	if (PQstatus(conn->pg) == CONNECTION_BAD)
		back_off(conn);
	shard_wait_sockets_changed();
}

static ShardConn *
start_connection(Oid serverid, Oid userid, uint32 number, int quota_node, int stat_node, bool replicates)
{
	ForeignServer *server = GetForeignServer(serverid);
	const ShardStandby *standby = find_standby(server, number);
	UserMapping *user = find_mapping(server, userid);
	const char **keywords;
	const char **values;
	ShardConn  *conn;

	shard_conninfo_check_owner(server);
	shard_conninfo_build(server, user, standby, &keywords, &values);
	shard_conninfo_check_password(server, user, keywords, values);
	if (replicates)
	{
		keywords = append_item(keywords, "replication");
		values = append_item(values, "database");
	}

	conn = make_connection(standby ? psprintf(_("%s (standby)"), server->servername) : server->servername, keywords, values);
	if (conn->opening.hosts && !conn->opening.hosts->is_ordered)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(shard_connection_cxt);

		conn->opening.hosts_stat = shard_node_stat_find(serverid);
		begin_with_known_host(conn);
		MemoryContextSwitchTo(oldcxt);
	}
	conn->serverid = serverid;
	conn->userid = userid;
	conn->standby = number;
	conn->quota_node = quota_node;
	conn->stat_node = stat_node;
	conn->keep = server_flag(server, "keep_connections");
	conn->stateless = !server_flag(server, "session_state");
	conn->is_coordinator = server_option(server, "coordinator") != NULL;
	conn->has_standbys = server_option(server, "standbys") != NULL;
	conn->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	conn->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(user->umid));
	conn->opening.needs_password = !superuser_arg(userid) && !shard_conninfo_password_optional(server, user);
	if (number == 0 && !replicates)
		conn->unchecked_by = shard_node_position_read(server->servername, conn->opening.positions);
	if (TransactionIdIsValid(conn->unchecked_by))
		conn->keep = false;
	begin_connection(conn, keywords, values);
	return conn;
}

ShardConn *
shard_connection_start(Oid serverid, Oid userid, uint32 standby, int quota_node)
{
	ShardConn  *conn = start_connection(serverid, userid, standby, quota_node, shard_node_stat_find(serverid), false);

	conn->position = shard_position_get(serverid);
	return conn;
}

ShardConn *
shard_connection_start_own(Oid serverid, Oid userid, bool replicates)
{
	return start_connection(serverid, userid, 0, SHARD_QUOTA_NONE, SHARD_NODE_STAT_NONE, replicates);
}

ShardConn *
shard_connection_start_string(const char *conninfo, const char *name, Oid userid, bool replicates)
{
	const char **keywords;
	const char **values;
	ShardConn  *conn;

	shard_conninfo_parse(conninfo, userid, &keywords, &values);
	if (replicates)
	{
		keywords = append_item(keywords, "replication");
		values = append_item(values, "database");
	}
	conn = make_connection(name, keywords, values);
	conn->userid = userid;
	conn->quota_node = SHARD_QUOTA_NONE;
	conn->stat_node = SHARD_NODE_STAT_NONE;
	conn->opening.needs_password = !superuser_arg(userid);
	begin_connection(conn, keywords, values);
	return conn;
}

/*
 * Sends the session's settings together with queries about the node: all of them in
 * SHARD_OPEN_SETUP, all but the system identifier in SHARD_OPEN_SETUP_LESS.
 *
 * search_path comes first: the owner of the node's database or role sets its default, and could
 * make these queries call functions of the owner.  pg_temp comes last, or temporary tables of the session would hide
 * catalogs.
 */
static void
ask_setup(ShardConn *conn, ShardOpenStage stage, bool conforms)
{
	const char *local = conn->stateless ? "LOCAL " : "";
	char	   *sql = psprintf("SET %ssearch_path = pg_catalog, pg_temp; SET %srole = none; %s%sSELECT %s, %s, %s, %s, %s", local, local,
							   conforms ? "" : "SET standard_conforming_strings = on; ",
							   conn->stateless ? "" : TRANSACTION_SQL NO_WORKERS_SQL,
							   conn->opening.asks_allowed ? ALLOWED_SQL : "NULL",
							   conn->stateless ? "NULL" : shard_connection_note_sql(),
							   conn->standby > 0 ? STANDBY_SQL : "NULL, NULL",
							   conn->stateless || conn->standby > 0 ? "NULL, NULL" : POSITION_SQL,
							   conn->stateless ? "NULL, NULL, NULL" :
							   stage == SHARD_OPEN_SETUP ? SHARD_SERVER_SQL(SHARD_SYSTEM_SQL) : SHARD_SERVER_SQL("NULL"));

	conn->opening.stage = stage;
	conn->opening.events = WL_SOCKET_READABLE;
	shard_connection_note_sent(conn, sql, 0, NULL);
	if (!PQsendQuery(conn->pg, sql))
		fail_connecting(conn, NULL);
	(void) PQsetSingleRowMode(conn->pg);
}

/*
 * The node has accepted the connection.  Checks the password rule, and sends what the session needs
 * before any statement is parsed.  True if nothing had to be sent.
 */
static bool
accept_session(ShardConn *conn)
{
	const char *conforming = PQparameterStatus(conn->pg, "standard_conforming_strings");
	bool		conforms;

	if (conn->opening.needs_password && !PQconnectionUsedPassword(conn->pg))
	{
		conn->state = SHARD_CONN_BROKEN;
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("password is required"),
				 errdetail("Non-superuser cannot connect if node \"%s\" does not request a password.",
						   conn->node),
				 OidIsValid(conn->serverid) ?
				 errhint("Target server's authentication method must be changed or password_required=false set in the user mapping attributes.") :
				 errhint("Target server's authentication method must be changed.")));
	}
	if (PQsetnonblocking(conn->pg, 1) != 0)
		fail_connecting(conn, NULL);
	PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
	conn->server_version = PQserverVersion(conn->pg);

	/* remote SQL relies on it, so it must be on before the first statement is parsed */
	conforms = conforming && strcmp(conforming, "on") == 0;
	if (!conforms && conn->stateless)
	{
		conn->state = SHARD_CONN_BROKEN;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION),
				 errmsg("node \"%s\" has standard_conforming_strings switched off", conn->node),
				 errhint("Switch it on there: with session_state 'off' sessions on nodes are left as they are.")));
	}
	conn->opening.asks_allowed = shard_quota_is_curious(conn->quota_node);
	if (conn->stateless && !conn->opening.asks_allowed)
		return true;
	ask_setup(conn, SHARD_OPEN_SETUP, conforms);
	return false;
}

/* The name of a WAL file begins with the timeline. */
static TimeLineID
parse_timeline(const char *answer)
{
	unsigned int timeline = 0;

	if (strlen(answer) != XLOG_FNAME_LEN || strspn(answer, "0123456789ABCDEF") != XLOG_FNAME_LEN)
		return 0;
	sscanf(answer, "%8X", &timeline);
	return timeline;
}

void
shard_connection_parse_server(const PGresult *res, int column, ShardConnServer *server)
{
	memset(server, 0, sizeof(ShardConnServer));
	if (!PQgetisnull(res, 0, column))
		server->timeline = parse_timeline(PQgetvalue(res, 0, column));
	if (!PQgetisnull(res, 0, column + 1))
		server->system_identifier = strtoll(PQgetvalue(res, 0, column + 1), NULL, 10);
	if (!PQgetisnull(res, 0, column + 2))
		namestrcpy(&server->database, PQgetvalue(res, 0, column + 2));
}

/* Reads catalogs only, so it raises no error if no coordinator is noted, and runs no code of other users. */
char *
shard_connection_note_sql(void)
{
	return psprintf("(SELECT pg_catalog.obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c"
					" WHERE c.relname OPERATOR(pg_catalog.=) '%s' AND c.relnamespace OPERATOR(pg_catalog.=)"
					" (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) '" SHARD_INTERNAL_SCHEMA "'))",
					shard_conninfo_note_name());
}

/* Processes the row that ask_setup() has requested. */
static void
take_setup_row(ShardConn *conn, const PGresult *res)
{
	if (conn->opening.asks_allowed && !PQgetisnull(res, 0, 0))
		shard_quota_learn(conn->quota_node, atoi(PQgetvalue(res, 0, 0)));
	/* a pooler may connect to another server next time */
	if (conn->stateless)
		return;
	if (!PQgetisnull(res, 0, 1))
		namestrcpy(&conn->noted_identity, PQgetvalue(res, 0, 1));
	if (!PQgetisnull(res, 0, 4))
		(void) shard_position_parse_lsn(PQgetvalue(res, 0, 4), &conn->began_at);
	if (!PQgetisnull(res, 0, 5))
		conn->database = strtoul(PQgetvalue(res, 0, 5), NULL, 10);
	shard_connection_parse_server(res, 6, &conn->server);
	if (conn->standby > 0)
	{
		(void) shard_position_parse_lsn(PQgetvalue(res, 0, 2), &conn->replayed);
		conn->replayed_at = GetCurrentTimestamp();
		strlcpy(NameStr(conn->server.started), PQgetvalue(res, 0, 3), NAMEDATALEN);
	}
}

/* Does res say that the node's role may not read the system identifier? */
static bool
is_denied(const ShardConn *conn, const PGresult *res)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	return conn->opening.stage == SHARD_OPEN_SETUP && sqlstate && strcmp(sqlstate, "42501") == 0;
}

/* Is the time limit of the present host over? */
static bool
is_overdue(const ShardConn *conn)
{
	return conn->opening.deadline && GetCurrentTimestamp() >= conn->opening.deadline;
}

/* Another attempt to open conn has begun, or could not begin.  Returns the socket events to wait for, or raises. */
static int
note_attempt(ShardConn *conn, bool begun)
{
	shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECT_RETRIES, 1);
	conn->opening.stage = SHARD_OPEN_LOGIN;
	conn->opening.watch = SHARD_OPEN_WATCHED;
	conn->opening.began_at = GetCurrentTimestamp();
	PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
	if (begun)
		conn->opening.events = WL_SOCKET_WRITEABLE;
	else if (was_refused(conn))
		back_off(conn);
	else
		fail_connecting(conn, NULL);
	shard_wait_sockets_changed();
	return conn->opening.events;
}

static int
open_again(ShardConn *conn)
{
	return note_attempt(conn, PQresetStart(conn->pg));
}

/* The present host does not answer.  Begins with the next one. */
static int
open_elsewhere(ShardConn *conn)
{
	ShardHostList *hosts = conn->opening.hosts;
	int			silent = shard_host_list_find(hosts, conn->pg);
	MemoryContext oldcxt = MemoryContextSwitchTo(shard_connection_cxt);

	shard_host_list_begin_with(hosts, ((silent < 0 ? hosts->first : silent) + 1) % hosts->nhosts);
	MemoryContextSwitchTo(oldcxt);
	conn->opening.nhosts_left--;
	start_host_clock(conn);
	PQfinish(conn->pg);
	conn->pg = PQconnectStartParams(hosts->keywords, hosts->values, 0);
	if (!conn->pg)
		fail_connecting(conn, _("out of memory"));
	PQsetNoticeReceiver(conn->pg, shard_connection_keep_notice, conn);
	return note_attempt(conn, PQstatus(conn->pg) != CONNECTION_BAD);
}

/* connect_timeout has passed.  Tries the next host and returns the events to wait for, or raises. */
static int
give_up_host(ShardConn *conn)
{
	/* a host that has refused or accepted the session does answer */
	if (conn->opening.nhosts_left == 0 || conn->opening.stage != SHARD_OPEN_LOGIN)
		fail_connecting(conn, _("connect_timeout expired"));
	return open_elsewhere(conn);
}

/* After back_off(): if it is time, tries again to open conn.  Returns the events to wait for. */
static int
poll_refused(ShardConn *conn)
{
	if (is_overdue(conn))
		fail_connecting(conn, _("connect_timeout expired"));
	if (GetCurrentTimestamp() < conn->opening.retry_at)
		return conn->opening.events;
	return open_again(conn);
}

void
shard_connection_pause(ShardConn *conn)
{
	if (conn->state == SHARD_CONN_CONNECTING)
		conn->opening.watch = SHARD_OPEN_PAUSED;
}

/* The attempt to open conn has failed.  Tries again and returns the events to wait for, or raises. */
static int
retry_or_fail(ShardConn *conn)
{
	if (was_refused(conn))
	{
		back_off(conn);
		return conn->opening.events;
	}
	if (conn->opening.watch != SHARD_OPEN_RESUMED)
		fail_connecting(conn, NULL);
	/* it failed while no statement waited, which says nothing about the node's present state */
	return open_again(conn);
}

/*
 * Has conn, which a later statement continues to open, had no answer for longer than
 * connect_timeout?  If it were kept, statements with a shorter timeout would all wait for an answer
 * that never arrives, although the node may answer a new attempt.
 */
static bool
is_stuck(ShardConn *conn)
{
	const ShardOpening *opening = &conn->opening;

	return opening->timeout > 0 && opening->stage != SHARD_OPEN_REFUSED &&
		TimestampDifferenceExceeds(opening->began_at, GetCurrentTimestamp(), opening->timeout * 1000) &&
		!shard_connection_socket_is_ready(conn, opening->events);
}

/*
 * Reads the answers to what accept_session() has sent.  Returns the events to wait for, or 0 if all
 * answers were read.
 */
static int
poll_setup(ShardConn *conn)
{
	PGresult   *res;

	shard_connection_flush(conn);
	if (!shard_connection_consume(conn))
		return retry_or_fail(conn);
	while (!PQisBusy(conn->pg))
	{
		res = shard_connection_take_result(conn);
		if (!res && conn->opening.stage == SHARD_OPEN_SETUP_DENIED)
		{
			ask_setup(conn, SHARD_OPEN_SETUP_LESS, false);
			return conn->opening.events;
		}
		if (!res)
			return 0;
		if (!is_denied(conn, res))
			shard_connection_count_result(conn, res);
		if (PQresultStatus(res) == PGRES_SINGLE_TUPLE && PQnfields(res) == 6 + SHARD_SERVER_COLUMNS)
			take_setup_row(conn, res);
		else if (is_denied(conn, res))
			conn->opening.stage = SHARD_OPEN_SETUP_DENIED;
		else if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
		{
			if (conn->opening.watch == SHARD_OPEN_RESUMED)
			{
				PQclear(res);
				return retry_or_fail(conn);
			}
			conn->state = SHARD_CONN_BROKEN;
			shard_error_report(ERROR, res, conn, NULL, NULL);
		}
		PQclear(res);
	}
	return conn->opening.events;
}

int
shard_connection_poll(ShardConn *conn)
{
	int			events;

	if (conn->state == SHARD_CONN_READY)
		return 0;
	if (conn->state == SHARD_CONN_BROKEN)
		fail_connecting(conn, NULL);
	if (conn->opening.watch == SHARD_OPEN_PAUSED)
	{
		conn->opening.watch = SHARD_OPEN_RESUMED;
		conn->opening.nrefused = 0;
		start_clock(conn);
		if (is_stuck(conn))
			return conn->opening.hosts && conn->opening.stage == SHARD_OPEN_LOGIN ? open_elsewhere(conn) : open_again(conn);
	}
	if (conn->opening.stage == SHARD_OPEN_REFUSED)
		return poll_refused(conn);

	/* PQconnectPoll() assumes that the socket is ready when it is called */
	if (!shard_connection_socket_is_ready(conn, conn->opening.events))
		return is_overdue(conn) ? give_up_host(conn) : conn->opening.events;

	if (conn->opening.stage == SHARD_OPEN_LOGIN)
	{
		PostgresPollingStatusType status = PQconnectPoll(conn->pg);

		shard_wait_sockets_changed();
		if (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING)
		{
			if (is_overdue(conn))
				return give_up_host(conn);
			conn->opening.events = status == PGRES_POLLING_READING ?
				WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
			return conn->opening.events;
		}
		if (status != PGRES_POLLING_OK)
			return retry_or_fail(conn);
		if (!accept_session(conn))
			return conn->opening.events;
	}
	else if ((events = poll_setup(conn)) != 0)
		return events;

	shard_connection_check_position(conn);
	conn->state = SHARD_CONN_READY;
	if (conn->opening.watch == SHARD_OPEN_RESUMED && !shard_connection_usable(conn))
	{
		/* it was opened and lost again while no statement waited */
		conn->state = SHARD_CONN_CONNECTING;
		return open_again(conn);
	}
	shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECTIONS, 1);
	if (conn->opening.hosts)
	{
		shard_node_stat_set_host(conn->opening.hosts_stat, shard_host_list_find(conn->opening.hosts, conn->pg));
		forget_hosts(conn);
	}
	return 0;
}

/*
 * How long to wait for conn before the next poll, in ms: until connect_timeout, or until the next
 * attempt at a node that refused. -1: no limit.
 */
long
shard_connection_poll_ms(const ShardConn *conn)
{
	TimestampTz until = conn->opening.deadline;

	if (conn->state != SHARD_CONN_CONNECTING)
		return -1;
	if (conn->opening.stage == SHARD_OPEN_REFUSED && (until == 0 || conn->opening.retry_at < until))
		until = conn->opening.retry_at;
	/* rounded up, so that the time has passed when the wait ends */
	return until ? shard_connection_remaining_ms(until) + 1 : -1;
}

void
shard_connection_finish(ShardConn *conn)
{
	int			events;

	while ((events = shard_connection_poll(conn)) != 0)
	{
		shard_wait_announce(SHARD_WAIT_CONNECT);
		shard_wait_socket(PQsocket(conn->pg), events, shard_connection_poll_ms(conn), false);
	}
	while (!shard_connection_settle(conn))
		(void) shard_connection_wait_input(conn, 0, false);
}

/* ---------- closing ---------- */

void
shard_connection_close(ShardConn *conn)
{
	int			quota_node = conn->quota_node;

	if (conn->holder)
		shard_connection_release(conn);
	shard_connection_report_traffic(conn);
	PQfinish(conn->pg);
	ReleaseExternalFD();
	shard_wait_sockets_changed();
	free_connection(conn);
	shard_quota_give(quota_node);
}
