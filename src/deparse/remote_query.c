/*
 * remote_query.c
 *	  Turns the planner's description of a remote query into a query under
 *	  construction.
 */
#include "postgres.h"

#include "deparse/remote_query.h"

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

ShardSelect *
shard_remote_query_select(const ShardRemoteQuery *query)
{
	ShardSelect *select = shard_select_begin(query->from->rtindex, query->from->relid);
	ListCell   *lc;

	if (query->from->kind != SHARD_FROM_TABLE)
		elog(ERROR, "unexpected kind of FROM item in a remote query: %d", query->from->kind);
	foreach(lc, query->tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Aggref	   *agg = (Aggref *) entry->expr;

		if (IsA(agg, Aggref) && agg->aggsplit != AGGSPLIT_SIMPLE)
			shard_select_output_partial(select, agg, shares_state(query->tlist, agg),
										entry->resno - 1);
		else
			shard_select_output(select, entry->expr, entry->resno - 1);
	}
	foreach(lc, query->group_exprs)
		shard_select_group_by(select, lfirst(lc));
	if (query->aggregated)
		shard_select_aggregate(select);
	shard_select_where(select, query->from->where);
	shard_select_having(select, query->having);
	return select;
}
