/*
 * cut.c
 *	  Cluster snapshots: one snapshot over all nodes (shardfdw.snapshot = 'cluster').
 *
 *	   connect to all nodes
 *	   close the snapshot barrier (fence.c), and those of other coordinators: no two-phase commit is decided from here on
 *			on all nodes in parallel: list the prepared transactions, then BEGIN and pg_export_snapshot()
 *	   open the barrier
 *	   is one of these prepared transactions in the commit log?
 *			yes: COMMIT PREPARED, and start again
 *			no: use the snapshots for the statement or the transaction
 *
 * What a cluster snapshot shows:
 *
 * 1. All of a two-phase commit or nothing.  A two-phase commit is decided while its session holds
 *	  the barrier.  So none is decided between the first node's snapshot and the last one's.  But a
 *	  session that waits too long for a node lets go of the barrier.  A session that dies does the
 *	  same.  Its transaction may then be committed on some nodes, and still be prepared on others.
 *	  To find such transactions, each node lists what is prepared there before it takes its
 *	  snapshot.  So on each node such a transaction is either in that list or visible.
 * 2. No commit without the earlier commits that it may depend on, see fence.c.
 *
 * Connections are opened before the barrier is closed: a writer that waits at the barrier may hold
 * the last connection that a node allows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commit_log.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "miscadmin.h"
#include "own_schema.h"
#include "remote/wire/broadcast.h"
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
#define PAUSE_MS 100			/* how long the barrier stays open between two attempts */

/* The result of an attempt to take the snapshots of all nodes at one moment. */
typedef enum CutOutcome
{
	CUT_NOT_ASKED,				/* a commit held the barrier for too long */
	CUT_TOO_LATE,				/* a node answered after the barrier was opened again */
	CUT_ANSWERED
} CutOutcome;

/* A committed transaction whose COMMIT PREPARED a node has not received. */
typedef struct LeftBehind
{
	Oid			serverid;
	const char *gid;
	ShardLogKey key;
	bool		is_ours;		/* of this coordinator, not of another one */
	bool		is_committed;	/* of another coordinator, which says so */
	bool		is_running;		/* its session is still sending COMMIT PREPARED */
} LeftBehind;

static ShardCutNodes cut_nodes = NULL;

void
shard_cut_init(ShardCutNodes nodes)
{
	cut_nodes = nodes;
}

/* Opens and holds connections to all nodes, except those to which this transaction writes. */
static List *
open_connections(void)
{
	List	   *conns = NIL;

	foreach_oid(serverid, cut_nodes())
	{
		if (shard_txn_find_writer(serverid, GetUserId()) == NULL)
			conns = lappend(conns, shard_pool_start_free(shard_pool_get(serverid, GetUserId())));
	}
	foreach_ptr(ShardConn, conn, conns)
		shard_connection_finish(conn);
	return conns;
}

/*
 * Adds to ended those of gids (separated by blanks) whose transactions no longer run on the
 * coordinator.  Must be called while the barrier is closed: transactions that run now may commit
 * later.
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

/* The query by which another coordinator says which of ended it has committed: one letter for each. */
static char *
commit_states_sql(List *ended)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT pg_catalog.string_agg(CASE " SHARD_INTERNAL_SCHEMA ".commit_state(u.gid) WHEN 'committed' THEN 'c' WHEN 'being committed' THEN 'r' ELSE '-' END, '' ORDER BY u.ord)"
						   " FROM pg_catalog.unnest(ARRAY[");
	foreach_ptr(LeftBehind, found, ended)
		appendStringInfo(&sql, "%s%s", foreach_current_index(found) > 0 ? ", " : "", quote_literal_cstr(found->gid));
	appendStringInfoString(&sql, "]) WITH ORDINALITY u(gid, ord)");
	return sql.data;
}

/*
 * Asks the other coordinators which of their transactions they have committed, while their barriers
 * are closed.  False: too late.
 */
static bool
ask_peers(ShardPeerFence *fence, List *ended)
{
	bool		asked = false;

	foreach_ptr(LeftBehind, found, ended)
	{
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
		foreach_ptr(LeftBehind, found, ended)
		{
			char		state = states[foreach_current_index(found)];

			found->is_committed = found->is_committed || state != '-';
			found->is_running = found->is_running || state == 'r';
		}
	}
	return true;
}

/* Returns those of ended that the commit logs say are committed. */
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

/* Has item's node answered with a list of gids, and then a snapshot identifier? */
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

/*
 * The commands for each node: list what is prepared there, then export the snapshot of a
 * transaction that stays open.
 */
static char *
export_sql(void)
{
	/*
	 * at SERIALIZABLE the same transaction may write later, and one that has exported its snapshot
	 * cannot be prepared
	 */
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
 * Sends the commands to the nodes of items while the barrier is closed.  CUT_ANSWERED: each node
 * has answered before the barrier was opened, or has failed.  Then the snapshots of those that have
 * answered belong to one moment. ended lists the prepared transactions whose local transactions had
 * ended by then.
 */
static CutOutcome
ask_behind_fence(ShardSnapshot *snapshot, ShardPeerFence *fence, ShardBroadcast *items, int nitems, List **ended)
{
	const char *identity = shard_identity_get();	/* fetched before, since no table must be opened while the barrier is closed */
	volatile CutOutcome outcome = CUT_NOT_ASKED;

	PG_TRY();
	{
		if (shard_peer_fence_close(fence))
		{
			shard_broadcast_start(items, nitems);

			/* not RAISE: it would search for deadlocks by queries to nodes while commits wait */
			outcome = shard_broadcast_wait(items, nitems, SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY) ?
				CUT_ANSWERED : CUT_TOO_LATE;
			/* the statement's own snapshot is older, and keeps the rows of catalogs that this one sees */
			if (outcome == CUT_ANSWERED)
				shard_snapshot_note_local(snapshot, GetLatestSnapshot());
			for (int i = 0; i < nitems && outcome == CUT_ANSWERED; i++)
				if (has_snapshot(&items[i]) && !PQgetisnull(items[i].first, 0, 0))
					*ended = find_ended(*ended, items[i].conn->serverid, pstrdup(PQgetvalue(items[i].first, 0, 0)), identity);
			if (outcome == CUT_ANSWERED && !ask_peers(fence, *ended))
				outcome = CUT_TOO_LATE;
		}
	}
	PG_FINALLY();
	{
		/* also after an error, open the barrier before the client is told */
		shard_peer_fence_open(fence);
	}
	PG_END_TRY();
	return outcome;
}

/* If a cancel or a termination has ended the wait for nodes, raises it. */
static void
raise_interrupt(void)
{
	if (!shard_wait_is_urged())
		return;
	shard_wait_interrupted = true;
	CHECK_FOR_INTERRUPTS();
}

/*
 * The barrier is open again.  Waits until deadline for nodes that have not answered.  Returns the
 * identifiers of all snapshots, in the order of items, or raises.
 */
static List *
collect_ids(ShardBroadcast *items, int nitems, TimestampTz deadline)
{
	List	   *ids = NIL;

	shard_broadcast_finish(items, nitems, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline),
						   SHARD_BROADCAST_HURRY);
	raise_interrupt();
	for (int i = 0; i < nitems; i++)
	{
		if (!shard_broadcast_check(&items[i], NULL, NULL))
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("node \"%s\" did not answer in time for a snapshot over all nodes", items[i].conn->node)));
		if (!has_snapshot(&items[i]))
			shard_error_protocol(items[i].conn, NULL, "not a snapshot identifier");
		ids = lappend(ids, pstrdup(PQgetvalue(items[i].result, 0, 0)));
	}
	return ids;
}

/*
 * Tries once to take the snapshots of conns at one moment. *ids: their identifiers, in the order of
 * conns. *left: commits that a node has not received.  The snapshots are a cluster snapshot only if
 * the result is CUT_ANSWERED and *left is empty.
 */
static CutOutcome
export_all(ShardSnapshot *snapshot, List *conns, TimestampTz deadline, List **ids, List **left)
{
	char	   *sql = export_sql();
	int			nitems = list_length(conns);
	ShardBroadcast *items = shard_broadcast_create(nitems);
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
	shard_broadcast_free(items);
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
			shard_broadcast_exec(conn, "COMMIT");
		shard_connection_release(conn);
	}
}

/*
 * Completes the commits in left, except those whose sessions are still sending COMMIT PREPARED.  A
 * commit that another session has just completed counts as completed.  False: there was none to
 * complete.
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
		commands[n] = (ShardCommand) {.serverid = found->serverid, .userid = GetUserId(),
			.sql = psprintf("COMMIT PREPARED '%s'", found->gid)};
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
					 errhint("A user with the right to do so must run SELECT shardfdw.recover_prepared_transactions().")));
	}
	return n > 0;
}

/* Raises an error because no attempt has succeeded in time. outcome: the result of the last attempt. */
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
