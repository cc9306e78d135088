/*
 * group.c
 *	  The shards that must stay on one node: those of colocated tables with the same keys.
 */
#include "postgres.h"

#include "catalog/colocate.h"
#include "catalog/group.h"
#include "catalog/home.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "catch.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(shardfdw_shard_group);
PG_FUNCTION_INFO_V1(shardfdw_shard_groups);

/* Locks a table to read its shards.  False if it was dropped. */
static bool
lock_table(Oid relid)
{
	LockRelationOid(relid, AccessShareLock);
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return true;
	UnlockRelationOid(relid, AccessShareLock);
	return false;
}

/*
 * Has a partitioned table a foreign table of this extension as a partition?  Reads the catalog without a lock, so that
 * it does not wait for sessions that have locked other tables.
 */
static bool
may_be_sharded(Oid relid)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;
	bool		result;

	/* in a sharded table all partitions are foreign tables, so the first one decides */
	shard_catalog_scan_begin_oid(&scan, InheritsRelationId, InheritsParentIndexId, Anum_pg_inherits_inhparent, relid);
	tuple = shard_catalog_scan_next(&scan);
	result = HeapTupleIsValid(tuple) && shard_option_is_ours(((Form_pg_inherits) GETSTRUCT(tuple))->inhrelid);
	shard_catalog_scan_end(&scan);
	return result;
}

/* Returns the OIDs of partitioned tables that may be sharded. */
static List *
partitioned_tables(void)
{
	ShardCatalogScan scan;
	List	   *oids = NIL;
	HeapTuple	tuple;

	shard_catalog_scan_begin(&scan, PartitionedRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Oid			relid = ((Form_pg_partitioned_table) GETSTRUCT(tuple))->partrelid;

		if (may_be_sharded(relid))
			oids = lappend_oid(oids, relid);
	}
	shard_catalog_scan_end(&scan);
	return oids;
}

typedef struct MapStep
{
	Oid			relid;
	const ShardMap *map;
} MapStep;

static void
get_map(void *arg)
{
	MapStep    *step = arg;

	step->map = shard_map_get(step->relid);
}

/*
 * Returns the map of a table; NULL if it is not sharded, or if it has an option that names a missing node.  In the
 * second case raises a WARNING.  The table's owner can set such an option, and must not make functions over all tables
 * fail by it.
 */
static const ShardMap *
map_or_warning(Oid relid)
{
	MapStep		step = {relid};
	ErrorData  *error = shard_catch_in_subtransaction(get_map, &step, true);

	if (error == NULL)
		return step.map;
	if (error->sqlerrcode != ERRCODE_UNDEFINED_OBJECT)
		ReThrowError(error);
	ereport(WARNING,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("table %s is left out: %s", shard_qualified_relation(relid), error->message)));
	FreeErrorData(error);
	return NULL;
}

/* Returns shard shardno of relid, if that table is colocated with parent; otherwise InvalidOid. */
static Oid
colocated_shard(Oid parent, Oid relid, int shardno)
{
	Oid			shard = InvalidOid;
	const ShardMap *map;

	if (!lock_table(relid))
		return InvalidOid;
	map = map_or_warning(relid);
	if (map != NULL && shardno < map->nshards && shard_colocated(parent, relid))
		shard = map->shards[shardno].relid;
	UnlockRelationOid(relid, AccessShareLock);
	return shard;
}

List *
shard_group_find(Oid shard)
{
	List	   *group;
	Oid			parent;
	int			shardno;
	const ShardMap *map;

	if (get_rel_relkind(shard) != RELKIND_FOREIGN_TABLE || !get_rel_relispartition(shard))
		return NIL;
	parent = get_partition_parent(shard, true);
	if (!lock_table(parent))
		return NIL;
	map = shard_map_get(parent);
	shardno = map ? shard_map_find(map, shard) : -1;
	group = shardno < 0 ? NIL : list_make1_oid(shard);
	if (shardno >= 0)
	{
		foreach_oid(relid, partitioned_tables())
		{
			Oid			other = relid == parent ? InvalidOid : colocated_shard(parent, relid, shardno);

			if (OidIsValid(other))
				group = list_append_unique_oid(group, other);
		}
	}
	UnlockRelationOid(parent, AccessShareLock);
	list_sort(group, list_oid_cmp);
	return group;
}

/* shard_group(shard regclass) -> setof regclass */
Datum
shardfdw_shard_group(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach_oid(member, shard_group_find(PG_GETARG_OID(0)))
	{
		Datum		value = ObjectIdGetDatum(member);
		bool		isnull = false;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}
	return (Datum) 0;
}

/* Returns the shards of relid, which is colocated with leader. */
static void
put_shards(ReturnSetInfo *rsinfo, Oid leader, Oid relid)
{
	const ShardMap *map = shard_map_get(relid);

	for (int i = 0; i < map->nshards; i++)
	{
		Datum		values[3] = {ObjectIdGetDatum(leader), Int32GetDatum(i), ObjectIdGetDatum(map->shards[i].relid)};
		bool		isnull[3] = {false, false, false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
	}
}

/*
 * Returns the leader of a table in a schema that is on one node: the schema's home table, unless
 * the table is elsewhere.
 */
static Oid
home_leader(const ShardMap *map)
{
	Oid			home = shard_home_table(map->home);
	bool		colocated;

	if (!OidIsValid(home) || !lock_table(home))
		return map->relid;
	colocated = map_or_warning(home) != NULL && shard_colocated(home, map->relid);
	UnlockRelationOid(home, AccessShareLock);
	return colocated ? home : map->relid;
}

/*
 * shard_groups() -> table (leader regclass, shardno integer, shard regclass)
 *
 * Tables are compared only with the first one of each group, since colocation is transitive.
 */
Datum
shardfdw_shard_groups(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *relids = partitioned_tables();
	List	   *leaders = NIL;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	list_sort(relids, list_oid_cmp);
	foreach_oid(relid, relids)
	{
		Oid			leader = InvalidOid;
		const ShardMap *map;

		CHECK_FOR_INTERRUPTS();
		if (!lock_table(relid))
			continue;
		map = map_or_warning(relid);
		if (map != NULL)
		{
			/* there may be thousands of such schemas */
			if (OidIsValid(map->home))
				leader = home_leader(map);
			else
			{
				foreach_oid(other, leaders)
				{
					if (shard_colocated(other, relid))
						leader = other;
				}
				if (!OidIsValid(leader))
				{
					leader = relid;
					leaders = lappend_oid(leaders, leader);
				}
			}
			put_shards(rsinfo, leader, relid);
		}
		/* leaders are skipped here, and read again below */
		if (!list_member_oid(leaders, relid))
			UnlockRelationOid(relid, AccessShareLock);
	}
	/* a job that the transaction starts and waits for may need to lock them */
	foreach_oid(leader, leaders)
		UnlockRelationOid(leader, AccessShareLock);
	return (Datum) 0;
}
