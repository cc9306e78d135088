/*
 * twophase_reconnect.c
 *	  One more attempt to commit or roll back what a lost connection has prepared.
 *
 * Catalogs cannot be read at that point, so the new connection uses the address of the lost one.
 * Recovery alone would be enough.  But a node whose sessions were terminated, or that has
 * restarted, accepts a new connection immediately.  The attempt spares the client a WARNING, and
 * rows that stay locked until recovery runs.
 *
 * No attempt is made where it could block.  So names are not resolved again, and GSSAPI encryption
 * is not supported.
 */
#include "postgres.h"

#include "libpq/pqcomm.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/wait.h"
#include "remote/xact/twophase_reconnect.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

/* Waits until pg has connected or failed.  True if it is connected.  Never raises. */
static bool
finish_connecting(PGconn *pg, TimestampTz deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (status != PGRES_POLLING_OK)
	{
		long		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

		if (status == PGRES_POLLING_FAILED || PQstatus(pg) == CONNECTION_BAD ||
			left_ms <= 0 || shard_wait_is_urged())
			return false;
		if (shard_wait_socket(PQsocket(pg),
							  status == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE,
							  left_ms, true) == 0)
			continue;
		status = PQconnectPoll(pg);
		shard_wait_sockets_changed();
	}
	return true;
}

/* Is it a parameter that connect_again() sets by itself? */
static bool
is_place(const char *keyword)
{
	static const char *const places[] = {"host", "hostaddr", "port", "password", "service", "servicefile", "gssencmode"};

	for (int i = 0; i < lengthof(places); i++)
		if (strcmp(keyword, places[i]) == 0)
			return true;
	return false;
}

static int
add_parameter(const char **keywords, const char **values, int n, const char *keyword, const char *value)
{
	if (!value || value[0] == '\0')
		return n;
	keywords[n] = keyword;
	values[n] = value;
	return n + 1;
}

/*
 * Opens a connection to the address of lost, with the same parameters.  NULL if that fails or could
 * block.  Never raises.
 */
static PGconn *
connect_again(PGconn *lost, TimestampTz deadline)
{
	const char *host = PQhost(lost);
	const char *address = PQhostaddr(lost);
	bool		by_file = host && is_unixsock_path(host);
	const char *keywords[128];
	const char *values[128];
	PQconninfoOption *options;
	int			n = 0;
	PGconn	   *pg;

	if ((!by_file && (!address || address[0] == '\0')) || PQgssEncInUse(lost))
		return NULL;
	options = PQconninfo(lost);
	if (!options)
		return NULL;
	for (PQconninfoOption *option = options; option->keyword && n < lengthof(keywords) - 6; option++)
		if (!is_place(option->keyword))
			n = add_parameter(keywords, values, n, option->keyword, option->val);
	n = add_parameter(keywords, values, n, "host", host);
	if (!by_file)
		n = add_parameter(keywords, values, n, "hostaddr", address);
	n = add_parameter(keywords, values, n, "port", PQport(lost));
	n = add_parameter(keywords, values, n, "password", PQpass(lost));
	n = add_parameter(keywords, values, n, "gssencmode", "disable");
	keywords[n] = values[n] = NULL;
	pg = PQconnectStartParams(keywords, values, 0);
	shard_wait_sockets_changed();
	PQconninfoFree(options);
	if (pg && PQstatus(pg) != CONNECTION_BAD && finish_connecting(pg, deadline))
		return pg;
	PQfinish(pg);
	shard_wait_sockets_changed();
	return NULL;
}

/*
 * Runs sql on the only connection of item, which was used for another command before.
 */
static void
run_next(ShardBroadcast *item, const char *sql, bool has_rows, TimestampTz deadline)
{
	shard_broadcast_clear(item, 1);
	item->sql = sql;
	item->has_rows = has_rows;
	shard_broadcast_start(item, 1);
	shard_broadcast_finish(item, 1, Max(1, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)),
						   SHARD_BROADCAST_HURRY);
}

/* Is the server of item's connection the one that prepared, and not a standby that was promoted since? */
static bool
is_same_server(ShardBroadcast *item, const ShardConnServer *server, TimestampTz deadline)
{
	ShardConnServer found;

	if (server->timeline == 0)
		return false;
	run_next(item, server->system_identifier != 0 ? "SELECT " SHARD_SERVER_SQL(SHARD_SYSTEM_SQL) :
			 "SELECT " SHARD_SERVER_SQL("NULL"), true, deadline);
	if (!shard_broadcast_ok(item, NULL) || PQntuples(item->result) != 1 || PQnfields(item->result) != SHARD_SERVER_COLUMNS)
		return false;
	shard_connection_parse_server(item->result, 0, &found);
	return found.timeline == server->timeline && found.system_identifier == server->system_identifier &&
		strcmp(NameStr(found.database), NameStr(server->database)) == 0;
}

bool
shard_twophase_settle_over_new_connection(ShardConn *conn, const char *sql, bool was_sent, TimestampTz deadline)
{
	ShardConn	second = {0};
	ShardBroadcast item = {0};
	bool		is_settled = false;

	if (GetCurrentTimestamp() >= deadline || !shard_wait_acquire_handle())
		return false;
	second.node = conn->node;
	second.stat_node = conn->stat_node;
	shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECT_RETRIES, 1);
	second.state = SHARD_CONN_READY;
	second.pg = connect_again(conn->pg, deadline);
	if (second.pg)
	{
		PQsetnonblocking(second.pg, 1);
		item.conn = &second;
		run_next(&item, sql, false, deadline);
		is_settled = shard_broadcast_ok(&item, NULL) ||
			(was_sent && shard_broadcast_sqlstate(&item) == ERRCODE_UNDEFINED_OBJECT &&
			 is_same_server(&item, &conn->server, deadline));
		shard_broadcast_clear(&item, 1);
		PQfinish(second.pg);
		shard_wait_sockets_changed();
	}
	ReleaseExternalFD();
	return is_settled;
}
