/*
 * cut.c
 *	  One snapshot over all nodes (shardfdw.snapshot = 'cluster').
 *
 * A lock in the coordinator's lock table is the fence: whoever commits holds it
 * shared, from before the first node commits until the last one has; whoever
 * takes a cut holds it exclusively.
 *
 *	 connect to all nodes
 *	 fence, exclusively
 *	   BEGIN; SELECT pg_export_snapshot(), prepared transactions   on all nodes at once
 *	   is one of those in the commit log?
 *	 fence released
 *	   |yes: COMMIT PREPARED, once more from the start
 *	   |no:  the snapshots are the statement's, or the transaction's
 *
 * While the fence is held nothing commits, so what is prepared on some node and
 * in the log is what a commit has left behind that could not be completed.  Its
 * other nodes show it, so it has to be completed first.
 *
 * Connections are there before the fence is: a writer that waits for it may hold
 * the last one that a node has.  A node that hangs does not stop others from
 * committing for longer than FENCE_TIMEOUT_MS.
 *
 * What commits by itself on one node in one statement does not take the fence.  It
 * is on one node, so it is seen or not; but of two such statements on different
 * nodes the later one may be seen without the earlier one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commit_log.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "remote/broadcast.h"
#include "remote/command.h"
#include "remote/cut.h"
#include "remote/error.h"
#include "remote/twophase.h"
#include "remote/txn_private.h"
#include "remote/wait.h"
#include "storage/lock.h"
#include "utils/builtins.h"

#define FENCE_TIMEOUT_MS 5000
#define MAX_ATTEMPTS 5			/* to complete what commits have left behind */

/* Key of the fence: an advisory lock of a kind that no SQL function takes. */
#define FENCE_KEY1 0x73686172
#define FENCE_KEY2 0x64666477
#define FENCE_KIND 3

/* A commit that node has not been told of. */
typedef struct LeftBehind
{
	Oid			serverid;
	const char *gid;
} LeftBehind;

static ShardCutNodes cut_nodes = NULL;

void
shard_cut_init(ShardCutNodes nodes)
{
	cut_nodes = nodes;
}

static LOCKTAG
fence(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, FENCE_KEY1, FENCE_KEY2, FENCE_KIND);
	return tag;
}

void
shard_cut_hold_off(void)
{
	LOCKTAG		tag = fence();

	(void) LockAcquire(&tag, ShareLock, false, false);
}

/* Connections for the cut, connected, each held; none to nodes that this transaction writes to. */
static List *
open_connections(void)
{
	List	   *conns = NIL;
	ListCell   *lc;

	foreach(lc, cut_nodes())
	{
		Oid			serverid = lfirst_oid(lc);

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
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("node \"%s\" did not answer in time for a snapshot over all nodes", item->conn->node)));
}

/* Adds to left what the log says is committed of gids, blank-separated. */
static List *
find_left_behind(List *left, Oid serverid, char *gids)
{
	char	   *end = NULL;

	for (char *gid = strtok_r(gids, " ", &end); gid; gid = strtok_r(NULL, " ", &end))
	{
		ShardLogKey key;
		LeftBehind *found;

		if (!shard_twophase_parse_gid(gid, &key) || !shard_commit_log_contains(key))
			continue;
		found = palloc(sizeof(LeftBehind));
		found->serverid = serverid;
		found->gid = pstrdup(gid);
		left = lappend(left, found);
	}
	return left;
}

/* Has item's node answered with a snapshot's identifier and a list of gids? */
static bool
has_snapshot(const ShardBroadcast *item)
{
	const char *id;

	if (!shard_broadcast_ok(item, NULL) || PQntuples(item->result) != 1 || PQnfields(item->result) != 2)
		return false;
	id = PQgetvalue(item->result, 0, 0);
	return strlen(id) < NAMEDATALEN && strspn(id, "0123456789ABCDEFabcdef-") == strlen(id);
}

/*
 * The snapshots of conns at one moment: ids (of char *), in their order.  Returns
 * what commits have left behind; then the snapshots are none.
 */
static List *
export_all(List *conns, List **ids)
{
	/* what has exported a snapshot cannot be prepared: a serializable transaction is the one that writes */
	bool		serializable = IsolationIsSerializable();
	char	   *sql = psprintf("BEGIN ISOLATION LEVEL %s%s;"
							   " SELECT %s, (SELECT pg_catalog.string_agg(gid, ' ')"
							   " FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()"
							   " AND pg_catalog.starts_with(gid, '%s'))",
							   serializable ? "SERIALIZABLE" : "REPEATABLE READ",
							   serializable && !XactReadOnly ? " READ WRITE NOT DEFERRABLE" : " READ ONLY NOT DEFERRABLE",
							   serializable ? "''" : "pg_catalog.pg_export_snapshot()",
							   shard_twophase_gid_prefix());
	int			nitems = list_length(conns);
	ShardBroadcast *items = palloc0(Max(nitems, 1) * sizeof(ShardBroadcast));
	LOCKTAG		tag = fence();
	List	   *left = NIL;
	int			failed = -1;

	for (int i = 0; i < nitems; i++)
	{
		items[i].conn = list_nth(conns, i);
		items[i].sql = sql;
		items[i].has_rows = true;
	}
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	shard_broadcast_start(items, nitems);

	/* not RAISE: its search for deadlocks asks nodes, and commits wait meanwhile */
	shard_broadcast_finish(items, nitems, FENCE_TIMEOUT_MS, SHARD_BROADCAST_HURRY);
	for (int i = 0; i < nitems; i++)
	{
		if (!has_snapshot(&items[i]))
		{
			failed = i;
			continue;
		}
		*ids = lappend(*ids, pstrdup(PQgetvalue(items[i].result, 0, 0)));
		if (!PQgetisnull(items[i].result, 0, 1))
			left = find_left_behind(left, items[i].conn->serverid,
									pstrdup(PQgetvalue(items[i].result, 0, 1)));
	}
	(void) LockRelease(&tag, ExclusiveLock, false);
	for (int i = 0; i < nitems; i++)
	{
		if (i == failed)
			continue;
		PQclear(items[i].result);
		items[i].result = NULL;
	}
	if (failed >= 0 && (QueryCancelPending || ProcDiePending))
	{
		/* that is why it has no answer */
		PQclear(items[failed].result);
		items[failed].result = NULL;
		shard_wait_interrupted = true;
		CHECK_FOR_INTERRUPTS();
	}
	if (failed >= 0)
		raise_failure(&items[failed]);
	return left;
}

/* Ends the transactions of conns, and lets go of them. */
static void
end_all(List *conns)
{
	ListCell   *lc;

	foreach(lc, conns)
	{
		shard_connection_exec(lfirst(lc), "COMMIT");
		shard_connection_release(lfirst(lc));
	}
}

/* Completes commits.  One that somebody else has completed meanwhile is as good. */
static void
complete_commits(List *left)
{
	ShardCommand *commands = palloc0(list_length(left) * sizeof(ShardCommand));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, left)
	{
		const LeftBehind *found = lfirst(lc);

		commands[n].serverid = found->serverid;
		commands[n].userid = GetUserId();
		commands[n++].sql = psprintf("COMMIT PREPARED '%s'", found->gid);
	}
	shard_command_run(commands, n, SHARD_COMMAND_FREE, true);
	for (int i = 0; i < n; i++)
	{
		const LeftBehind *found = list_nth(left, i);
		ErrorData  *error = commands[i].error;

		PQclear(commands[i].result);
		if (error && error->sqlerrcode != ERRCODE_UNDEFINED_OBJECT &&
			error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
			ereport(ERROR,
					(errcode(error->sqlerrcode),
					 errmsg("cannot take a snapshot over all nodes: a committed transaction is still prepared on node \"%s\"",
							GetForeignServer(found->serverid)->servername),
					 errdetail("Transaction \"%s\": %s", found->gid, error->message),
					 errhint("Have it settled by SELECT shardfdw.recover() of a user who may.")));
	}
}

void
shard_cut_take(ShardSnapshot *snapshot)
{
	List	   *conns;
	List	   *ids = NIL;
	List	   *left;
	ListCell   *lc;
	ListCell   *lc2;

	for (int attempt = 1;; attempt++)
	{
		ids = NIL;
		conns = open_connections();
		left = export_all(conns, &ids);
		if (left == NIL)
			break;
		end_all(conns);
		if (attempt == MAX_ATTEMPTS)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot take a snapshot over all nodes: committed transactions are still prepared"),
					 errhint("Run SELECT shardfdw.recover().")));
		complete_commits(left);
	}
	forboth(lc, conns, lc2, ids)
	{
		shard_txn_take_export(snapshot, lfirst(lc), lfirst(lc2));
		shard_connection_release(lfirst(lc));
	}
}
