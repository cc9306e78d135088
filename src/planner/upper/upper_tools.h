/*
 * upper_tools.h
 *	  What the stages above joins have in common, for the files that push them
 *	  down.
 */
#ifndef SHARDFDW_UPPER_TOOLS_H
#define SHARDFDW_UPPER_TOOLS_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Says at DEBUG1 why a stage ("grouping", "sort", ...) is not computed by the nodes.  Returns false. */
extern bool shard_upper_refuse(const char *stage, const char *reason);

/*
 * Do equal values of the clauses (SortGroupClauses over tlist) mean rows of one
 * shard: is the shard key among them under the equality that partitions it, or
 * is there but one shard?
 */
extern bool shard_upper_has_key(const ShardRelInfo *input, List *clauses, List *tlist);

/*
 * The info of a stage above input that returns the columns and aggregates of exprs.
 * Its query is a copy, to which the caller adds its clause.  NULL when nodes cannot
 * return some of these.
 */
extern ShardRelInfo *shard_upper_make_info(const ShardRelInfo *input, List *exprs);

/* Adds expr to what the query returns, unless it is there. */
extern void shard_upper_add_output(ShardRemoteQuery *query, Expr *expr);

/*
 * Makes ORDER BY clauses (SortGroupClauses over tlist) the query's sort, and adds them
 * to its outputs.  Returns false when nodes may sort differently.
 */
extern bool shard_upper_add_sort(PlannerInfo *root, ShardRelInfo *info, List *clauses,
								 List *tlist);

/*
 * A relation for paths of info that stand below other paths of relation like, of the
 * same stage.
 */
extern RelOptInfo *shard_upper_make_rel(PlannerInfo *root, const RelOptInfo *like,
										PathTarget *target, ShardRelInfo *info);

/*
 * The path that runs the query of rel's info, with its costs; its rows are those that
 * are left by conditions which the coordinator checks.
 */
extern Path *shard_upper_make_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
								   List *pathkeys);

/* Elapsed time in which the nodes sort info's rows, all at a time. */
extern Cost shard_upper_sort_cost(const ShardRelInfo *info);

/*
 * Rows that come from the nodes when input's rows go into ngroups groups of each
 * of nqueries queries.
 */
extern double shard_upper_grouped_rows(double ngroups, int nqueries, const ShardRelInfo *input);

/*
 * Lets one query for each node aggregate over all of its shards when that costs
 * less: info's rows and cost, so far those of a query per shard, follow.  info
 * is of a grouping of input's rows into ngroups, combined here.
 */
extern void shard_upper_combine_on_nodes(ShardRelInfo *info, const ShardRelInfo *input,
										 double ngroups);

#endif
