/*
 * settle.c
 *	  Waits until prepared transactions on nodes have ended.
 *
 * A transaction commits on one server first, and on the others shortly after.  All of its nodes
 * have prepared it before the first one shows its rows.  So a session may have seen such rows on
 * one node.  If the session waits until all that is prepared on another node now has ended, it sees
 * the other rows of that transaction there.
 */
#include "postgres.h"

#include "identity.h"
#include "libpq-fe.h"
#include "remote/run/settle.h"
#include "remote/wire/wait.h"
#include "remote/xact/twophase.h"
#include "utils/builtins.h"

/* Older prepared transactions are not waited for, since no session is about to commit them. */
#define SETTLE_LIMIT_MS 5000

/* Longest pause between two queries. */
#define SETTLE_PAUSE_MS 20

/* A node with prepared transactions. */
typedef struct SettleNode
{
	Oid			serverid;
	const char *since;			/* seconds by the node's clock, as text, at the first query; NULL: no query yet */
} SettleNode;

/*
 * Can the coordinator have made gid?  Any role of a node can prepare a transaction under a name with the coordinator's
 * prefix.  Recovery does not end such a transaction, so it must not be waited for.
 */
static bool
is_of_coordinator(const char *gid)
{
	ShardGid	parts;

	return shard_twophase_read_gid(gid, &parts) &&
		shard_identity_relation(parts.system_identifier, parts.database, parts.identity) != SHARD_IDENTITY_OTHER;
}

/*
 * Queries nodes for transactions that were prepared before the first query.  Returns the number of
 * nodes that still must be waited for, and moves them to the front of nodes.  Adds nodes that have
 * older ones to *old.
 */
static int
ask_prepared(SettleNode *nodes, int nnodes, Oid userid, ShardCommandMode mode, List **old)
{
	const char *sql = psprintf("SELECT extract(epoch FROM c.now), p.gid, p.prepared OPERATOR(pg_catalog.>) (c.now OPERATOR(pg_catalog.-) '%d ms'::pg_catalog.interval)"
							   " FROM (SELECT pg_catalog.clock_timestamp()) c(now) LEFT JOIN pg_catalog.pg_prepared_xacts p"
							   " ON p.database OPERATOR(pg_catalog.=) pg_catalog.current_database() AND pg_catalog.starts_with(p.gid, %s)"
							   " AND extract(epoch FROM p.prepared) OPERATOR(pg_catalog.<=) coalesce($1::pg_catalog.numeric, 'infinity')",
							   SETTLE_LIMIT_MS, quote_literal_cstr(shard_twophase_gid_prefix()));
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * nnodes);
	int			nbusy = 0;

	for (int i = 0; i < nnodes; i++)
	{
		commands[i] = (ShardCommand) {.serverid = nodes[i].serverid, .userid = userid, .sql = sql, .nparams = 1,
			.params = &nodes[i].since, .inlines = true, .only_reads = mode != SHARD_COMMAND_WRITE, .nfields = 3};
	}
	shard_command_run(commands, nnodes, mode, false);
	for (int i = 0; i < nnodes; i++)
	{
		PGresult   *res = commands[i].result;
		bool		is_busy = false;
		bool		is_old = false;

		for (int row = 0; row < PQntuples(res); row++)
		{
			if (PQgetisnull(res, row, 1) || !is_of_coordinator(PQgetvalue(res, row, 1)))
				continue;
			if (strcmp(PQgetvalue(res, row, 2), "t") == 0)
				is_busy = true;
			else
				is_old = true;
		}
		if (!is_busy && is_old)
			*old = lappend_oid(*old, nodes[i].serverid);
		if (!is_busy)
			continue;
		if (nodes[i].since == NULL)
			nodes[i].since = pstrdup(PQgetvalue(res, 0, 0));
		nodes[nbusy++] = nodes[i];
	}
	shard_command_free(commands, nnodes);
	pfree(commands);
	return nbusy;
}

List *
shard_settle_wait(const List *servers, Oid userid, ShardCommandMode mode)
{
	int			nnodes = list_length(servers);
	SettleNode *nodes = palloc0(sizeof(SettleNode) * Max(nnodes, 1));
	long		pause_ms = 1;
	List	   *old = NIL;

	for (int i = 0; i < nnodes; i++)
		nodes[i].serverid = list_nth_oid(servers, i);
	while (nnodes > 0)
	{
		nnodes = ask_prepared(nodes, nnodes, userid, mode, &old);
		if (nnodes == 0)
			break;
		(void) shard_wait_socket(-1, 0, pause_ms, false);
		pause_ms = Min(pause_ms * 2, SETTLE_PAUSE_MS);
	}
	pfree(nodes);
	return old;
}
