/*
 * grouping_sets.h
 *	  GROUPING SETS, ROLLUP and CUBE as groupings by an additional column.
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
	bool		has_empty;		/* some set has no columns: it returns a row even if there are no input rows */
	List	   *columns;		/* GroupingFuncs that nodes return; the first one distinguishes the sets */
	Index		sgref;			/* sort/group reference of the first one */
	List	   *clauses;		/* SortGroupClauses by which the groups of all shards are combined */
	double		ngroups;		/* of all sets, from the input's rows */
	int			ncolumns;		/* of all sets */
} ShardGroupingSets;

/*
 * The sets of root's query level over input, which is grouped by group_exprs. groupings: the GroupingFuncs in target
 * and HAVING.  NULL if the columns that nodes return do not distinguish the groups.
 */
extern ShardGroupingSets *shard_grouping_sets_make(PlannerInfo *root, const ShardRelInfo *input,
												   PathTarget *target, List *group_exprs,
												   List *groupings);

#endif
