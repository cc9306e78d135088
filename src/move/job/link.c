/*
 * link.c
 *	  Connections of a move to its nodes, which outlive transactions.
 *
 * The connections of the pool belong to the local transaction, and their transactions end with it.  A move writes its
 * journal while it copies.  Its snapshots and its slot on the source must outlive these transactions.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "move/job/link.h"
#include "own_sql.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define WAIT_MS 1000
#define MAX_LINKS 8

/*
 * After a coordinator has vanished, the source must not keep WAL until the keep-alive of the kernel ends the
 * connection.
 */
#define SETTINGS_SQL \
	"SET search_path = pg_catalog, pg_temp; SET role = none; SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; " \
	"SET synchronous_commit = on; SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"

#define IDLE_VERSION 140000		/* first version that ends idle sessions */
#define IDLE_SQL "; SET idle_session_timeout = 0"

ShardBroadcast *
shard_link_query(ShardConn *link, const char *label, const char *sql, int nfields)
{
	shard_connection_send(link, sql);
	return shard_link_answer(link, label, nfields);
}

ShardBroadcast *
shard_link_answer(ShardConn *link, const char *label, int nfields)
{
	ShardBroadcast *item = shard_broadcast_await(link, label, NULL, SHARD_BROADCAST_ROWS, -1);

	if (nfields > 0 && PQnfields(item->result) != nfields)
		shard_error_protocol(link, label, "another number of columns was expected");
	return item;
}

void
shard_link_exec(ShardConn *link, const char *sql)
{
	shard_broadcast_free(shard_link_query(link, NULL, sql, 0));
}

/* Waits until link is open, and applies the settings for jobs. */
static void
finish_opening(ShardConn *link)
{
	shard_connection_finish(link);
	shard_link_exec(link, psprintf("%s" SETTINGS_SQL "%s", shard_own_sql_value_commands(), link->server_version >= IDLE_VERSION ? IDLE_SQL : ""));
}

ShardConn *
shard_link_open(Oid serverid, Oid userid, bool replicates)
{
	ShardConn  *link = shard_connection_start_own(serverid, userid, replicates);

	finish_opening(link);
	return link;
}

ShardConn *
shard_link_open_string(const char *conninfo, const char *name, Oid userid, bool replicates)
{
	ShardConn  *link = shard_connection_start_string(conninfo, name, userid, replicates);

	finish_opening(link);
	return link;
}

void
shard_link_close(ShardConn **link)
{
	if (*link)
		shard_connection_close(*link);
	*link = NULL;
}

void
shard_link_wait(ShardConn *const *links, int nlinks)
{
	static ShardWaitSet *set = NULL;
	ShardWaitItem items[MAX_LINKS];
	int			n = 0;

	Assert(nlinks <= MAX_LINKS);
	if (set == NULL)
		set = shard_wait_set_create(TopMemoryContext);
	for (int i = 0; i < nlinks; i++)
	{
		if (links[i] == NULL)
			continue;
		items[n].fd = PQsocket(links[i]->pg);
		items[n].events = WL_SOCKET_READABLE;
		items[n].revents = 0;
		if (!shard_connection_flush(links[i]))
			items[n].events |= WL_SOCKET_WRITEABLE;
		n++;
	}
	(void) shard_wait_set_wait(set, items, n, WAIT_MS, false);
	for (int i = 0; i < nlinks; i++)
	{
		/* a lost connection is reported when its result is read */
		if (links[i] != NULL)
			(void) shard_connection_consume(links[i]);
	}
}

void
shard_link_copy(ShardConn *link, const char *label, const char *sql)
{
	ShardBroadcast *item;

	shard_connection_send(link, sql);
	item = shard_broadcast_await(link, label, NULL, SHARD_BROADCAST_COPY, -1);
	if (!shard_connection_is_copy(item->result))
		shard_error_protocol(link, label, "a COPY was expected");
	shard_broadcast_free(item);
}

int64
shard_link_end_copy(ShardConn *link, const char *label)
{
	ShardBroadcast *item = shard_broadcast_await(link, label, NULL, SHARD_BROADCAST_COMMAND, -1);
	int64		nrows = strtoi64(PQcmdTuples(item->result), NULL, 10);

	shard_broadcast_free(item);
	return nrows;
}

int
shard_link_copy_data(ShardConn *link, char **message)
{
	int			len = PQgetCopyData(link->pg, message, 1);

	/* for a lost connection libpq always reports that no data has arrived */
	return len == 0 && PQstatus(link->pg) == CONNECTION_BAD ? -1 : len;
}

char *
shard_link_value(ShardConn *link, const char *sql)
{
	ShardBroadcast *item = shard_link_query(link, NULL, sql, 0);
	char	   *value;

	if (PQntuples(item->result) != 1 || PQnfields(item->result) != 1 || PQgetisnull(item->result, 0, 0))
		shard_error_protocol(link, NULL, "one value was expected");
	value = pstrdup(PQgetvalue(item->result, 0, 0));
	shard_broadcast_free(item);
	return value;
}

bool
shard_link_is_rewritten(ShardConn *link, const char *oids)
{
	/* the snapshot shows the row of pg_class, while the function reads the present one */
	return strcmp(shard_link_value(link, psprintf("SELECT count(*) FROM pg_class c WHERE c.oid IN (%s) "
												  "AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid)", oids)), "0") != 0;
}
