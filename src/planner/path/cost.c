/*
 * cost.c
 *	  What remote queries cost in core's units.
 *
 * A simple model.  A query on a shard is a sequential scan there, or fetches its few
 * rows by an index.  Shards of different nodes, and as many shards of one node as it
 * has cores, run at the same time, so the sum of their costs is divided by that
 * number.  To this comes the transfer of each row, which the coordinator receives one
 * after the other.  So a plan is cheap when few rows travel: grouping on the nodes is
 * cheaper than gathering rows unless nearly each row is a group.
 *
 * In a join each of the remote queries reads the whole reference table, so that cost
 * counts once per query.  A join that makes more rows than its sides have is better
 * done on the coordinator: the cost of transferring its rows shows that.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/option.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "planner/path/cost.h"

/* A round trip, and what a node does before its first row. */
#define STARTUP_COST 100.0

/* One row over the wire and into a slot. */
#define TRANSFER_ROW_COST 0.05
#define TRANSFER_BYTE_COST 0.0005

/* A row of one side of a join looked up by an index on the other. */
#define LOOKUP_COST (0.25 * random_page_cost + cpu_tuple_cost)

/* A key of a key join on one shard: read there, and looked up or put into a hash table. */
#define KEY_COST (10 * cpu_tuple_cost)

/* A row that passes through an Append costs this share of cpu_tuple_cost: core's APPEND_CPU_COST_MULTIPLIER. */
#define APPEND_FACTOR 0.5

/* Cores of a node that has not said how many. */
#define DEFAULT_CORES 2

/* How many shards' queries run at the same time. */
static double
parallelism(const ShardRelInfo *info)
{
	double		cores = 0;

	if (info->nexpected <= 1)
		return 1;
	for (int i = 0; i < info->map->nnodes; i++)
	{
		const ShardNode *node = &info->map->nodes[i];

		cores += Min(node->nshards, node->cores > 0 ? node->cores : DEFAULT_CORES);
	}
	return Max(1, Min(cores, info->nexpected));
}

Cost
shard_cost_whole_scan(PlannerInfo *root, const RelOptInfo *baserel, const ShardRelInfo *info)
{
	double		fraction = info->map->nshards > 0 ?
		(double) info->nexpected / info->map->nshards : 1.0;
	double		tuples = baserel->tuples * fraction;

	/* statistics of widths would take a look-up per column: assume narrow columns */
	double		pages = ceil(tuples * (24 + 12 * baserel->max_attr) / BLCKSZ);
	QualCost	quals;

	cost_qual_eval(&quals, info->remote_conds, root);
	return (quals.startup + pages * seq_page_cost +
			tuples * (cpu_tuple_cost + quals.per_tuple)) / parallelism(info);
}

void
shard_cost_scan(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info)
{
	info->remote_cost = shard_cost_whole_scan(root, baserel, info);
	info->read_rows = info->rows;

	/* the node may have an index that serves the conditions */
	if (info->remote_conds != NIL)
		info->remote_cost = Min(info->remote_cost, shard_cost_fetch(info, info->rows));
}

Cost
shard_cost_fetch(const ShardRelInfo *info, double nrows)
{
	return nrows * (random_page_cost + cpu_tuple_cost) / parallelism(info);
}

void
shard_cost_group(PlannerInfo *root, PathTarget *target, const ShardRelInfo *input,
				 double input_rows, int ngroupcols, ShardRelInfo *info)
{
	double		per_row = cpu_operator_cost * Max(list_length(target->exprs), ngroupcols);

	info->remote_cost = input->remote_cost +
		(input_rows * per_row + info->rows * cpu_tuple_cost) / parallelism(info);
}

/* One side of a join: how many rows of it all remote queries together read, and the sum of what that costs. */
typedef struct JoinSide
{
	double		rows;
	Cost		work;
} JoinSide;

static JoinSide
join_side(const ShardRelInfo *info, const ShardRelInfo *side, const RelOptInfo *rel)
{
	JoinSide	result;

	if (side->reference)
	{
		result.rows = side->rows * info->nexpected;
		result.work = (rel->cheapest_total_path ? rel->cheapest_total_path->total_cost : 0) *
			info->nexpected;
	}
	else
	{
		/* the other side may have left fewer shards */
		double		fraction = (double) info->nexpected / Max(side->nexpected, 1);

		fraction = Min(fraction, 1.0);
		result.rows = side->rows * fraction;
		result.work = side->remote_cost * parallelism(side) * fraction;
	}
	return result;
}

void
shard_cost_join(PlannerInfo *root, ShardRelInfo *info,
				const ShardRelInfo *outer, const RelOptInfo *outerrel,
				const ShardRelInfo *inner, const RelOptInfo *innerrel, bool equijoin)
{
	JoinSide	left = join_side(info, outer, outerrel);
	JoinSide	right = join_side(info, inner, innerrel);
	Cost		work;

	if (equijoin)
	{
		/* a hash table of one side; or rows of one looked up in the other, a table with an index */
		work = left.work + right.work + (left.rows + right.rows) * 2 * cpu_operator_cost +
			Min(left.rows, right.rows) * cpu_tuple_cost;
		if (inner->from->kind == SHARD_FROM_TABLE || inner->from->kind == SHARD_FROM_REFERENCE)
			work = Min(work, left.work + (left.rows + info->rows) * LOOKUP_COST);
		if (outer->from->kind == SHARD_FROM_TABLE || outer->from->kind == SHARD_FROM_REFERENCE)
			work = Min(work, right.work + (right.rows + info->rows) * LOOKUP_COST);
	}
	else
		work = left.work + right.work +
			left.rows * right.rows / Max(info->nexpected, 1) * cpu_operator_cost;
	info->unsure_cost = outer->unsure_cost + inner->unsure_cost;
	info->read_rows = outer->reference ? inner->read_rows : inner->reference ? outer->read_rows : info->rows;
	info->remote_cost = (work + info->rows * cpu_tuple_cost) / parallelism(info);
}

/* An option of postgres_fdw that is a cost; < 0 when it is not set. */
static double
cost_option(const ShardRelInfo *info, const char *name)
{
	const char *value = info->sharded ? NULL : shard_option_table(info->relid, name);

	return value ? strtod(value, NULL) : -1;
}

void
shard_cost_path(PlannerInfo *root, const ShardRelInfo *info, PathTarget *target,
				List *local, Cost *startup, Cost *total)
{
	double		startup_cost = cost_option(info, "fdw_startup_cost");
	double		tuple_cost = cost_option(info, "fdw_tuple_cost");
	QualCost	quals;

	if (startup_cost < 0)
		startup_cost = STARTUP_COST;
	if (tuple_cost < 0)
		tuple_cost = TRANSFER_ROW_COST + TRANSFER_BYTE_COST * info->width;

	cost_qual_eval(&quals, local, root);
	*startup = startup_cost + quals.startup + target->cost.startup;
	if (info->kind != SHARD_REL_SCAN && info->kind != SHARD_REL_JOIN)
		*startup += info->remote_cost;
	*total = startup_cost + quals.startup + target->cost.startup + info->remote_cost +
		info->rows * (cpu_tuple_cost + tuple_cost + quals.per_tuple + target->cost.per_tuple);
}

Cost
shard_cost_keys(const ShardRelInfo *info, double nkeys, bool routed)
{
	return nkeys * (routed ? 1 : info->nexpected) * KEY_COST / parallelism(info);
}

Cost
shard_cost_eval(const ShardRelInfo *info, const PathTarget *target)
{
	return info->rows * target->cost.per_tuple / parallelism(info);
}

Cost
shard_cost_append(const ShardRelInfo *info)
{
	return info->read_rows * cpu_tuple_cost * APPEND_FACTOR / parallelism(info);
}

Cost
shard_cost_receive(double nrows)
{
	return nrows * (cpu_tuple_cost + TRANSFER_ROW_COST);
}
