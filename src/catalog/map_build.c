/*
 * map_build.c
 *	  Builds the map of a sharded table, or of a foreign table, from the catalogs.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/home.h"
#include "catalog/map_build.h"
#include "catalog/option.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "foreign/fdwapi.h"
#include "lib/stringinfo.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"

static int
compare_sources(const void *a, const void *b)
{
	Oid			left = ((const ShardMapSource *) a)->relid;
	Oid			right = ((const ShardMapSource *) b)->relid;

	return left < right ? -1 : left > right ? 1 : 0;
}

const ShardMapSource *
shard_map_build_source(const ShardCachedMap *cached, Oid relid)
{
	ShardMapSource	key = {relid, 0};

	return bsearch(&key, cached->sources, cached->nsources, sizeof(ShardMapSource), compare_sources);
}

void
shard_map_build_sort(ShardCachedMap *cached)
{
	qsort(cached->sources, cached->nsources, sizeof(ShardMapSource), compare_sources);
}

/* Does a partitioned table have one partition, which accepts every row? */
static bool
takes_all(Relation rel)
{
	PartitionDesc partdesc = RelationGetPartitionDesc(rel, true);
	PartitionBoundInfo bounds = partdesc->boundinfo;

	return partdesc->nparts == 1 &&
		(partition_bound_has_default(bounds) ||
		 (bounds->strategy == PARTITION_STRATEGY_HASH && get_hash_partition_greatest_modulus(bounds) == 1));
}

/* Returns the address in a server's options.  Empty for the local socket, whose directory need not be named. */
static const char *
host_of(Oid serverid)
{
	const char *host = shard_option_server(serverid, "hostaddr");

	if (host == NULL)
		host = shard_option_server(serverid, "host");
	return host ? host : "";
}

void
shard_map_build_hosts(ShardMap *map)
{
	for (int i = 0; i < map->nnodes; i++)
	{
		ShardNode  *node = &map->nodes[i];

		node->nhosted = 0;
		for (int j = 0; j < map->nnodes; j++)
			node->nhosted += strcmp(node->host, map->nodes[j].host) == 0;
	}
}

static List *
copy_names(const List *names)
{
	List	   *copy = NIL;

	foreach_ptr(char, name, names)
		copy = lappend(copy, pstrdup(name));
	return copy;
}

int
shard_map_build_node(ShardMap *map, Oid serverid)
{
	MemoryContext cxt = CurrentMemoryContext;
	MemoryContext scratch;
	ShardNode  *node;
	ShardNode	found;

	for (int i = 0; i < map->nnodes; i++)
	{
		if (map->nodes[i].serverid == serverid)
			return i;
	}

	/* the look-ups of options leave much memory behind */
	scratch = AllocSetContextCreate(cxt, "shardfdw node", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(scratch);
	memset(&found, 0, sizeof(found));
	found.serverid = serverid;
	found.name = GetForeignServer(serverid)->servername;
	found.host = host_of(serverid);
	found.cores = shard_option_server_int(serverid, "cores", 0);
	found.default_collation = shard_option_server(serverid, "default_collation");
	found.has_partial_aggregates = shard_option_server_bool(serverid, "partial_aggregates", false);
	found.extensions = shard_option_server_extensions(serverid);
	found.missing_partial_aggregates = shard_option_server_list(serverid, "missing_partial_aggregates");
	map->foreign_definition |= !shard_option_definition_follows(serverid);
	MemoryContextSwitchTo(cxt);
	node = &map->nodes[map->nnodes];
	*node = found;
	node->name = pstrdup(found.name);
	node->host = pstrdup(found.host);
	if (found.default_collation != NULL)
		node->default_collation = pstrdup(found.default_collation);
	node->extensions = copy_names(found.extensions);
	node->missing_partial_aggregates = copy_names(found.missing_partial_aggregates);
	MemoryContextDelete(scratch);
	return map->nnodes++;
}

/*
 * Returns "(SELECT remote AS local, ...  FROM relation)" if a column of the shard has another name
 * on its node, otherwise relation.  Uses one index scan over all columns, since syscache look-ups
 * for each would cost ten times as much when the cache is cold.  Memory: current context.
 */
static const char *
build_from_item(Oid relid, const char *relation)
{
	ShardCatalogScan scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	StringInfoData buf;
	bool		renamed = false;

	initStringInfo(&buf);
	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTGreaterStrategyNumber, F_INT2GT,
				Int16GetDatum(0));
	shard_catalog_scan_begin_keys(&scan, AttributeRelationId, AttributeRelidNumIndexId, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);
		const char *local = NameStr(att->attname);
		const char *remote = local;
		bool		isnull;
		Datum		options;

		if (att->attisdropped)
			continue;
		options = heap_getattr(tuple, Anum_pg_attribute_attfdwoptions,
							   RelationGetDescr(scan.rel), &isnull);
		if (!isnull)
		{
			foreach_node(DefElem, elem, untransformRelOptions(options))
			{
				if (strcmp(elem->defname, "column_name") == 0)
					remote = defGetString(elem);
			}
		}
		if (strcmp(remote, local) != 0)
			renamed = true;
		appendStringInfo(&buf, "%s%s", buf.len > 0 ? ", " : "", quote_identifier(remote));
		appendStringInfo(&buf, " AS %s", quote_identifier(local));
	}
	shard_catalog_scan_end(&scan);

	if (renamed)
		relation = psprintf("(SELECT %s FROM %s)", buf.data, relation);
	pfree(buf.data);
	return relation;
}

/*
 * Has a foreign table triggers?  relhastriggers stays true after the last trigger was dropped, for a foreign table
 * indefinitely.
 */
static bool
has_triggers(Oid relid)
{
	HeapTuple	tuple = shard_catalog_row(RELOID, relid);
	ShardCatalogScan scan;
	bool		result;

	result = ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;
	ReleaseSysCache(tuple);
	if (!result)
		return false;
	shard_catalog_scan_begin_oid(&scan, TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid, relid);
	result = HeapTupleIsValid(shard_catalog_scan_next(&scan));
	shard_catalog_scan_end(&scan);
	return result;
}

/* Returns the xid that has written a foreign table's row. */
static TransactionId
placed_by(Oid relid)
{
	HeapTuple	tuple = shard_catalog_row(FOREIGNTABLEREL, relid);
	TransactionId xid;

	xid = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	return xid;
}

/* Servers of option `replica_nodes` of the shard with this name.  Memory: current context. */
static void
fill_replicas(Shard *shard, const char *name, const char *value)
{
	List	   *names = shard_option_list(value);
	Oid		   *replicas = palloc(sizeof(Oid) * Max(list_length(names), 1));

	foreach_ptr(char, server, names)
	{
		Oid			serverid = get_foreign_server_oid(server, true);

		if (!OidIsValid(serverid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("node \"%s\" of a replica of shard %s does not exist", server, name)));
		replicas[shard->nreplicas++] = serverid;
	}
	shard->replicas = replicas;
}

/*
 * Fills shards[shardno] of a map from the catalogs.  Memory: current context, the map's; temporary
 * data in scratch.
 */
static void
fill_shard(ShardCachedMap *cached, int shardno, Oid relid, MemoryContext scratch)
{
	ShardMap   *map = &cached->map;
	Shard	   *shard = &map->shards[shardno];
	MemoryContext oldcxt = MemoryContextSwitchTo(scratch);
	ForeignTable *table = GetForeignTable(relid);
	char	   *local_schema = get_namespace_name(get_rel_namespace(relid));
	char	   *local_name = get_rel_name(relid);
	const char *schema = local_schema;
	const char *name = local_name;
	const char *from_item;
	const char *replicas = NULL;

	if (local_schema == NULL || local_name == NULL)
		elog(ERROR, "cache lookup failed for relation %u", relid);

	foreach_node(DefElem, elem, table->options)
	{
		if (strcmp(elem->defname, "schema_name") == 0)
			schema = defGetString(elem);
		else if (strcmp(elem->defname, "table_name") == 0)
			name = defGetString(elem);
		else if (strcmp(elem->defname, "replica_nodes") == 0)
			replicas = defGetString(elem);
		shard->is_noted |= strcmp(elem->defname, "replica_nodes") == 0 || strcmp(elem->defname, "stale_replica_nodes") == 0;
	}

	shard->relid = relid;
	shard->serverid = table->serverid;
	shard->placed_by = placed_by(relid);
	if (TransactionIdIsNormal(shard->placed_by) &&
		(!TransactionIdIsValid(map->newest_place) || TransactionIdFollows(shard->placed_by, map->newest_place)))
		map->newest_place = shard->placed_by;
	name = quote_qualified_identifier(schema, name);
	from_item = build_from_item(relid, name);
	map->read_only |= !shard_option_table_bool(relid, "updatable", true);
	map->has_triggers |= has_triggers(relid);
	local_name = quote_qualified_identifier(local_schema, local_name);
	MemoryContextSwitchTo(oldcxt);
	shard->nodeno = shard_map_build_node(map, table->serverid);
	map->nodes[shard->nodeno].nshards++;
	if (replicas != NULL)
		fill_replicas(shard, local_name, replicas);
	map->has_replicas |= shard->is_noted;
	shard->name = pstrdup(local_name);
	shard->relation = pstrdup(name);
	shard->from_item = from_item == name ? shard->relation : pstrdup(from_item);
	map->renames |= shard->from_item != shard->relation;
	map->foreign_definition |= map->renames || strcmp(shard->name, shard->relation) != 0;
	MemoryContextReset(scratch);
}

ShardCachedMap *
shard_map_build(Oid relid, char relkind, bool *keep)
{
	Relation	rel = NULL;
	MemoryContext cxt;
	MemoryContext scratch;
	MemoryContext oldcxt;
	ShardCachedMap *cached;
	int			nshards = 1;
	Oid		   *oids = &relid;
	bool		ours = true;

	*keep = relkind != RELKIND_PARTITIONED_TABLE;
	if (relkind == RELKIND_PARTITIONED_TABLE)
	{
		PartitionDesc partdesc;

		/*
		 * The statement may name only a partition of the table, or a foreign key to it, so that core has not locked it.
		 * The lock ends here: a job that the statement starts may need the table.
		 */
		rel = try_table_open(relid, AccessShareLock);
		if (rel == NULL)
			return NULL;
		partdesc = RelationGetPartitionDesc(rel, true);
		nshards = partdesc->nparts;
		oids = partdesc->oids;
		*keep = !partdesc->detached_exist;
		ours = nshards > 0;
		for (int i = 0; ours && i < nshards; i++)
			ours = partdesc->is_leaf[i];
	}

	/* the shards of a table share few servers, so checking each is cheap */
	for (int i = 0; ours && i < nshards; i++)
		ours = shard_option_is_ours(oids[i]);
	if (!ours)
	{
		if (rel != NULL)
			table_close(rel, AccessShareLock);
		return NULL;
	}

	/* a child of the current context until it is complete, so that an error leaves nothing behind */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw shard map",
								ALLOCSET_SMALL_SIZES);
	oldcxt = MemoryContextSwitchTo(cxt);
	cached = palloc0(sizeof(ShardCachedMap));
	cached->cxt = cxt;
	cached->sharded = true;
	cached->map.relid = relid;
	cached->map.nshards = nshards;
	cached->map.shards = palloc0(sizeof(Shard) * nshards);
	cached->map.nodes = palloc0(sizeof(ShardNode) * nshards);
	cached->nsources = nshards;
	cached->sources = palloc(sizeof(ShardMapSource) * nshards);
	scratch = AllocSetContextCreate(cxt, "shard", ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < nshards; i++)
	{
		fill_shard(cached, i, oids[i], scratch);
		cached->sources[i].relid = oids[i];
		cached->sources[i].shardno = i;
	}
	MemoryContextDelete(scratch);
	shard_map_build_hosts(&cached->map);
	cached->map.takes_all = rel != NULL && takes_all(rel);
	cached->map.home = cached->map.takes_all ? shard_home_of(relid) : InvalidOid;
	shard_map_build_sort(cached);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextSetParent(cxt, CacheMemoryContext);

	if (rel != NULL)
		table_close(rel, AccessShareLock);
	return cached;
}
