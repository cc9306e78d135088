/*
 * from.c
 *	  Makes FROM, WHERE and EXISTS of a level from the planner's tree of FROM items.
 *
 * Conditions on a FROM item's rows (`where`) are put where SQL has a place for them:
 *
 *	 of the whole tree						WHERE
 *	 outer side of LEFT, SEMI, ANTI			up, to where the join's own go
 *	 both sides of INNER					up
 *	 inner side of LEFT						ON
 *	 inner side of SEMI, ANTI				WHERE of the EXISTS
 *	 either side of FULL					WHERE of a sub-select, which replaces
 *											the side
 *	 what a query per node reads shard by shard
 *											WHERE of each shard's part of the union
 *
 * Semi and anti joins are conditions on their outer side's rows:
 * [NOT] EXISTS (SELECT 1 FROM inner WHERE on).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "deparse/convert.h"
#include "deparse/from.h"
#include "deparse/query_clauses.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"

static Node *build_item(ShardSelect *select, ShardLevel *level, const ShardFrom *from,
						List **quals);

/* Will build_item() hand up conditions? */
static bool
has_conditions(const ShardFrom *from)
{
	if (from->where != NIL)
		return true;
	if (from->kind != SHARD_FROM_JOIN)
		return false;
	switch (from->jointype)
	{
		case JOIN_INNER:
			return has_conditions(from->outer) || has_conditions(from->inner);
		case JOIN_LEFT:
			return has_conditions(from->outer);
		case JOIN_FULL:
			return false;
		default:
			return true;
	}
}

/* One side of a full join. */
static Node *
build_full_side(ShardSelect *select, ShardLevel *level, const ShardFrom *from)
{
	List	   *quals = NIL;
	ShardLevel *sub;

	if (!has_conditions(from))
		return build_item(select, level, from, &quals);

	/* its columns are added as they are needed */
	sub = shard_level_create(select, NULL);
	shard_from_build(select, sub, from);
	return shard_level_add_wrapped(select, level, sub);
}

/* [NOT] EXISTS (SELECT 1 FROM inner WHERE on) */
static Expr *
build_exists(ShardSelect *select, ShardLevel *level, const ShardFrom *from)
{
	ShardLevel *sub = shard_level_create(select, level);
	Const	   *one = makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum(1),
								false, true);
	SubLink    *link = makeNode(SubLink);

	shard_from_build(select, sub, from->inner);
	sub->quals = list_concat(shard_convert_conditions(select, sub, from->on), sub->quals);
	sub->query->targetList = list_make1(makeTargetEntry((Expr *) one, 1, NULL, false));

	link->subLinkType = EXISTS_SUBLINK;
	link->subselect = (Node *) sub->query;
	link->location = -1;
	level->query->hasSubLinks = true;

	/* above an anti join, columns of its inner side are NULL */
	shard_level_add_hidden(level, from->inner->relids, from->jointype == JOIN_ANTI, from->shown);
	if (from->jointype == JOIN_SEMI)
		return (Expr *) link;
	return makeBoolExpr(NOT_EXPR, list_make1(link), -1);
}

static Node *
build_join(ShardSelect *select, ShardLevel *level, const ShardFrom *from, List **quals)
{
	List	   *inner_quals = NIL;
	List	   *on = NIL;
	Node	   *outer;
	Node	   *inner;

	switch (from->jointype)
	{
		case JOIN_INNER:
			outer = build_item(select, level, from->outer, quals);
			inner = build_item(select, level, from->inner, quals);
			on = shard_convert_conditions(select, level, from->on);
			break;
		case JOIN_LEFT:
			outer = build_item(select, level, from->outer, quals);
			inner = build_item(select, level, from->inner, &inner_quals);
			on = list_concat(shard_convert_conditions(select, level, from->on), inner_quals);
			shard_level_set_nullable(level, from->inner->relids);
			break;
		case JOIN_FULL:
			outer = build_full_side(select, level, from->outer);
			inner = build_full_side(select, level, from->inner);
			on = shard_convert_conditions(select, level, from->on);
			shard_level_set_nullable(level, from->relids);
			break;
		case JOIN_SEMI:
		case JOIN_ANTI:
			outer = build_item(select, level, from->outer, quals);
			*quals = lappend(*quals, build_exists(select, level, from));
			return outer;
		default:
			elog(ERROR, "unexpected join type in a remote query: %d", (int) from->jointype);
			return NULL;		/* keep compiler quiet */
	}
	return shard_level_add_join(level, from->jointype, outer, inner, on);
}

/* A sub-select; *resnos: numbers of the entries of query->tlist, in the order of its columns. */
static ShardLevel *
build_query(ShardSelect *select, const ShardRemoteQuery *query, List **resnos)
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
										  shard_query_clause_make(entry->ressortgroupref));
		}
	}
	shard_query_clauses_add(select, level, query);
	return level;
}

/* What a query per node reads shard by shard; conditions on it are checked there. */
static Node *
build_union(ShardSelect *select, ShardLevel *level, const ShardFrom *from)
{
	ShardLevel *shards = shard_level_create(select, NULL);

	select->union_from = NULL;
	shard_from_build(select, shards, from);
	return shard_level_add_union(select, level, shards);
}

/*
 * Adds from to level's range table and returns its node for the jointree.  Adds to
 * *quals the conditions that have to be checked above.
 */
static Node *
build_item(ShardSelect *select, ShardLevel *level, const ShardFrom *from, List **quals)
{
	Node	   *item = NULL;

	check_stack_depth();
	if (from == select->union_from)
		return build_union(select, level, from);
	switch (from->kind)
	{
		case SHARD_FROM_TABLE:
		case SHARD_FROM_REFERENCE:
			item = shard_level_add_table(select, level, from->rtindex, from->relid,
										 from->kind == SHARD_FROM_TABLE);
			break;
		case SHARD_FROM_JOIN:
			item = build_join(select, level, from, quals);
			break;
		case SHARD_FROM_QUERY:
			{
				List	   *resnos;
				ShardLevel *sub = build_query(select, from->query, &resnos);

				item = shard_level_add_query(select, level, from->rtindex, sub, resnos);
				break;
			}
	}
	*quals = list_concat(*quals, shard_convert_conditions(select, level, from->where));
	return item;
}

void
shard_from_build(ShardSelect *select, ShardLevel *level, const ShardFrom *from)
{
	List	   *quals = NIL;
	Node	   *item = build_item(select, level, from, &quals);

	level->query->jointree->fromlist = list_make1(item);
	level->quals = list_concat(level->quals, quals);
}
