/*
 * grouping_sets.h
 *	  GROUPING SETS, ROLLUP and CUBE as groupings by one additional column.
 */
#ifndef SHARDFDW_GROUPING_SETS_H
#define SHARDFDW_GROUPING_SETS_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

typedef struct ShardGroupingSets
{
	List	   *sets;			/* of IntLists: 0-based positions in the grouping expressions */
	bool		per_shard;		/* one query per node is not possible */
	bool		has_empty;		/* some set has no columns: it gives a row even if there are no rows */
	List	   *columns;		/* GroupingFuncs that travel; the first tells sets apart */
	Index		sgref;			/* sort/group reference of that one */
	List	   *clauses;		/* SortGroupClauses: what the groups of all shards are combined by */
	double		ngroups;		/* of all sets, from the input's rows */
	int			ncolumns;		/* of all sets */
} ShardGroupingSets;

/*
 * The sets of root's query level over input, which is grouped by group_exprs;
 * groupings: the GroupingFuncs in target and HAVING.  NULL when groups cannot be
 * told apart by what nodes return.
 */
extern ShardGroupingSets *shard_grouping_sets_make(PlannerInfo *root, const ShardRelInfo *input,
												   PathTarget *target, List *group_exprs,
												   List *groupings);

#endif
