/*
 * grouping_sets.c
 *	  GROUPING SETS, ROLLUP and CUBE as groupings by an additional column.
 *
 *	  Finalize HashAggregate: by a, b, GROUPING(a, b)
 *		-> Foreign Scan: SELECT a, b, GROUPING(a, b), partial states
 *						 ... GROUP BY GROUPING SETS ((a, b), (a), ())
 *
 * Each node computes all sets over its rows.  GROUPING() of all columns has a different value for each set, so groups
 * are combined by the columns and this value.  GROUPING() calls of the statement are fetched as columns, too, so the
 * coordinator needs no grouping sets.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "planner/upper/grouping_sets.h"
#include "planner/upper/upper_tools.h"
#include "utils/selfuncs.h"

/* maximum number of arguments of GROUPING() */
#define MAX_GROUPING_ARGS 31

static ShardGroupingSets *
refuse(const char *reason)
{
	(void) shard_upper_refuse("grouping by sets", reason);
	return NULL;
}

/*
 * The references of the grouping clauses, in the order of group_exprs.  NIL if clauses and expressions are not one to
 * one.
 */
static List *
match_references(PlannerInfo *root, PathTarget *target, List *group_exprs)
{
	List	   *refs = NIL;

	if (list_length(group_exprs) != list_length(root->parse->groupClause))
		return NIL;
	foreach_ptr(Node, expr, group_exprs)
	{
		int			i = 0;
		Index		found = 0;

		/* from 18 on, constants of grouping sets are wrapped in PlaceHolderVars */
		if (!contain_var_clause(expr) || IsA(expr, PlaceHolderVar))
			return NIL;
		foreach_ptr(Node, column, target->exprs)
		{
			Index		ref = get_pathtarget_sortgroupref(target, i++);

			if (ref != 0 && equal(column, expr) &&
				get_sortgroupref_clause_noerr(ref, root->parse->groupClause) != NULL)
				found = ref;
		}
		if (found == 0)
			return NIL;
		refs = lappend_int(refs, found);
	}
	return refs;
}

/* Adds a set (IntList of references, as core has expanded it).  False if the same set was added before. */
static bool
add_set(ShardGroupingSets *result, List **seen, List *set, List *refs)
{
	Bitmapset  *members = NULL;
	List	   *positions = NIL;
	int			position = 0;

	foreach_int(ref, refs)
	{
		if (list_member_int(set, ref))
		{
			members = bms_add_member(members, position);
			positions = lappend_int(positions, position);
		}
		position++;
	}
	foreach_ptr(Bitmapset, earlier, *seen)
	{
		if (bms_equal(earlier, members))
			return false;
	}
	*seen = lappend(*seen, members);
	result->sets = lappend(result->sets, positions);
	result->has_empty |= positions == NIL;
	result->ncolumns += list_length(positions);
	return true;
}

/* GROUPING() of all grouping expressions. */
static GroupingFunc *
make_set_column(List *group_exprs, List *refs)
{
	GroupingFunc *result = makeNode(GroupingFunc);

	result->args = group_exprs;
	result->refs = refs;
	result->location = -1;
	return result;
}

/* A grouping clause for the integer column with reference sgref. */
static SortGroupClause *
make_set_clause(Index sgref)
{
	SortGroupClause *result = makeNode(SortGroupClause);

	result->tleSortGroupRef = sgref;
	result->eqop = Int4EqualOperator;
	result->sortop = Int4LessOperator;
	result->hashable = true;
	return result;
}

/* A sort/group reference that is not in use. */
static Index
free_reference(PlannerInfo *root, PathTarget *target)
{
	Index		highest = 0;

	foreach_node(TargetEntry, entry, root->processed_tlist)
		highest = Max(highest, entry->ressortgroupref);
	for (int i = 0; i < list_length(target->exprs); i++)
		highest = Max(highest, get_pathtarget_sortgroupref(target, i));
	return highest + 1;
}

/*
 * Is every argument of these GROUPING() calls equal() to a grouping expression?  From 18 on, only one of them may be
 * marked as nulled by the grouping sets.  Then their SQL text is the same, but they are not equal().
 */
static bool
arguments_match(List *groupings, List *group_exprs)
{
	foreach_node(GroupingFunc, grouping, groupings)
	{
		if (list_difference(grouping->args, group_exprs) != NIL)
			return false;
	}
	return true;
}

ShardGroupingSets *
shard_grouping_sets_make(PlannerInfo *root, const ShardRelInfo *input, PathTarget *target,
						 List *group_exprs, List *groupings)
{
	ShardGroupingSets *result = palloc0(sizeof(ShardGroupingSets));
	List	   *refs = match_references(root, target, group_exprs);
	List	   *seen = NIL;

	if (refs == NIL || list_length(refs) > MAX_GROUPING_ARGS)
		return refuse("a column is constant, or there twice, or there are too many");
	foreach_ptr(List, set, root->parse->groupingSets)
	{
		if (!add_set(result, &seen, set, refs))
			return refuse("a set is there twice");
	}
	if (result->has_empty && input->nlive == 0)
		return refuse("there are no shards");

	result->columns = list_concat(list_make1(make_set_column(group_exprs, refs)), groupings);
	result->per_shard = !arguments_match(groupings, group_exprs);
	result->sgref = free_reference(root, target);
	result->clauses = lappend(list_copy(root->parse->groupClause),
							  make_set_clause(result->sgref));
	if (!grouping_is_hashable(result->clauses))
		return refuse("groups cannot be hashed");

	foreach_ptr(List, positions, result->sets)
	{
		result->ngroups += positions == NIL ? 1 :
			estimate_num_groups(root, group_exprs, input->rows, &positions, NULL);
	}
	return result;
}
