/*
 * node_query.c
 *	  Decides whether a remote query reads all shards of a node or a single shard.
 *
 *	  a query per shard		runs in parallel on the cores of the node
 *	  a query per node		needs fewer statements, connections, snapshots and scans of
 *							reference tables; a statement that sends one query to each
 *							node needs no transaction there
 *
 * The overhead of a statement does not depend on its number of rows.  So small queries run per node and large ones
 * per shard.  A query counts as small only if it is surely small: a condition that no known index supports may read
 * whole shards, even if few rows remain.
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/table.h"
#include "compat.h"
#include "guc.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/path/cost.h"
#include "planner/path/early_stop.h"
#include "planner/path/node_query.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/*
 * One more statement on a node: connection, transaction, snapshot and answer.  It takes about 0.2 ms of CPU on the
 * coordinator and on the node; a cost of 1 is about a hundredth of that.
 */
#define STATEMENT_COST 20.0

/* Used if the number of cores of a node is not known. */
#define DEFAULT_CORES 2

/* By default a parallel query has a leader and two workers, which are not busy all the time. */
#define NODE_STREAMS 3
#define NODE_STREAM_EFFICIENCY 0.8

/*
 * A query that costs a node more than this is planned for its own constants.  Parsing and planning take 0.2 to 0.4
 * ms, a cost of 20 to 40.
 */
#define MAX_PREPARED_COST 500.0

/* Does the clause compare the first column of the index by an operator that the index supports? */
static bool
clause_uses_index(const Node *clause, Index rtindex, Relation index)
{
	Oid			opno;
	List	   *args;

	if (IsA(clause, OpExpr))
	{
		opno = ((const OpExpr *) clause)->opno;
		args = ((const OpExpr *) clause)->args;
	}
	else if (IsA(clause, ScalarArrayOpExpr) && ((const ScalarArrayOpExpr *) clause)->useOr)
	{
		opno = ((const ScalarArrayOpExpr *) clause)->opno;
		args = list_make1(linitial(((const ScalarArrayOpExpr *) clause)->args));
	}
	else
		return false;
	if (!op_in_opfamily(opno, index->rd_opfamily[0]) &&
		!op_in_opfamily(get_commutator(opno), index->rd_opfamily[0]))
		return false;
	foreach_ptr(const Var, var, args)
	{
		while (IsA(var, RelabelType))
			var = (const Var *) ((const RelabelType *) var)->arg;
		if (IsA(var, Var) && var->varno == rtindex && var->varattno == index->rd_index->indkey.values[0])
			return true;
	}
	return false;
}

/* Does an index of the table support one of info's conditions? */
static bool
is_served_by_index(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info)
{
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	List	   *indexes = RelationGetIndexList(table);
	bool		result = false;

	foreach_oid(indexid, indexes)
	{
		Relation	index = index_open(indexid, AccessShareLock);

		/* unique indexes of a sharded parent are markers (ddl/marker.c), which are not valid */
		foreach_node(RestrictInfo, rinfo, (index->rd_index->indisvalid || index->rd_index->indisunique) &&
				RelationGetIndexPredicate(index) == NIL ? info->remote_conds : NIL)
			result = result || clause_uses_index((Node *) rinfo->clause,
												 rel->relid, index);
		index_close(index, AccessShareLock);
		if (result)
			break;
	}
	list_free(indexes);
	table_close(table, NoLock);
	return result;
}

void
shard_node_query_set_unsure(PlannerInfo *root, const RelOptInfo *rel, ShardRelInfo *info)
{
	Cost		whole = shard_cost_whole_scan(root, rel, info);

	info->unsure_cost = info->sharded && whole > info->remote_cost && !is_served_by_index(root, rel, info) ?
		whole - info->remote_cost : 0;
}

bool
shard_node_query_pays(const ShardRelInfo *info, Cost receive_saved, double *slower, Cost *append)
{
	const ShardMap *map = info->map;
	int			nnodes;
	double		shard_streams = 0;
	double		node_streams = 0;

	if (!info->sharded || shard_guc_query_per_node == SHARD_QUERY_PER_NODE_OFF)
		return false;
	nnodes = Min(map->nnodes, info->nexpected);
	if (nnodes >= info->nexpected)
		return false;
	for (int i = 0; i < map->nnodes; i++)
	{
		const ShardNode *node = &map->nodes[i];
		double		cores = node->cores > 0 ? (double) node->cores / node->nhosted : DEFAULT_CORES;

		shard_streams += Min(node->nshards, cores);
		node_streams += cores <= 1 ? cores : Min(NODE_STREAMS, cores) * NODE_STREAM_EFFICIENCY;
	}
	*slower = Max(Min(shard_streams, info->nexpected) / node_streams, 1.0);
	*append = shard_cost_append(info);
	if (shard_guc_query_per_node == SHARD_QUERY_PER_NODE_ON)
		return true;
	return *append + (info->remote_cost + info->unsure_cost) * (*slower - 1.0) <
		receive_saved + STATEMENT_COST * (info->nexpected - nnodes);
}

bool
shard_node_query_is_cheaper(const ShardRelInfo *info)
{
	double		slower;
	Cost		append;

	return shard_node_query_pays(info, 0, &slower, &append);
}

/* Is the query likely to end after a few rows? */
static bool
is_bounded(const ShardRemoteQuery *query)
{
	return query != NULL && query->limit != NULL && !query->aggregated && !query->distinct && query->windows == NIL;
}

bool
shard_node_query_is_kept(const ShardRelInfo *info, bool per_node)
{
	return info->sharded && (per_node || info->nexpected <= info->map->nnodes) &&
		(info->remote_cost <= MAX_PREPARED_COST || is_bounded(info->query));
}

bool
shard_node_query_has_params(const ShardRelInfo *info, bool per_node)
{
	return shard_node_query_is_kept(info, per_node) && info->remote_cost + info->unsure_cost <= MAX_PREPARED_COST &&
		!shard_early_stop_of_remote(info->query);
}
