/*
 * remote_query.c
 *	  Turns the planner's description of a remote query into a query under
 *	  construction.
 *
 *	   from			FROM, WHERE (from.c)
 *	   tlist		what is returned, in the forms in which it travels (select.c)
 *	   the rest		entries of the target list that are not returned, with the
 *					clauses that refer to them: what is returned may be a cast
 *
 * With per_node there are two levels: the inner one, for each shard, returns
 * what the outer one groups by and aggregates.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/from.h"
#include "deparse/level.h"
#include "deparse/remote_query.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

ShardFrom *
shard_from_table(ShardFromKind kind, Index rtindex, Oid relid, List *where)
{
	ShardFrom  *from = palloc0(sizeof(ShardFrom));

	from->kind = kind;
	from->rtindex = rtindex;
	from->relid = relid;
	from->relids = bms_make_singleton(rtindex);
	from->where = where;
	return from;
}

ShardFrom *
shard_from_join(JoinType jointype, ShardFrom *outer, ShardFrom *inner, List *on)
{
	ShardFrom  *from = palloc0(sizeof(ShardFrom));

	from->kind = SHARD_FROM_JOIN;
	from->jointype = jointype;
	from->outer = outer;
	from->inner = inner;
	from->on = on;
	from->relids = bms_union(outer->relids, inner->relids);
	return from;
}

Relids
shard_from_hidden(const ShardFrom *from)
{
	if (from->kind != SHARD_FROM_JOIN)
		return NULL;
	if (from->jointype == JOIN_SEMI || from->jointype == JOIN_ANTI)
		return bms_union(shard_from_hidden(from->outer), from->inner->relids);
	return bms_union(shard_from_hidden(from->outer), shard_from_hidden(from->inner));
}

/* Does another aggregate in the list have the same transition state as agg? */
static bool
shares_state(List *tlist, const Aggref *agg)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		const Aggref *other = (const Aggref *) lfirst_node(TargetEntry, lc)->expr;

		if (IsA(other, Aggref) && other != agg && other->aggtransno == agg->aggtransno)
			return true;
	}
	return false;
}

/* Sort/group reference of an entry that is not returned and holds converted. */
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

static SortGroupClause *
make_clause(Index ref)
{
	SortGroupClause *clause = makeNode(SortGroupClause);

	clause->tleSortGroupRef = ref;
	return clause;
}

/* One of GROUPING SETS, positions of group_exprs, by the references that clauses have. */
static GroupingSet *
make_grouping_set(List *positions, List *clauses)
{
	List	   *refs = NIL;
	ListCell   *lc;

	foreach(lc, positions)
		refs = lappend_int(refs, list_nth_node(SortGroupClause, clauses,
											   lfirst_int(lc))->tleSortGroupRef);
	return makeGroupingSet(refs != NIL ? GROUPING_SET_SIMPLE : GROUPING_SET_EMPTY, refs, -1);
}

static void
add_groups(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	List	   *sets = NIL;
	ListCell   *lc;

	foreach(lc, query->group_exprs)
	{
		Index		ref = add_entry(level->query, shard_convert_expr(select, level, lfirst(lc)));

		level->query->groupClause = lappend(level->query->groupClause, make_clause(ref));
	}
	foreach(lc, query->grouping_sets)
		sets = lappend(sets, make_grouping_set(lfirst(lc), level->query->groupClause));
	if (sets != NIL)
		level->query->groupingSets = list_make1(makeGroupingSet(GROUPING_SET_SETS, sets, -1));
}

/* PARTITION BY or ORDER BY of a window with references into the level's own list. */
static List *
convert_window_clauses(ShardSelect *select, ShardLevel *level, List *clauses, List *window_tlist)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = copyObject(lfirst_node(SortGroupClause, lc));
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, window_tlist);

		clause->tleSortGroupRef = add_entry(level->query,
											shard_convert_expr(select, level, expr));
		result = lappend(result, clause);
	}
	return result;
}

/* Windows are printed where they are used, in full: without name and without reference to others. */
static void
add_windows(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	ListCell   *lc;

	foreach(lc, query->windows)
	{
		WindowClause *window = makeNode(WindowClause);

		*window = *lfirst_node(WindowClause, lc);
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

static void
add_order(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	ListCell   *lc;

	foreach(lc, query->sort)
	{
		ShardSort  *sort = lfirst(lc);
		SortGroupClause *clause;

		clause = make_clause(add_entry(level->query,
									   shard_convert_expr(select, level, sort->expr)));
		clause->eqop = sort->eqop;
		clause->sortop = sort->sortop;
		clause->nulls_first = sort->nulls_first;
		level->query->sortClause = lappend(level->query->sortClause, clause);
	}
	foreach(lc, query->distinct_on)
	{
		Index		ref = add_entry(level->query, shard_convert_expr(select, level, lfirst(lc)));

		level->query->distinctClause = lappend(level->query->distinctClause, make_clause(ref));
		level->query->hasDistinctOn = true;
	}
	level->query->limitCount = shard_convert_value(select, query->limit);
}

/* All but what is returned. */
static void
add_clauses(ShardSelect *select, ShardLevel *level, const ShardRemoteQuery *query)
{
	add_groups(select, level, query);
	level->having = shard_convert_list(select, level, query->having);
	/* one row also of no rows: nothing else may say that this is an aggregate query */
	if (query->aggregated && query->group_exprs == NIL && query->having == NIL &&
		!contain_agg_clause((Node *) query->tlist))
		level->having = list_make1(makeBoolConst(true, false));
	level->query->hasAggs = query->aggregated || query->having != NIL;
	add_windows(select, level, query);
	add_order(select, level, query);
}

ShardLevel *
shard_remote_query_sub(ShardSelect *select, const ShardRemoteQuery *query, List **resnos)
{
	ShardLevel *level = shard_level_create(select, NULL);
	Query	   *sub = level->query;
	ListCell   *lc;

	*resnos = NIL;
	shard_from_build(select, level, query->from);
	foreach(lc, query->tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		int			colno = list_length(sub->targetList) + 1;

		*resnos = lappend_int(*resnos, entry->resno);
		sub->targetList = lappend(sub->targetList,
								  makeTargetEntry(shard_convert_expr(select, level, entry->expr),
												  colno, psprintf("c%d", colno), false));
	}
	if (query->distinct)
	{
		foreach(lc, sub->targetList)
		{
			TargetEntry *entry = lfirst_node(TargetEntry, lc);

			entry->ressortgroupref = entry->resno;
			sub->distinctClause = lappend(sub->distinctClause,
										  make_clause(entry->ressortgroupref));
		}
	}
	add_clauses(select, level, query);
	return level;
}

/* The column that holds the value of expr, which tlist has. */
static Expr *
column_of(List *tlist, const Expr *expr)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (equal(entry->expr, expr))
			return (Expr *) makeVarFromTargetEntry(1, entry);
	}
	elog(ERROR, "a remote SELECT DISTINCT is ordered by what it does not return");
	return NULL;				/* keep compiler quiet */
}

/*
 * SELECT DISTINCT compares values, while what is returned are their forms on
 * the way; so it becomes GROUP BY, or where that is taken a sub-select.
 */
static const ShardRemoteQuery *
without_distinct(const ShardRemoteQuery *query)
{
	ShardRemoteQuery *result = palloc(sizeof(ShardRemoteQuery));
	ShardRemoteQuery *sub;
	ListCell   *lc;

	*result = *query;
	result->distinct = false;
	if (!query->aggregated && query->group_exprs == NIL && query->windows == NIL)
	{
		foreach(lc, query->tlist)
			result->group_exprs = lappend(result->group_exprs,
										  lfirst_node(TargetEntry, lc)->expr);
		if (query->tlist == NIL)
			result->group_exprs = list_make1(makeBoolConst(true, false));
		return result;
	}

	sub = palloc(sizeof(ShardRemoteQuery));
	*sub = *query;
	sub->sort = NIL;
	sub->limit = NULL;
	MemSet(result, 0, sizeof(ShardRemoteQuery));
	result->driver = query->driver;
	result->limit = query->limit;
	result->from = palloc0(sizeof(ShardFrom));
	result->from->kind = SHARD_FROM_QUERY;
	result->from->rtindex = 1;
	result->from->query = sub;
	foreach(lc, query->tlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		entry->expr = (Expr *) makeVarFromTargetEntry(1, entry);
		result->tlist = lappend(result->tlist, entry);
	}
	foreach(lc, query->sort)
	{
		ShardSort  *sort = palloc(sizeof(ShardSort));

		*sort = *(ShardSort *) lfirst(lc);
		sort->expr = column_of(query->tlist, sort->expr);
		result->sort = lappend(result->sort, sort);
	}
	return result;
}

static void
add_outputs(ShardSelect *select, const ShardRemoteQuery *query)
{
	ListCell   *lc;

	foreach(lc, query->tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Aggref	   *agg = (Aggref *) entry->expr;

		if (IsA(agg, Aggref) && agg->aggsplit != AGGSPLIT_SIMPLE)
			shard_select_output_partial(select, shard_map_get(query->driver), agg,
										shares_state(query->tlist, agg), entry->resno - 1);
		else
			shard_select_output(select, entry->expr, entry->resno - 1);
	}
}

ShardSelect *
shard_remote_query_select(const ShardRemoteQuery *query)
{
	ShardSelect *select = shard_select_create(query->driver);
	ShardLevel *level = select->level;

	if (query->distinct)
		query = without_distinct(query);
	if (query->per_node)
	{
		ShardLevel *shards = shard_level_create(select, NULL);

		level->group_exprs = query->group_exprs;
		level->query->jointree->fromlist =
			list_make1(shard_level_add_union(select, level, shards));
		shard_from_build(select, shards, query->from);
	}
	else
		shard_from_build(select, level, query->from);
	add_outputs(select, query);
	add_clauses(select, level, query);
	return select;
}
