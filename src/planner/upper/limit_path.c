/*
 * limit_path.c
 *	  LIMIT as a bound for the rows that each node returns.
 *
 *	  Limit (core's own, exact: OFFSET, NULL, errors)
 *		-> Foreign Scan: each remote query ends with LIMIT count + offset
 *
 * For any sort order, a shard has at most count + offset rows of the result.  WITH TIES has no such bound.
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "compat.h"
#include "deparse/convert.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

/* Safety factor: the partitions that are read first should have this many times the rows that are likely to be read. */
#define FIRST_PARTS_MARGIN 1.5

/* Upper bound for each part of the sum, so that the sum does not overflow. */
#define MAX_PART (PG_INT64_MAX / 2)

/* LEAST(expr, MAX_PART).  If expr is NULL, this is MAX_PART, which is no bound. */
static Expr *
make_part(Node *expr)
{
	MinMaxExpr *least = makeNode(MinMaxExpr);

	least->minmaxtype = INT8OID;
	least->op = IS_LEAST;
	least->args = list_make2(expr, shard_convert_int8(MAX_PART));
	least->location = -1;
	return (Expr *) least;
}

/* Can the expression be evaluated a second time with the same result? */
static bool
is_repeatable(Node *expr)
{
	return !contain_volatile_functions(expr) && !contain_subplans(expr);
}

/* count + offset as an int8 expression that is never NULL.  Returns NULL if there is no such bound. */
static Node *
make_bound(Node *count, Node *offset)
{
	if (count == NULL || (IsA(count, Const) && ((Const *) count)->constisnull))
		return NULL;
	if (offset != NULL && IsA(offset, Const) && ((Const *) offset)->constisnull)
		offset = NULL;
	if (!is_repeatable(count) || !is_repeatable(offset))
		return NULL;

	if (IsA(count, Const) && (offset == NULL || IsA(offset, Const)))
	{
		int64		sum = DatumGetInt64(((Const *) count)->constvalue);

		/* core raises the error for negative values */
		if (sum < 0 ||
			(offset != NULL &&
			 (DatumGetInt64(((Const *) offset)->constvalue) < 0 ||
			  pg_add_s64_overflow(sum, DatumGetInt64(((Const *) offset)->constvalue), &sum))))
			return NULL;
		return (Node *) shard_convert_int8(sum);
	}
	if (offset == NULL)
		return (Node *) make_part(count);

	offset = (Node *) shard_convert_coalesce((Expr *) offset, (Expr *) shard_convert_int8(0));
	return (Node *) makeFuncExpr(F_INT8PL, INT8OID,
								 list_make2(make_part(count), make_part(offset)),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/* Estimate of the rows that are read: the estimate of core's Limit, or a tenth of all. */
static double
bounded_rows(const ShardRelInfo *info, const FinalPathExtraData *extra)
{
	double		bound;

	if (extra->count_est > 0)
		bound = (double) extra->count_est + Max(extra->offset_est, 0);
	else
		bound = info->rows * 0.1;
	return clamp_row_est(Min(info->rows, bound));
}

/*
 * Sets first_parts if the first column of ORDER BY is the partition key: then the partitions follow each other in
 * that order.  The column has to be a key of the relation, and not be nullable by an outer join.
 */
static void
set_first_parts(ShardRelInfo *info, double rows)
{
	const ShardMap *map = info->map;
	const ShardSort *sort = info->query->sort != NIL ? linitial(info->query->sort) : NULL;
	double		part_rows = info->rows / Max(1.0, ceil((double) info->nexpected * map->nparts / map->nshards));
	double		wanted = ceil(rows * FIRST_PARTS_MARGIN / Max(part_rows, 1));

	if (!map->parts_ordered || sort == NULL || wanted > map->nparts / 2 ||
		exprCollation((Node *) sort->expr) != info->key_collations[0])
		return;
	foreach_ptr(const ShardDistKey, key, info->keys)
	{
		int			strategy = get_op_opfamily_strategy(sort->sortop, info->key_opfamilies[0]);

		if (key->nullable || !shard_relinfo_same_expr(sort->expr, linitial(key->exprs)) ||
			(strategy != BTLessStrategyNumber && strategy != BTGreaterStrategyNumber))
			continue;
		info->first_parts = (int) wanted;
		info->parts_descending = strategy == BTGreaterStrategyNumber;
		info->remote_cost *= Min(wanted / map->nparts, 1);
		return;
	}
}

/*
 * The bound saves nodes work that the cost model ignores: without the bound, all nodes run the query and fill buffers
 * until the scan is ended.  So the path with the bound gets lower costs than the paths without, even if the estimates
 * are the same.
 */
static void
prefer(Path *path, const RelOptInfo *rel)
{
	foreach_ptr(Path, other, rel->pathlist)
	{
		path->total_cost = Min(path->total_cost, other->total_cost * 0.95);
		path->startup_cost = Min(path->startup_cost, other->startup_cost * 0.95);
	}
	path->startup_cost = Min(path->startup_cost, path->total_cost);
}

void
shard_limit_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
					  FinalPathExtraData *extra)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	const Query *parse = root->parse;
	PathTarget *target = root->upper_targets[UPPERREL_FINAL];
	ShardRelInfo *info;
	double		rows;
	Node	   *bound;
	Path	   *path;

	if (parse->limitOption != LIMIT_OPTION_COUNT)
		return;
	if (input->local_having != NIL)
	{
		(void) shard_upper_refuse("LIMIT", "a condition on groups must be checked on the coordinator");
		return;
	}
	bound = make_bound(parse->limitCount, parse->limitOffset);
	info = shard_upper_make_info(input, target->exprs);
	if (bound == NULL || info == NULL)
		return;

	info->query->limit = bound;
	info->width = target->width;
	rows = bounded_rows(info, extra);
	if (info->query->sort == NIL && !info->query->aggregated && info->query->windows == NIL)
		info->remote_cost *= rows / Max(info->rows, 1);
	if (info->map->nparts > 1)
		set_first_parts(info, rows);
	info->rows = rows;

	output_rel->fdw_private = info;
	path = shard_upper_make_path(root, output_rel, target,
								 parse->sortClause != NIL ? root->sort_pathkeys : NIL);
	prefer(path, output_rel);
	/* costs no more than the scan below it */
	add_path(output_rel, (Path *) create_limit_path(root, output_rel, path, parse->limitOffset,
													parse->limitCount, parse->limitOption,
													extra->offset_est, extra->count_est));
}
