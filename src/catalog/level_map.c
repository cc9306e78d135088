/*
 * level_map.c
 *	  Builds the map of a table with two levels from the maps of its partitions.
 *
 *	   readings             by range of time         the map's relid, and its parts
 *	     readings_2026_01   by hash of a key         a sharded table with its own map
 *	       readings_..._00  a foreign table          a shard of both maps
 *
 * Such a table is planned as one sharded table, whose shards are those of all partitions.  Both
 * keys together determine the shard of a row.  The table must be simple: below a level by range
 * there are only tables that are sharded by hash, all by the same columns.  Partitions may have
 * different numbers of shards, and different attribute numbers (later partitions lack dropped
 * columns).  The attribute numbers of the key are those of the parent.  Everything else (a local
 * partition, one without shards, a third level) is left to core's partition planning.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/level_map.h"
#include "catalog/pg_class.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* Returns the attno of parent's column with the name of column attno of rel. */
static AttrNumber
parent_attno(Relation rel, AttrNumber attno, Relation parent)
{
	return get_attnum(RelationGetRelid(parent), NameStr(TupleDescAttr(RelationGetDescr(rel), attno - 1)->attname));
}

/*
 * Returns the key of a partition of parent; NULL if two levels with this key are not planned as
 * one.  Memory: current context.
 */
static const ShardLevelKey *
level_key(Relation rel, Relation parent)
{
	PartitionKey key = RelationGetPartitionKey(rel);
	ShardLevelKey *result = palloc(sizeof(ShardLevelKey));
	Size		oids_size = sizeof(Oid) * key->partnatts;

	if (key->strategy != PARTITION_STRATEGY_HASH)
		return NULL;
	result->natts = key->partnatts;
	result->attnos = palloc(sizeof(AttrNumber) * key->partnatts);
	result->types = memcpy(palloc(oids_size), key->parttypid, oids_size);
	result->typmods = memcpy(palloc(sizeof(int32) * key->partnatts), key->parttypmod, sizeof(int32) * key->partnatts);
	result->typcollations = memcpy(palloc(oids_size), key->parttypcoll, oids_size);
	result->opfamilies = memcpy(palloc(oids_size), key->partopfamily, oids_size);
	result->opcintypes = memcpy(palloc(oids_size), key->partopcintype, oids_size);
	result->collations = memcpy(palloc(oids_size), key->partcollation, oids_size);
	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == 0)
			return NULL;
		result->attnos[i] = parent_attno(rel, key->partattrs[i], parent);
	}
	return result;
}

static bool
same_level_key(const ShardLevelKey *a, const ShardLevelKey *b)
{
	Size		oids_size = sizeof(Oid) * a->natts;

	return a->natts == b->natts &&
		memcmp(a->attnos, b->attnos, sizeof(AttrNumber) * a->natts) == 0 &&
		memcmp(a->types, b->types, oids_size) == 0 &&
		memcmp(a->opfamilies, b->opfamilies, oids_size) == 0 &&
		memcmp(a->opcintypes, b->opcintypes, oids_size) == 0 &&
		memcmp(a->collations, b->collations, oids_size) == 0;
}

/*
 * Returns modulus and remainder of each partition of a table that is partitioned by hash.  Memory:
 * current context.
 */
static const int *
hash_bounds(PartitionDesc partdesc)
{
	PartitionBoundInfo boundinfo = partdesc->boundinfo;
	int		   *bounds = palloc(sizeof(int) * 2 * partdesc->nparts);

	/* partitions are in the order of their bounds */
	for (int i = 0; i < partdesc->nparts; i++)
	{
		bounds[2 * i] = DatumGetInt32(boundinfo->datums[i][0]);
		bounds[2 * i + 1] = DatumGetInt32(boundinfo->datums[i][1]);
	}
	return bounds;
}

/*
 * Returns the map of partition partno, after adding its shards to cached.  NULL if the table is not
 * one with two levels.  The partition is locked.
 */
static const ShardMap *
add_part(ShardCachedMap *cached, int partno, Relation parent, const ShardLevelMapCache *cache,
		 const ShardMap **part_maps)
{
	ShardPart  *part = &cached->map.parts[partno];
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "shardfdw partition", ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(scratch);
	const ShardMap *map = cache->get(part->relid);
	Relation	rel;
	const ShardLevelKey *key;
	PartitionDesc partdesc;

	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(scratch);

	if (map == NULL || OidIsValid(map->home))
		return NULL;
	rel = table_open(part->relid, NoLock);
	partdesc = RelationGetPartitionDesc(rel, true);
	key = level_key(rel, parent);
	if (key == NULL || partdesc->nparts != map->nshards ||
		(cached->map.part_key != NULL && !same_level_key(key, cached->map.part_key)))
		map = NULL;
	else
	{
		if (cached->map.part_key == NULL)
			cached->map.part_key = key;
		part->first = cached->map.nshards;
		part->nshards = map->nshards;
		part->bounds = hash_bounds(partdesc);
		part->like = partno;
		for (int i = 0; i < partno && part->like == partno; i++)
		{
			const ShardPart *other = &cached->map.parts[i];

			if (other->like == i && other->nshards == part->nshards &&
				memcmp(other->bounds, part->bounds, sizeof(int) * 2 * part->nshards) == 0)
				part->like = i;
		}
		cached->map.nshards += map->nshards;
	}
	table_close(rel, NoLock);
	part_maps[partno] = map;
	return map;
}

/*
 * Looks up the partitions' own maps.  False: the table is not one with two levels. *keep is false
 * if that may change soon.
 */
static bool
add_parts(ShardCachedMap *cached, Relation parent, bool wait, const ShardLevelMapCache *cache,
		  const ShardMap **part_maps, bool *keep)
{
	bool		found = true;

	for (int i = 0; i < cached->map.nparts && found; i++)
	{
		Oid			relid = cached->map.parts[i].relid;

		if (wait)
			LockRelationOid(relid, AccessShareLock);
		else if (!ConditionalLockRelationOid(relid, AccessShareLock))
		{
			*keep = false;
			return false;
		}
		if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
			found = add_part(cached, i, parent, cache, part_maps) != NULL;
		else
		{
			/* it was being detached when the partitions were looked up */
			found = *keep = false;
		}
		UnlockRelationOid(relid, AccessShareLock);
	}
	return found;
}

/* Collects the shards of the partitions.  The strings of the shards belong to the partitions' maps. */
static void
collect_shards(ShardCachedMap *cached, const ShardMap *const *part_maps)
{
	ShardMap   *map = &cached->map;
	List	   *servers = NIL;
	int			shardno = 0;

	for (int i = 0; i < map->nparts; i++)
	{
		for (int j = 0; j < part_maps[i]->nnodes; j++)
			servers = list_append_unique_oid(servers, part_maps[i]->nodes[j].serverid);
	}
	map->shards = palloc(sizeof(Shard) * map->nshards);
	map->nodes = palloc0(sizeof(ShardNode) * list_length(servers));
	list_free(servers);
	for (int i = 0; i < map->nparts; i++)
	{
		const ShardMap *part = part_maps[i];

		map->renames |= part->renames;
		map->read_only |= part->read_only;
		map->has_triggers |= part->has_triggers;
		map->has_replicas |= part->has_replicas;
		map->foreign_definition |= part->foreign_definition;
		if (TransactionIdIsNormal(part->newest_place) &&
			(!TransactionIdIsValid(map->newest_place) ||
			 TransactionIdFollows(part->newest_place, map->newest_place)))
			map->newest_place = part->newest_place;
		for (int j = 0; j < part->nshards; j++)
		{
			Shard	   *shard = &map->shards[shardno];

			*shard = part->shards[j];
			shard->nodeno = shard_map_build_node(map, shard->serverid);
			map->nodes[shard->nodeno].nshards++;
			cached->sources[cached->nsources].relid = shard->relid;
			cached->sources[cached->nsources++].shardno = shardno++;
		}
	}
	shard_map_build_hosts(map);
}

ShardCachedMap *
shard_level_map_build(Oid relid, bool wait, const ShardLevelMapCache *cache, bool *keep)
{
	Relation	rel = try_table_open(relid, AccessShareLock);	/* as in shard_map_build() */
	PartitionDesc partdesc;
	bool		candidate;
	MemoryContext cxt;
	MemoryContext oldcxt;
	ShardCachedMap *cached;
	const ShardMap **part_maps;

	*keep = false;
	if (rel == NULL)
		return NULL;
	partdesc = RelationGetPartitionDesc(rel, true);
	*keep = !partdesc->detached_exist;
	/* while a partition is being detached, snapshots disagree about it, so core plans such a table */
	candidate = RelationGetPartitionKey(rel)->strategy == PARTITION_STRATEGY_RANGE && partdesc->nparts > 0 &&
		!partdesc->detached_exist;
	for (int i = 0; candidate && i < partdesc->nparts; i++)
		candidate = !partdesc->is_leaf[i];
	if (!candidate)
	{
		table_close(rel, AccessShareLock);
		return NULL;
	}

	cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw map of two levels", ALLOCSET_SMALL_SIZES);
	oldcxt = MemoryContextSwitchTo(cxt);
	cached = palloc0(sizeof(ShardCachedMap));
	cached->cxt = cxt;
	cached->map.relid = relid;
	cached->map.nparts = partdesc->nparts;
	cached->map.parts_ordered = RelationGetPartitionKey(rel)->partnatts == 1 &&
		!partition_bound_has_default(partdesc->boundinfo);
	cached->map.parts = palloc0(sizeof(ShardPart) * partdesc->nparts);
	part_maps = palloc(sizeof(ShardMap *) * partdesc->nparts);
	for (int i = 0; i < partdesc->nparts; i++)
		cached->map.parts[i].relid = partdesc->oids[i];
	cached->sharded = add_parts(cached, rel, wait, cache, part_maps, keep);
	for (int i = 0; *keep && cached->sharded && i < cached->map.nparts; i++)
		*keep = cache->is_kept(cached->map.parts[i].relid);
	/* callers that lock partitions look the map up again until it is the same */
	cached->sharded = cached->sharded && *keep;
	if (!cached->sharded)
		cached->map.nshards = 0;
	cached->sources = palloc(sizeof(ShardMapSource) * (cached->map.nparts + cached->map.nshards));
	for (int i = 0; i < cached->map.nparts; i++)
	{
		cached->sources[i].relid = cached->map.parts[i].relid;
		cached->sources[i].shardno = -1;
	}
	cached->nsources = cached->map.nparts;
	if (cached->sharded)
		collect_shards(cached, part_maps);
	shard_map_build_sort(cached);
	pfree(part_maps);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextSetParent(cxt, CacheMemoryContext);
	table_close(rel, AccessShareLock);
	return cached;
}
