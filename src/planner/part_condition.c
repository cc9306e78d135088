/*
 * part_condition.c
 *	  Conditions on the rows that the parts of a statement (WITH) change.
 *
 *	 WITH a AS (UPDATE t SET v = 1 WHERE k = $1) UPDATE t SET v = 2 WHERE k = $2
 *
 * PostgreSQL changes each row once.  A node shows to the second part what the first part has changed.  So both parts
 * must not change the same row.  This file collects conditions that all rows of a part satisfy, before and after the
 * change.  These are conditions of WHERE on columns to which the part assigns nothing.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "planner/part_condition.h"
#include "rewrite/rewriteManip.h"
#include "utils/rel.h"

/* May triggers change further columns of the rows? */
static bool
has_triggers(Relation rel)
{
	const ShardMap *map = shard_map_get_levels(RelationGetRelid(rel), false);

	return map != NULL ? map->has_triggers : rel->rd_rel->relhastriggers;
}

/* Columns whose values an UPDATE may change, numbered as by pull_varattnos(). */
static Bitmapset *
changed_columns(const Query *query, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *result = NULL;

	if (query->commandType != CMD_UPDATE)
		return NULL;
	foreach_node(TargetEntry, entry, query->targetList)
	{
		if (!entry->resjunk)
			result = bms_add_member(result, entry->resno - FirstLowInvalidHeapAttributeNumber);
	}
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attgenerated)
			result = bms_add_member(result, i + 1 - FirstLowInvalidHeapAttributeNumber);
	}
	return result;
}

/* Is the clause about columns of the part's table that the part does not change, and always the same? */
static bool
is_usable(Node *clause, const Query *query, const Bitmapset *changed)
{
	Bitmapset  *attnos = NULL;
	int			varno;

	if (checkExprHasSubLink(clause) || contain_mutable_functions(clause) || contain_vars_of_level(clause, 1) ||
		!bms_get_singleton_member(pull_varnos(NULL, clause), &varno) || varno != query->resultRelation)
		return false;
	pull_varattnos(clause, query->resultRelation, &attnos);
	/* the lowest members are system columns and the whole row */
	return bms_next_member(attnos, -1) > -FirstLowInvalidHeapAttributeNumber && !bms_overlap(attnos, changed);
}

static List *
conditions_of(const Query *query)
{
	List	   *result = NIL;
	Relation	rel;

	if (query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE)
		return NIL;
	rel = table_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
	if (query->commandType == CMD_DELETE || !has_triggers(rel))
	{
		Bitmapset  *changed = changed_columns(query, rel);
		List	   *clauses = make_ands_implicit(canonicalize_qual((Expr *) copyObject(query->jointree->quals), false));

		foreach_ptr(Node, clause, clauses)
		{
			if (!is_usable(clause, query, changed))
				continue;
			ChangeVarNodes(clause, query->resultRelation, 1, 0);
			result = lappend(result, clause);
		}
	}
	table_close(rel, NoLock);
	return result;
}

List *
shard_part_condition_collect(const Query *query)
{
	List	   *result = NIL;

	if (!query->hasModifyingCTE)
		return NIL;
	foreach_node(CommonTableExpr, cte, query->cteList)
	{
		const Query *part = castNode(Query, cte->ctequery);

		if (part->commandType != CMD_SELECT)
			result = lappend(result, conditions_of(part));
	}
	if (query->commandType != CMD_SELECT)
		result = lappend(result, conditions_of(query));
	return list_length(result) > 1 ? result : NIL;
}

void
shard_part_condition_attach(PlannedStmt *stmt, List *conditions)
{
	List	   *parts = NIL;
	ListCell   *part;
	ListCell   *condition;

	if (conditions == NIL)
		return;
	foreach_ptr(Plan, plan, stmt->subplans)
	{
		if (plan != NULL && IsA(plan, ModifyTable))
			parts = lappend(parts, plan);
	}
	if (IsA(stmt->planTree, ModifyTable))
		parts = lappend(parts, stmt->planTree);
	if (list_length(parts) != list_length(conditions))
		return;
	forboth(part, parts, condition, conditions)
		((Plan *) lfirst(part))->qual = lfirst(condition);
}
