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
#include "tuple/type_io.h"

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
	foreach_node(TargetEntry, entry, tlist)
	{
		const Aggref *other = (const Aggref *) entry->expr;

		if (IsA(other, Aggref) && other != agg && other->aggtransno == agg->aggtransno)
			return true;
	}
	return false;
}

/* The column of sub-select 1 with the value of expr.  Adds the column to sub if it has none. */
static Expr *
column_of(ShardRemoteQuery *sub, Expr *expr)
{
	TargetEntry *column;

	foreach_node(TargetEntry, entry, sub->tlist)
	{
		if (equal(entry->expr, expr))
			return (Expr *) makeVarFromTargetEntry(1, entry);
	}
	column = makeTargetEntry(expr, list_length(sub->tlist) + 1, NULL, false);
	sub->tlist = lappend(list_copy(sub->tlist), column);
	return (Expr *) makeVarFromTargetEntry(1, column);
}

/* SELECT columns FROM (sub) ORDER BY, with the columns and the order of query. */
static ShardRemoteQuery *
wrap_query(const ShardRemoteQuery *query, ShardRemoteQuery *sub)
{
	ShardRemoteQuery *result = palloc0(sizeof(ShardRemoteQuery));

	result->driver = query->driver;
	result->from = palloc0(sizeof(ShardFrom));
	result->from->kind = SHARD_FROM_QUERY;
	result->from->rtindex = 1;
	result->from->query = sub;
	foreach_node(TargetEntry, entry, query->tlist)
	{
		TargetEntry *copy = flatCopyTargetEntry(entry);

		copy->expr = (Expr *) makeVarFromTargetEntry(1, entry);
		result->tlist = lappend(result->tlist, copy);
	}
	foreach_ptr(ShardSort, sort, query->sort)
	{
		ShardSort  *copy = palloc(sizeof(ShardSort));

		*copy = *sort;
		copy->expr = column_of(sub, sort->expr);
		result->sort = lappend(result->sort, copy);
	}
	return result;
}

/*
 * SELECT DISTINCT has to compare values, but the query returns them in their transfer forms.  So DISTINCT becomes
 * GROUP BY, or a sub-select if the query already has a GROUP BY.  Each new clause of ShardRemoteQuery that applies
 * after DISTINCT has to be moved to the outer query here, like sort and limit.
 */
static const ShardRemoteQuery *
without_distinct(const ShardRemoteQuery *query)
{
	ShardRemoteQuery *copy = palloc(sizeof(ShardRemoteQuery));
	ShardRemoteQuery *result;

	*copy = *query;
	if (!query->aggregated && query->group_exprs == NIL && query->windows == NIL)
	{
		copy->distinct = false;
		foreach_node(TargetEntry, entry, query->tlist)
			copy->group_exprs = lappend(copy->group_exprs, entry->expr);
		if (query->tlist == NIL)
			copy->group_exprs = list_make1(makeBoolConst(true, false));
		return copy;
	}
	copy->sort = NIL;
	copy->limit = NULL;
	result = wrap_query(query, copy);
	result->limit = query->limit;
	return result;
}

/* Does the node have to compute the transfer form of expr? */
static bool
changes_form(const Expr *expr)
{
	/* a cast to a type without modifier is computed, although the value stays the same */
	return !shard_type_io_binary_output(exprType((const Node *) expr)) || exprTypmod((const Node *) expr) >= 0;
}

/*
 * The transfer forms of ORDER BY ... LIMIT are computed for the returned rows only: above a sub-select that sorts.
 * The node sorts only once, because the rows of the sub-select have the order already.
 */
static const ShardRemoteQuery *
with_late_forms(const ShardRemoteQuery *query)
{
	bool		changes = false;
	ShardRemoteQuery *sub;

	foreach_node(TargetEntry, entry, query->tlist)
		changes = changes || changes_form(entry->expr);
	if (!changes || query->sort == NIL || query->limit == NULL || query->aggregated ||
		query->group_exprs != NIL || query->windows != NIL || query->distinct_on != NIL)
		return query;
	sub = palloc(sizeof(ShardRemoteQuery));
	*sub = *query;
	return wrap_query(query, sub);
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
	query = with_late_forms(query);
	shard_from_build(select, level, query->from);
	add_outputs(select, query);
	shard_query_clauses_add(select, level, query);
	return select;
}
