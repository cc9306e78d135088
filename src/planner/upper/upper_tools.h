/*
 * upper_tools.h
 *	  Functions that the upper stages (above joins) share.
 */
#ifndef SHARDFDW_UPPER_TOOLS_H
#define SHARDFDW_UPPER_TOOLS_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Notes why a stage ("grouping", "sort", ...) is not computed by the nodes, for DEBUG1 and EXPLAIN.  Returns false. */
extern bool shard_upper_refuse(const char *stage, const char *reason);

/*
 * Are rows with equal values of the clauses (SortGroupClauses over tlist) on one shard?  They are if the shard key is
 * among the clauses under the equality that partitions it, or if there is only one shard.
 */
extern bool shard_upper_has_key(const ShardRelInfo *input, List *clauses, List *tlist);

/*
 * The info of a stage above input that returns the columns and aggregates of exprs.  Its query is a copy, to which
 * the caller adds a clause.  NULL if nodes cannot return some of exprs.
 */
extern ShardRelInfo *shard_upper_make_info(const ShardRelInfo *input, List *exprs);

/* Adds expr to the output of the query if it is not there yet. */
extern void shard_upper_add_output(ShardRemoteQuery *query, Expr *expr);

/*
 * Converts ORDER BY clauses (SortGroupClauses over tlist) to the query's sort, and adds their expressions to its
 * outputs.  Returns false if nodes may sort differently.
 */
extern bool shard_upper_add_sort(PlannerInfo *root, ShardRelInfo *info, List *clauses,
								 List *tlist);

/* A relation for paths of info that are below other paths of the relation like, in the same stage. */
extern RelOptInfo *shard_upper_make_rel(const RelOptInfo *like, PathTarget *target, ShardRelInfo *info);

/*
 * The path that runs the query of rel's info, with its costs.  Its row count excludes rows that are removed by
 * conditions of the coordinator.
 */
extern Path *shard_upper_make_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
								   List *pathkeys);

/* Elapsed time in which the nodes sort info's rows in parallel. */
extern Cost shard_upper_sort_cost(const ShardRelInfo *info);

/* Number of rows that nodes return if each of nqueries queries groups its part of input's rows into ngroups groups. */
extern double shard_upper_grouped_rows(double ngroups, int nqueries, const ShardRelInfo *input);

/*
 * Lets one query for each node aggregate over all of its shards if that costs less, and sets info's rows and cost
 * accordingly.  Before, these are the rows and cost of one query per shard. info is a grouping of input's rows into
 * ngroups groups, which the coordinator combines.
 */
extern void shard_upper_combine_on_nodes(ShardRelInfo *info, const ShardRelInfo *input,
										 double ngroups);

#endif
