/*
 * shard_map.c
 *	  A cache of which shards a sharded table has.
 *
 * The catalogs are the truth: partition bounds, the foreign tables' servers and
 * options.  A map is what planner and executor need of them, built at first use
 * and kept until something it was built from changes:
 *
 *	  parent's or shard's relcache entry   bounds, attach, detach, options, rename
 *	  pg_namespace, pg_foreign_server,
 *	  pg_foreign_data_wrapper              names, cores, handler
 *
 * An invalidation only marks; the next look-up builds anew.  A replaced map may
 * still be in use by a plan or a running scan, so it is kept to the end of the
 * transaction, and beyond until the next look-up, because streams that are
 * closed while an aborted transaction is cleaned up still name their shards:
 *
 *	  valid --invalidated--> invalid --looked up--> retired
 *	  invalid, retired --look-up in another transaction--> freed
 *
 * "Not a sharded table" is remembered in the same way.  Callers hold a lock on
 * the partitioned table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/home.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_inherits.h"
#include "catalog/shard_map.h"
#include "commands/defrem.h"
#include "foreign/fdwapi.h"
#include "identity.h"
#include "lib/stringinfo.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "version.h"

/* Shards by relid, for shard_map_find and invalidation. */
typedef struct ShardIndex
{
	Oid			relid;
	int			shardno;
} ShardIndex;

typedef struct CachedMap
{
	ShardMap	map;			/* first: callers get a pointer to it */
	MemoryContext cxt;			/* holds this struct and all it points to */
	ShardIndex *index;			/* nshards, ordered by relid */
	struct CachedMap *next;		/* in the list of retired maps */
} CachedMap;

typedef struct MapEntry
{
	Oid			relid;			/* hash key */
	bool		valid;
	bool		in_progress;	/* being built: an invalidation meanwhile counts */
	CachedMap  *cached;			/* NULL: no sharded table */
} MapEntry;

static HTAB *map_hash = NULL;
static CachedMap *retired_maps = NULL;
static bool xact_ended = false; /* since the last look-up */
static uint64 last_serial = 0;

static CachedMap *build_map(Oid relid, char relkind, bool *keep);
static void fill_shard(CachedMap *cached, int shardno, Oid relid);
static void count_hosted(ShardMap *map);
static bool takes_all(Relation rel);
static void free_stale_maps(void);

static int
compare_index(const void *a, const void *b)
{
	Oid			left = ((const ShardIndex *) a)->relid;
	Oid			right = ((const ShardIndex *) b)->relid;

	return left < right ? -1 : left > right ? 1 : 0;
}

static int
find_shard(const CachedMap *cached, Oid shard_relid)
{
	ShardIndex	key = {shard_relid, 0};
	ShardIndex *found = bsearch(&key, cached->index, cached->map.nshards,
								sizeof(ShardIndex), compare_index);

	return found ? found->shardno : -1;
}

static void
retire_map(CachedMap *cached)
{
	if (cached != NULL)
	{
		cached->next = retired_maps;
		retired_maps = cached;
	}
}

/* Returns the map after shard_version_check(): whoever asks for a map is going to use the table. */
static const ShardMap *
usable_map(const CachedMap *cached)
{
	shard_version_check();
	return &cached->map;
}

const ShardMap *
shard_map_get(Oid relid)
{
	MapEntry   *entry;
	CachedMap  *cached;
	bool		found;
	bool		keep;
	char		relkind;

	if (map_hash == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(MapEntry);
		ctl.hcxt = CacheMemoryContext;
		map_hash = hash_create("shardfdw shard maps", 64, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}

	if (xact_ended)
		free_stale_maps();

	entry = hash_search(map_hash, &relid, HASH_FIND, NULL);
	if (entry != NULL && entry->valid)
		return entry->cached ? usable_map(entry->cached) : NULL;

	relkind = get_rel_relkind(relid);
	if (relkind != RELKIND_PARTITIONED_TABLE && relkind != RELKIND_FOREIGN_TABLE)
		return NULL;

	/*
	 * Catalog look-ups below can process invalidations, and enlarge the hash
	 * by looking up other maps; so the entry's state is set before and read
	 * again after.
	 */
	entry = hash_search(map_hash, &relid, HASH_ENTER, &found);
	if (found)
		retire_map(entry->cached);
	entry->cached = NULL;
	entry->valid = false;
	entry->in_progress = true;

	cached = build_map(relid, relkind, &keep);

	entry = hash_search(map_hash, &relid, HASH_ENTER, &found);
	if (found && entry->cached != NULL)
		retire_map(entry->cached);
	entry->cached = cached;
	entry->valid = found && entry->in_progress && keep;
	entry->in_progress = false;

	return cached ? usable_map(cached) : NULL;
}

Oid
shard_map_top(Oid relid)
{
	List	   *ancestors = get_rel_relispartition(relid) ? get_partition_ancestors(relid) : NIL;

	return ancestors != NIL ? llast_oid(ancestors) : relid;
}

bool
shard_map_in_cluster(const ShardMap *map)
{
	for (int i = 0; i < map->nnodes; i++)
	{
		if (!shard_node_in_cluster(map->nodes[i].serverid))
			return false;
	}
	return true;
}

int
shard_map_find(const ShardMap *map, Oid shard_relid)
{
	return find_shard((const CachedMap *) map, shard_relid);
}

/*
 * Builds the map of a partitioned or foreign table; NULL when it is not ours.
 * *keep is false for a state that only the current snapshot sees (a partition
 * that is being detached concurrently).
 */
static CachedMap *
build_map(Oid relid, char relkind, bool *keep)
{
	Relation	rel = NULL;
	MemoryContext cxt;
	MemoryContext oldcxt;
	CachedMap  *cached;
	int			nshards = 1;
	Oid		   *oids = &relid;
	bool		ours = true;

	*keep = true;
	if (relkind == RELKIND_PARTITIONED_TABLE)
	{
		PartitionDesc partdesc;

		rel = table_open(relid, NoLock);
		partdesc = RelationGetPartitionDesc(rel, true);
		nshards = partdesc->nparts;
		oids = partdesc->oids;
		*keep = !partdesc->detached_exist;
		ours = nshards > 0;
		for (int i = 0; ours && i < nshards; i++)
			ours = partdesc->is_leaf[i];
	}

	/* Shards of one table share few servers, so asking each again is cheap. */
	for (int i = 0; ours && i < nshards; i++)
		ours = shard_option_is_ours(oids[i]);
	if (!ours)
	{
		if (rel != NULL)
			table_close(rel, NoLock);
		return NULL;
	}

	/* A child of the current context until it is complete, so that an error leaves nothing behind. */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw shard map",
								ALLOCSET_SMALL_SIZES);
	oldcxt = MemoryContextSwitchTo(cxt);
	cached = palloc0(sizeof(CachedMap));
	cached->cxt = cxt;
	cached->map.relid = relid;
	cached->map.serial = ++last_serial;
	cached->map.nshards = nshards;
	cached->map.shards = palloc0(sizeof(Shard) * nshards);
	cached->map.nodes = palloc0(sizeof(ShardNode) * nshards);
	cached->index = palloc(sizeof(ShardIndex) * nshards);
	for (int i = 0; i < nshards; i++)
	{
		fill_shard(cached, i, oids[i]);
		cached->index[i].relid = oids[i];
		cached->index[i].shardno = i;
	}
	count_hosted(&cached->map);
	cached->map.takes_all = rel != NULL && takes_all(rel);
	cached->map.home = cached->map.takes_all ? shard_home_of(relid) : InvalidOid;
	qsort(cached->index, nshards, sizeof(ShardIndex), compare_index);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextSetParent(cxt, CacheMemoryContext);

	if (rel != NULL)
		table_close(rel, NoLock);
	return cached;
}

/* Has a partitioned table one partition, which takes every row? */
static bool
takes_all(Relation rel)
{
	PartitionDesc partdesc = RelationGetPartitionDesc(rel, true);
	PartitionBoundInfo bounds = partdesc->boundinfo;

	return partdesc->nparts == 1 &&
		(partition_bound_has_default(bounds) ||
		 (bounds->strategy == PARTITION_STRATEGY_HASH && get_hash_partition_greatest_modulus(bounds) == 1));
}

/* Where a server's options say that it is; the local socket's directory need not be named. */
static const char *
host_of(Oid serverid)
{
	const char *host = shard_option_server(serverid, "hostaddr");

	if (host == NULL)
		host = shard_option_server(serverid, "host");
	return host ? host : "";
}

/* Sets hostno and nhosted of all nodes. */
static void
count_hosted(ShardMap *map)
{
	for (int i = 0; i < map->nnodes; i++)
	{
		ShardNode  *node = &map->nodes[i];

		node->hostno = i;
		node->nhosted = 0;
		for (int j = map->nnodes - 1; j >= 0; j--)
		{
			if (strcmp(node->host, map->nodes[j].host) != 0)
				continue;
			node->hostno = j;
			node->nhosted++;
		}
	}
}

/* nodeno of a server, added to the map when it is new there. */
static int
find_or_add_node(ShardMap *map, Oid serverid)
{
	ShardNode  *node;
	ForeignServer *server;

	for (int i = 0; i < map->nnodes; i++)
	{
		if (map->nodes[i].serverid == serverid)
			return i;
	}

	server = GetForeignServer(serverid);
	node = &map->nodes[map->nnodes];
	node->serverid = serverid;
	node->name = server->servername;
	node->host = host_of(serverid);
	node->cores = shard_option_server_int(serverid, "cores", 0);
	node->default_collation = shard_option_server(serverid, "default_collation");
	node->nshards = 0;
	node->has_partial_aggregates = shard_option_server_bool(serverid, "partial_aggregates", false);
	node->extensions = shard_option_server_extensions(serverid);
	node->missing_partial_aggregates = shard_option_server_list(serverid, "missing_partial_aggregates");
	map->foreign_definition |= !shard_option_definition_follows(serverid);
	return map->nnodes++;
}

/*
 * "(SELECT remote AS local, ... FROM relation)" when a column of the shard has
 * another name on its node, else relation itself.
 *
 * One index scan over all columns, as asking the syscache for each would cost
 * ten times as much when it is cold.  Memory: current context.
 */
static const char *
build_from_item(Oid relid, const char *relation)
{
	Relation	pg_attribute = table_open(AttributeRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	StringInfoData buf;
	bool		renamed = false;

	initStringInfo(&buf);
	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTGreaterStrategyNumber, F_INT2GT,
				Int16GetDatum(0));
	scan = systable_beginscan(pg_attribute, AttributeRelidNumIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);
		const char *local = NameStr(att->attname);
		const char *remote = local;
		bool		isnull;
		Datum		options;

		if (att->attisdropped)
			continue;
		options = heap_getattr(tuple, Anum_pg_attribute_attfdwoptions,
							   RelationGetDescr(pg_attribute), &isnull);
		if (!isnull)
		{
			ListCell   *lc;

			foreach(lc, untransformRelOptions(options))
			{
				DefElem    *elem = lfirst_node(DefElem, lc);

				if (strcmp(elem->defname, "column_name") == 0)
					remote = defGetString(elem);
			}
		}
		if (strcmp(remote, local) != 0)
			renamed = true;
		appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", quote_identifier(remote));
		appendStringInfo(&buf, " AS %s", quote_identifier(local));
	}
	systable_endscan(scan);
	table_close(pg_attribute, AccessShareLock);

	if (renamed)
		relation = psprintf("(SELECT %s FROM %s)", buf.data, relation);
	pfree(buf.data);
	return relation;
}

static bool
has_triggers(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	result = ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;
	ReleaseSysCache(tuple);
	return result;
}

/* Who has written a foreign table's row. */
static TransactionId
placed_by(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	TransactionId xid;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	xid = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	return xid;
}

/* Fills shards[shardno] of a map from the catalogs.  Memory: current context, the map's. */
static void
fill_shard(CachedMap *cached, int shardno, Oid relid)
{
	ShardMap   *map = &cached->map;
	Shard	   *shard = &map->shards[shardno];
	ForeignTable *table = GetForeignTable(relid);
	char	   *local_schema = get_namespace_name(get_rel_namespace(relid));
	char	   *local_name = get_rel_name(relid);
	const char *schema = local_schema;
	const char *name = local_name;
	ListCell   *lc;

	if (local_schema == NULL || local_name == NULL)
		elog(ERROR, "cache lookup failed for relation %u", relid);

	foreach(lc, table->options)
	{
		DefElem    *elem = lfirst_node(DefElem, lc);

		if (strcmp(elem->defname, "schema_name") == 0)
			schema = defGetString(elem);
		else if (strcmp(elem->defname, "table_name") == 0)
			name = defGetString(elem);
	}

	shard->relid = relid;
	shard->serverid = table->serverid;
	shard->placed_by = placed_by(relid);
	if (TransactionIdIsNormal(shard->placed_by) &&
		(!TransactionIdIsValid(map->newest_place) || TransactionIdFollows(shard->placed_by, map->newest_place)))
		map->newest_place = shard->placed_by;
	shard->nodeno = find_or_add_node(map, table->serverid);
	map->nodes[shard->nodeno].nshards++;
	shard->name = quote_qualified_identifier(local_schema, local_name);
	shard->relation = quote_qualified_identifier(schema, name);
	shard->from_item = build_from_item(relid, shard->relation);
	map->renames |= shard->from_item != shard->relation;
	map->foreign_definition |= map->renames || strcmp(shard->name, shard->relation) != 0;
	map->read_only |= !shard_option_table_bool(relid, "updatable", true);
	map->has_triggers |= has_triggers(relid);
}

/* ---------- shards that move ---------- */

const ShardMap *
shard_map_get_now(Oid relid)
{
	AcceptInvalidationMessages();
	return shard_map_get(relid);
}

bool
shard_map_lock(const ShardMap *map, int shardno, int lockmode)
{
	/* looks at what others have committed if it is a new lock; if not, nobody can have moved the shard */
	LockRelationOid(map->shards[shardno].relid, lockmode);
	return shard_map_get(map->relid) == map;
}

/* Server of a foreign table as a snapshot sees it; InvalidOid when it does not see the table. */
static Oid
server_as_of(Oid relid, Snapshot snapshot)
{
	Relation	rel = table_open(ForeignTableRelationId, AccessShareLock);
	Oid			serverid = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_foreign_table_ftrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, ForeignTableRelidIndexId, true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		serverid = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return serverid;
}

/*
 * The table of which relid is a partition now; InvalidOid when it is none.  core's
 * get_partition_parent() raises an internal error when relid is detached meanwhile.
 */
static Oid
parent_of(Oid relid)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent;

	if (!get_rel_relispartition(relid))
		return InvalidOid;
	rel = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	parent = HeapTupleIsValid(tuple) ? ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent : InvalidOid;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return parent;
}

/* Can a row that xid has written be newer than a snapshot whose xmin is given? */
static bool
may_be_newer(TransactionId xid, TransactionId xmin)
{
	return TransactionIdIsNormal(xid) && !TransactionIdPrecedes(xid, xmin);
}

/*
 * Raises when a snapshot sees a partition of parent that is none any more: it was split,
 * say, and its rows are in tables whose rows are too new for the snapshot.
 */
static void
check_no_former_shard(Oid parent, Snapshot snapshot)
{
	Relation	rel = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(rel, InheritsParentIndexId, true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits inherits = (Form_pg_inherits) GETSTRUCT(tuple);

		/* the snapshot does not count one that is being detached, either */
		if (!inherits->inhdetachpending && parent_of(inherits->inhrelid) != parent)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not serialize access due to other shards of table \"%s\"", get_rel_name(parent)),
					 errdetail("A shard has been split or detached since this transaction's snapshot was taken."),
					 errhint("The transaction might succeed if retried.")));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * The same for the tables of map.  A shard by itself has to be looked at when it is newer than the
 * snapshot: where core reads or changes partitions one by one, none of them stands for the
 * one that is gone.
 */
static void
check_no_former_shards(const ShardMap *map, Snapshot snapshot)
{
	Oid			parent = map->relid;

	if (get_rel_relkind(map->relid) == RELKIND_FOREIGN_TABLE)
	{
		parent = parent_of(map->relid);
		if (!OidIsValid(parent) || OidIsValid(server_as_of(map->relid, snapshot)))
			return;
	}
	check_no_former_shard(parent, snapshot);
}

/* A copy of map with the same shards, whose places can be changed, and room for one more node per shard. */
static CachedMap *
copy_map(const ShardMap *map)
{
	const CachedMap *cached = (const CachedMap *) map;
	CachedMap  *copy = palloc(sizeof(CachedMap));

	*copy = *cached;
	copy->map.serial = ++last_serial;
	copy->map.shards = palloc(sizeof(Shard) * map->nshards);
	memcpy(copy->map.shards, map->shards, sizeof(Shard) * map->nshards);
	copy->map.nodes = palloc0(sizeof(ShardNode) * (map->nnodes + map->nshards));
	memcpy(copy->map.nodes, map->nodes, sizeof(ShardNode) * map->nnodes);
	return copy;
}

const ShardMap *
shard_map_as_of(const ShardMap *map, const char *snapshot, TransactionId xmin)
{
	CachedMap  *copy = NULL;
	Snapshot	then;

	if (!may_be_newer(map->newest_place, xmin))
		return map;
	then = RegisterSnapshot(RestoreSnapshot(unconstify(char *, snapshot)));
	check_no_former_shards(map, then);
	for (int i = 0; i < map->nshards; i++)
	{
		Oid			serverid;

		if (!may_be_newer(map->shards[i].placed_by, xmin))
			continue;
		serverid = server_as_of(map->shards[i].relid, then);
		/* a table that was made since has no rows that the snapshot would see */
		if (!OidIsValid(serverid) || serverid == map->shards[i].serverid)
			continue;
		if (copy == NULL)
			copy = copy_map(map);
		copy->map.nodes[copy->map.shards[i].nodeno].nshards--;
		copy->map.shards[i].serverid = serverid;
		copy->map.shards[i].nodeno = find_or_add_node(&copy->map, serverid);
		copy->map.nodes[copy->map.shards[i].nodeno].nshards++;
	}
	UnregisterSnapshot(then);
	if (copy == NULL)
		return map;
	count_hosted(&copy->map);
	return &copy->map;
}

static void
check_shard_unmoved(const Shard *shard, Snapshot snapshot)
{
	Oid			serverid;

	if (!may_be_newer(shard->placed_by, snapshot->xmin))
		return;
	serverid = server_as_of(shard->relid, snapshot);
	if (OidIsValid(serverid) && serverid != shard->serverid)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a move of shard %s", shard->name),
				 errdetail("It has moved to another node since this transaction's snapshot was taken."),
				 errhint("The transaction might succeed if retried.")));
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
	return GetForeignServerIdByRelId(relid);
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

/* Marks every map that relid (0: any relation) is the table or a shard of. */
static void
invalidate_relation(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	MapEntry   *entry;

	if (map_hash == NULL)
		return;

	hash_seq_init(&status, map_hash);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (relid == InvalidOid || entry->relid == relid || entry->in_progress ||
			(entry->cached != NULL && entry->valid && find_shard(entry->cached, relid) >= 0))
		{
			entry->valid = false;
			entry->in_progress = false;
		}
	}
}

/* The number of callbacks is limited: this one serves another file, too. */
static void
note_relation_change(Datum arg, Oid relid)
{
	shard_identity_invalidate(relid);
	invalidate_relation(arg, relid);
}

static void
invalidate_all(Datum arg, int cacheid, uint32 hashvalue)
{
	invalidate_relation(arg, InvalidOid);
}

/* Frees maps that are retired or invalid: nothing uses a map across transactions. */
static void
free_stale_maps(void)
{
	HASH_SEQ_STATUS status;
	MapEntry   *entry;

	xact_ended = false;
	while (retired_maps != NULL)
	{
		CachedMap  *next = retired_maps->next;

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
		hash_search(map_hash, &entry->relid, HASH_REMOVE, NULL);
	}
}

static void
note_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			xact_ended = true;
			break;
		default:
			break;
	}
}

void
shard_map_init(void)
{
	CacheRegisterRelcacheCallback(note_relation_change, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, invalidate_all, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, invalidate_all, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, invalidate_all, (Datum) 0);
	RegisterXactCallback(note_xact_end, NULL);
}
