/*
 * cost.c
 *	  Costs of remote queries, in the cost units of core.
 *
 * A query on a shard is a sequential scan there, or fetches its few rows by an index.  Queries run in parallel on all
 * nodes, and on each node on as many shards as the node has cores.  So the sum of their costs is divided by that
 * number.  The coordinator receives rows one after the other, so the transfer cost of each row is added.  A plan is
 * therefore cheap if few rows are transferred: grouping on the nodes is cheaper than fetching rows, unless nearly
 * each row is a group.
 *
 * In a join each remote query reads the whole reference table, so the cost of that scan counts once per query.  A
 * join that returns more rows than its sides have costs less on the coordinator, because of the transfer cost.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/option.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "planner/path/cost.h"

/* A round trip, and the work of a node before its first row. */
#define STARTUP_COST 100.0

/* Transfer of one row, and storing it in a slot. */
#define TRANSFER_ROW_COST 0.05
#define TRANSFER_BYTE_COST 0.0005

/* Looks up a row of one side of a join by an index on the other side. */
#define LOOKUP_COST (0.25 * random_page_cost + cpu_tuple_cost)

/* A key of a key join on one shard: the node reads it, and looks it up or puts it into a hash table. */
#define KEY_COST (10 * cpu_tuple_cost)

/* A row that passes through an Append costs this share of cpu_tuple_cost: core's APPEND_CPU_COST_MULTIPLIER. */
#define APPEND_FACTOR 0.5

/* Used if the number of cores of a node is not known. */
#define DEFAULT_CORES 2

/* How many remote queries run at the same time. */
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
shard_cost_group(PathTarget *target, const ShardRelInfo *input,
				 double input_rows, int ngroupcols, ShardRelInfo *info)
{
	double		per_row = cpu_operator_cost * Max(list_length(target->exprs), ngroupcols);

	info->remote_cost = input->remote_cost +
		(input_rows * per_row + info->rows * cpu_tuple_cost) / parallelism(info);
}

/*
 * One side of a join: the rows that all remote queries together read of it, and the sum of the costs of reading them.
 */
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
shard_cost_join(ShardRelInfo *info,
				const ShardRelInfo *outer, const RelOptInfo *outerrel,
				const ShardRelInfo *inner, const RelOptInfo *innerrel, bool equijoin)
{
	JoinSide	left = join_side(info, outer, outerrel);
	JoinSide	right = join_side(info, inner, innerrel);
	Cost		work;

	if (equijoin)
	{
		/* a hash join, or an index lookup in one side (a table) for each row of the other */
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

/* A cost option of postgres_fdw; < 0 if it is not set. */
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
