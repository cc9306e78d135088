/*
 * deadlock.c
 *	  Finds deadlocks over several nodes.
 *
 * Each server sees only its own locks.  If a session has waited for nodes for deadlock_timeout, it
 * asks all nodes which session waits for which, adds the locks of the coordinator, and searches
 * this graph for a cycle through itself:
 *
 *	 does a node say that this session waits for a lock? --no--> continue to wait
 *	   |yes
 *	 edges of all nodes and of this server --> path back to this session? --no--> continue to wait
 *	   |yes
 *	 after a short time once more: still there? --> 40P01
 *
 * If nearly all connections to a node are taken, the sessions of a deadlock may share a single one
 * for these queries.  So each session closes its connection immediately, and asks again later.
 *
 * As in core, the session that finds the deadlock gives up.  The second search has two purposes.
 * Answers of different nodes belong to different moments, so a cycle may never have existed as a
 * whole.  And if several sessions find the same deadlock, the first one that gives up has ended it
 * when the others search again.  Their names determine which one is the first.  The others wait as
 * long as a search of that session takes, which they estimate by their own. (That session may not
 * search at all, since it waits for something else or has another deadlock_timeout.)  A random part
 * of the wait separates two sessions that want the same last connection.
 *
 * Sessions are the vertices, on whichever server they wait.  Nodes recognize the connections of a
 * session by their application_name (conninfo.h), even those of another coordinator's sessions.  A
 * session with another application_name, like any other client of a node, is a vertex of that node.
 * A client can take the name of a session.  So this session takes its own name only from its own
 * connections, whose pids it has from the nodes.
 * Other coordinators are asked, too.  Their clients are vertices under the name by which nodes know
 * them.
 *
 * A client that waits for a lock of its server does not search.  On coordinators, where
 * sessions of other coordinators hold locks, all sessions of a cycle may wait in this way.  The
 * recovery worker searches for such cycles, and cancels one session (shard_deadlock_end_local()).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/node_list.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "conninfo.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/command.h"
#include "remote/wire/wait.h"
#include "service/deadlock.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define NEXT_LOOK_MIN_MS 50		/* after a deadlock was seen, or if not all nodes could be asked */
#define NEXT_LOOK_MAX_MS 400
#define OTHERS_LOOK_MS 500		/* additional wait if another session must give up first, ... */
#define OTHERS_LOOK_FACTOR 2	/* ... plus this many times the duration of the own search */
#define MAX_LOOKS 4

/*
 * Sessions that wait for a lock.  Locks for extending a table and page locks of GIN are left out, as in core's
 * detector.  They are held only for a moment, and never while their holder waits for another lock.  With many
 * concurrent loads, each load is likely to wait for such a lock on some node at any moment.
 */
#define WAITERS \
	"(SELECT DISTINCT pid FROM pg_locks WHERE NOT granted AND pid IS NOT NULL AND locktype NOT IN ('extend', 'page'))"

/* a parallel worker has the name of its leader, which alone has a connection */
#define EDGES \
	"SELECT coalesce(wa.leader_pid, w.pid), wa.application_name, b.pid, ba.application_name" \
	" FROM " WAITERS " w" \
	" JOIN pg_stat_activity wa ON wa.pid = w.pid" \
	" CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) b (pid)" \
	" JOIN pg_stat_activity ba ON ba.pid = b.pid"

static const char edges_query[] = EDGES;

/* The same for another coordinator.  Its sessions get the names that nodes use for them. */
static const char peer_edges_query[] =
"SELECT e.waiter, CASE WHEN starts_with(e.waiter_name, 'shardfdw:') THEN e.waiter_name ELSE format('shardfdw:%s:%s', s.system_identifier, e.waiter) END,"
" e.blocker, CASE WHEN starts_with(e.blocker_name, 'shardfdw:') THEN e.blocker_name ELSE format('shardfdw:%s:%s', s.system_identifier, e.blocker) END"
" FROM pg_control_system() s, (" EDGES ") e (waiter, waiter_name, blocker, blocker_name)";

/* One session waits for another one. */
typedef struct WaitEdge
{
	const char *waiter;
	const char *blocker;
	const char *node;			/* node where it waits; NULL: this server */
	const char *waiter_pid;		/* on that server */
	const char *blocker_pid;
	struct WaitEdge *before;	/* previous edge on the path from this session */
	bool		visited;
} WaitEdge;

/* Returns the name of a session: its application_name if a coordinator has set it; otherwise node and pid. */
static const char *
session_name(const char *application_name, const char *node, const char *pid)
{
	if (strncmp(application_name, "shardfdw:", strlen("shardfdw:")) == 0)
		return pstrdup(application_name);
	return psprintf("%s %s", node, pid);
}

/* Adds the edges that node has returned. */
static List *
take_edges(List *edges, const char *node, PGresult *res)
{
	for (int i = 0; i < PQntuples(res); i++)
	{
		WaitEdge   *edge = palloc0(sizeof(WaitEdge));

		edge->node = node;
		edge->waiter_pid = pstrdup(PQgetvalue(res, i, 0));
		edge->blocker_pid = pstrdup(PQgetvalue(res, i, 2));
		edge->waiter = session_name(PQgetvalue(res, i, 1), node, edge->waiter_pid);
		edge->blocker = session_name(PQgetvalue(res, i, 3), node, edge->blocker_pid);
		edges = lappend(edges, edge);
	}
	return edges;
}

/*
 * Asks nodes (List of ShardNodeName) as userid.  A node that cannot be asked adds no edges.  Never
 * waits for a free connection, since the sessions that hold the connections may wait for this one.
 * *complete is false if a connection was not available.
 */
static List *
ask_nodes(List *edges, List *nodes, Oid userid, bool *complete)
{
	ShardCommand *commands = palloc0(Max(1, list_length(nodes)) * sizeof(ShardCommand));
	List	   *volatile told = edges;
	int			n = 0;

	foreach_ptr(ShardNodeName, node, nodes)
	{
		commands[n] = (ShardCommand) {.serverid = node->serverid, .userid = userid,
			.nfields = 4};
		commands[n].sql = shard_node_is_coordinator(commands[n].serverid) ? peer_edges_query : edges_query;
		n++;
	}
	shard_command_run(commands, n, SHARD_COMMAND_SPARE, true);

	n = 0;
	foreach_ptr(ShardNodeName, node, nodes)
	{
		ShardCommand *command = &commands[n++];

		if (command->error && command->error->sqlerrcode == ERRCODE_TOO_MANY_CONNECTIONS)
			*complete = false;
		if (command->result)
			told = take_edges(told, node->name, command->result);
	}
	shard_command_free(commands, n);
	return told;
}

/*
 * Returns the name of a session of this server.  If its client is a session of another coordinator, returns the name of
 * that session.
 */
static const char *
session_here(int pid)
{
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const LocalPgBackendStatus *local = shard_local_beentry(i);

		if (local == NULL || local->backendStatus.st_procpid != pid)
			continue;
		if (local->backendStatus.st_appname && strncmp(local->backendStatus.st_appname, "shardfdw:", strlen("shardfdw:")) == 0)
			return pstrdup(local->backendStatus.st_appname);
		break;
	}
	return shard_conninfo_session_name(pid);
}

/* Adds the edges of this server. */
static List *
ask_here(List *edges)
{
	LockData   *locks = GetLockStatusData();

	pgstat_clear_backend_activity_snapshot();

	for (int i = 0; i < locks->nelements; i++)
	{
		LockInstanceData *lock = &locks->locks[i];
		Datum	   *blockers;
		int			nblockers;

		if (lock->waitLockMode == NoLock || lock->pid == 0)
			continue;
		if (lock->locktag.locktag_type == LOCKTAG_RELATION_EXTEND || lock->locktag.locktag_type == LOCKTAG_PAGE)
			continue;
		deconstruct_array(DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids,
																 Int32GetDatum(lock->pid))),
						  INT4OID, sizeof(int32), true, TYPALIGN_INT,
						  &blockers, NULL, &nblockers);
		for (int j = 0; j < nblockers; j++)
		{
			WaitEdge   *edge = palloc0(sizeof(WaitEdge));
			int			blocker = DatumGetInt32(blockers[j]);

			edge->waiter_pid = psprintf("%d", lock->pid);
			edge->blocker_pid = psprintf("%d", blocker);
			edge->waiter = session_here(lock->pid);
			edge->blocker = session_here(blocker);
			edges = lappend(edges, edge);
		}
	}
	return edges;
}

/* Does a process with this pid wait for a lock? */
static bool
process_waits(List *edges, const char *pid)
{
	foreach_ptr(WaitEdge, edge, edges)
	{
		if (strcmp(edge->waiter_pid, pid) == 0)
			return true;
	}
	return false;
}

/*
 * Returns the last edge of a shortest cycle that begins and ends at me, or NULL. passing: pids of processes that run a
 * command of me which the node commits by itself.  Unless such a process waits for a lock, too, it releases its locks
 * without me.  So it closes no cycle.
 */
static WaitEdge *
find_way_back(List *edges, const char *me, List *passing)
{
	List	   *queue = NIL;

	foreach_ptr(WaitEdge, edge, edges)
	{
		edge->before = NULL;
		edge->visited = strcmp(edge->waiter, me) == 0;
		if (edge->visited)
			queue = lappend(queue, edge);
	}
	for (int i = 0; i < list_length(queue); i++)
	{
		WaitEdge   *edge = list_nth(queue, i);

		if (strcmp(edge->blocker, me) == 0 &&
			(!list_member_int(passing, atoi(edge->blocker_pid)) || process_waits(edges, edge->blocker_pid)))
			return edge;
		foreach_ptr(WaitEdge, next, edges)
		{
			if (next->visited || strcmp(next->waiter, edge->blocker) != 0)
				continue;
			next->visited = true;
			next->before = edge;
			queue = lappend(queue, next);
		}
	}
	return NULL;
}

/* Connections of this session that wait for an answer. */
typedef struct BusyNodes
{
	List	   *nodes;			/* of ShardNodeName */
	List	   *users;			/* OidList, for each */
	List	   *passing;		/* IntList: pids of those whose command the node commits by itself, ... */
	List	   *staying;		/* ... and of the others, whose locks stay until this session's commit */
	bool		pooled;			/* there may be a pooler, so these are not the pids of the nodes' sessions */
} BusyNodes;

static void
note_busy(ShardConn *conn, void *arg)
{
	BusyNodes  *busy = arg;
	ShardNodeName *node;

	if (conn->state != SHARD_CONN_READY)
		return;
	busy->pooled |= conn->stateless;
	/* a holder that does not yield reads the answer without waiting for anything else */
	if (conn->xact.depth == 0 && conn->holder != NULL && conn->holder->yield == NULL)
		busy->passing = lappend_int(busy->passing, PQbackendPID(conn->pg));
	else
		busy->staying = lappend_int(busy->staying, PQbackendPID(conn->pg));
	if (PQtransactionStatus(conn->pg) != PQTRANS_ACTIVE)
		return;
	foreach_ptr(ShardNodeName, known, busy->nodes)
	{
		if (known->serverid == conn->serverid)
			return;
	}
	node = palloc(sizeof(ShardNodeName));
	node->serverid = conn->serverid;
	node->name = pstrdup(conn->node);
	busy->nodes = lappend(busy->nodes, node);
	busy->users = lappend_oid(busy->users, conn->userid);
}

/* Renames sessions that use the name me, but are not this session. */
static void
rename_others(List *edges, const char *me, const BusyNodes *busy)
{
	foreach_ptr(WaitEdge, edge, edges)
	{
		const char **names[] = {&edge->waiter, &edge->blocker};
		const char *pids[] = {edge->waiter_pid, edge->blocker_pid};

		for (int i = 0; i < lengthof(names); i++)
		{
			int			pid = atoi(pids[i]);

			if (strcmp(*names[i], me) == 0 && (edge->node != NULL || pid != MyProcPid) &&
				!list_member_int(busy->passing, pid) && !list_member_int(busy->staying, pid))
				*names[i] = psprintf("%s %s", edge->node ? edge->node : "", pids[i]);
		}
	}
}

/*
 * Returns the last edge of a cycle through this session, or NULL. *complete: no node was omitted
 * for lack of a connection.  Memory: current context.
 */
static WaitEdge *
look_for_deadlock(bool *complete)
{
	const char *me = shard_conninfo_session_name(MyProcPid);
	BusyNodes	busy = {0};
	List	   *edges = NIL;
	List	   *others = NIL;
	bool		waiting = false;
	bool		known;
	ListCell   *lc;
	ListCell   *lc2;

	*complete = true;
	shard_pool_each(note_busy, &busy);
	forboth(lc, busy.nodes, lc2, busy.users)
		edges = ask_nodes(edges, list_make1(lfirst(lc)), lfirst_oid(lc2), complete);
	foreach(lc, edges)
	{
		if (strcmp(((WaitEdge *) lfirst(lc))->waiter, me) == 0)
			waiting = true;
	}
	if (!waiting)
		return NULL;

	foreach_ptr(ShardNodeName, node, shard_node_list_all(&known))
	{
		bool		asked = false;

		foreach(lc2, busy.nodes)
		{
			if (((ShardNodeName *) lfirst(lc2))->serverid == node->serverid)
				asked = true;
		}
		if (!asked)
			others = lappend(others, node);
	}
	edges = ask_here(ask_nodes(edges, others, GetUserId(), complete));
	if (!busy.pooled)
		rename_others(edges, me, &busy);
	/* processes of two servers may have the same pid; this process keeps its locks, too */
	return find_way_back(edges, me, list_difference_int(busy.passing, lappend_int(busy.staying, MyProcPid)));
}

/* Describes a process of a node, and the process here for whose session it works. */
static char *
describe_process(const char *pid, const char *session)
{
	const char *here = strrchr(session, ':');

	if (here != NULL && strcmp(session, shard_conninfo_session_name(atoi(here + 1))) == 0)
		return psprintf(_("process %s (of session %s)"), pid, here + 1);
	return psprintf(_("process %s"), pid);
}

/* Describes the cycle that ends with last. */
static char *
describe_cycle(WaitEdge *last)
{
	StringInfoData way;
	List	   *edges = NIL;

	for (WaitEdge *edge = last; edge; edge = edge->before)
		edges = lcons(edge, edges);
	initStringInfo(&way);
	foreach_ptr(WaitEdge, edge, edges)
	{
		if (way.len > 0)
			appendStringInfoChar(&way, '\n');
		if (edge->node)
			appendStringInfo(&way, _("On node \"%s\" %s waits for %s."), edge->node,
							 describe_process(edge->waiter_pid, edge->waiter), describe_process(edge->blocker_pid, edge->blocker));
		else
			appendStringInfo(&way, _("Here process %s waits for process %s."),
							 edge->waiter_pid, edge->blocker_pid);
	}
	return way.data;
}

static void
raise_deadlock(WaitEdge *last)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected over nodes"),
			 errdetail_internal("%s", describe_cycle(last)),
			 errhint("See the servers' logs for what these processes did.")));
}

/* Is session me the first one to give up in the cycle that ends with last? */
static bool
gives_up_first(WaitEdge *last, const char *me)
{
	for (WaitEdge *edge = last; edge; edge = edge->before)
	{
		if (strcmp(edge->waiter, me) < 0)
			return false;
	}
	return true;
}

/* Do both sessions belong to the same coordinator?  Names end with ":pid". */
static bool
have_same_coordinator(const char *one, const char *other)
{
	const char *end = strrchr(one, ':');

	return end != NULL && strncmp(one, other, end - one + 1) == 0 && strchr(other + (end - one) + 1, ':') == NULL;
}

/*
 * The same for clients that wait for a peer (waits_for_peer), here and on other coordinators.  A client that waits on its
 * coordinator for another client of that coordinator is none of them, so it does not count.
 */
static bool
gives_up_first_of_peers(WaitEdge *last, const char *me)
{
	for (WaitEdge *edge = last; edge; edge = edge->before)
	{
		if (strcmp(edge->waiter, me) < 0 && !have_same_coordinator(edge->waiter, edge->blocker))
			return false;
	}
	return true;
}

/* Waits before the next search. last: the result of the previous search, which took look_ms. */
static void
wait_for_next_look(WaitEdge *last, long look_ms)
{
	long		ms = NEXT_LOOK_MIN_MS + (long)
		(pg_prng_double(&pg_global_prng_state) * (NEXT_LOOK_MAX_MS - NEXT_LOOK_MIN_MS));

	if (last && !gives_up_first(last, shard_conninfo_session_name(MyProcPid)))
		ms += OTHERS_LOOK_MS + OTHERS_LOOK_FACTOR * look_ms;
	(void) shard_wait_socket(-1, 0, ms, false);
}

static void
check_for_deadlock(void)
{
	MemoryContext cxt;
	MemoryContext oldcxt;
	WaitEdge   *last = NULL;
	int			nfound = 0;		/* in consecutive searches */
	long		look_ms = 0;

	if (!IsTransactionState())
		return;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw deadlock check",
								ALLOCSET_SMALL_SIZES);
	oldcxt = MemoryContextSwitchTo(cxt);
	for (int i = 0; i < MAX_LOOKS && nfound < 2; i++)
	{
		TimestampTz start;
		bool		complete;

		if (i > 0)
			wait_for_next_look(last, look_ms);
		start = GetCurrentTimestamp();
		last = look_for_deadlock(&complete);
		look_ms = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
		nfound = last ? nfound + 1 : 0;
		if (!last && complete)
			break;
	}
	if (nfound == 2)
		raise_deadlock(last);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
}

/* Does a client of this server wait for a lock that another coordinator's session holds here? */
static bool
waits_for_peer(const WaitEdge *edge)
{
	return edge->node == NULL && strcmp(edge->waiter, shard_conninfo_session_name(atoi(edge->waiter_pid))) == 0 &&
		strcmp(edge->blocker, shard_conninfo_session_name(atoi(edge->blocker_pid))) != 0;
}

/*
 * Searches once for deadlocks of such clients.  Returns the pids of those that are the first to
 * give up in their cycles.
 */
static List *
find_local_victims(void)
{
	List	   *edges = ask_here(NIL);
	List	   *candidates = NIL;
	List	   *victims = NIL;
	bool		complete = true;

	foreach_ptr(WaitEdge, edge, edges)
		if (waits_for_peer(edge))
			candidates = lappend(candidates, edge);
	if (candidates == NIL)
		return NIL;
	edges = ask_nodes(edges, shard_node_list_all(&complete), GetUserId(), &complete);
	foreach_ptr(WaitEdge, candidate, candidates)
	{
		WaitEdge   *last = find_way_back(edges, candidate->waiter, NIL);

		if (last != NULL && gives_up_first_of_peers(last, candidate->waiter))
			victims = list_append_unique_int(victims, atoi(candidate->waiter_pid));
	}
	return victims;
}

void
shard_deadlock_end_local(void)
{
	List	   *before = find_local_victims();

	if (before == NIL)
		return;
	/* answers of different servers belong to different moments */
	shard_wait_pause(OTHERS_LOOK_MS, false);
	foreach_int(pid, list_intersection_int(before, find_local_victims()))
	{
		ereport(LOG,
				(errmsg("process %d is canceled, since it is in a deadlock over coordinators", pid)));
		(void) DirectFunctionCall1(pg_cancel_backend, Int32GetDatum(pid));
	}
}

void
shard_deadlock_init(void)
{
	shard_wait_stalled = check_for_deadlock;
}
