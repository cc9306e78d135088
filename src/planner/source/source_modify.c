/*
 * source_modify.c
 *	  Plans of INSERT ... ON CONFLICT and MERGE over rows that the coordinator computes.
 *
 * Core can plan neither of them on a parent with foreign partitions.  So the source is planned as a separate query.
 * Its rows are routed by the shard key, and each shard runs the statement over all of its rows, which are sent as
 * arrays:
 *
 *	 source -> SELECT -> core's planner -> child plan
 *	 target -> Query over unnest($1, $2, ...) -> template
 *										|
 *	 CustomScan "ShardSourceModify" <---+   executor/modify/source_modify_exec.c
 *
 * Nodes compute conditions and new values.  Values that only the coordinator has (parameters, now()) are sent as
 * further parameters, after the arrays.  The coordinator computes RETURNING from the columns that the nodes return.
 *
 * If nodes cannot run an INSERT ... ON CONFLICT, because of triggers, policies or functions of the coordinator, core
 * executes it row by row (source_row.c).
 *
 * All rows of a shard have to be in one statement: if two rows affect the same target row, the statement must fail,
 * as it does for a local table.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/trigger.h"
#include "commands/trigger.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/shippable/shippable.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "partitioning/partdesc.h"
#include "plan/plan_functions.h"
#include "plan/plan_private.h"
#include "planner/path/refusal.h"
#include "planner/path/scan_output.h"
#include "planner/source/source_modify.h"
#include "planner/router/statement.h"
#include "query_parts.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/*
 * While the statement is built, parameters with numbers from this one on stand for the arrays.  No statement has that
 * many.
 */
#define ARRAY_PARAM 0x20000000

/* ---- RETURNING ---- */

/* Finds something in RETURNING that the coordinator cannot compute. */
static bool
find_refused_returning(Node *node, ShardSourceInfo *info)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
		shard_source_refuse(info, _("There is a sub-select in RETURNING."));
	if (shard_is_returning_expr(node))
		shard_source_refuse(info, _("There is an expression over the old or new row of a view in RETURNING."));
	return expression_tree_walker(node, find_refused_returning, info);
}

/* Replaces whole rows of the target by ROW() of the target's columns. */
static Node *
expand_rows_mutator(Node *node, ShardSourceInfo *info)
{
	TupleDesc	desc = RelationGetDescr(info->rel);
	Var		   *whole = (Var *) node;
	RowExpr    *row;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var) || whole->varno != info->target || whole->varattno != 0)
		return expression_tree_mutator(node, expand_rows_mutator, info);

	if (!shard_var_is_plain(whole))
		shard_source_refuse(info, _("There is an old or new row as a whole in RETURNING."));
	row = makeNode(RowExpr);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Node	   *value;

		if (att->attisdropped)
			value = (Node *) makeNullConst(INT4OID, -1, InvalidOid);
		else
			value = (Node *) makeVar(info->target, att->attnum, att->atttypid, att->atttypmod,
									 att->attcollation, 0);
		row->args = lappend(row->args, value);
		row->colnames = lappend(row->colnames, makeString(pstrdup(NameStr(att->attname))));
	}
	row->row_typeid = whole->vartype;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	return (Node *) row;
}

static List *
prepare_returning(ShardSourceInfo *info)
{
	List	   *returning = (List *) copyObject(info->query->returningList);

	find_refused_returning((Node *) returning, info);
	returning = (List *) expand_rows_mutator((Node *) returning, info);
	foreach_node(TargetEntry, entry, returning)
		entry->expr = (Expr *) shard_source_prepare((Node *) entry->expr);
	return returning;
}

typedef struct ReturningContext
{
	ShardSourceInfo *info;
	List	   *leaves;			/* outputs of the remote statement, in terms of the statement */
	List	   *scan_tlist;		/* the same outputs, in terms of the plan node */
	int			tableoid_attno; /* attribute for the shard's OID; 0: none */
} ReturningContext;

/* Replaces columns of the statement by the columns that nodes return. */
static Node *
returned_mutator(Node *node, ReturningContext *context)
{
	int			position = 0;
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var) && !shard_is_merge_action(node))
		return expression_tree_mutator(node, returned_mutator, context);

	foreach(lc, context->leaves)
	{
		if (equal(lfirst(lc), node))
			break;
		position++;
	}
	if (lc == NULL)
	{
		Expr	   *shown = copyObject((Expr *) node);

		/* for EXPLAIN: shows the expression that a source column stands for */
		if (IsA(node, Var) && ((Var *) node)->varno == context->info->source)
			shown = copyObject(get_tle_by_resno(context->info->columns,
												((Var *) node)->varattno)->expr);
		context->leaves = lappend(context->leaves, node);
		context->scan_tlist = lappend(context->scan_tlist,
									  makeTargetEntry(shown, position + 1, NULL, false));
		if (IsA(node, Var) && ((Var *) node)->varattno == TableOidAttributeNumber)
			context->tableoid_attno = position + 1;
		else
			shard_select_output(context->info->select, (Expr *) node, position);
	}
	return (Node *) makeVar(INDEX_VAR, position + 1, exprType(node), exprTypmod(node),
							exprCollation(node), 0);
}

/* ---- the plan ---- */

Query *
shard_source_child(const ShardSourceInfo *info)
{
	Query	   *child = copyObject(info->query);
	ListCell   *lc;

	/* core does not mark the rows of an INSERT as part of FROM */
	foreach(lc, child->jointree->fromlist)
		if (IsA(lfirst(lc), RangeTblRef))
			rt_fetch(lfirst_node(RangeTblRef, lc)->rtindex, child->rtable)->inFromCl = true;
	child->commandType = CMD_SELECT;
	child->queryId = 0;
	child->resultRelation = 0;
	child->targetList = copyObject(info->columns);
	child->override = OVERRIDING_NOT_SET;
	child->onConflict = NULL;
	child->mergeActionList = NIL;
	child->returningList = NIL;
	child->constraintDeps = NIL;
	if (info->query->commandType == CMD_MERGE)
		shard_merge_set_condition(child, NULL);
	return child;
}

/* Makes the remote statement, and scan_tlist and targetList of cscan. */
static void
build_text(ShardSourceInfo *info, ShardSourcePlan *plan, CustomScan *cscan)
{
	ReturningContext context = {info};
	int			ncolumns;

	info->select = shard_select_create(RelationGetRelid(info->rel));
	info->level = info->select->level;
	shard_level_add_table(info->select, info->level, info->target, RelationGetRelid(info->rel), true);
	linitial_node(RangeTblEntry, info->level->query->rtable)->inFromCl = false;
	ncolumns = list_length(info->columns);
	for (int i = 0; i < ncolumns; i++)
		info->select->params = lappend(info->select->params, shard_convert_param(ARRAY_PARAM + i, InvalidOid, -1, InvalidOid));

	if (info->query->commandType == CMD_INSERT)
		shard_source_insert_build(info);
	else
		shard_source_merge_build(info);
	shard_query_copy_returning_names(info->level->query, info->query);

	foreach_node(TargetEntry, original, info->returning)
	{
		TargetEntry *entry = flatCopyTargetEntry(original);

		entry->expr = (Expr *) returned_mutator((Node *) entry->expr, &context);
		cscan->scan.plan.targetlist = lappend(cscan->scan.plan.targetlist, entry);
	}
	cscan->custom_scan_tlist = context.scan_tlist;

	plan->tableoid_attno = context.tableoid_attno;
	plan->outputs = shard_scan_convert_outputs(info->select->outputs, &plan->noutputs);
	plan->template = shard_select_finish(info->select);
	plan->narrays = ncolumns;
	cscan->custom_exprs = list_copy_tail(info->select->params, ncolumns);
}

ShardSourcePlan *
shard_source_build(ShardSourceInfo *info, CustomScan *cscan)
{
	ShardSourcePlan *plan = palloc0(sizeof(ShardSourcePlan));

	plan->relid = RelationGetRelid(info->rel);
	plan->operation = info->query->commandType;
	plan->does_update = info->query->onConflict != NULL && info->query->onConflict->action == ONCONFLICT_UPDATE;
	plan->set_processed = info->query->canSetTag;
	plan->returns_rows = info->query->returningList != NIL;
	plan->all_shards = info->all_shards;
	plan->skip_unrouted = info->skip_unrouted;
	plan->key_columns = info->key_columns;
	plan->check_as_user = shard_rte_check_as_user(info->query,
												  rt_fetch(info->target, info->query->rtable));
	build_text(info, plan, cscan);
	cscan->scan.scanrelid = 0;
	cscan->methods = GetCustomScanMethods(SHARD_SOURCE_NAME, false);
	return plan;
}

static PlannedStmt *
make_plan(ShardSourceInfo *info, const char *query_string, int cursor_options, ParamListInfo params)
{
	PlannedStmt *stmt;
	CustomScan *cscan = makeNode(CustomScan);
	ShardSourcePlan *plan = shard_source_build(info, cscan);
	Plan	   *child;

	/* the statement writes, and parallel workers must not be running then */
	stmt = shard_plan_query(shard_source_child(info), query_string,
							cursor_options & ~CURSOR_OPT_PARALLEL_OK, params);
	child = stmt->planTree;
	shard_refusal_explain_input(child);

	cscan->custom_plans = list_make1(child);
	cscan->custom_private = shard_plan_private_pack(SHARD_PLAN_SOURCE, plan);
	cscan->scan.plan.startup_cost = child->total_cost;
	cscan->scan.plan.total_cost = child->total_cost;
	cscan->scan.plan.plan_rows = plan->returns_rows ? child->plan_rows : 0;
	cscan->scan.plan.plan_node_id = -1;
	cscan->scan.plan.extParam = bms_copy(child->extParam);
	cscan->scan.plan.allParam = bms_copy(child->allParam);

	shard_statement_add_domains(stmt, info->query);
	stmt->planTree = (Plan *) cscan;
	stmt->commandType = info->query->commandType;
	stmt->queryId = info->query->queryId;
	stmt->hasReturning = plan->returns_rows;
	stmt->canSetTag = info->query->canSetTag;
	return stmt;
}

/* ---- which statements ---- */

/* The reason why no such statement can run on the table; NULL if there is none.  The reason is translated. */
static const char *
find_obstacle(const ShardSourceInfo *info, const ShardMap *map)
{
	PartitionKey key = RelationGetPartitionKey(info->rel);

	if (info->rel->rd_rel->relispartition)
		return _("It is a partition of another table.");
	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == 0)
			return _("Its shard key is an expression.");
	}
	for (int i = 0; i < map->nshards; i++)
	{
		if (strcmp(map->shards[i].from_item, map->shards[i].relation) != 0)
			return psprintf(_("Columns of shard %s have other names on its node."),
							map->shards[i].name);
	}
	return NULL;
}

/* Does ON CONFLICT use expressions that nodes cannot compute, or does RETURNING have sub-selects? */
static bool
computes_here(const ShardSourceInfo *info)
{
	OnConflictExpr *conflict = info->query->onConflict;

	if (checkExprHasSubLink((Node *) info->query->returningList))
		return true;
	if (conflict->action == ONCONFLICT_NOTHING)
		return false;
	if (conflict->action != ONCONFLICT_UPDATE)
		return true;
	foreach_node(TargetEntry, entry, conflict->onConflictSet)
	{
		if (entry->resjunk || !shard_source_is_shippable(info, shard_source_prepare_assigned(info, (Node *) entry->expr)))
			return true;
	}
	return conflict->onConflictWhere != NULL &&
		!shard_source_is_shippable(info, shard_source_prepare(conflict->onConflictWhere));
}

/*
 * May the source lock rows that the statement has changed before?  Core leaves these rows out.  Only sub-selects lock
 * rows of the table, or of another table of its partition tree.
 */
static bool
locks_changed_rows(const ShardSourceInfo *info)
{
	Oid			top = shard_map_top(RelationGetRelid(info->rel));

	if (info->query->jointree->fromlist == NIL || (info->query->commandType != CMD_MERGE && info->excluded == 0))
		return false;
	foreach_node(Query, level, shard_query_levels(info->query))
	{
		foreach_node(RowMarkClause, mark, level->rowMarks)
		{
			const RangeTblEntry *rte = rt_fetch(mark->rti, level->rtable);

			if (rte->rtekind == RTE_RELATION && shard_map_top(rte->relid) == top)
				return true;
		}
	}
	return false;
}

/* The reason why core has to execute the statement row by row; NULL if nodes can run it. */
static const char *
find_row_obstacle(const ShardSourceInfo *info, const ShardMap *map)
{
	RangeTblEntry *rte = rt_fetch(info->target, info->query->rtable);

	if (shard_trigger_fires(info->rel->trigdesc,
							TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE, false))
		return _("It has triggers.");
	if (info->query->withCheckOptions != NIL || rte->securityQuals != NIL)
		return _("It is subject to row security policies or check options of a view.");
	if (locks_changed_rows(info))
		return _("It locks rows of the table in a sub-select.");
	if (info->query->commandType != CMD_INSERT)
		return NULL;
	if (map->has_triggers)
		return _("One of its shards has triggers.");
	if (computes_here(info))
		return _("Nodes cannot compute what it says.");
	if (info->query->jointree->fromlist != NIL && (shard_plan_functions_of_query(info->query) & SHARD_FUNCTIONS_VOLATILE) != 0)
		return _("It calls volatile functions, which may look at rows that it has written before.");
	return NULL;
}

/* ON CONFLICT DO NOTHING without columns: core can plan that. */
static bool
is_plain_do_nothing(const Query *query)
{
	return query->commandType == CMD_INSERT &&
		query->onConflict->action == ONCONFLICT_NOTHING &&
		query->onConflict->arbiterElems == NIL && !OidIsValid(query->onConflict->constraint);
}

/* Is the first partition of the table's first partition a foreign table? */
static bool
may_have_levels(Relation rel)
{
	PartitionDesc partdesc = RelationGetPartitionDesc(rel, true);
	List	   *leaves;

	if (partdesc->nparts == 0 || partdesc->is_leaf[0])
		return false;
	leaves = find_inheritance_children(partdesc->oids[0], NoLock);
	return leaves != NIL && get_rel_relkind(linitial_oid(leaves)) == RELKIND_FOREIGN_TABLE;
}

const ShardMap *
shard_source_target_map(const Query *query, Oid relid)
{
	const ShardMap *map = shard_map_get_levels(relid, false);
	Relation	rel;

	if (map != NULL || (query->commandType != CMD_MERGE &&
						(query->onConflict == NULL || is_plain_do_nothing(query))))
		return map;
	rel = table_open(relid, NoLock);
	if (may_have_levels(rel))
	{
		map = shard_map_get_levels(relid, true);
		if (map == NULL && RelationGetPartitionDesc(rel, true)->detached_exist)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("partitions of \"%s\" are being attached or detached", RelationGetRelationName(rel))));
	}
	table_close(rel, NoLock);
	return map;
}

/* Has a table shards among its partitions, at any level? */
static bool
has_shards(Relation rel)
{
	foreach_oid(member, find_all_inheritors(RelationGetRelid(rel), NoLock, NULL))
	{
		if (get_rel_relkind(member) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(member))
			return true;
	}
	return false;
}

static void
check_conflict(Query *query)
{
	OnConflictExpr *conflict = query->onConflict;
	RangeTblEntry *rte = rt_fetch(query->resultRelation, query->rtable);
	ShardSourceInfo info = {query};

	if (rte->relkind != RELKIND_PARTITIONED_TABLE || (conflict->arbiterElems == NIL && !OidIsValid(conflict->constraint)))
		return;
	info.rel = table_open(rte->relid, NoLock);
	if (shard_source_target_map(query, rte->relid) == NULL)
	{
		if (has_shards(info.rel))
			shard_source_refuse(&info, _("It has partitions of several levels, or partitions that are not shards."));
	}
	else if (!OidIsValid(conflict->constraint))
		shard_source_check_elements(&info, conflict->arbiterElems, false);
	table_close(info.rel, NoLock);
}

void
shard_source_check_conflicts(Query *query)
{
	if (query->commandType == CMD_INSERT && query->onConflict != NULL)
		check_conflict(query);
	foreach_node(CommonTableExpr, cte, query->cteList)
		shard_source_check_conflicts(castNode(Query, cte->ctequery));
}

/*
 * If the target of a MERGE is a view, adds the view's condition to the conditions of MERGE.  On 17 and later, this
 * condition selects the rows of the target, and core checks it below the join:
 *
 *	 MERGE INTO view USING s ON c
 *	 --> MERGE INTO table USING s ON c AND condition of the view
 *		 WHEN NOT MATCHED BY SOURCE AND condition of the view THEN ...
 */
static void
add_view_condition(Query *query)
{
	Node	   *quals = shard_merge_view_condition(query);
	const RangeTblEntry *target = rt_fetch(query->resultRelation, query->rtable);

	if (quals == NULL || target->relkind != RELKIND_PARTITIONED_TABLE ||
		shard_source_target_map(query, target->relid) == NULL)
		return;
	if (contain_volatile_functions(quals))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot run this MERGE on sharded table \"%s\"", get_rel_name(target->relid)),
				 errdetail("The condition of the view has a volatile function.")));
	shard_merge_set_condition(query, make_and_qual(shard_merge_condition(query), quals));
	foreach_node(MergeAction, action, query->mergeActionList)
	{
		if (shard_merge_is_by_source(action))
			action->qual = make_and_qual(copyObject(quals), action->qual);
	}
	query->jointree->quals = NULL;
}

void
shard_source_merge_views(Query *query)
{
	if (query->commandType == CMD_MERGE)
		add_view_condition(query);
	foreach_node(CommonTableExpr, cte, query->cteList)
		shard_source_merge_views(castNode(Query, cte->ctequery));
}

/* Is it INSERT ... ON CONFLICT or MERGE on a sharded table? */
static bool
is_candidate(Query *query, const ShardMap **map)
{
	RangeTblEntry *rte;

	if (query->commandType != CMD_MERGE &&
		!(query->commandType == CMD_INSERT && query->onConflict != NULL))
		return false;
	if (query->onConflict != NULL &&
		shard_plan_private_unpack_conflict(query->onConflict->exclRelTlist) != NIL)
		return false;			/* already left to core */
	rte = rt_fetch(query->resultRelation, query->rtable);
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_PARTITIONED_TABLE ||
		(query->commandType == CMD_MERGE && !rte->inh))
		return false;
	*map = shard_source_target_map(query, rte->relid);
	return *map != NULL;
}

bool
shard_source_begin(ShardSourceInfo *info, Query *query)
{
	const ShardMap *map;
	const char *obstacle;
	const char *row_obstacle;

	memset(info, 0, sizeof(ShardSourceInfo));
	if (!is_candidate(query, &map))
		return false;
	info->query = query;
	info->target = query->resultRelation;
	info->source = list_length(query->rtable) + 1;
	info->rel = table_open(rt_fetch(info->target, query->rtable)->relid, NoLock);

	if (query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE)
		info->excluded = query->onConflict->exclRelIndex;
	row_obstacle = find_row_obstacle(info, map);
	obstacle = find_obstacle(info, map);
	if (row_obstacle == NULL && obstacle == NULL)
	{
		info->returning = prepare_returning(info);
		if (query->commandType == CMD_INSERT)
			shard_source_insert_columns(info);
		else
			shard_source_merge_columns(info);
		return true;
	}

	if (!is_plain_do_nothing(query))
	{
		if (query->commandType == CMD_MERGE || obstacle != NULL)
			shard_source_refuse(info, row_obstacle ? row_obstacle : obstacle);
		shard_source_go_by_row(info);
	}
	table_close(info->rel, NoLock);
	return false;
}

PlannedStmt *
shard_source_plan(Query *query, const char *query_string, int cursor_options, ParamListInfo params)
{
	ShardSourceInfo info;
	PlannedStmt *stmt;

	if (!shard_source_begin(&info, query))
		return NULL;
	stmt = make_plan(&info, query_string, cursor_options, params);
	table_close(info.rel, NoLock);
	return stmt;
}
