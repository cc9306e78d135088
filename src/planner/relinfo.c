/*
 * relinfo.c
 *	  What the planner knows of a scan: its conditions, shards and size.
 *
 *	  restriction clauses -> remote (checked by the nodes) and local
 *						  -> live shards, conditions for pruning later (prune.c)
 *						  -> rows, width, cost (cost.c)
 *
 * Pseudoconstant clauses (WHERE $1 > 0) are in neither list: core puts a gating
 * Result above the scan.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "deparse/shippable.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "planner/cost.h"
#include "planner/fdw_planner.h"
#include "planner/prune.h"
#include "planner/relinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Rows of a shard nobody has counted. */
#define DEFAULT_SHARD_ROWS 10000.0

/* So many shards are asked for their rows; with more, these stand for all. */
#define MAX_SHARDS_ASKED 64

/* pg_class.reltuples, -1 when not known. */
static double
relation_reltuples(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	double		reltuples = -1;

	if (HeapTupleIsValid(tuple))
	{
		reltuples = ((Form_pg_class) GETSTRUCT(tuple))->reltuples;
		ReleaseSysCache(tuple);
	}
	return reltuples;
}

double
shard_relinfo_tuples(Oid relid, double reltuples)
{
	const ShardMap *map;
	int			nasked;
	int			nknown = 0;
	double		sum = 0;

	/* of an analyzed parent; 0 may also be what a fresh one has */
	if (reltuples > 0)
		return reltuples;

	map = shard_map_get(relid);
	if (map == NULL)
		return DEFAULT_SHARD_ROWS;
	nasked = Min(map->nshards, MAX_SHARDS_ASKED);
	for (int i = 0; i < nasked; i++)
	{
		double		rows = relation_reltuples(map->shards[(int64) i * map->nshards / nasked].relid);

		if (rows >= 0)
		{
			nknown++;
			sum += rows;
		}
	}
	if (nknown == 0)
		return reltuples == 0 ? 0 : DEFAULT_SHARD_ROWS * map->nshards;
	return sum / nknown * map->nshards;
}

/*
 * Behind a security barrier, a condition that could reveal rows by its errors
 * must not run beside the barrier's own: on a node they are one WHERE clause.
 */
static bool
security_allows(RelOptInfo *baserel, RestrictInfo *rinfo)
{
	return rinfo->security_level <= baserel->baserestrict_min_security || rinfo->leakproof;
}

ShardRelInfo *
shard_relinfo_create(PlannerInfo *root, RelOptInfo *baserel, Oid relid)
{
	ShardRelInfo *info = palloc0(sizeof(ShardRelInfo));
	RangeTblEntry *rte = planner_rt_fetch(baserel->relid, root);
	ListCell   *lc;

	info->kind = SHARD_REL_SCAN;
	info->relid = relid;
	info->rtindex = baserel->relid;
	info->sharded = shard_hooks_is_sharded(rte);
	info->map = shard_map_get(relid);
	if (info->map == NULL)
		elog(ERROR, "table \"%s\" is not a foreign table of shardfdw", get_rel_name(relid));

	foreach(lc, baserel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant)
			continue;
		if (security_allows(baserel, rinfo) &&
			shard_shippable_expr(root, baserel->relids, rinfo->clause))
			info->remote_conds = lappend(info->remote_conds, rinfo);
		else
			info->local_conds = lappend(info->local_conds, rinfo);
	}

	info->from = shard_from_table(SHARD_FROM_TABLE, info->rtindex, relid,
								  extract_actual_clauses(info->remote_conds, false));
	pull_varattnos((Node *) baserel->reltarget->exprs, baserel->relid, &info->columns);
	shard_prune_relation(baserel, info);

	/* a foreign table that was never analyzed; parents have been seen to by the hook */
	if (!info->sharded && baserel->tuples <= 0)
		baserel->tuples = shard_relinfo_tuples(relid, -1);
	set_baserel_size_estimates(root, baserel);

	info->analyzed = relation_reltuples(relid) > 0;
	info->rows = clamp_row_est(baserel->tuples *
							   clauselist_selectivity(root, info->remote_conds, baserel->relid,
													  JOIN_INNER, NULL));
	info->width = baserel->reltarget->width;
	shard_cost_scan(root, baserel, info);

	baserel->fdw_private = info;
	return info;
}

char *
shard_relinfo_name(PlannerInfo *root, const ShardRelInfo *info)
{
	RangeTblEntry *rte = planner_rt_fetch(info->rtindex, root);
	const char *relname = get_rel_name(info->relid);
	const char *alias = rte->eref->aliasname;
	char	   *name;

	name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(info->relid)),
									  relname);
	if (strcmp(alias, relname) != 0)
		name = psprintf("%s %s", name, quote_identifier(alias));
	return name;
}
