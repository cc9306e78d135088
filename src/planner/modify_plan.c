/*
 * modify_plan.c
 *	  Plans of INSERT, UPDATE and DELETE on single shards.
 *
 *	   direct	the whole statement is one UPDATE or DELETE on the node: no
 *				local conditions, no joins, the node can compute all new values
 *	   by row	the rows are fetched with their ctid (FOR UPDATE) and changed one
 *				by one; INSERT sends its rows as they are computed
 *
 * For UPDATE and DELETE of a sharded table, core's partition planning calls these functions for each shard.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/dml.h"
#include "deparse/select.h"
#include "deparse/shippable/shippable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/inherit.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "plan/plan_functions.h"
#include "plan/plan_private.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/prune.h"
#include "planner/path/relinfo.h"
#include "planner/path/scan_output.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Has the table triggers, or did it have triggers before? */
static bool
has_had_triggers(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Must partition rtindex of a DELETE return whole rows, because another partition has to?  If a foreign table has
 * triggers that get the old row, core adds "wholerow".  The executor then expects a row from every foreign table of
 * the statement, and raises an internal error if it is NULL.  So all partitions return it.  For the first partition
 * this function looks at the whole tree, for the others at the identity columns added so far.
 */
static bool
partitions_need_row(PlannerInfo *root, Index rtindex)
{
	Index		target = root->parse->resultRelation;
	const ShardMap *map;
	int			leaf = -1;

	if (root->parse->commandType != CMD_DELETE || rtindex == target)
		return false;
	foreach_node(RowIdentityVarInfo, info, root->row_identity_vars)
	{
		if (strcmp(info->rowidname, "wholerow") == 0)
			return true;
	}
	while ((leaf = bms_next_member(root->leaf_result_relids, leaf)) >= 0)
	{
		const RangeTblEntry *rte = planner_rt_fetch(leaf, root);

		if (leaf != rtindex && rte->relkind == RELKIND_FOREIGN_TABLE && shard_option_is_our_server(GetForeignServerIdByRelId(rte->relid)))
			return false;
	}
	if ((map = shard_map_get_levels(planner_rt_fetch(target, root)->relid, false)) != NULL)
		return map->has_triggers;
	foreach_oid(child_oid, find_all_inheritors(planner_rt_fetch(target, root)->relid, NoLock, NULL))
	{
		if (get_rel_relkind(child_oid) == RELKIND_FOREIGN_TABLE && has_had_triggers(child_oid))
			return true;
	}
	return false;
}

/* Rows are identified by their ctid on the node. */
void
shardAddForeignUpdateTargets(PlannerInfo *root, Index rtindex,
							 RangeTblEntry *target_rte, Relation target_relation)
{
	Var		   *var = makeVar(rtindex, SelfItemPointerAttributeNumber, TIDOID, -1,
							  InvalidOid, 0);

	add_row_identity_var(root, var, rtindex, "ctid");
	if (partitions_need_row(root, rtindex))
		add_row_identity_var(root, makeVar(rtindex, InvalidAttrNumber, RECORDOID, -1, InvalidOid, 0), rtindex, "wholerow");
}

/* Can an UPDATE of these columns (numbered as by pull_varattnos()) move a row to another shard? */
static bool
changes_key(Relation rel, Bitmapset *columns)
{
	Bitmapset  *key = NULL;

	if (!rel->rd_rel->relispartition)
		return false;
	pull_varattnos((Node *) RelationGetPartitionQual(rel), 1, &key);
	return bms_overlap(key, columns);
}

/* Attribute numbers of the columns that are sent, in ascending order, without generated columns. */
static List *
sent_attnos(Relation rel, Bitmapset *columns)
{
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *attnos = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attgenerated == '\0' &&
			bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, columns))
			attnos = lappend_int(attnos, att->attnum);
	}
	return attnos;
}

/* Do AFTER ROW triggers or transition tables on the coordinator need the row as the node has stored it? */
static bool
has_after_row_trigger(Relation rel, CmdType operation)
{
	TriggerDesc *trigdesc = rel->trigdesc;

	if (trigdesc == NULL)
		return false;
	switch (operation)
	{
		case CMD_INSERT:
			return trigdesc->trig_insert_after_row;
		case CMD_UPDATE:
			return trigdesc->trig_update_after_row;
		default:

			/* the triggers of a DELETE get the old row, which was fetched */
			return false;
	}
}

/* Refuses system columns of OLD: core makes the old row of an UPDATE from a composite value, which has none. */
static void
check_old_row(PlannerInfo *root, List *returning, Index rtindex)
{
	foreach_node(Var, var, pull_var_clause((Node *) returning, PVC_RECURSE_PLACEHOLDERS))
	{
		if (var->varno == rtindex && shard_var_is_old(var) && var->varattno < 0 && var->varattno != TableOidAttributeNumber)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot return a system column of the old row of \"%s\"",
							get_rel_name(planner_rt_fetch(root->parse->resultRelation, root)->relid)),
					 errdetail("The UPDATE changes rows one by one."),
					 errhint("Read the row by SELECT ... FOR UPDATE before.")));
	}
}

List *
shardPlanForeignModify(PlannerInfo *root, ModifyTable *plan,
					   Index resultRelation, int subplan_index)
{
	RangeTblEntry *rte = planner_rt_fetch(resultRelation, root);
	Relation	rel = table_open(rte->relid, NoLock);
	ShardModifyPlan modify = {0};
	List	   *exprs = NIL;
	bool		all_columns = has_after_row_trigger(rel, plan->operation);

	modify.operation = plan->operation;
	switch (plan->operation)
	{
		case CMD_INSERT:
			modify.target_attnos = shard_dml_all_attnos(rel);
			break;
		case CMD_UPDATE:
			{
				Bitmapset  *columns = get_rel_all_updated_cols(root, find_base_rel(root, resultRelation));
				bool		before_trigger = rel->trigdesc && rel->trigdesc->trig_update_before_row;

				/* a BEFORE trigger may change any column */
				modify.target_attnos = before_trigger ? shard_dml_all_attnos(rel) :
					sent_attnos(rel, columns);
				modify.check_partition = rel->rd_rel->relispartition &&
					(before_trigger || changes_key(rel, columns));
				break;
			}
		case CMD_DELETE:
			break;
		default:
			elog(ERROR, "unexpected operation: %d", (int) plan->operation);
	}

	switch (plan->onConflictAction)
	{
		case ONCONFLICT_NONE:
			break;
		case ONCONFLICT_NOTHING:
			modify.do_nothing = true;
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("INSERT with ON CONFLICT DO UPDATE is not supported on foreign table \"%s\"",
							RelationGetRelationName(rel))));
	}

	if (plan->returningLists != NIL && plan->operation == CMD_UPDATE)
		check_old_row(root, list_nth(plan->returningLists, subplan_index), resultRelation);
	if (plan->returningLists != NIL)
		exprs = list_concat(exprs, list_copy(list_nth(plan->returningLists, subplan_index)));
	if (plan->withCheckOptionLists != NIL)
	{
		foreach_node(WithCheckOption, check, (List *) list_nth(plan->withCheckOptionLists, subplan_index))
		{
			exprs = lappend(exprs, check->qual);
			all_columns |= shard_dml_check_shows_row(check);
		}
	}
	modify.returning_attnos = shard_dml_needed_attnos(rel, resultRelation, exprs, all_columns);

	table_close(rel, NoLock);
	return shard_plan_private_pack(SHARD_PLAN_MODIFY, &modify);
}

/* The plan node that reads resultRelation for a ModifyTable, if it is a plain scan of resultRelation. */
static ForeignScan *
find_scan(ModifyTable *plan, Index resultRelation, int subplan_index)
{
	Plan	   *subplan = outerPlan(plan);

	if (IsA(subplan, Append))
	{
		Append	   *append = (Append *) subplan;

		if (subplan_index >= list_length(append->appendplans))
			return NULL;
		subplan = list_nth(append->appendplans, subplan_index);
	}
	else if (IsA(subplan, Result) && outerPlan(subplan) != NULL &&
			 IsA(outerPlan(subplan), Append))
	{
		Append	   *append = (Append *) outerPlan(subplan);

		/* removing the Result would lose its gating condition */
		if (((Result *) subplan)->resconstantqual != NULL ||
			subplan_index >= list_length(append->appendplans))
			return NULL;
		subplan = list_nth(append->appendplans, subplan_index);
	}

	if (IsA(subplan, ForeignScan) &&
		((ForeignScan *) subplan)->scan.scanrelid == resultRelation)
		return (ForeignScan *) subplan;
	return NULL;
}

/* Collects the assignments of an UPDATE, with resno = attno.  False if the node cannot compute one of them. */
static bool
collect_assignments(PlannerInfo *root, Index resultRelation, RelOptInfo *baserel,
					List **assignments)
{
	List	   *tlist;
	List	   *attnos;
	ListCell   *lc;
	ListCell   *lc2;

	*assignments = NIL;
	get_translated_update_targetlist(root, resultRelation, &tlist, &attnos);
	forboth(lc, tlist, lc2, attnos)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (entry->resjunk ||
			!shard_shippable_expr(root, baserel->relids, entry->expr))
			return false;
		*assignments = lappend(*assignments,
							   makeTargetEntry(entry->expr, lfirst_int(lc2), NULL, false));
	}
	return true;
}

/*
 * Does the statement, at any level, call volatile functions that may read the rows that it has changed so far?  Then
 * it has to change rows one by one.
 */
static bool
changes_rows_in_step(PlannerInfo *root)
{
	for (PlannerInfo *level = root; level != NULL; level = level->parent_root)
	{
		if ((shard_plan_functions_of_query(level->parse) & SHARD_FUNCTIONS_VOLATILE) != 0)
			return true;
	}
	foreach_node(PlannerInfo, subroot, root->glob->subroots)
	{
		if ((shard_plan_functions_of_query(subroot->parse) & SHARD_FUNCTIONS_VOLATILE) != 0)
			return true;
	}
	return false;
}

bool
shardPlanDirectModify(PlannerInfo *root, ModifyTable *plan,
					  Index resultRelation, int subplan_index)
{
	RangeTblEntry *rte = planner_rt_fetch(resultRelation, root);
	RelOptInfo *baserel;
	const ShardRelInfo *info;
	const Shard *shard;
	ForeignScan *scan;
	ShardDirectPlan direct = {0};
	ShardSelect *select;
	List	   *assignments = NIL;
	List	   *returning = NIL;

	if ((plan->operation != CMD_UPDATE && plan->operation != CMD_DELETE) || changes_rows_in_step(root))
		return false;
	baserel = find_base_rel(root, resultRelation);
	info = baserel->fdw_private;
	if (info == NULL)
		return false;			/* proven empty: WHERE false */
	shard = &info->map->shards[0];
	scan = find_scan(plan, resultRelation, subplan_index);
	if (scan == NULL || scan->scan.plan.qual != NIL || info->local_conds != NIL)
		return false;

	/* columns have other names on the node, which only a sub-select in FROM can hide */
	if (strcmp(shard->from_item, shard->relation) != 0)
		return false;

	if (plan->operation == CMD_UPDATE)
	{
		Relation	rel = table_open(rte->relid, NoLock);
		bool		moves = changes_key(rel, get_rel_all_updated_cols(root, baserel));

		table_close(rel, NoLock);
		if (moves || !collect_assignments(root, resultRelation, baserel, &assignments))
			return false;
	}

	select = shard_select_begin(resultRelation, rte->relid);
	if (plan->operation == CMD_UPDATE)
		shard_select_update(select, assignments);
	else
		shard_select_delete(select);
	shard_select_where(select, extract_actual_clauses(info->remote_conds, false));

	if (plan->returningLists != NIL)
	{
		Bitmapset  *columns = NULL;

		returning = list_nth(plan->returningLists, subplan_index);
		pull_varattnos((Node *) returning, resultRelation, &columns);
		shard_scan_fetch_columns(select, rte->relid, columns, false);
	}

	direct.prune_quals = shard_prune_child_quals(root, resultRelation, info, select, &direct.parent);
	direct.relid = rte->relid;
	direct.outputs = shard_scan_convert_outputs(select->outputs, &direct.noutputs);
	direct.template = shard_select_finish(select);
	direct.has_returning = returning != NIL;
	direct.set_processed = plan->canSetTag;

	scan->operation = plan->operation;
	scan->resultRelation = resultRelation;
	scan->fdw_exprs = select->params;
	scan->fdw_private = shard_plan_private_pack(SHARD_PLAN_DIRECT, &direct);

	/* core has marked it as async capable while it was a scan */
	scan->scan.plan.async_capable = false;
	return true;
}
