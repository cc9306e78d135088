/*
 * query_clauses.c
 *	  The clauses of a remote query above FROM: groups, HAVING, windows, ORDER BY, LIMIT.
 *
 * Clauses refer to junk entries of the target list, because the returned entry of the same expression may be a cast.
 */
#include "postgres.h"

#include "compat.h"
#include "deparse/convert.h"
#include "deparse/query_clauses.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"

/* Adds a junk entry for converted, if there is none.  Returns its sort/group reference. */
static Index
add_entry(Query *query, Expr *converted)
{
	TargetEntry *entry;
	Index		ref = 0;
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		entry = lfirst_node(TargetEntry, lc);
		ref = Max(ref, entry->ressortgroupref);
		if (entry->resjunk && equal(entry->expr, converted))
			return entry->ressortgroupref;
	}
	entry = makeTargetEntry(converted, list_length(query->targetList) + 1, NULL, true);
	entry->ressortgroupref = ref + 1;
	query->targetList = lappend(query->targetList, entry);
	return entry->ressortgroupref;
}

SortGroupClause *
shard_query_clause_make(Index ref)
{
	SortGroupClause *clause = makeNode(SortGroupClause);

	clause->tleSortGroupRef = ref;
	return clause;
}

/* Makes one of GROUPING SETS from positions in group_exprs, with the references of clauses. */
static GroupingSet *
make_grouping_set(List *positions, List *clauses)
{
	List	   *refs = NIL;

	foreach_int(position, positions)
		refs = lappend_int(refs, list_nth_node(SortGroupClause, clauses,
											   position)->tleSortGroupRef);
	return makeGroupingSet(refs != NIL ? GROUPING_SET_SIMPLE : GROUPING_SET_EMPTY, refs, -1);
}

static void
add_groups(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	List	   *sets = NIL;

	foreach_ptr(Expr, expr, query->group_exprs)
	{
		Index		ref = add_entry(level->query, shard_convert_expr(select, level, expr));

		level->query->groupClause = lappend(level->query->groupClause, shard_query_clause_make(ref));
	}
	foreach_ptr(List, set, query->grouping_sets)
		sets = lappend(sets, make_grouping_set(set, level->query->groupClause));
	if (sets != NIL)
		level->query->groupingSets = list_make1(makeGroupingSet(GROUPING_SET_SETS, sets, -1));
}

/* PARTITION BY or ORDER BY of a window, with references to the level's target list. */
static List *
convert_window_clauses(ShardSelect *select, ShardLevel *level, List *clauses, List *window_tlist)
{
	List	   *result = NIL;

	foreach_node(SortGroupClause, original, clauses)
	{
		SortGroupClause *clause = copyObject(original);
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, window_tlist);

		clause->tleSortGroupRef = add_entry(level->query,
											shard_convert_expr(select, level, expr));
		result = lappend(result, clause);
	}
	return result;
}

/* Adds windows without name and reference to others: they are printed in full at each use. */
static void
add_windows(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	foreach_node(WindowClause, original, query->windows)
	{
		WindowClause *window = makeNode(WindowClause);

		*window = *original;
		window->name = NULL;
		window->refname = NULL;
		window->copiedOrder = false;
		window->partitionClause = convert_window_clauses(select, level, window->partitionClause,
														 query->window_tlist);
		window->orderClause = convert_window_clauses(select, level, window->orderClause,
													 query->window_tlist);
		window->startOffset = shard_convert_value(select, window->startOffset);
		window->endOffset = shard_convert_value(select, window->endOffset);
		level->query->windowClause = lappend(level->query->windowClause, window);
		level->query->hasWindowFuncs = true;
	}
}

void
shard_query_clauses_sort(ShardSelect *select, ShardLevel *level, List *sorts)
{
	foreach_ptr(ShardSort, sort, sorts)
	{
		SortGroupClause *clause;

		clause = shard_query_clause_make(add_entry(level->query,
									   shard_convert_expr(select, level, sort->expr)));
		clause->eqop = sort->eqop;
		clause->sortop = sort->sortop;
		clause->nulls_first = sort->nulls_first;
		level->query->sortClause = lappend(level->query->sortClause, clause);
	}
}

static void
add_order(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	shard_query_clauses_sort(select, level, query->sort);
	foreach_ptr(Expr, expr, query->distinct_on)
	{
		Index		ref = add_entry(level->query, shard_convert_expr(select, level, expr));

		level->query->distinctClause = lappend(level->query->distinctClause, shard_query_clause_make(ref));
		level->query->hasDistinctOn = true;
	}
	level->query->limitCount = shard_convert_value(select, query->limit);
}

void
shard_query_clauses_add(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	add_groups(select, level, query);
	level->having = shard_convert_list(select, level, query->having);
	/* the query returns one row even if there are no rows; without an aggregate, HAVING true expresses that */
	if (query->aggregated && query->group_exprs == NIL && query->having == NIL &&
		!contain_agg_clause((Node *) query->tlist))
		level->having = list_make1(makeBoolConst(true, false));
	level->query->hasAggs = query->aggregated || query->having != NIL;
	add_windows(select, level, query);
	add_order(select, level, query);
}
