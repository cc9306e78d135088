/*
 * from.c
 *	  Makes FROM, WHERE and EXISTS of a level from the planner's tree of FROM items.
 *
 * Conditions on a FROM item's rows (`where`) are put where SQL has a place for them:
 *
 * - conditions of the whole tree: WHERE
 * - outer side of LEFT, SEMI, ANTI: up, to the conditions of the join's rows
 * - both sides of INNER: up
 * - inner side of LEFT: ON
 * - inner side of SEMI, ANTI: WHERE of the EXISTS
 * - either side of FULL: WHERE of a sub-select, which replaces the side
 * - a table that a query per node reads shard by shard: as for other tables
 * - a join or sub-select that a query per node reads shard by shard: WHERE of each shard's part of the union
 *
 * PostgreSQL flattens a UNION ALL whose parts each read one table without conditions.  Then it can merge the parts by
 * the order of their indexes, and look up rows in them for a join.
 *
 * From an OR in a join condition, core derives an OR for each of the tables: (a.x = 1 AND b.y = 2) OR (a.x = 3 AND
 * b.y = 4) implies a.x = 1 OR a.x = 3.  If the join is in the same query, the node derives the OR again and counts
 * its selectivity twice.  So derived ORs are left out.
 *
 * Semi and anti joins become conditions on the rows of their outer side: [NOT] EXISTS (SELECT 1 FROM inner WHERE on).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/from.h"
#include "deparse/query_clauses.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

static Node *build_item(ShardSelect *select, ShardLevel *level, const ShardFrom *from,
						List **quals);

/* Will build_item() return conditions in *quals? */
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

/*
 * Calls build_item() for a side of a join. alternatives: conditions that include ORs which rows of that side have to
 * satisfy.
 */
static Node *
build_side(ShardSelect *select, ShardLevel *level, const ShardFrom *from, List **quals,
		   List *alternatives)
{
	List	   *around = select->alternatives;
	Node	   *item;

	select->alternatives = NIL;
	foreach_ptr(Expr, alternative, alternatives)
	{
		if (is_orclause(alternative))
			select->alternatives = lappend(select->alternatives, alternative);
	}
	item = build_item(select, level, from, quals);
	select->alternatives = around;
	return item;
}

/* Calls shard_from_build() for a part to which the ORs of outer joins do not apply. */
static void
build_apart(ShardSelect *select, ShardLevel *level, const ShardFrom *from)
{
	List	   *around = select->alternatives;

	select->alternatives = NIL;
	shard_from_build(select, level, from);
	select->alternatives = around;
}

/* One side of a full join. */
static Node *
build_full_side(ShardSelect *select, ShardLevel *level, const ShardFrom *from)
{
	List	   *quals = NIL;
	ShardLevel *sub;

	if (!has_conditions(from))
		return build_side(select, level, from, &quals, NIL);

	/* its columns are added when they are used */
	sub = shard_level_create(select, NULL);
	build_apart(select, sub, from);
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

	build_apart(select, sub, from->inner);
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

/* The list of conditions in an arm of an OR. */
static List *
conjuncts(Node *arm)
{
	return is_andclause(arm) ? ((BoolExpr *) arm)->args : list_make1(arm);
}

/* Does alternative, an OR, imply clause: does each of its arms contain all conditions of some arm of clause? */
static bool
alternative_implies(const BoolExpr *alternative, const BoolExpr *clause)
{
	foreach_ptr(Node, branch, alternative->args)
	{
		List	   *arm = conjuncts(branch);
		bool		found = false;

		foreach_ptr(Node, part, clause->args)
			found = found || list_difference(conjuncts(part), arm) == NIL;
		if (!found)
			return false;
	}
	return true;
}

/* The conditions of from that do not follow from conditions of outer inner joins. */
static List *
underived(const ShardSelect *select, const ShardFrom *from)
{
	List	   *result = NIL;

	foreach_ptr(Node, clause, from->where)
	{
		bool		derived = false;

		foreach_ptr(Node, alternative, is_orclause(clause) ? select->alternatives : NIL)
			derived = derived || (alternative != clause && alternative_implies((BoolExpr *) alternative, (BoolExpr *) clause));
		if (!derived)
			result = lappend(result, clause);
	}
	return result;
}

static Node *
build_join(ShardSelect *select, ShardLevel *level, const ShardFrom *from, List **quals)
{
	List	   *inner_quals = NIL;
	List	   *on = NIL;
	List	   *alternatives;
	Node	   *outer;
	Node	   *inner;

	switch (from->jointype)
	{
		case JOIN_INNER:
			alternatives = list_concat(list_concat_copy(from->on, from->where), select->alternatives);
			outer = build_side(select, level, from->outer, quals, alternatives);
			inner = build_side(select, level, from->inner, quals, alternatives);
			on = shard_convert_conditions(select, level, from->on);
			break;
		case JOIN_LEFT:
			outer = build_side(select, level, from->outer, quals, NIL);
			inner = build_side(select, level, from->inner, &inner_quals, from->on);
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
			outer = build_side(select, level, from->outer, quals, NIL);
			*quals = lappend(*quals, build_exists(select, level, from));
			return outer;
		default:
			elog(ERROR, "unexpected join type in a remote query: %d", (int) from->jointype);
			return NULL;		/* keep compiler quiet */
	}
	return shard_level_add_join(level, from->jointype, outer, inner, on);
}

/* Builds a sub-select.  *resnos: the resnos of query->tlist in the order of its columns. */
static ShardLevel *
build_query(ShardSelect *select, const ShardRemoteQuery *query, List **resnos)
{
	ShardLevel *level = shard_level_create(select, NULL);
	Query	   *sub = level->query;

	*resnos = NIL;
	build_apart(select, level, query->from);
	foreach_node(TargetEntry, entry, query->tlist)
	{
		int			colno = list_length(sub->targetList) + 1;

		*resnos = lappend_int(*resnos, entry->resno);
		sub->targetList = lappend(sub->targetList,
								  makeTargetEntry(shard_convert_expr(select, level, entry->expr),
												  colno, psprintf("c%d", colno), false));
	}
	if (query->distinct)
	{
		foreach_node(TargetEntry, entry, sub->targetList)
		{
			entry->ressortgroupref = entry->resno;
			sub->distinctClause = lappend(sub->distinctClause,
										  shard_query_clause_make(entry->ressortgroupref));
		}
	}
	shard_query_clauses_add(select, level, query);
	return level;
}

/* May the conditions look up keys that are split among the shards (executor/scan/key_split.c)? */
static bool
look_for_keys(const List *conditions)
{
	foreach_ptr(const ScalarArrayOpExpr, op, conditions)
	{
		if (IsA(op, ScalarArrayOpExpr) && op->useOr && !IsA(lsecond(op->args), Const))
			return true;
	}
	return false;
}

/*
 * Builds the part of a query per node that is read shard by shard.  Adds conditions that have to be checked above to
 * *quals.
 */
static Node *
build_union(ShardSelect *select, ShardLevel *level, const ShardFrom *from, List **quals)
{
	ShardLevel *shards = shard_level_create(select, NULL);
	ShardFrom	part = *from;
	List	   *above = NIL;
	Node	   *item;

	select->union_from = NULL;
	if (from->kind == SHARD_FROM_TABLE && !look_for_keys(from->where))
	{
		above = underived(select, from);
		part.where = NIL;
	}
	shard_from_build(select, shards, &part);
	item = shard_level_add_union(select, level, shards);
	*quals = list_concat(*quals, shard_convert_conditions(select, level, above));
	return item;
}

/*
 * Adds from to level's range table and returns its jointree node.  Adds conditions that have to be checked above to
 * *quals.
 */
static Node *
build_item(ShardSelect *select, ShardLevel *level, const ShardFrom *from, List **quals)
{
	Node	   *item = NULL;

	check_stack_depth();
	if (from == select->union_from)
		return build_union(select, level, from, quals);
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
	*quals = list_concat(*quals, shard_convert_conditions(select, level, underived(select, from)));
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
