/*
 * remote_query.c
 *	  Turns the planner's description of a remote query into a query under construction.
 *
 *	   from			FROM, WHERE (from.c)
 *	   tlist		the returned columns, in their transfer forms (select.c)
 *	   the rest		the clauses (query_clauses.c)
 *
 * With per_node, the sharded part becomes a separate level, which runs on each shard of the node.  Everything else
 * runs once per node, over the UNION ALL of these.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/from.h"
#include "deparse/level.h"
#include "deparse/query_clauses.h"
#include "deparse/remote_query.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

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

/* The column with the value of expr, which must be in tlist. */
static Expr *
column_of(List *tlist, const Expr *expr)
{
	foreach_node(TargetEntry, entry, tlist)
	{
		if (equal(entry->expr, expr))
			return (Expr *) makeVarFromTargetEntry(1, entry);
	}
	elog(ERROR, "a remote SELECT DISTINCT is ordered by what it does not return");
	return NULL;				/* keep compiler quiet */
}

/*
 * SELECT DISTINCT has to compare values, but the query returns them in their transfer forms.  So DISTINCT becomes
 * GROUP BY, or a sub-select if the query already has a GROUP BY.  Each new clause of ShardRemoteQuery that applies
 * after DISTINCT has to be moved to the outer query here, like sort and limit.
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

/* Does from read a sharded table? */
static bool
has_shards(const ShardFrom *from)
{
	switch (from->kind)
	{
		case SHARD_FROM_TABLE:
			return true;
		case SHARD_FROM_JOIN:
			return has_shards(from->outer) || has_shards(from->inner);
		case SHARD_FROM_QUERY:
			return has_shards(from->query->from);
		default:
			return false;
	}
}

/*
 * The smallest part of from that contains all sharded tables.  Joins of colocated tables, and sub-selects over them,
 * are read shard by shard.
 */
static const ShardFrom *
sharded_part(const ShardFrom *from)
{
	while (from->kind == SHARD_FROM_JOIN && !(has_shards(from->outer) && has_shards(from->inner)))
		from = has_shards(from->outer) ? from->outer : from->inner;
	return from;
}

static void
add_outputs(ShardSelect *select, const ShardRemoteQuery *query)
{
	foreach_node(TargetEntry, entry, query->tlist)
	{
		Aggref	   *agg = (Aggref *) entry->expr;

		if (IsA(agg, Aggref) && agg->aggsplit != AGGSPLIT_SIMPLE)
			shard_select_output_partial(select, shard_map_get_levels(query->driver, true), agg,
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

	select->has_params = query->has_params;
	if (query->distinct)
		query = without_distinct(query);
	if (query->per_node)
		select->union_from = sharded_part(query->from);
	shard_from_build(select, level, query->from);
	add_outputs(select, query);
	shard_query_clauses_add(select, level, query);
	return select;
}
