/*
 * restore_point.c
 *	  A restore point that is the same moment on the coordinator and on all nodes.
 *
 *	   connect to all nodes, begin a transaction on each
 *	   close the snapshot barrier (fence.c), and those of other coordinators: no two-phase commit is decided,
 *			and no other commit begins
 *			set the coordinator's restore point, then those of other coordinators, then those of the nodes in parallel
 *	   open the barrier
 *	   commit on the nodes: their restore points are on disk
 *
 * If all servers are restored to this point, they agree about every transaction:
 *
 *	- A commit that a node has before its point was decided before the barrier was closed.  So the
 *	  coordinator has it before its own point.
 *	- A commit that the coordinator has before its point was prepared on all nodes before the
 *	  barrier was closed.  If a node has not committed it by its point, it is prepared there, and
 *	  its row in the commit log tells recovery to commit it.  That row is not deleted before the
 *	  nodes have confirmed, and the coordinator's point precedes those of the nodes.
 *	- A transaction that is prepared but not decided has no row in any log, and recovery rolls it
 *	  back.
 *	- Commits on one node, or only on the coordinator: every commit that a client had been told
 *	  about before is there, and none without the commits that it followed, as in a cluster snapshot
 *	  (fence.c).
 *
 * A server is restored to the first point with a given name in its WAL, and all databases of the
 * server share its WAL.  So the name there, the target, consists of the requested name and a random
 * number.  Servers with the same target belong to the same call, whatever was requested in other
 * databases, by other coordinators of the same nodes, or by a predecessor whose last commits were
 * lost.  The target of a failed call is not returned, since its points may not belong to one
 * moment.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "array_loop.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "compat.h"
#include "fault.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "miscadmin.h"
#include "remote/wire/broadcast.h"
#include "remote/pool/pool.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "remote/xact/fence.h"
#include "remote/xact/peer_fence.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#define TIMEOUT_MS 5000			/* for all attempts to close the barrier together, and then for the nodes */
#define PAUSE_MS 100			/* how long the barrier stays open between two attempts */

#define TARGET_BYTES 63			/* maximum length for pg_create_restore_point() */
#define NUMBER_BYTES 16			/* length of the random number in a target, in hexadecimal digits */

PG_FUNCTION_INFO_V1(shardfdw_set_restore_point);

/* ---------- rights and names ---------- */

/* Raises unless the server is a node that the caller may use. */
static void
check_node(Oid serverid)
{
	if (!shard_option_is_our_server(serverid) || serverid == shard_option_cluster_server())
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server %u is not a node", serverid)));
	shard_node_check_usage(serverid);
}

/* Returns a unique target for a restore point with this name. */
static char *
make_target(const char *name)
{
	const int	max_bytes = TARGET_BYTES - NUMBER_BYTES - 1;
	size_t		len = strlen(name);
	uint64		number;

	/* it will be in a line of a configuration file of the restored server */
	for (const char *c = name; *c != '\0'; c++)
		if (iscntrl((unsigned char) *c))
			len = 0;
	if (len == 0 || len > max_bytes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a restore point must have 1 to %d bytes, and no control characters", max_bytes)));
	if (!pg_strong_random(&number, sizeof(number)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	return psprintf("%s-%016llx", name, (unsigned long long) number);
}

/* ---------- nodes ---------- */

/* Opens connections to servers, for this function alone. */
static ShardBroadcast *
connect_all(const List *servers, int *nitems)
{
	ShardBroadcast *items = shard_broadcast_create(list_length(servers));

	*nitems = 0;
	for (int i = 0; i < list_length(servers); i++)
		items[(*nitems)++].conn = shard_pool_start_free(shard_pool_get(list_nth_oid(servers, i), GetUserId()));
	for (int i = 0; i < *nitems; i++)
		shard_connection_finish(items[i].conn);
	return items;
}

/* Raises the error of the first item that has failed. */
static void
check_all(ShardBroadcast *items, int nitems)
{
	for (int i = 0; i < nitems; i++)
	{
		if (!shard_broadcast_check(&items[i], NULL, NULL))
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("node \"%s\" did not answer in time", items[i].conn->node)));
	}
}

/* Runs sql on all nodes.  A cancel ends the wait. */
static void
ask_all(ShardBroadcast *items, int nitems, const char *sql, bool has_rows)
{
	shard_broadcast_clear(items, nitems);
	for (int i = 0; i < nitems; i++)
	{
		items[i].sql = sql;
		items[i].has_rows = has_rows;
	}
	shard_broadcast_start(items, nitems);
	shard_broadcast_finish(items, nitems, TIMEOUT_MS, SHARD_BROADCAST_HURRY);
	shard_wait_interrupted = shard_wait_is_urged();
	CHECK_FOR_INTERRUPTS();
	check_all(items, nitems);
}

/* Tries once to close the barriers of all coordinators.  If it returns false or raises, they are open. */
static bool
try_to_close(ShardPeerFence *fence)
{
	volatile bool closed = false;

	PG_TRY();
	{
		closed = shard_peer_fence_close(fence);
	}
	PG_CATCH();
	{
		shard_peer_fence_open(fence);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!closed)
		shard_peer_fence_open(fence);
	return closed;
}

/*
 * Closes the barriers of all coordinators.  Tries again as long as commits are running, which
 * continue in between.  Returns since when commits may have to wait.  After an error the barriers
 * are open.
 */
static TimestampTz
close_fences(ShardPeerFence *fence)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TIMEOUT_MS);

	for (;;)
	{
		shard_peer_fence_connect(fence);
		if (try_to_close(fence))
			return fence->began;
		(void) shard_peer_fence_end(fence);
		CHECK_FOR_INTERRUPTS();
		if (GetCurrentTimestamp() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not set a restore point within %d seconds", TIMEOUT_MS / 1000),
					 errdetail("A commit has been under way for longer than that. It waits for the coordinator's standby, or for another session.")));
		shard_wait_pause(PAUSE_MS, false);
	}
}

/* ---------- at one moment ---------- */

/* Positions of a restore point on all servers, as lists of SQL literals. */
typedef struct Places
{
	StringInfoData nodes;		/* NULL: the coordinator */
	StringInfoData timelines;
	StringInfoData lsns;
} Places;

/* Adds a server. file: name of the WAL file, which begins with the timeline. */
static void
add_place(Places *places, const char *node, const char *file, const char *lsn)
{
	const char *separator = places->lsns.len > 0 ? ", " : "";

	appendStringInfo(&places->nodes, "%s%s", separator, node ? quote_literal_cstr(node) : "NULL");
	appendStringInfo(&places->timelines, "%s%d", separator, (int) strtoul(pnstrdup(file, Min(strlen(file), 8)), NULL, 16));
	appendStringInfo(&places->lsns, "%s%s", separator, quote_literal_cstr(lsn));
}

static void
add_node_place(Places *places, const ShardBroadcast *item)
{
	const PGresult *res = item->result;

	if (PQntuples(res) != 1 || PQnfields(res) != 2)
		shard_error_protocol(item->conn, NULL, "a restore point was expected");
	add_place(places, item->conn->node, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 0));
}

/*
 * Sets the restore point target on all servers while the barriers are closed, on other coordinators
 * before nodes.  Returns this coordinator's position as text.
 *
 * places gets the positions of the
 * others. *in_time is false if a server has not answered before the barriers were opened again, so
 * that commits may have occurred in between. *pause_us: how long commits had to wait.
 */
static Datum
set_all(const char *target, ShardBroadcast *items, int nitems, Places *places, bool *in_time, int64 *pause_us)
{
	/* With an xid, the commit, which comes after the barrier was opened, flushes the restore point. */
	char	   *sql = psprintf("SELECT x.lsn, pg_catalog.pg_walfile_name(x.lsn) FROM (SELECT pg_catalog.pg_create_restore_point(%s)"
							   " WHERE pg_catalog.pg_current_xact_id() IS NOT NULL OFFSET 0) x(lsn)",
							   quote_literal_cstr(target));
	TimestampTz closed_at;
	ShardPeerFence fence;
	volatile Datum here = (Datum) 0;

	shard_broadcast_clear(items, nitems);
	for (int i = 0; i < nitems; i++)
	{
		items[i].sql = sql;
		items[i].has_rows = true;
	}
	closed_at = close_fences(&fence);
	SHARD_FAULT_POINT("restore_point_closed");
	PG_TRY();
	{
		here = DirectFunctionCall1(pg_create_restore_point, CStringGetTextDatum(target));
		*in_time = fence.nitems == 0 || shard_peer_fence_ask(&fence, sql);
		for (int i = 0; i < fence.nitems && *in_time; i++)
			add_node_place(places, &fence.items[i]);
		SHARD_FAULT_POINT("restore_point_peers");
		if (*in_time)
		{
			shard_broadcast_start(items, nitems);
			SHARD_FAULT_POINT("restore_point_sent");
			*in_time = shard_broadcast_wait(items, nitems, SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY);
		}
	}
	PG_FINALLY();
	{
		/* also after an error, open the barriers before the client is told */
		shard_peer_fence_open(&fence);
	}
	PG_END_TRY();
	*pause_us = GetCurrentTimestamp() - closed_at;
	if (!shard_peer_fence_end(&fence))
		*in_time = false;
	SHARD_FAULT_POINT("restore_point_set");
	return here;
}

/* Sets the restore point, and records its positions. */
static void
set_restore_point(const char *name, const char *target, ShardBroadcast *items, int nitems)
{
	Places		places;
	Datum		here;
	bool		in_time;
	int64		pause_us;

	/* with an xid, the commit, which comes after the barrier was opened, flushes the restore point */
	ask_all(items, nitems, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = local; SELECT pg_catalog.pg_current_xact_id()", true);
	initStringInfo(&places.nodes);
	initStringInfo(&places.timelines);
	initStringInfo(&places.lsns);
	here = set_all(target, items, nitems, &places, &in_time, &pause_us);
	/* not if another coordinator was too slow, since nodes have not been asked then */
	if (in_time || (nitems > 0 && items[0].sent))
	{
		shard_broadcast_finish(items, nitems, TIMEOUT_MS, SHARD_BROADCAST_HURRY);
		check_all(items, nitems);
	}
	if (!in_time)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("nodes were too slow to set restore point \"%s\"", name),
				 errdetail("Commits do not wait for longer than %d ms, so it is not of one moment.", SHARD_FENCE_HOLD_MS)));
	add_place(&places, NULL, text_to_cstring(DatumGetTextPP(DirectFunctionCall1(pg_walfile_name, here))),
			  DatumGetCString(DirectFunctionCall1(pg_lsn_out, here)));
	for (int i = 0; i < nitems; i++)
		add_node_place(&places, &items[i]);
	ask_all(items, nitems, "COMMIT", false);
	XLogFlush(DatumGetLSN(here));
	(void) shard_own_sql_run(psprintf("INSERT INTO " SHARD_INTERNAL_SCHEMA ".restore_point (target, name, made_at, role, commit_pause, nodes, timelines, lsns)"
									  " VALUES (%s, %s, pg_catalog.clock_timestamp(), %s, pg_catalog.make_interval(secs => %f),"
									  " ARRAY[%s]::pg_catalog.name[], ARRAY[%s]::pg_catalog.int4[], ARRAY[%s]::pg_catalog.pg_lsn[])",
									  quote_literal_cstr(target), quote_literal_cstr(name), quote_literal_cstr(GetUserNameFromId(GetUserId(), false)),
									  pause_us / 1000000.0, places.nodes.data, places.timelines.data, places.lsns.data), 0, NULL);
}

/*
 * set_restore_point(name text, nodes oid[]) -> text: the target
 */
Datum
shardfdw_set_restore_point(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *target;
	ShardBroadcast *items;
	ShardArrayLoop loop;
	Datum		serverid;
	List	   *servers = NIL;
	int			nitems;

	PreventCommandIfReadOnly("create_restore_point()");
	PreventCommandDuringRecovery("create_restore_point()");
	shard_own_right_check("create_restore_point");
	shard_identity_require();
	target = make_target(name);
	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(1));
	while (shard_array_loop_next(&loop, &serverid))
	{
		check_node(DatumGetObjectId(serverid));
		servers = lappend_oid(servers, DatumGetObjectId(serverid));
	}

	items = connect_all(servers, &nitems);
	set_restore_point(name, target, items, nitems);
	for (int i = 0; i < nitems; i++)
		shard_connection_release(items[i].conn);
	PG_RETURN_TEXT_P(cstring_to_text(target));
}
