/*
 * snapshot.c
 *	  The state of a statement's snapshot on each node: how many streams share it, and which
 *	  connection has exported it.
 *
 *	 NONE --preamble of the first stream--> EXPORTING --identifier--> EXPORTED
 *	   ^									   |							 |
 *	   +---- given up, or its connection is lost (txn.c) ------------------+
 *
 * This file only stores the state. txn.c creates and ends snapshots, and decides what to send for
 * them.  The pool asks which connections others still need.
 */
#include "postgres.h"

#include "access/xact.h"
#include "remote/pool/snapshot.h"
#include "remote/wire/connection.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

ShardNodeSnapshot *
shard_snapshot_node(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	MemoryContext oldcxt;
	ShardNodeSnapshot *node;
	ListCell   *lc;

	foreach(lc, snapshot->nodes)
	{
		node = lfirst(lc);
		if (node->serverid == serverid && node->userid == userid)
			return node;
	}
	oldcxt = MemoryContextSwitchTo(snapshot->cxt);
	node = palloc0(sizeof(ShardNodeSnapshot));
	node->serverid = serverid;
	node->userid = userid;
	snapshot->nodes = lappend(snapshot->nodes, node);
	MemoryContextSwitchTo(oldcxt);
	return node;
}

void
shard_snapshot_expect(ShardSnapshot *snapshot, Oid serverid, Oid userid, int nstreams)
{
	shard_snapshot_node(snapshot, serverid, userid)->nexpected += nstreams;
}

bool
shard_snapshot_is_single(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	if (IsolationUsesXactSnapshot() || (snapshot != NULL && snapshot->cut))
		return false;
	return snapshot == NULL || shard_snapshot_node(snapshot, serverid, userid)->nexpected == 1;
}

bool
shard_snapshot_is_shared(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	return shard_snapshot_node(snapshot, serverid, userid)->nexpected > 1;
}

void
shard_snapshot_note_local(ShardSnapshot *snapshot, Snapshot local)
{
	snapshot->local = MemoryContextAlloc(snapshot->cxt, EstimateSnapshotSpace(local));
	SerializeSnapshot(local, snapshot->local);
	snapshot->local_xmin = local->xmin;
}

bool
shard_snapshot_is_exporter(const ShardConn *conn)
{
	return conn->xact.snapshot != NULL &&
		shard_snapshot_node(conn->xact.snapshot, conn->serverid, conn->userid)->exporter == conn;
}

void
shard_snapshot_exported(ShardConn *conn, const char *snapshot_id)
{
	ShardNodeSnapshot *node;

	if (!conn->xact.snapshot)
		return;					/* its statement has ended */
	node = shard_snapshot_node(conn->xact.snapshot, conn->serverid, conn->userid);
	node->id = MemoryContextStrdup(conn->xact.snapshot->cxt, snapshot_id);
	node->state = SHARD_SNAPSHOT_EXPORTED;
	node->exporter = conn;
	node->exporter_userid = conn->userid;
	node->exported_on = conn->server;
}

/*
 * The caller has discarded what was read from conn.  The next exporter will see another state of
 * the node, so conn's transaction leaves the snapshot.
 */
void
shard_snapshot_give_up(ShardConn *conn)
{
	ShardNodeSnapshot *node;

	if (!conn->xact.snapshot)
		return;
	node = shard_snapshot_node(conn->xact.snapshot, conn->serverid, conn->userid);
	if (node->state == SHARD_SNAPSHOT_EXPORTING && node->exporter == conn)
	{
		node->state = SHARD_SNAPSHOT_NONE;
		node->exporter = NULL;
	}
	conn->xact.snapshot = NULL;
}
