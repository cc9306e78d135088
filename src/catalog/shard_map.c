/*
 * shard_map.c
 *	  A cache of the shards of sharded tables.
 *
 * The catalogs are authoritative: partition bounds, the foreign tables' servers and options.  A map
 * contains what planner and executor need of them.  It is built at first use, and kept until
 * something it was built from changes:
 *
 *	   parent's or shard's relcache entry   bounds, attach, detach, options, rename
 *	   pg_namespace, pg_foreign_server,
 *	   pg_foreign_data_wrapper              names, cores, handler
 *
 * An invalidation only marks a map.  The next look-up builds it again.  A replaced map may still be
 * in use by a plan or a running scan.  So it is kept until the end of the transaction, and after
 * that until the next look-up, because streams that are closed during the clean-up of an aborted
 * transaction still use the names of their shards:
 *
 *	   valid --invalidated--> invalid --looked up--> retired
 *	   invalid, retired --look-up in another transaction--> freed
 *
 * "Not a sharded table" is cached in the same way.  Callers hold a lock on the partitioned table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/level_map.h"
#include "catalog/map_build.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_inherits.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "compat.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "hash_table.h"
#include "identity.h"
#include "own_lock.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "version.h"

typedef struct MapKey
{
	Oid			relid;
	int			levels;			/* 2: table with two levels; 1: one level, or a foreign table */
} MapKey;

typedef struct MapEntry
{
	MapKey		key;			/* hash key */
	bool		valid;
	bool		in_progress;	/* being built, so an invalidation at this time counts */
	ShardCachedMap *cached;		/* NULL: not a sharded table */
} MapEntry;

static HTAB *map_hash = NULL;
static ShardCachedMap *retired_maps = NULL;
static bool xact_ended = false; /* since the last look-up */
static uint64 last_serial = 0;
static bool seen_replicas = false;	/* since the transaction began */
static List *redirected = NIL;	/* servers whose shards the transaction has read on other servers; in TopTransactionContext */

static void free_stale_maps(void);

static void
retire_map(ShardCachedMap *cached)
{
	if (cached != NULL)
	{
		cached->next = retired_maps;
		retired_maps = cached;
	}
}

/* Returns the map after shard_version_check(), since the caller is going to use the table. */
static const ShardMap *
usable_map(const ShardCachedMap *cached)
{
	shard_version_check();
	seen_replicas |= cached->map.has_replicas;
	return &cached->map;
}

/* Is the map of a table with one level in the cache, and valid? */
static bool
is_kept(Oid relid)
{
	MapKey		key = {relid, 1};
	const MapEntry *entry = hash_search(map_hash, &key, HASH_FIND, NULL);

	return entry != NULL && entry->valid;
}

static const ShardLevelMapCache level_map_cache = {shard_map_get, is_kept};

static const ShardMap *
look_up(Oid relid, int levels, bool wait)
{
	MapKey		key = {relid, levels};
	MapEntry   *entry;
	ShardCachedMap *cached;
	bool		found;
	bool		keep;
	char		relkind;

	if (map_hash == NULL)
		map_hash = shard_hash_table_create("shardfdw shard maps", 64, sizeof(MapKey), sizeof(MapEntry), CacheMemoryContext);

	if (xact_ended)
		free_stale_maps();

	entry = hash_search(map_hash, &key, HASH_FIND, NULL);
	if (entry != NULL && entry->valid)
		return entry->cached && entry->cached->sharded ? usable_map(entry->cached) : NULL;

	relkind = get_rel_relkind(relid);
	if (relkind != RELKIND_PARTITIONED_TABLE && (relkind != RELKIND_FOREIGN_TABLE || levels != 1))
		return NULL;

	/*
	 * The catalog look-ups below can process invalidations, and enlarge the hash table by looking
	 * up other maps.  So the entry's state is set before and read again after them.
	 */
	entry = hash_search(map_hash, &key, HASH_ENTER, &found);
	if (found)
		retire_map(entry->cached);
	entry->cached = NULL;
	entry->valid = false;
	entry->in_progress = true;

	cached = levels == 1 ? shard_map_build(relid, relkind, &keep) :
		shard_level_map_build(relid, wait, &level_map_cache, &keep);
	if (cached != NULL)
		cached->map.serial = ++last_serial;

	entry = hash_search(map_hash, &key, HASH_ENTER, &found);
	if (found && entry->cached != NULL)
		retire_map(entry->cached);
	entry->cached = cached;
	entry->valid = found && entry->in_progress && keep;
	entry->in_progress = false;

	return cached && cached->sharded ? usable_map(cached) : NULL;
}

const ShardMap *
shard_map_get(Oid relid)
{
	return look_up(relid, 1, true);
}

const ShardMap *
shard_map_get_levels(Oid relid, bool wait)
{
	const ShardMap *map = shard_map_get(relid);

	return map ? map : look_up(relid, 2, wait);
}

Oid
shard_map_top(Oid relid)
{
	List	   *ancestors = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;

	return ancestors != NIL ? llast_oid(ancestors) : relid;
}

bool
shard_map_seen_replicas(void)
{
	return seen_replicas;
}

int
shard_map_find(const ShardMap *map, Oid shard_relid)
{
	const ShardMapSource *found = shard_map_build_source((const ShardCachedMap *) map, shard_relid);

	return found ? found->shardno : -1;
}

Bitmapset *
shard_map_numbers(const ShardMap *map, bool all, const List *relids)
{
	Bitmapset  *numbers = NULL;

	if (all)
		return map->nshards > 0 ? bms_add_range(NULL, 0, map->nshards - 1) : NULL;
	foreach_oid(relid, relids)
	{
		int			shardno = shard_map_find(map, relid);

		if (shardno < 0)
			elog(ERROR, "relation %u is not a shard of relation %u", relid, map->relid);
		numbers = bms_add_member(numbers, shardno);
	}
	return numbers;
}

int
shard_map_part_of(const ShardMap *map, int shardno)
{
	int			low = 0;
	int			high = map->nparts - 1;

	while (low < high)
	{
		int			middle = (low + high + 1) / 2;

		if (map->parts[middle].first <= shardno)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* ---------- moves of shards ---------- */

const ShardMap *
shard_map_get_now(Oid relid)
{
	AcceptInvalidationMessages();
	return shard_map_get(relid);
}

const ShardMap *
shard_map_get_levels_now(Oid relid)
{
	AcceptInvalidationMessages();
	return shard_map_get_levels(relid, true);
}

bool
shard_map_is_redirected(Oid serverid)
{
	return list_member_oid(redirected, serverid);
}

/* Raises if the transaction has read shards of a server on other servers. */
static Oid
check_not_redirected(Oid serverid)
{
	if (list_member_oid(redirected, serverid))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("cannot write to node \"%s\" in this transaction", GetForeignServer(serverid)->servername),
				 errdetail("It could not be connected to when the transaction read replicas of its shards."),
				 errhint("The transaction might succeed if retried.")));
	return serverid;
}

/* Is now another description of the same shards? */
static bool
has_same_shards(const ShardMap *map, const ShardMap *now)
{
	if (now == NULL || map->nparts != now->nparts || map->placed_as != now->placed_as ||
		map->nshards != now->nshards || map->renames != now->renames || map->read_only != now->read_only ||
		map->has_triggers != now->has_triggers || map->has_replicas != now->has_replicas)
		return false;
	for (int i = 0; i < map->nshards; i++)
	{
		const Shard *was = &map->shards[i];
		const Shard *is = &now->shards[i];

		if (was->relid != is->relid || was->serverid != is->serverid || was->placed_by != is->placed_by ||
			was->is_noted != is->is_noted || was->nreplicas != is->nreplicas ||
			(was->nreplicas > 0 && memcmp(was->replicas, is->replicas, sizeof(Oid) * was->nreplicas) != 0) ||
			strcmp(was->relation, is->relation) != 0 || strcmp(was->from_item, is->from_item) != 0)
			return false;
	}
	for (int i = 0; i < map->nparts; i++)
		if (map->parts[i].relid != now->parts[i].relid || map->parts[i].first != now->parts[i].first)
			return false;
	return true;
}

/*
 * Any change of the table's catalogs makes a new map, and as long as a partition is being detached, no map is kept.  So
 * maps are compared by what they say.
 */
bool
shard_map_is_current(const ShardMap *map)
{
	const ShardMap *now = shard_map_get_levels(map->relid, true);

	return now == map || has_same_shards(map, now);
}

bool
shard_map_lock(const ShardMap *map, int shardno, int lockmode)
{
	/* callers try again until the map is current */
	CHECK_FOR_INTERRUPTS();

	(void) check_not_redirected(map->shards[shardno].serverid);
	/* a new lock processes what others have committed; if it was held already, no session can have moved the shard */
	LockRelationOid(map->shards[shardno].relid, lockmode);
	return shard_map_is_current(map);
}

/* Returns the tag of the lock of a table, which may be given by one of its partitions. */
static LOCKTAG
key_change_lock(Oid relid)
{
	return shard_own_lock(SHARD_LOCK_KEY_CHANGE, shard_map_top(relid), 0);
}

void
shard_map_lock_several(const List *relids)
{
	foreach_oid(relid, relids)
	{
		LOCKTAG		tag = key_change_lock(relid);

		/* a transaction with such an UPDATE must not wait for another one */
		if (!shard_lock_held_by_me(&tag, ShareLock))
			(void) LockAcquire(&tag, RowExclusiveLock, false, false);
	}
}

void
shard_map_lock_key_change(Oid relid)
{
	LOCKTAG		tag = key_change_lock(relid);

	(void) LockAcquire(&tag, ShareLock, false, false);
}

/*
 * Returns the server of a foreign table as seen by a snapshot; InvalidOid if the snapshot does not see the table.
 * *replaced_by: the xid that has replaced the row that the snapshot sees.
 */
static Oid
server_as_of(Oid relid, Snapshot snapshot, TransactionId *replaced_by)
{
	Oid			serverid = InvalidOid;
	ScanKeyData key;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_foreign_table_ftrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	shard_catalog_scan_begin_keys(&scan, ForeignTableRelationId, ForeignTableRelidIndexId, snapshot, 1, &key);
	tuple = shard_catalog_scan_next(&scan);
	if (HeapTupleIsValid(tuple))
	{
		serverid = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver;
		*replaced_by = HeapTupleHeaderGetUpdateXid(tuple->t_data);
	}
	shard_catalog_scan_end(&scan);
	return serverid;
}

/*
 * Returns the table of which relid is a partition now; InvalidOid: none. core's
 * get_partition_parent() raises an internal error if relid is being detached concurrently.
 */
static Oid
parent_of(Oid relid)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;
	Oid			parent;

	if (!get_rel_relispartition(relid))
		return InvalidOid;
	shard_catalog_scan_begin_oid(&scan, InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, relid);
	tuple = shard_catalog_scan_next(&scan);
	parent = HeapTupleIsValid(tuple) ? ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent : InvalidOid;
	shard_catalog_scan_end(&scan);
	return parent;
}

/* Can a row written by xid be newer than a snapshot with this xmin? */
static bool
may_be_newer(TransactionId xid, TransactionId xmin)
{
	return TransactionIdIsNormal(xid) && !TransactionIdPrecedes(xid, xmin);
}

/*
 * May the shard or a replica have moved away from its node and back since the snapshot?  Then the node has another table,
 * with rows that are too new for the snapshot.  replaced_by: from server_as_of().
 */
static bool
may_have_returned(const Shard *shard, Snapshot snapshot, TransactionId replaced_by)
{
	return !TransactionIdIsCurrentTransactionId(shard->placed_by) && XidInMVCCSnapshot(shard->placed_by, snapshot) &&
		(shard->is_noted || replaced_by != shard->placed_by);
}

static void
raise_moved(const Shard *shard)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to a move of shard %s", shard->name),
			 errdetail("The shard or its replicas have moved since this transaction's snapshot was taken."),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Raises an error if a snapshot sees a partition of parent that is not its partition any more.  For example it was
 * split.  Then its rows are in tables whose rows are too new for the snapshot.
 */
static void
check_no_former_shard(Oid parent, Snapshot snapshot)
{
	ScanKeyData key;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(parent));
	shard_catalog_scan_begin_keys(&scan, InheritsRelationId, InheritsParentIndexId, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_inherits inherits = (Form_pg_inherits) GETSTRUCT(tuple);

		/* the snapshot also excludes a partition that is being detached */
		if (!inherits->inhdetachpending && parent_of(inherits->inhrelid) != parent)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not serialize access due to other shards of table \"%s\"", get_rel_name(parent)),
					 errdetail("A shard has been split or detached since this transaction's snapshot was taken."),
					 errhint("The transaction might succeed if retried.")));
	}
	shard_catalog_scan_end(&scan);
}

/*
 * The same for the tables of map.  Core may read or change partitions one by one.  Then map is that of one partition,
 * and no map includes a partition that is gone.  So if the partition is newer than the snapshot, its parent is checked.
 */
static void
check_no_former_shards(const ShardMap *map, Snapshot snapshot)
{
	Oid			parent = map->relid;

	if (get_rel_relkind(map->relid) == RELKIND_FOREIGN_TABLE)
	{
		TransactionId replaced_by;

		parent = parent_of(map->relid);
		if (!OidIsValid(parent) || OidIsValid(server_as_of(map->relid, snapshot, &replaced_by)))
			return;
	}
	check_no_former_shard(parent, snapshot);
	for (int i = 0; i < map->nparts; i++)
		check_no_former_shard(map->parts[i].relid, snapshot);
}

/* Returns a copy of map with the same shards, whose places can be changed, and room for one more node per shard. */
static ShardCachedMap *
copy_map(const ShardMap *map)
{
	const ShardCachedMap *cached = (const ShardCachedMap *) map;
	ShardCachedMap *copy = palloc(sizeof(ShardCachedMap));

	*copy = *cached;
	copy->map.serial = ++last_serial;
	copy->map.shards = palloc(sizeof(Shard) * map->nshards);
	memcpy(copy->map.shards, map->shards, sizeof(Shard) * map->nshards);
	copy->map.nodes = palloc0(sizeof(ShardNode) * (map->nnodes + map->nshards));
	memcpy(copy->map.nodes, map->nodes, sizeof(ShardNode) * map->nnodes);
	return copy;
}

/* Places a shard on a server in a map made by copy_map(). */
static void
put_shard(ShardMap *map, int shardno, Oid serverid)
{
	Shard	   *shard = &map->shards[shardno];

	map->nodes[shard->nodeno].nshards--;
	shard->serverid = serverid;
	shard->nodeno = shard_map_build_node(map, serverid);
	map->nodes[shard->nodeno].nshards++;
}

const ShardMap *
shard_map_redirect(const ShardMap *map, const Oid *servers)
{
	ShardCachedMap *copy = copy_map(map);

	for (int i = 0; i < map->nshards; i++)
	{
		MemoryContext oldcxt;

		if (!OidIsValid(servers[i]))
			continue;
		oldcxt = MemoryContextSwitchTo(TopTransactionContext);
		redirected = list_append_unique_oid(redirected, map->shards[i].serverid);
		MemoryContextSwitchTo(oldcxt);
		put_shard(&copy->map, i, servers[i]);
	}
	copy->map.placed_as = map;
	shard_map_build_hosts(&copy->map);
	return &copy->map;
}

const ShardMap *
shard_map_as_of(const ShardMap *map, const char *snapshot, TransactionId xmin)
{
	ShardCachedMap *copy = NULL;
	Snapshot	then;

	if (!may_be_newer(map->newest_place, xmin))
		return map;
	then = RegisterSnapshot(RestoreSnapshot(unconstify(char *, snapshot)));
	check_no_former_shards(map, then);
	for (int i = 0; i < map->nshards; i++)
	{
		Oid			serverid;
		TransactionId replaced_by;

		if (!may_be_newer(map->shards[i].placed_by, xmin))
			continue;
		serverid = server_as_of(map->shards[i].relid, then, &replaced_by);
		/* a table that was created since has no rows that the snapshot would see */
		if (!OidIsValid(serverid))
			continue;
		if (may_have_returned(&map->shards[i], then, replaced_by))
			raise_moved(&map->shards[i]);
		if (serverid == map->shards[i].serverid)
			continue;
		if (copy == NULL)
			copy = copy_map(map);
		put_shard(&copy->map, i, serverid);
	}
	UnregisterSnapshot(then);
	if (copy == NULL)
		return map;
	shard_map_build_hosts(&copy->map);
	return &copy->map;
}

static void
check_shard_unmoved(const Shard *shard, Snapshot snapshot)
{
	Oid			serverid;
	TransactionId replaced_by;

	if (!may_be_newer(shard->placed_by, snapshot->xmin))
		return;
	serverid = server_as_of(shard->relid, snapshot, &replaced_by);
	if (OidIsValid(serverid) && (serverid != shard->serverid || may_have_returned(shard, snapshot, replaced_by)))
		raise_moved(shard);
}

void
shard_map_check_unmoved(const ShardMap *map, const Bitmapset *shards)
{
	Snapshot	snapshot;

	if (!IsolationUsesXactSnapshot() || !TransactionIdIsNormal(map->newest_place))
		return;
	snapshot = GetTransactionSnapshot();
	if (!may_be_newer(map->newest_place, snapshot->xmin))
		return;
	check_no_former_shards(map, snapshot);
	for (int i = 0; i < map->nshards; i++)
	{
		if (shards == NULL || bms_is_member(i, shards))
			check_shard_unmoved(&map->shards[i], snapshot);
	}
}

Oid
shard_map_server(Oid relid)
{
	if (IsolationUsesXactSnapshot())
	{
		const ShardMap *map = shard_map_get(relid);

		if (map)
			shard_map_check_unmoved(map, NULL);
	}
	return check_not_redirected(GetForeignServerIdByRelId(relid));
}

Oid
shard_map_lock_shard(const Shard *shard, int lockmode)
{
	LockRelationOid(shard->relid, lockmode);
	if (get_rel_relkind(shard->relid) != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s is not a shard any more", shard->name)));
	return shard_map_server(shard->relid);
}

/* Marks all maps that contain relid (0: any relation) as the table or as a shard. */
void
shard_map_invalidate(Oid relid)
{
	HASH_SEQ_STATUS status;
	MapEntry   *entry;

	if (map_hash == NULL)
		return;

	hash_seq_init(&status, map_hash);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (relid == InvalidOid || entry->key.relid == relid || entry->in_progress ||
			(entry->cached != NULL && entry->valid && shard_map_build_source(entry->cached, relid) != NULL))
		{
			entry->valid = false;
			entry->in_progress = false;
		}
	}
}

/* Frees maps that are retired or invalid, since no map is used across transactions. */
static void
free_stale_maps(void)
{
	HASH_SEQ_STATUS status;
	MapEntry   *entry;

	xact_ended = false;
	while (retired_maps != NULL)
	{
		ShardCachedMap *next = retired_maps->next;

		MemoryContextDelete(retired_maps->cxt);
		retired_maps = next;
	}

	hash_seq_init(&status, map_hash);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->valid)
			continue;
		if (entry->cached != NULL)
			MemoryContextDelete(entry->cached->cxt);
		hash_search(map_hash, &entry->key, HASH_REMOVE, NULL);
	}
}

void
shard_map_end_transaction(void)
{
	xact_ended = true;
	redirected = NIL;			/* the memory belongs to the transaction */
	seen_replicas = false;
}
