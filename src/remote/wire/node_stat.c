/*
 * node_stat.c
 *	  What backends share about each node: counters of their work, for the view stat_nodes, and what they have found out.
 *
 * An array in shared memory has an entry for each server of each database that was used.  Entries are
 * assigned under a lock, counters are atomic.  An entry is never freed.  If all entries are taken, the one whose server
 * was not connected to for the longest time is reassigned.  Backends that still use this entry then count for its new
 * server.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "remote/wire/node_stat.h"
#include "shared_memory.h"
#include "storage/lwlock.h"

PG_FUNCTION_INFO_V1(shardfdw_doubt_nodes);

#define MAX_PLACES 1024			/* servers of all databases: far more than clusters have */

typedef struct NodePlace
{
	Oid			databaseid;		/* InvalidOid: this and all following entries are free */
	Oid			serverid;
	TimestampTz since;
	uint64		last_find;		/* value of nfinds */
	pg_atomic_uint32 host;		/* number of the host plus 1; 0: none */
	ShardNodeEnd end;			/* protected by the lock, as the next two */
	uint64		nleft;			/* transactions left to recovery, plus 1 for those that are unknown when the entry is assigned; any
								 * role can add to it, so it must not wrap */
	uint64		nsettled;		/* the value of nleft up to which recovery has resolved them */
	pg_atomic_uint64 counters[SHARD_NODE_NCOUNTERS];
} NodePlace;

typedef struct NodeStatShared
{
	LWLock	   *lock;
	uint64		nfinds;
	NodePlace	places[MAX_PLACES];
} NodeStatShared;

static NodeStatShared *shared = NULL;

static void
clear_counters(NodePlace *place)
{
	place->since = GetCurrentTimestamp();
	for (int i = 0; i < SHARD_NODE_NCOUNTERS; i++)
		pg_atomic_write_u64(&place->counters[i], 0);
}

/* Returns the entry of a server of this database, or the one to reassign to it.  The caller holds the lock. */
static NodePlace *
find_place(Oid serverid)
{
	NodePlace  *oldest = &shared->places[0];

	for (int i = 0; i < MAX_PLACES; i++)
	{
		NodePlace  *place = &shared->places[i];

		if (place->databaseid == InvalidOid || (place->databaseid == MyDatabaseId && place->serverid == serverid))
			return place;
		if (place->last_find < oldest->last_find)
			oldest = place;
	}
	return oldest;
}

/* Returns the entry of a server of this database, which it assigns if needed.  The caller holds the lock. */
static NodePlace *
own_place(Oid serverid)
{
	NodePlace  *place = find_place(serverid);

	if (place->databaseid != MyDatabaseId || place->serverid != serverid)
	{
		place->databaseid = MyDatabaseId;
		place->serverid = serverid;
		pg_atomic_write_u32(&place->host, 0);
		memset(&place->end, 0, sizeof(place->end));
		place->nleft = 1;
		place->nsettled = 0;
		clear_counters(place);
	}
	place->last_find = ++shared->nfinds;
	return place;
}

int
shard_node_stat_find(Oid serverid)
{
	int			node;

	if (!shared)
		return SHARD_NODE_STAT_NONE;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	node = own_place(serverid) - shared->places + 1;
	LWLockRelease(shared->lock);
	return node;
}

void
shard_node_stat_add(int node, ShardNodeCounter counter, uint64 n)
{
	if (node != SHARD_NODE_STAT_NONE && n > 0)
		pg_atomic_fetch_add_u64(&shared->places[node - 1].counters[counter], n);
}

int
shard_node_stat_host(int node)
{
	return node == SHARD_NODE_STAT_NONE ? -1 : (int) pg_atomic_read_u32(&shared->places[node - 1].host) - 1;
}

void
shard_node_stat_set_host(int node, int host)
{
	if (node != SHARD_NODE_STAT_NONE)
		pg_atomic_write_u32(&shared->places[node - 1].host, host + 1);
}

static bool
is_place_of(const NodePlace *place, Oid serverid)
{
	return place->databaseid == MyDatabaseId && place->serverid == serverid;
}

void
shard_node_stat_note_end(int node, Oid serverid, const ShardNodeEnd *end)
{
	NodePlace  *place;

	if (node == SHARD_NODE_STAT_NONE)
		return;
	place = &shared->places[node - 1];
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (is_place_of(place, serverid) && end->asked_at > place->end.asked_at)
		place->end = *end;
	LWLockRelease(shared->lock);
}

ShardNodeEnd
shard_node_stat_end(int node, Oid serverid)
{
	ShardNodeEnd end = {0};

	if (node == SHARD_NODE_STAT_NONE)
		return end;
	LWLockAcquire(shared->lock, LW_SHARED);
	if (is_place_of(&shared->places[node - 1], serverid))
		end = shared->places[node - 1].end;
	LWLockRelease(shared->lock);
	return end;
}

bool
shard_node_stat_may_have_left(Oid serverid)
{
	const NodePlace *place;
	bool		may;

	if (!shared)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	place = find_place(serverid);
	may = !is_place_of(place, serverid) || place->nleft != place->nsettled;
	LWLockRelease(shared->lock);
	return may;
}

void
shard_node_stat_leave(Oid serverid)
{
	if (!shared)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	own_place(serverid)->nleft++;
	LWLockRelease(shared->lock);
}

/*
 * doubt_nodes() -> void
 */
Datum
shardfdw_doubt_nodes(PG_FUNCTION_ARGS)
{
	if (shared)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		for (int i = 0; i < MAX_PLACES && shared->places[i].databaseid != InvalidOid; i++)
			if (shared->places[i].databaseid == MyDatabaseId)
				shared->places[i].nleft++;
		LWLockRelease(shared->lock);
	}
	PG_RETURN_VOID();
}

uint64
shard_node_stat_nleft(Oid serverid)
{
	uint64		nleft;

	if (!shared)
		return 0;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	nleft = own_place(serverid)->nleft;
	LWLockRelease(shared->lock);
	return nleft;
}

void
shard_node_stat_settled(Oid serverid, uint64 nleft)
{
	NodePlace  *place;

	if (!shared)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	place = find_place(serverid);
	if (is_place_of(place, serverid))
		place->nsettled = nleft;
	LWLockRelease(shared->lock);
}

ShardNodeStat *
shard_node_stat_list(int *n)
{
	ShardNodeStat *list = palloc(MAX_PLACES * sizeof(ShardNodeStat));

	*n = 0;
	if (!shared)
		return list;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < MAX_PLACES && shared->places[i].databaseid != InvalidOid; i++)
	{
		NodePlace  *place = &shared->places[i];

		if (place->databaseid != MyDatabaseId)
			continue;
		list[*n].serverid = place->serverid;
		list[*n].since = place->since;
		for (int j = 0; j < SHARD_NODE_NCOUNTERS; j++)
			list[*n].counters[j] = pg_atomic_read_u64(&place->counters[j]);
		(*n)++;
	}
	LWLockRelease(shared->lock);
	return list;
}

void
shard_node_stat_reset(void)
{
	if (!shared)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_PLACES; i++)
		if (shared->places[i].databaseid == MyDatabaseId)
			clear_counters(&shared->places[i]);
	LWLockRelease(shared->lock);
}

static void
init_shared(LWLock *lock)
{
	shared->lock = lock;
	for (int i = 0; i < MAX_PLACES; i++)
	{
		pg_atomic_init_u32(&shared->places[i].host, 0);
		for (int j = 0; j < SHARD_NODE_NCOUNTERS; j++)
			pg_atomic_init_u64(&shared->places[i].counters[j], 0);
	}
}

static const ShardSharedArea shared_area = {"shardfdw_node_stat", sizeof(NodeStatShared), 0, (void **) &shared, init_shared};

void
shard_node_stat_init(void)
{
	shard_shared_memory_request(&shared_area);
}
