/*
 * replica_read.c
 *	  Reads replicas of shards whose primary is not available.
 *
 * A commit is sent to the primary and to the replicas in parallel.  When it has been reported to a client, each node
 * that has answered has the commit.  If a session ends before it has sent the commit to all nodes, or a node does not
 * answer, recovery sends the commit later.  So before a replica is read, this file waits until transactions that are
 * prepared there have ended.
 */
#include "postgres.h"

#include "replica/replica_read.h"
#include "foreign/foreign.h"
#include "nodes/pg_list.h"
#include "remote/pool/pool.h"
#include "remote/run/read_role.h"
#include "remote/run/settle.h"
#include "remote/xact/txn.h"

/* A server that this statement has checked. */
typedef struct SeenServer
{
	Oid			serverid;
	bool		is_there;
} SeenServer;

/*
 * Must the transaction read this server, available or not?  Only this server has what the transaction has written
 * there, or the snapshot that the statement has already read there.
 */
static bool
is_bound(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	return shard_pool_get(serverid, userid)->writer != NULL || shard_txn_is_fixed(serverid, userid) ||
		shard_snapshot_node(snapshot, serverid, userid)->shown;
}

static bool
is_there(List **seen, ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	SeenServer *server;
	ListCell   *lc;

	foreach(lc, *seen)
	{
		server = lfirst(lc);
		if (server->serverid == serverid)
			return server->is_there;
	}
	server = palloc(sizeof(SeenServer));
	server->serverid = serverid;
	server->is_there = is_bound(snapshot, serverid, userid) ||
		(!shard_map_is_redirected(serverid) && shard_read_role_primary_is_there(serverid, userid));
	*seen = lappend(*seen, server);
	return server->is_there;
}

/* Returns the first available server with a replica; InvalidOid if there is none. */
static Oid
choose_replica(List **seen, ShardSnapshot *snapshot, const Shard *shard, Oid userid)
{
	for (int i = 0; i < shard->nreplicas; i++)
		if (shard->replicas[i] != shard->serverid && is_there(seen, snapshot, shard->replicas[i], userid))
			return shard->replicas[i];
	return InvalidOid;
}

const ShardMap *
shard_replica_read_map(const ShardMap *map, const Bitmapset *shards, ShardSnapshot *snapshot, Oid userid)
{
	Oid		   *servers;
	List	   *seen = NIL;
	List	   *chosen = NIL;
	List	   *old;

	if (!map->has_replicas)
		return map;
	servers = palloc0(sizeof(Oid) * map->nshards);
	for (int i = 0; i < map->nshards; i++)
	{
		const Shard *shard = &map->shards[i];

		if (shard->nreplicas == 0 || (shards != NULL && !bms_is_member(i, shards)) || is_there(&seen, snapshot, shard->serverid, userid))
			continue;
		servers[i] = choose_replica(&seen, snapshot, shard, userid);
		if (OidIsValid(servers[i]))
			chosen = list_append_unique_oid(chosen, servers[i]);
	}
	/* if no replica is available either, the statement gets the error of its connection to the primary */
	if (chosen == NIL)
		return map;
	old = shard_settle_wait(chosen, userid, SHARD_COMMAND_AUTOCOMMIT);
	if (old != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("replicas of shards on node \"%s\" cannot be read yet", GetForeignServer(linitial_oid(old))->servername),
				 errdetail("Their primary cannot be connected to, and transactions are prepared there of which the node does not know yet whether they are committed."),
				 errhint("SELECT * FROM shardfdw.recover_prepared_transactions() commits them or rolls them back.")));
	return shard_map_redirect(map, servers);
}
