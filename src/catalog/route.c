/*
 * route.c
 *	  Finds shards by conditions on the key, or by key values.
 *
 * This file has no code that hashes or compares keys.  The parent's PartitionKey has core's support functions, and its
 * PartitionDesc the bounds.  This file calls core's pruning and bound searches with them.  So pruning, INSERT and COPY
 * always agree on the shard of a key.
 *
 *	   conditions -> scratch RelOptInfo -> prune_append_rel_partitions -> shardnos
 *	   key values -> hash / bound search -> boundinfo->indexes         -> shardno
 *
 * Core's pruning reads only the partitioning fields of a RelOptInfo, and no PlannerInfo.  This file fills these fields
 * from the relation.  It does not call get_relation_info(), which would also read statistics and constraints and call
 * hooks.  So pruning works in the same way at plan time and at execution start.
 *
 * Callers hold a lock on the parent.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/route.h"
#include "compat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "partitioning/partprune.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/ruleutils.h"

#define PIN_TRIES 10

/*
 * Returns key expression keyno (0-based), with varno 1: a Var for a plain column.  Memory: current
 * context.
 */
static Node *
key_expression(PartitionKey key, int keyno)
{
	int			exprno = 0;

	if (key->partattrs[keyno] != 0)
		return (Node *) makeVar(1, key->partattrs[keyno],
								key->parttypid[keyno], key->parttypmod[keyno],
								key->parttypcoll[keyno], 0);

	/* expressions are in a separate list, without the plain columns */
	for (int i = 0; i < keyno; i++)
	{
		if (key->partattrs[i] == 0)
			exprno++;
	}
	return copyObject(list_nth(key->partexprs, exprno));
}

/*
 * Returns a copy of quals in which "column IS NOT NULL" is replaced by true, also within AND and
 * OR.  In a RANGE parent it must not prune anything, since the DEFAULT partition also has keys that
 * are not NULL.  But together with "key IN (...)" older majors of core prune the DEFAULT partition
 * because of it, which is wrong.
 */
static Node *
ignore_not_null(Node *quals, void *context)
{
	if (quals == NULL)
		return NULL;
	if (IsA(quals, NullTest) && ((NullTest *) quals)->nulltesttype == IS_NOT_NULL)
		return makeBoolConst(true, false);
	if (IsA(quals, List) || is_andclause(quals) || is_orclause(quals))
		return expression_tree_mutator(quals, ignore_not_null, context);
	return quals;
}

/*
 * Core's pruning for an open partitioned table with at least one partition. attnos: attribute
 * numbers of the key's columns in quals; NULL: the same as in parent.
 */
static Bitmapset *
prune_relation(Relation parent, PartitionDesc partdesc, List *quals, const AttrNumber *attnos)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	PartitionSchemeData scheme = {0};
	RelOptInfo *scratch = makeNode(RelOptInfo);

	scheme.strategy = key->strategy;
	scheme.partnatts = key->partnatts;
	scheme.partopfamily = key->partopfamily;
	scheme.partopcintype = key->partopcintype;
	scheme.partcollation = key->partcollation;
	scheme.parttyplen = key->parttyplen;
	scheme.parttypbyval = key->parttypbyval;
	scheme.partsupfunc = key->partsupfunc;

	scratch->reloptkind = RELOPT_BASEREL;
	scratch->relid = 1;
	scratch->rtekind = RTE_RELATION;
	scratch->part_scheme = &scheme;
	scratch->nparts = partdesc->nparts;
	scratch->boundinfo = partdesc->boundinfo;
	scratch->partexprs = palloc(sizeof(List *) * key->partnatts);
	for (int i = 0; i < key->partnatts; i++)
	{
		Node	   *expr = key_expression(key, i);

		if (attnos != NULL)
			castNode(Var, expr)->varattno = attnos[i];
		scratch->partexprs[i] = list_make1(expr);
	}
	scratch->baserestrictinfo = key->strategy == PARTITION_STRATEGY_RANGE ?
		(List *) ignore_not_null((Node *) quals, NULL) : quals;

	/* if a sharded table is itself a partition, its bounds can only prune its DEFAULT partition */
	if (parent->rd_rel->relispartition && partition_bound_has_default(partdesc->boundinfo))
		scratch->partition_qual = RelationGetPartitionQual(parent);

	return prune_append_rel_partitions(scratch);
}

/* Returns the partitions of relid that can hold rows which satisfy quals. attnos: see prune_relation(). */
static Bitmapset *
prune_table(Oid relid, List *quals, const AttrNumber *attnos)
{
	Relation	parent = table_open(relid, NoLock);
	PartitionDesc partdesc = RelationGetPartitionDesc(parent, true);
	Bitmapset  *result;

	if (partdesc->nparts == 0)
		result = NULL;
	else if (quals == NIL)
		result = bms_add_range(NULL, 0, partdesc->nparts - 1);
	else
		result = prune_relation(parent, partdesc, quals, attnos);

	table_close(parent, NoLock);
	return result;
}

Bitmapset *
shard_route_prune(Oid relid, List *quals)
{
	return prune_table(relid, quals, NULL);
}

/* Does set have members from first to first + count - 1? */
static bool
has_member_in(const Bitmapset *set, int first, int count)
{
	int			member = bms_next_member(set, first - 1);

	return member >= 0 && member < first + count;
}

PartitionKey
shard_route_part_key(const ShardMap *map)
{
	const ShardLevelKey *part_key = map->part_key;
	PartitionKey key = palloc0(sizeof(PartitionKeyData));

	key->strategy = PARTITION_STRATEGY_HASH;
	key->partnatts = part_key->natts;
	key->partattrs = part_key->attnos;
	key->partopfamily = part_key->opfamilies;
	key->partopcintype = part_key->opcintypes;
	key->partcollation = part_key->collations;
	key->parttypid = part_key->types;
	key->parttypmod = part_key->typmods;
	key->parttypcoll = part_key->typcollations;
	return key;
}

Bitmapset *
shard_route_prune_parts(const ShardMap *map, List *quals)
{
	Assert(map->nparts > 0);
	return shard_route_prune(map->relid, quals);
}

/* Adds the shards of partition partno that are in local, a set of numbers within the partition. */
static Bitmapset *
add_part_shards(Bitmapset *shards, const ShardPart *part, const Bitmapset *local)
{
	int			i = -1;

	while ((i = bms_next_member(local, i)) >= 0)
		shards = bms_add_member(shards, part->first + i);
	return shards;
}

Bitmapset *
shard_route_prune_map(const ShardMap *map, List *quals, const Bitmapset *parts)
{
	Bitmapset **pruned;			/* by ShardPart.like: the result for partitions with the same bounds */
	bool	   *known;
	Bitmapset  *result = NULL;
	int			partno = -1;

	if (map->nparts == 0)
		return shard_route_prune(map->relid, quals);

	pruned = palloc0(sizeof(Bitmapset *) * map->nparts);
	known = palloc0(sizeof(bool) * map->nparts);
	while ((partno = bms_next_member(parts, partno)) >= 0)
	{
		const ShardPart *part = &map->parts[partno];

		if (!known[part->like])
		{
			pruned[part->like] = prune_table(part->relid, quals, map->part_key->attnos);
			known[part->like] = true;
		}
		result = add_part_shards(result, part, pruned[part->like]);
	}
	pfree(pruned);
	pfree(known);
	return result;
}

Bitmapset *
shard_route_prune_shards(const ShardMap *map, List *quals, const Bitmapset *shards)
{
	Bitmapset  *parts;
	int			partno = -1;

	if (map->nparts == 0)
		return bms_intersect(shard_route_prune(map->relid, quals), shards);

	/* partitions without any of the shards may not be locked */
	parts = shard_route_prune_parts(map, quals);
	while ((partno = bms_next_member(parts, partno)) >= 0)
	{
		if (!has_member_in(shards, map->parts[partno].first, map->parts[partno].nshards))
			parts = bms_del_member(parts, partno);
	}
	return bms_int_members(shard_route_prune_map(map, quals, parts), shards);
}

/* Returns the offset in a RANGE parent's indexes[]; -1 if a value is NULL (a row of DEFAULT). */
static int
range_index(PartitionKey key, PartitionBoundInfo bounds,
			const Datum *values, const bool *isnull)
{
	bool		equal;

	for (int i = 0; i < key->partnatts; i++)
	{
		if (isnull[i])
			return -1;
	}

	/* the search finds the lower bound, but indexes[] lists partitions by their upper bound */
	return partition_range_datum_bsearch(key->partsupfunc, key->partcollation, bounds,
										 key->partnatts, unconstify(Datum *, values),
										 &equal) + 1;
}

static bool
map_fits(const ShardMap *map, PartitionDesc partdesc)
{
	if (map->nshards != partdesc->nparts)
		return false;
	for (int i = 0; i < map->nshards; i++)
		if (map->shards[i].relid != partdesc->oids[i])
			return false;
	return true;
}

const ShardMap *
shard_route_pin(Relation parent, PartitionDesc *partdesc)
{
	/* if something changes between the two look-ups, both are repeated */
	for (int i = 0; i < PIN_TRIES; i++)
	{
		const ShardMap *map = shard_map_get(RelationGetRelid(parent));

		*partdesc = RelationGetPartitionDesc(parent, true);
		if (map == NULL || map_fits(map, *partdesc))
			return map;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("partitions of \"%s\" are being attached or detached",
					RelationGetRelationName(parent))));
}

/* hash % n.  Usually n is a power of two, and a division costs as much as the hash. */
static inline uint64
remainder_of(uint64 hash, uint64 n)
{
	return likely((n & (n - 1)) == 0) ? hash & (n - 1) : hash % n;
}

int
shard_route_key(Relation parent, PartitionDesc partdesc, const Datum *values, const bool *isnull)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	PartitionBoundInfo bounds = partdesc->boundinfo;
	int			shardno = -1;

	if (partdesc->nparts == 0)
		return -1;

	switch (key->strategy)
	{
		case PARTITION_STRATEGY_HASH:
			{
				uint64		hash = compute_partition_hash_value(key->partnatts, key->partsupfunc,
																key->partcollation,
																unconstify(Datum *, values),
																unconstify(bool *, isnull));

				shardno = bounds->indexes[remainder_of(hash, (uint64) bounds->nindexes)];
				break;
			}

		case PARTITION_STRATEGY_LIST:
			if (isnull[0])
				shardno = bounds->null_index;
			else
			{
				bool		equal = false;
				int			offset = partition_list_bsearch(key->partsupfunc, key->partcollation,
															bounds, values[0], &equal);

				if (offset >= 0 && equal)
					shardno = bounds->indexes[offset];
			}
			break;

		case PARTITION_STRATEGY_RANGE:
			{
				int			offset = range_index(key, bounds, values, isnull);

				if (offset >= 0)
					shardno = bounds->indexes[offset];
				break;
			}

		default:
			elog(ERROR, "unexpected partition strategy: %d", (int) key->strategy);
	}

	/* a hash-partitioned table has no DEFAULT: its default_index is -1 */
	return shardno >= 0 ? shardno : bounds->default_index;
}

static void
partitions_change(Relation parent)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("partitions of \"%s\" are being attached or detached", RelationGetRelationName(parent))));
}

ShardRouting *
shard_route_open(Relation parent)
{
	ShardRouting *routing = palloc0(sizeof(ShardRouting));
	const ShardMap *map = shard_route_pin(parent, &routing->partdesc);

	routing->parent = parent;
	if (map == NULL)
	{
		map = shard_map_get_levels(RelationGetRelid(parent), true);
		if (map == NULL)
			return NULL;
		routing->partdesc = RelationGetPartitionDesc(parent, true);
		if (routing->partdesc->nparts != map->nparts)
			partitions_change(parent);
		for (int i = 0; i < map->nparts; i++)
		{
			if (routing->partdesc->oids[i] != map->parts[i].relid)
				partitions_change(parent);
		}
		routing->parts = palloc0(sizeof(Relation) * map->nparts);
		routing->part_descs = palloc0(sizeof(PartitionDesc) * map->nparts);
	}
	routing->map = map;
	return routing;
}

/* Opens a partition, and checks that it still matches the map. */
static void
open_part(ShardRouting *routing, int partno)
{
	const ShardMap *map = routing->map;
	const ShardPart *part = &map->parts[partno];
	Relation	rel = table_open(part->relid, RowExclusiveLock);
	PartitionDesc partdesc = RelationGetPartitionDesc(rel, true);
	bool		fits = partdesc->nparts == part->nshards;

	for (int i = 0; fits && i < part->nshards; i++)
		fits = partdesc->oids[i] == map->shards[part->first + i].relid;
	if (!fits)
		partitions_change(routing->parent);
	routing->parts[partno] = rel;
	routing->part_descs[partno] = partdesc;
}

int
shard_route_row(ShardRouting *routing, const Datum *values, const bool *isnull)
{
	int			partno = shard_route_key(routing->parent, routing->partdesc, values, isnull);
	int			natts;
	int			shardno;

	if (partno < 0 || routing->parts == NULL)
		return partno;
	if (routing->parts[partno] == NULL)
		open_part(routing, partno);
	natts = RelationGetPartitionKey(routing->parent)->partnatts;
	shardno = shard_route_key(routing->parts[partno], routing->part_descs[partno], values + natts, isnull + natts);
	return shardno < 0 ? -1 : routing->map->parts[partno].first + shardno;
}

void
shard_route_open_parts(ShardRouting *routing)
{
	for (int i = 0; routing->parts != NULL && i < routing->map->nparts; i++)
	{
		if (routing->parts[i] == NULL)
			open_part(routing, i);
	}
}

void
shard_route_close(ShardRouting *routing)
{
	for (int i = 0; routing->parts != NULL && i < routing->map->nparts; i++)
	{
		if (routing->parts[i] == NULL)
			continue;
		table_close(routing->parts[i], NoLock);
		routing->parts[i] = NULL;
	}
}

/*
 * True if expr_varno1 is key column keyno (0-based) of relid, and eqop with collation is the key's
 * own equality.  Rows that are equal by such a condition or grouping are in one shard.
 */
bool
shard_route_key_matches(Oid relid, int keyno, Node *expr_varno1, Oid eqop, Oid collation)
{
	Relation	parent = table_open(relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(parent);
	bool		result = false;

	if (keyno < key->partnatts &&
		op_in_opfamily(eqop, key->partopfamily[keyno]) &&
		key->partcollation[keyno] == collation)
	{
		Node	   *keyexpr = shard_route_strip_relabel(key_expression(key, keyno));
		Node	   *expr = shard_route_strip_relabel(expr_varno1);

		/* varnullingrels and syntactic numbers of a Var do not matter here */
		if (expr && keyexpr && IsA(expr, Var) && IsA(keyexpr, Var))
			result = ((Var *) expr)->varattno == ((Var *) keyexpr)->varattno &&
				((Var *) expr)->varlevelsup == 0;
		else
			result = equal(expr, keyexpr);
	}

	table_close(parent, NoLock);
	return result;
}

int
shard_route_nkeys(Oid relid)
{
	Relation	parent = table_open(relid, NoLock);
	int			nkeys = RelationGetPartitionKey(parent)->partnatts;

	table_close(parent, NoLock);
	return nkeys;
}

List *
shard_route_key_attnos(Oid relid)
{
	Relation	parent = table_open(relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(parent);
	const ShardLevelKey *below = shard_map_get_levels(relid, true)->part_key;
	List	   *attnos = NIL;

	for (int i = 0; key != NULL && i < key->partnatts; i++)
		attnos = lappend_int(attnos, key->partattrs[i]);
	for (int i = 0; below != NULL && i < below->natts; i++)
		attnos = lappend_int(attnos, below->attnos[i]);
	table_close(parent, NoLock);
	return attnos;
}

bool
shard_route_assigns_key(Oid relid, const List *targets)
{
	List	   *attnos = targets == NIL ? NIL : shard_route_key_attnos(relid);

	foreach_node(TargetEntry, entry, targets)
	{
		if (list_member_int(attnos, InvalidAttrNumber) || list_member_int(attnos, entry->resno))
			return true;
	}
	return false;
}

/* May the user see the key of a row of rel that has no shard?  The rule is core's. */
static bool
may_see_key(Relation rel)
{
	PartitionKey key = RelationGetPartitionKey(rel);
	Oid			relid = RelationGetRelid(rel);

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return false;
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		return true;
	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == InvalidAttrNumber ||
			pg_attribute_aclcheck(relid, key->partattrs[i], GetUserId(), ACL_SELECT) != ACLCHECK_OK)
			return false;
	}
	return true;
}

/* Returns "(a, b) = (1, x)" for the key values, as core shows them. */
static char *
describe_key(Relation rel, const Datum *values, const bool *isnull)
{
	PartitionKey key = RelationGetPartitionKey(rel);
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "(%s) = (", pg_get_partkeydef_columns(RelationGetRelid(rel), true));
	for (int i = 0; i < key->partnatts; i++)
	{
		Oid			output;
		bool		is_varlena;
		char	   *value = "null";
		int			len;

		if (!isnull[i])
		{
			getTypeOutputInfo(get_partition_col_typid(key, i), &output, &is_varlena);
			value = OidOutputFunctionCall(output, values[i]);
		}
		len = pg_mbcliplen(value, strlen(value), 64);
		appendStringInfo(&buf, "%s%.*s%s", i > 0 ? ", " : "", len, value, value[len] != '\0' ? "..." : "");
	}
	appendStringInfoChar(&buf, ')');
	return buf.data;
}

void
shard_route_raise_no_shard(Relation rel, const Datum *values, const bool *isnull)
{
	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("no partition of relation \"%s\" found for row", RelationGetRelationName(rel)),
			 may_see_key(rel) ?
			 errdetail("Partition key of the failing row contains %s.", describe_key(rel, values, isnull)) : 0,
			 errtable(rel)));
}

void
shard_route_raise_unrouted(const ShardRouting *routing, const Datum *values, const bool *isnull)
{
	int			partno = shard_route_key(routing->parent, routing->partdesc, values, isnull);
	int			natts = RelationGetPartitionKey(routing->parent)->partnatts;

	if (partno < 0)
		shard_route_raise_no_shard(routing->parent, values, isnull);
	shard_route_raise_no_shard(routing->parts[partno], values + natts, isnull + natts);
}
