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
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define IDLE_MS 1000
#define MAX_LINKS 8

/*
 * After a coordinator has vanished, the source must not keep WAL until the keep-alive of the kernel ends the
 * connection.
 */
#define SETTINGS_SQL \
	"SET search_path = pg_catalog; SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; " \
	"SET synchronous_commit = on; SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"

#define IDLE_VERSION 140000		/* first version that ends idle sessions */
#define IDLE_SQL "; SET idle_session_timeout = 0"

static ShardLinkIdle idle_function = NULL;
static void *idle_arg = NULL;

void
shard_link_set_idle(ShardLinkIdle idle, void *arg)
{
	idle_function = idle;
	idle_arg = arg;
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
	(void) shard_wait_set_wait(set, items, n, IDLE_MS, false);
	for (int i = 0; i < nlinks; i++)
	{
		/* a lost connection is reported when its result is read */
		if (links[i] != NULL)
			(void) shard_connection_consume(links[i]);
	}
	if (idle_function)
		idle_function(idle_arg);
}

void
shard_link_send(ShardConn *link, const char *sql)
{
	if (!PQsendQuery(link->pg, sql))
		shard_error_report(ERROR, NULL, link, NULL, sql);
	shard_connection_flush(link);
}

PGresult *
shard_link_result(ShardConn *link, const char *label)
{
	PGresult   *last = NULL;

	for (;;)
	{
		PGresult   *res;
		ExecStatusType status;

		while (PQstatus(link->pg) != CONNECTION_BAD && PQisBusy(link->pg))
			shard_link_wait(&link, 1);
		res = PQgetResult(link->pg);
		if (res == NULL)
			break;
		status = PQresultStatus(res);
		PQclear(last);
		last = res;
		if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH)
			break;
		if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY)
		{
			/* discard the following results, which belong to the same failure */
			while (PQstatus(link->pg) != CONNECTION_BAD && (res = PQgetResult(link->pg)) != NULL)
				PQclear(res);
			shard_error_report(ERROR, last, link, label, NULL);
		}
	}
	if (last == NULL)
		shard_error_report(ERROR, NULL, link, label, NULL);
	return last;
}

int
shard_link_copy_data(ShardConn *link, char **message)
{
	int			len = PQgetCopyData(link->pg, message, 1);

	/* for a lost connection libpq always reports that no data has arrived */
	return len == 0 && PQstatus(link->pg) == CONNECTION_BAD ? -1 : len;
}

void
shard_link_exec(ShardConn *link, const char *sql)
{
	shard_link_send(link, sql);
	PQclear(shard_link_result(link, NULL));
}

char *
shard_link_value(ShardConn *link, const char *sql)
{
	PGresult   *res;
	char	   *value;

	shard_link_send(link, sql);
	res = shard_link_result(link, NULL);
	if (PQntuples(res) != 1 || PQnfields(res) != 1 || PQgetisnull(res, 0, 0))
	{
		PQclear(res);
		shard_error_protocol(link, NULL, "one value was expected");
	}
	value = pstrdup(PQgetvalue(res, 0, 0));
	PQclear(res);
	return value;
}
