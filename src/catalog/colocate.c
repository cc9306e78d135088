/*
 * colocate.c
 *	  Are two sharded tables colocated?  Cached per pair.
 *
 * Two tables with the same partition key types, operator families, collations and bounds have equal
 * keys in partitions with the same number, since the bounds determine the order of a PartitionDesc.
 * Then only the servers of the shards must be compared, one by one.  Tables of a schema that is on
 * one node as a whole (home.h) are colocated with each other, and with no other tables.
 *
 * A result is valid as long as the two tables' maps, which are built again when bounds, partitions
 * or options change.  So it is stored together with their serial numbers.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/colocate.h"
#include "catalog/pg_class.h"
#include "catalog/shard_map.h"
#include "hash_table.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

typedef struct PairKey
{
	Oid			low;
	Oid			high;
} PairKey;

typedef struct PairEntry
{
	PairKey		key;			/* hash key */
	uint64		low_serial;		/* of the maps from which the result was computed */
	uint64		high_serial;
	bool		colocated;
} PairEntry;

static HTAB *pair_hash = NULL;

static bool
same_keys(PartitionKey a, PartitionKey b)
{
	if (a->strategy != b->strategy || a->partnatts != b->partnatts)
		return false;
	for (int i = 0; i < a->partnatts; i++)
	{
		if (a->partopfamily[i] != b->partopfamily[i] ||
			a->partopcintype[i] != b->partopcintype[i] ||
			a->partcollation[i] != b->partcollation[i] ||
			a->parttypid[i] != b->parttypid[i])
			return false;
	}
	return true;
}

/* Do partitions with the same number of both tables accept the same keys? */
static bool
same_bounds(Oid relid1, Oid relid2)
{
	/* the statement may name only a partition of one of them */
	Relation	rel1 = table_open(relid1, AccessShareLock);
	Relation	rel2 = table_open(relid2, AccessShareLock);
	PartitionKey key = RelationGetPartitionKey(rel1);
	PartitionKey key2 = RelationGetPartitionKey(rel2);
	bool		result = false;

	if (key != NULL && key2 != NULL && same_keys(key, key2))
	{
		PartitionDesc desc1 = RelationGetPartitionDesc(rel1, true);
		PartitionDesc desc2 = RelationGetPartitionDesc(rel2, true);

		result = desc1->nparts == desc2->nparts && desc1->nparts > 0 &&
			partition_bounds_equal(key->partnatts, key->parttyplen, key->parttypbyval,
								   desc1->boundinfo, desc2->boundinfo);
	}
	table_close(rel1, AccessShareLock);
	table_close(rel2, AccessShareLock);
	return result;
}

static bool
same_nodes(const ShardMap *map1, const ShardMap *map2)
{
	if (map1->nshards != map2->nshards)
		return false;
	for (int i = 0; i < map1->nshards; i++)
	{
		const Shard *shard1 = &map1->shards[i];
		const Shard *shard2 = &map2->shards[i];

		/* replicas, too, since a query of both may have to run on the node of a replica */
		if (shard1->serverid != shard2->serverid || shard1->nreplicas != shard2->nreplicas ||
			(shard1->nreplicas > 0 && memcmp(shard1->replicas, shard2->replicas, sizeof(Oid) * shard1->nreplicas) != 0))
			return false;
	}
	return true;
}

/* Do both tables have one level, or two levels with the same partitions, each sharded in the same way? */
static bool
same_parts(const ShardMap *map1, const ShardMap *map2)
{
	const ShardLevelKey *key1 = map1->part_key;
	const ShardLevelKey *key2 = map2->part_key;

	if (map1->nparts != map2->nparts)
		return false;
	if (map1->nparts == 0)
		return true;
	if (key1->natts != key2->natts)
		return false;
	for (int i = 0; i < key1->natts; i++)
	{
		if (key1->opfamilies[i] != key2->opfamilies[i] || key1->opcintypes[i] != key2->opcintypes[i] ||
			key1->collations[i] != key2->collations[i] || key1->types[i] != key2->types[i])
			return false;
	}
	for (int i = 0; i < map1->nparts; i++)
	{
		const ShardPart *part1 = &map1->parts[i];
		const ShardPart *part2 = &map2->parts[i];

		if (part1->nshards != part2->nshards ||
			memcmp(part1->bounds, part2->bounds, sizeof(int) * 2 * part1->nshards) != 0)
			return false;
	}
	return true;
}

static bool
is_parent(const ShardMap *map)
{
	return map->nshards != 1 || map->shards[0].relid != map->relid;
}

bool
shard_colocated(Oid relid1, Oid relid2)
{
	PairKey		key = {Min(relid1, relid2), Max(relid1, relid2)};
	const ShardMap *low = shard_map_get_levels(key.low, false);
	const ShardMap *high = shard_map_get_levels(key.high, false);
	PairEntry  *entry;
	bool		found;
	bool		colocated;

	if (low == NULL || high == NULL)
		return false;
	if (key.low == key.high)
		return true;
	if (is_parent(low) != is_parent(high))
		return false;
	if (low->home != high->home)
		return false;
	if (!is_parent(low) || OidIsValid(low->home))
		return low->shards[0].serverid == high->shards[0].serverid;

	if (pair_hash == NULL)
		pair_hash = shard_hash_table_create("shardfdw colocated tables", 64, sizeof(PairKey), sizeof(PairEntry), CacheMemoryContext);
	entry = hash_search(pair_hash, &key, HASH_FIND, NULL);
	if (entry != NULL && entry->low_serial == low->serial && entry->high_serial == high->serial)
		return entry->colocated;

	/* if an error is raised here, no result is stored */
	colocated = same_nodes(low, high) && same_parts(low, high) && same_bounds(key.low, key.high);
	entry = hash_search(pair_hash, &key, HASH_ENTER, &found);
	entry->low_serial = low->serial;
	entry->high_serial = high->serial;
	entry->colocated = colocated;
	return colocated;
}
