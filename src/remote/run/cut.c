/*
 * cut.c
 *	  One snapshot over all nodes (shardfdw.snapshot = 'cluster').
 *
 *	 connect to all nodes
 *	 close the fence (fence.c), and those of other coordinators: from here on no two-phase commit is decided
 *	   prepared transactions, then BEGIN and pg_export_snapshot(), on all nodes at once
 *	 open the fence
 *	 is one of those prepared in the commit log?
 *	   yes: COMMIT PREPARED, once more from the start
 *	   no: the snapshots are the statement's, or the transaction's
 *
 * What a cut shows:
 *
 * 1. All of a two-phase commit or nothing.  It is decided while its session holds
 *	  the fence, so none is decided between the first node's snapshot and the last
 *	  one's.  But a session that waits too long for a node lets go of the fence, as
 *	  does one that dies: its transaction may then be committed on some nodes and
 *	  still be prepared on others.  To find those, each node lists what is prepared
 *	  there before it takes its snapshot: on each node such a transaction is either
 *	  in that list or visible.
 * 2. No commit without the earlier commits that it may depend on, see fence.c.
 *
 * Connections are opened before the fence is closed: a writer that waits at the fence
 * may hold the last connection that a node allows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commit_log.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "miscadmin.h"
#include "own_schema.h"
#include "remote/pool/broadcast.h"
#include "remote/run/command.h"
#include "remote/run/cut.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "remote/xact/fence.h"
#include "remote/xact/peer_fence.h"
#include "remote/xact/twophase.h"
#include "remote/xact/txn_private.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define CUT_TIMEOUT_MS 5000		/* for all attempts together */
#define PAUSE_MS 100			/* the fence stays open so long between two attempts */

/* How an attempt to take the snapshots of all nodes at one moment has ended. */
typedef enum CutOutcome
{
	CUT_NOT_ASKED,				/* a commit held the fence for too long */
	CUT_TOO_LATE,				/* a node has answered when the fence was open again */
	CUT_ANSWERED
} CutOutcome;

/* A commit that node has not been told of. */
typedef struct LeftBehind
{
	Oid			serverid;
	const char *gid;
	ShardLogKey key;
	bool		is_ours;		/* not another coordinator's */
	bool		is_committed;	/* of another coordinator's: that one says so */
	bool		is_running;		/* its session is still telling the nodes */
} LeftBehind;

static ShardCutNodes cut_nodes = NULL;

void
shard_cut_init(ShardCutNodes nodes)
{
	cut_nodes = nodes;
}

/* Connections for the cut, connected, each held; none to nodes that this transaction writes to. */
static List *
open_connections(void)
{
	List	   *conns = NIL;
	ListCell   *lc;

	foreach_oid(serverid, cut_nodes())
	{
		if (shard_txn_find_writer(serverid, GetUserId()) == NULL)
			conns = lappend(conns, shard_pool_start_free(shard_pool_get(serverid, GetUserId())));
	}
	foreach(lc, conns)
		shard_connection_finish(lfirst(lc));
	return conns;
}

/* Raises what went wrong with item. */
static void
raise_failure(ShardBroadcast *item)
{
	PGresult   *res = item->result;

	item->result = NULL;
	if (!item->done)
	{
		PQclear(res);			/* of BEGIN, maybe */
		res = NULL;
	}
	if (res || PQstatus(item->conn->pg) == CONNECTION_BAD)
		shard_error_report(ERROR, res, item->conn, NULL, NULL);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("node \"%s\" did not answer in time for a snapshot over all nodes", item->conn->node)));
}

/*
 * Adds to ended those of gids (separated by blanks) whose transactions no longer run
 * on the coordinator.  Must be called while the fence is closed: later, transactions
 * that run now will have committed.
 */
static List *
find_ended(List *ended, Oid serverid, char *gids, const char *identity)
{
	char	   *end = NULL;

	for (char *gid = strtok_r(gids, " ", &end); gid; gid = strtok_r(NULL, " ", &end))
	{
		LeftBehind *found = palloc0(sizeof(LeftBehind));
		ShardGid	parts;

		if (!shard_twophase_read_gid(gid, &parts) ||
			(strcmp(parts.identity, identity) == 0 && shard_twophase_is_undecided(parts.key.xid)))
			continue;
		found->serverid = serverid;
		found->gid = gid;
		ended = lappend(ended, found);
	}
	return ended;
}

/* The query by which another coordinator says of each of ended whether it has committed it: a letter for each. */
static char *
commit_states_sql(List *ended)
{
	StringInfoData sql;
	ListCell   *lc;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT pg_catalog.string_agg(CASE " SHARD_INTERNAL_SCHEMA ".commit_state(u.gid) WHEN 'committed' THEN 'c' WHEN 'being committed' THEN 'r' ELSE '-' END, '' ORDER BY u.ord)"
						   " FROM pg_catalog.unnest(ARRAY[");
	foreach(lc, ended)
		appendStringInfo(&sql, "%s%s", foreach_current_index(lc) > 0 ? ", " : "", quote_literal_cstr(((LeftBehind *) lfirst(lc))->gid));
	appendStringInfoString(&sql, "]) WITH ORDINALITY u(gid, ord)");
	return sql.data;
}

/* Has the other coordinators say which of theirs they have committed, while no more of them are.  False: not in time. */
static bool
ask_peers(ShardPeerFence *fence, List *ended)
{
	bool		asked = false;
	ListCell   *lc;

	foreach(lc, ended)
	{
		LeftBehind *found = lfirst(lc);

		found->is_ours = shard_twophase_parse_gid(found->gid, &found->key);
		asked = asked || !found->is_ours;
	}
	if (!asked || fence->nitems == 0)
		return true;
	if (!shard_peer_fence_ask(fence, commit_states_sql(ended)))
		return false;
	for (int i = 0; i < fence->nitems; i++)
	{
		const char *states = PQgetvalue(fence->items[i].result, 0, 0);

		if (strlen(states) != list_length(ended))
			return false;
		foreach(lc, ended)
		{
			LeftBehind *found = lfirst(lc);
			char		state = states[foreach_current_index(lc)];

			found->is_committed = found->is_committed || state != '-';
			found->is_running = found->is_running || state == 'r';
		}
	}
	return true;
}

/* Those of ended that have committed, by the commit logs. */
static List *
find_left_behind(List *ended)
{
	List	   *left = NIL;

	foreach_ptr(LeftBehind, found, ended)
	{
		if (found->is_ours)
		{
			found->is_committed = shard_commit_log_contains(found->key);
			found->is_running = found->is_committed && shard_twophase_is_running(found->key.xid);
		}
		if (found->is_committed)
			left = lappend(left, found);
	}
	return left;
}

/* Has item's node answered with a list of gids, then a snapshot's identifier? */
static bool
has_snapshot(const ShardBroadcast *item)
{
	const char *id;

	if (!shard_broadcast_ok(item, NULL) || PQntuples(item->result) != 1 || PQnfields(item->result) != 1 ||
		item->first == NULL || PQntuples(item->first) != 1 || PQnfields(item->first) != 1)
		return false;
	id = PQgetvalue(item->result, 0, 0);
	return strlen(id) < NAMEDATALEN && strspn(id, "0123456789ABCDEFabcdef-") == strlen(id);
}

/* The commands for each node: list what is prepared there, then export the snapshot of a transaction that stays open. */
static char *
export_sql(void)
{
	/* at SERIALIZABLE the same transaction writes later, and one that has exported its snapshot cannot be prepared */
	bool		serializable = IsolationIsSerializable();

	return psprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;"
					" SELECT pg_catalog.string_agg(gid, ' ')"
					" FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()"
					" AND pg_catalog.starts_with(gid, '%s'); COMMIT;"
					" BEGIN ISOLATION LEVEL %s%s; SELECT %s",
					SHARD_GID_PREFIX,
					serializable ? "SERIALIZABLE" : "REPEATABLE READ",
					serializable && !XactReadOnly ? " READ WRITE NOT DEFERRABLE" : " READ ONLY NOT DEFERRABLE",
					serializable ? "''" : "pg_catalog.pg_export_snapshot()");
}

/*
 * Notes what the coordinator's catalogs say at this moment, while the fence is closed: where
 * shards are that move before the statement looks for them.  The statement's own
 * snapshot is older, and keeps the rows that this one sees.
 */
static void
note_local(ShardSnapshot *snapshot)
{
	Snapshot	local = GetLatestSnapshot();

	snapshot->local = MemoryContextAlloc(snapshot->cxt, EstimateSnapshotSpace(local));
	SerializeSnapshot(local, snapshot->local);
	snapshot->local_xmin = local->xmin;
}

/*
 * Asks the nodes of items while the fence is closed.  CUT_ANSWERED: each of them has
 * answered before the fence was opened, or never will.  Then the snapshots of those
 * that have answered are of one moment, and ended lists the prepared transactions
 * whose local transactions had ended by then.
 */
static CutOutcome
ask_behind_fence(ShardSnapshot *snapshot, ShardPeerFence *fence, ShardBroadcast *items, int nitems, List **ended)
{
	const char *identity = shard_identity_get();	/* asked now: no table must be opened while the fence is closed */
	volatile CutOutcome outcome = CUT_NOT_ASKED;

	PG_TRY();
	{
		if (shard_peer_fence_close(fence))
		{
			shard_broadcast_start(items, nitems);

			/* not RAISE: that would search for deadlocks by asking nodes, while commits wait */
			outcome = shard_broadcast_wait(items, nitems, SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY) ?
				CUT_ANSWERED : CUT_TOO_LATE;
			if (outcome == CUT_ANSWERED)
				note_local(snapshot);
			for (int i = 0; i < nitems && outcome == CUT_ANSWERED; i++)
				if (has_snapshot(&items[i]) && !PQgetisnull(items[i].first, 0, 0))
					*ended = find_ended(*ended, items[i].conn->serverid, pstrdup(PQgetvalue(items[i].first, 0, 0)), identity);
			if (outcome == CUT_ANSWERED && !ask_peers(fence, *ended))
				outcome = CUT_TOO_LATE;
		}
	}
	PG_FINALLY();
	{
		/* an error, too, opens it before the client is told */
		shard_peer_fence_open(fence);
	}
	PG_END_TRY();
	return outcome;
}

/* Raises the user's cancel or the end of the session, which has ended the wait for nodes. */
static void
raise_interrupt(void)
{
	if (!shard_wait_is_urged())
		return;
	shard_wait_interrupted = true;
	CHECK_FOR_INTERRUPTS();
}

/* The identifiers of the snapshots that nodes have answered with, in their order. */
static List *
take_ids(ShardBroadcast *items, int nitems)
{
	List	   *ids = NIL;

	for (int i = 0; i < nitems; i++)
	{
		if (!has_snapshot(&items[i]))
			raise_failure(&items[i]);
		ids = lappend(ids, pstrdup(PQgetvalue(items[i].result, 0, 0)));
	}
	return ids;
}

/*
 * Waits, with the fence open again, until deadline for nodes that have not answered.
 * Returns the identifiers of all snapshots, or raises.
 */
static List *
collect_ids(ShardBroadcast *items, int nitems, TimestampTz deadline)
{
	List	   *volatile ids = NIL;

	PG_TRY();
	{
		shard_broadcast_finish(items, nitems,
							   TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline),
							   SHARD_BROADCAST_HURRY);
		raise_interrupt();
		ids = take_ids(items, nitems);
	}
	PG_CATCH();
	{
		/* libpq's memory outlives an error */
		shard_broadcast_clear(items, nitems);
		PG_RE_THROW();
	}
	PG_END_TRY();
	shard_broadcast_clear(items, nitems);
	return ids;
}

/*
 * Tries once to take the snapshots of conns at one moment.  *ids: their identifiers, in
 * the order of conns.  *left: commits that some node has not been told of.  The
 * snapshots are a cut only if it returns CUT_ANSWERED and *left is empty.
 */
static CutOutcome
export_all(ShardSnapshot *snapshot, List *conns, TimestampTz deadline, List **ids, List **left)
{
	char	   *sql = export_sql();
	int			nitems = list_length(conns);
	ShardBroadcast *items = palloc0(Max(nitems, 1) * sizeof(ShardBroadcast));
	List	   *ended = NIL;
	ShardPeerFence fence;
	CutOutcome	outcome;

	shard_peer_fence_connect(&fence);
	for (int i = 0; i < nitems; i++)
	{
		items[i].conn = list_nth(conns, i);
		items[i].sql = sql;
		items[i].has_rows = true;
	}
	outcome = ask_behind_fence(snapshot, &fence, items, nitems, &ended);
	if (outcome == CUT_NOT_ASKED)
		raise_interrupt();
	else
		*ids = collect_ids(items, nitems, deadline);
	*left = find_left_behind(ended);
	if (!shard_peer_fence_end(&fence) && outcome == CUT_ANSWERED)
		outcome = CUT_TOO_LATE;
	return outcome;
}

/* Ends the transactions of conns, if they have begun, and releases the connections. */
static void
end_all(List *conns)
{
	foreach_ptr(ShardConn, conn, conns)
	{
		if (PQtransactionStatus(conn->pg) != PQTRANS_IDLE)
			shard_connection_exec(conn, "COMMIT");
		shard_connection_release(conn);
	}
}

/*
 * Completes the commits of left, except those whose sessions are still telling the
 * nodes.  One that another session has completed meanwhile counts, too.  False: there
 * was none to complete.
 */
static bool
complete_commits(List *left)
{
	ShardCommand *commands = palloc0(list_length(left) * sizeof(ShardCommand));
	const LeftBehind **subjects = palloc(list_length(left) * sizeof(LeftBehind *));
	int			n = 0;

	shard_identity_require_committed();
	foreach_ptr(const LeftBehind, found, left)
	{
		if (found->is_running)
			continue;
		commands[n].serverid = found->serverid;
		commands[n].userid = GetUserId();
		commands[n].sql = psprintf("COMMIT PREPARED '%s'", found->gid);
		subjects[n++] = found;
	}
	shard_command_run(commands, n, SHARD_COMMAND_AUTOCOMMIT, true);
	shard_command_free(commands, n);
	for (int i = 0; i < n; i++)
	{
		ErrorData  *error = commands[i].error;

		if (error && error->sqlerrcode != ERRCODE_UNDEFINED_OBJECT &&
			error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
			ereport(ERROR,
					(errcode(error->sqlerrcode),
					 errmsg("cannot take a snapshot over all nodes: a committed transaction is still prepared on node \"%s\"",
							GetForeignServer(subjects[i]->serverid)->servername),
					 errdetail("Transaction \"%s\": %s", subjects[i]->gid, error->message),
					 errhint("Have it settled by SELECT shardfdw.recover_prepared_transactions() of a user who may.")));
	}
	return n > 0;
}

/* Raises that no attempt has succeeded in time; outcome: how the last one ended. */
static void
raise_too_long(CutOutcome outcome)
{
	static const char *const details[] = {
		[CUT_NOT_ASKED] = "A commit has been under way for longer than that. It waits for the coordinator's standby, or for another session.",
		[CUT_TOO_LATE] = "Nodes have answered, but too late for commits to wait for them.",
		[CUT_ANSWERED] = "Committed transactions are still prepared on nodes.",
	};

	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not take a snapshot over all nodes within %d seconds", CUT_TIMEOUT_MS / 1000),
			 errdetail_internal("%s", details[outcome]),
			 outcome == CUT_ANSWERED ? errhint("Run SELECT shardfdw.recover_prepared_transactions().") : 0));
}

void
shard_cut_take(ShardSnapshot *snapshot)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), CUT_TIMEOUT_MS);
	List	   *conns;
	List	   *ids;
	ListCell   *lc;
	ListCell   *lc2;

	for (;;)
	{
		List	   *left = NIL;
		CutOutcome	outcome;

		ids = NIL;
		conns = open_connections();
		outcome = export_all(snapshot, conns, deadline, &ids, &left);
		if (outcome == CUT_ANSWERED && left == NIL)
			break;
		end_all(conns);
		if (GetCurrentTimestamp() >= deadline)
			raise_too_long(outcome);
		if (left == NIL || !complete_commits(left))
			shard_wait_pause(PAUSE_MS, false);
	}
	forboth(lc, conns, lc2, ids)
	{
		shard_txn_take_export(snapshot, lfirst(lc), lfirst(lc2));
		shard_connection_release(lfirst(lc));
	}
}
