/*
 * whole_query.c
 *	  Makes the text of a whole statement that nodes run unchanged.
 *
 *	  Query -> copy -> level by level: checked, values made parameters
 *			-> rows of INSERT adapted to its columns (whole_insert.c)
 *			-> tables get aliases by which they are found in the text
 *			-> result columns in their transfer forms
 *			-> text -> template (template.c)
 *
 * This file checks that a node interprets the statement as the coordinator does.  The planner decides which shards
 * may run it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/printable.h"
#include "deparse/select.h"
#include "deparse/shippable/shippable_rule.h"
#include "deparse/template.h"
#include "deparse/whole_expr.h"
#include "deparse/whole_insert.h"
#include "deparse/whole_query.h"
#include "deparse/whole_target.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "query_parts.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* The maximum of the protocol, without the parameters that route the statement. */
#define MAX_PARAMS (65535 - PARTITION_MAX_KEYS)

/* Aliases of tables with shards.  If the user's statement has such an alias, it is not sent to nodes. */
#define TABLE_ALIAS "shard_t%d"

typedef struct WholeState
{
	ShardWholeContext cxt;		/* first member: whole_expr.c passes it back */
	ShardWholeQuery *whole;
	List	   *places;			/* of ShardSelectPlace */
	bool		single;			/* tables are single foreign tables */
	bool		has_reference;	/* some table is a reference table */
} WholeState;

static void convert_query(Query *query, ShardWholeContext *cxt);

/* ---------- relations ---------- */

/* Is it a whole sharded table, or (single) a foreign table without children, with the same column names on nodes? */
static bool
is_plain_map(const ShardMap *map, const RangeTblEntry *rte, bool is_insert, bool single)
{
	if (single ? rte->relkind != RELKIND_FOREIGN_TABLE || has_subclass(rte->relid) :
		rte->relkind != RELKIND_PARTITIONED_TABLE || (!rte->inh && !is_insert))
		return false;
	return !map->renames;
}

/* Adds a place in the text, which is found by a unique alias. */
static void
add_place(WholeState *state, RangeTblEntry *rte)
{
	ShardSelectPlace *place = palloc0(sizeof(ShardSelectPlace));
	int			number = list_length(state->places);
	List	   *colnames = rte->alias ? rte->alias->colnames : NIL;

	place->relid = rte->relid;
	place->alias = psprintf(TABLE_ALIAS, number + 1);
	place->number = -number;
	rte->alias = makeAlias(place->alias, colnames);
	rte->eref->aliasname = pstrdup(place->alias);
	state->places = lappend(state->places, place);
	state->whole->relids = lappend_oid(state->whole->relids, rte->relid);
}

static void
convert_relation(RangeTblEntry *rte, bool is_target, bool is_insert, WholeState *state)
{
	const ShardMap *map = shard_map_get_levels(rte->relid, false);

	if (rte->tablesample != NULL)
		shard_whole_refuse(&state->cxt, "TABLESAMPLE");
	else if (map != NULL)
	{
		if (is_plain_map(map, rte, is_insert, state->single))
			add_place(state, rte);
		else
			shard_whole_refuse(&state->cxt, "table whose columns have other names on nodes, or a single shard");
	}
	else if (is_target || state->single || rte->relkind != RELKIND_RELATION ||
			 !shard_reference_is(rte->relid) || has_subclass(rte->relid))
		shard_whole_refuse(&state->cxt, "local table");
	else
		state->has_reference = true;
}

static void
convert_functions(RangeTblEntry *rte, ShardWholeContext *cxt)
{
	foreach_node(RangeTblFunction, function, rte->functions)
	{
		Node	   *expr = function->funcexpr;

		foreach_oid(type, function->funccoltypes)
		{
			if (!shard_rule_type_ok(type))
				shard_whole_refuse(cxt, "type of a column");
		}

		/* the node calls the function itself, so it is checked separately from its arguments */
		if (IsA(expr, FuncExpr) && shard_rule_function_ok(((FuncExpr *) expr)->funcid))
			((FuncExpr *) expr)->args = (List *) shard_whole_expr((Node *) ((FuncExpr *) expr)->args, cxt);
		else
			shard_whole_refuse(cxt, "function in FROM");
	}
}

/* Collects the range table indexes of FROM items. */
static bool
from_items_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblRef))
	{
		Bitmapset **items = arg;

		*items = bms_add_member(*items, ((RangeTblRef *) node)->rtindex);
		return false;
	}
	if (IsA(node, FromExpr))
		return from_items_walker((Node *) ((FromExpr *) node)->fromlist, arg);
	if (IsA(node, JoinExpr))
		return from_items_walker(((JoinExpr *) node)->larg, arg) ||
			from_items_walker(((JoinExpr *) node)->rarg, arg);
	return expression_tree_walker(node, from_items_walker, arg);
}

static void
convert_rte(Query *query, int rtindex, const Bitmapset *from_items, WholeState *state)
{
	ShardWholeContext *cxt = &state->cxt;
	RangeTblEntry *rte = rt_fetch(rtindex, query->rtable);
	bool		is_target = rtindex == query->resultRelation;
	bool		is_source = query->commandType == CMD_INSERT && list_length(query->jointree->fromlist) == 1;
	List	  **group_exprs = shard_rte_group_exprs(rte);

	switch (rte->rtekind)
	{
		case RTE_RELATION:
			/*
			 * other entries are not read: replaced views are kept for permissions, and "excluded" is handled elsewhere
			 */
			if (is_target || bms_is_member(rtindex, from_items))
				convert_relation(rte, is_target, is_target && query->commandType == CMD_INSERT, state);
			break;
		case RTE_SUBQUERY:
			convert_query(rte->subquery, cxt);
			break;
		case RTE_JOIN:
		case RTE_CTE:
		case RTE_RESULT:
			break;
		case RTE_FUNCTION:
			convert_functions(rte, cxt);
			break;
		case RTE_VALUES:
			/* each row of INSERT ... VALUES is computed once */
			cxt->once = is_source;
			if (is_source)
			{
				foreach_ptr(List, row, rte->values_lists)
				{
					ListCell   *lc2;

					foreach(lc2, row)
						lfirst(lc2) = shard_whole_assigned(lfirst(lc2), cxt);
				}
			}
			else
				rte->values_lists = (List *) shard_whole_expr((Node *) rte->values_lists, cxt);
			cxt->once = false;
			break;
		default:
			if (group_exprs != NULL)
				*group_exprs = (List *) shard_whole_expr((Node *) *group_exprs, cxt);
			else
				shard_whole_refuse(cxt, "kind of FROM item");
			break;
	}
}

/* ---------- targets ---------- */

/*
 * May the nodes' definition of the target differ from the coordinator's, so that its columns may not have the
 * domains?
 */
static bool
checks_domains(const Query *query)
{
	const ShardMap *map = query->resultRelation == 0 ? NULL :
		shard_map_get_levels(rt_fetch(query->resultRelation, query->rtable)->relid, false);

	return map != NULL && map->foreign_definition;
}

/*
 * Replaces ON CONFLICT ON CONSTRAINT by the columns of the constraint, because constraints of shards may have other
 * names.
 */
static void
infer_constraint(OnConflictExpr *clause, Index target, Oid relid, ShardWholeContext *cxt)
{
	Oid			index = get_constraint_index(clause->constraint);
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;

	if (!HeapTupleIsValid(tuple))
	{
		shard_whole_refuse(cxt, "constraint without an index");
		return;
	}
	form = (Form_pg_index) GETSTRUCT(tuple);
	/* the columns do not express that it is a key WITHOUT OVERLAPS */
	if (!form->indisunique || form->indisexclusion)
		shard_whole_refuse(cxt, "constraint that is not unique");
	for (int i = 0; i < form->indnkeyatts; i++)
	{
		AttrNumber	attno = form->indkey.values[i];
		InferenceElem *elem = makeNode(InferenceElem);
		Oid			type;
		int32		typmod;
		Oid			collation;

		if (attno <= 0)
		{
			shard_whole_refuse(cxt, "constraint on an expression");
			break;
		}
		get_atttypetypmodcoll(relid, attno, &type, &typmod, &collation);
		elem->expr = (Node *) makeVar(target, attno, type, typmod, collation, 0);
		clause->arbiterElems = lappend(clause->arbiterElems, elem);
	}
	clause->constraint = InvalidOid;
	ReleaseSysCache(tuple);
}

static void
convert_targets(List *entries, ShardWholeContext *cxt)
{
	if (!shard_printable_assignments(entries))
		shard_whole_refuse(cxt, "order of a multi-column assignment");
	foreach_node(TargetEntry, entry, entries)
		entry->expr = (Expr *) shard_whole_assigned((Node *) entry->expr, cxt);
}

static void
convert_on_conflict(Query *query, ShardWholeContext *cxt)
{
	OnConflictExpr *clause = query->onConflict;
	bool		saved = cxt->keep_constants;

	if (clause == NULL)
		return;
	if (OidIsValid(clause->constraint))
		infer_constraint(clause, query->resultRelation,
						 rt_fetch(query->resultRelation, query->rtable)->relid, cxt);

	/* the node compares these expressions with the definitions of indexes */
	cxt->keep_constants = true;
	{
		foreach_node(InferenceElem, elem, clause->arbiterElems)
		{
			elem->expr = shard_whole_expr(elem->expr, cxt);
			if (OidIsValid(elem->inferopclass) && !shard_rule_is_builtin(elem->inferopclass))
				shard_whole_refuse(cxt, "operator class");
			if (OidIsValid(elem->infercollid) && !shard_rule_is_byte_order(elem->infercollid))
				shard_whole_refuse(cxt, "COLLATE");
		}
	}
	clause->arbiterWhere = shard_whole_expr(clause->arbiterWhere, cxt);
	cxt->keep_constants = saved;

	convert_targets(clause->onConflictSet, cxt);
	if (clause->action == ONCONFLICT_UPDATE && clause->onConflictSet == NIL)
		shard_whole_refuse(cxt, "UPDATE of no column");
	clause->onConflictWhere = shard_whole_expr(clause->onConflictWhere, cxt);
}

static void
convert_merge_actions(Query *query, ShardWholeContext *cxt)
{
	Node	  **condition = shard_query_merge_condition(query);

	foreach_node(MergeAction, action, query->mergeActionList)
	{
		action->qual = shard_whole_expr(action->qual, cxt);
		if (action->commandType == CMD_INSERT && (cxt->checks_domains || action->targetList == NIL))
			action->targetList = shard_whole_insert_all(rt_fetch(query->resultRelation, query->rtable)->relid,
														action->targetList);
		convert_targets(action->targetList, cxt);
		/* the coordinator provides values even for columns that are GENERATED ALWAYS AS IDENTITY on the node */
		if (action->commandType == CMD_UPDATE && action->targetList == NIL)
			shard_whole_refuse(cxt, "UPDATE of no column");
		if (action->commandType == CMD_INSERT)
			action->override = OVERRIDING_SYSTEM_VALUE;
	}
	if (condition != NULL)
		*condition = shard_whole_expr(*condition, cxt);
}

/* ---------- levels ---------- */

static void
convert_jointree(Node *node, ShardWholeContext *cxt)
{
	if (node == NULL)
		return;
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		foreach_ptr(Node, item, from->fromlist)
			convert_jointree(item, cxt);
		from->quals = shard_whole_expr(from->quals, cxt);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		convert_jointree(join->larg, cxt);
		convert_jointree(join->rarg, cxt);
		join->quals = shard_whole_expr(join->quals, cxt);
	}
}

static void
convert_set_operations(Node *node, ShardWholeContext *cxt)
{
	SetOperationStmt *op = (SetOperationStmt *) node;

	if (node == NULL || !IsA(node, SetOperationStmt))
		return;
	foreach_node(SortGroupClause, clause, op->groupClauses)
	{
		if (!shard_rule_is_builtin(clause->eqop))
			shard_whole_refuse(cxt, "operator of a set operation");
	}
	foreach_oid(type, op->colTypes)
	{
		if (!shard_rule_type_ok(type))
			shard_whole_refuse(cxt, "type of a set operation");
	}
	convert_set_operations(op->larg, cxt);
	convert_set_operations(op->rarg, cxt);
}

static void
convert_windows(Query *query, ShardWholeContext *cxt)
{
	foreach_node(WindowClause, window, query->windowClause)
	{
		shard_whole_clauses(window->partitionClause, query->targetList, false, cxt);
		shard_whole_clauses(window->orderClause, query->targetList, true, cxt);
		if ((OidIsValid(window->startInRangeFunc) && !shard_rule_is_builtin(window->startInRangeFunc)) ||
			(OidIsValid(window->endInRangeFunc) && !shard_rule_is_builtin(window->endInRangeFunc)))
			shard_whole_refuse(cxt, "frame of a window");
		window->startOffset = shard_whole_expr(window->startOffset, cxt);
		window->endOffset = shard_whole_expr(window->endOffset, cxt);
	}
}

static void
convert_ctes(Query *query, ShardWholeContext *cxt)
{
	foreach_node(CommonTableExpr, cte, query->cteList)
		convert_query(castNode(Query, cte->ctequery), cxt);
}

/* Refuses FOR UPDATE of reference tables: it would lock rows of the node's replica. */
static void
check_row_marks(Query *query, ShardWholeContext *cxt)
{
	foreach_node(RowMarkClause, mark, query->rowMarks)
	{
		RangeTblEntry *rte = rt_fetch(mark->rti, query->rtable);

		if (rte->rtekind == RTE_RELATION && shard_map_get(rte->relid) == NULL)
			shard_whole_refuse(cxt, "locks on rows of a reference table");
	}
}

/* Converts the columns that the statement or sub-select returns or assigns. */
static void
convert_target_list(Query *query, ShardWholeContext *cxt)
{
	switch (query->commandType)
	{
		case CMD_SELECT:
			query->targetList = (List *) shard_whole_expr((Node *) query->targetList, cxt);
			break;
		case CMD_INSERT:
			/* a row without FROM is computed once */
			cxt->once = query->jointree->fromlist == NIL;
			convert_targets(query->targetList, cxt);
			cxt->once = false;
			query->override = OVERRIDING_SYSTEM_VALUE;
			break;
		case CMD_UPDATE:
			/* SET of generated columns to DEFAULT only */
			if (query->targetList == NIL)
				shard_whole_refuse(cxt, "UPDATE of no column");
			convert_targets(query->targetList, cxt);
			break;
		default:
			convert_targets(query->targetList, cxt);
			break;
	}
}

/* Checks and converts query and its lower levels, in place. */
static void
convert_query(Query *query, ShardWholeContext *cxt)
{
	Bitmapset  *from_items = NULL;
	bool		outer_checks_domains = cxt->checks_domains;
	bool		outer_checks_values = cxt->checks_values;
	const char *obstacle;

	check_stack_depth();
	if (cxt->reason != NULL)
		return;
	cxt->checks_domains = checks_domains(query);
	cxt->checks_values = cxt->checks_domains && ((WholeState *) cxt)->single && query->onConflict != NULL;
	obstacle = shard_printable_obstacle(query);
	if (obstacle != NULL)
	{
		shard_whole_refuse(cxt, obstacle);
		return;
	}
	if (query->commandType == CMD_INSERT)
		shard_whole_insert_fit(query, ((WholeState *) cxt)->single || cxt->checks_domains, cxt);

	convert_ctes(query, cxt);
	(void) from_items_walker((Node *) query->jointree, &from_items);
	for (int i = 1; i <= list_length(query->rtable) && cxt->reason == NULL; i++)
		convert_rte(query, i, from_items, (WholeState *) cxt);
	if (cxt->reason != NULL)
		return;
	if (query->resultRelation > 0)
		shard_whole_target_check(query, cxt);
	check_row_marks(query, cxt);
	shard_whole_clauses(query->groupClause, query->targetList, false, cxt);
	shard_whole_clauses(query->distinctClause, query->targetList, false, cxt);
	shard_whole_clauses(query->sortClause, query->targetList, true, cxt);
	convert_windows(query, cxt);
	convert_set_operations(query->setOperations, cxt);
	convert_target_list(query, cxt);
	convert_jointree((Node *) query->jointree, cxt);
	convert_on_conflict(query, cxt);
	convert_merge_actions(query, cxt);
	query->returningList = (List *) shard_whole_expr((Node *) query->returningList, cxt);
	query->havingQual = shard_whole_expr(query->havingQual, cxt);
	query->limitOffset = shard_whole_expr(query->limitOffset, cxt);
	query->limitCount = shard_whole_expr(query->limitCount, cxt);
	cxt->checks_domains = outer_checks_domains;
	cxt->checks_values = outer_checks_values;
}

/* ---------- the statement ---------- */

/* Does one of the clauses have this sort/group reference? */
static bool
is_named_in(Index sortgroupref, List *clauses)
{
	return sortgroupref != 0 && get_sortgroupref_clause_noerr(sortgroupref, clauses) != NULL;
}

/*
 * Replaces a result column by form.  If GROUP BY, ORDER BY or windows refer to the column, its expression stays as a
 * junk column.  Other expressions may contain it, and it may have an index.  DISTINCT applies to the returned
 * columns.
 */
static void
replace_output(Query *query, TargetEntry *entry, Expr *form, WholeState *state)
{
	bool		has_length = exprTypmod((Node *) entry->expr) >= 0 ||
		getBaseType(exprType((Node *) entry->expr)) != exprType((Node *) entry->expr);

	if (form == entry->expr)
		return;
	if (is_named_in(entry->ressortgroupref, query->distinctClause) && !query->hasDistinctOn)
	{
		if (has_length && is_named_in(entry->ressortgroupref, query->groupClause))
			shard_whole_refuse(&state->cxt, "column that is both grouped by and DISTINCT");
	}
	else if (entry->ressortgroupref != 0 &&
			 !contain_volatile_functions((Node *) entry->expr) &&
			 !expression_returns_set((Node *) entry->expr))
	{
		TargetEntry *named = makeTargetEntry(entry->expr, list_length(query->targetList) + 1,
											 NULL, true);

		named->ressortgroupref = entry->ressortgroupref;
		entry->ressortgroupref = 0;
		query->targetList = lappend(query->targetList, named);
	}
	entry->expr = form;
}

/* The grouped expression that expr, a result column, refers to (from 18 on); otherwise expr. */
static Expr *
grouped_expr(const Query *query, Expr *expr)
{
	const Var  *var = (const Var *) expr;
	List	  **group_exprs;

	if (!IsA(var, Var) || var->varlevelsup != 0)
		return expr;
	group_exprs = shard_rte_group_exprs(rt_fetch(var->varno, query->rtable));
	return group_exprs != NULL ? list_nth(*group_exprs, var->varattno - 1) : expr;
}

/* Converts each result column to its transfer form. */
static void
make_outputs(Query *query, WholeState *state)
{
	List	   *columns = query->commandType == CMD_SELECT ? list_copy(query->targetList) : query->returningList;
	int			target = 0;

	foreach_node(TargetEntry, entry, columns)
	{
		ShardOutput *output;
		Expr	   *form;

		if (entry->resjunk)
			continue;
		entry->expr = grouped_expr(query, entry->expr);
		output = palloc0(sizeof(ShardOutput));
		output->target = target++;
		output->type = exprType((Node *) entry->expr);
		output->typmod = exprTypmod((Node *) entry->expr);
		form = shard_select_wire_form(entry->expr, output->type, &output->kind);
		state->whole->outputs = lappend(state->whole->outputs, output);

		/* a session has only one style: the user's, or the portable one that the coordinator reads exactly */
		if (output->kind == SHARD_OUTPUT_TEXT && state->cxt.casts_styled &&
			shard_rule_is_styled(output->type))
			shard_whole_refuse(&state->cxt, "conversion through text, and a column that is returned as text");

		/* columns of UNION and similar cannot be changed here, and a sorted column has to keep its type */
		if (output->kind == SHARD_OUTPUT_TEXT &&
			(query->setOperations != NULL || entry->ressortgroupref != 0))
			shard_whole_refuse(&state->cxt, "column that is returned as text is sorted or grouped by");
		if (query->setOperations == NULL)
			replace_output(query, entry, form, state);
	}
}

/* Are expressions compared with each other at some level, as in GROUP BY? */
static bool
compares(Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		if (level->groupClause != NIL || level->groupingSets != NIL || level->distinctClause != NIL ||
			level->hasAggs || level->hasWindowFuncs)
			return true;
	}
	return false;
}

/* For each of targets, the columns of an INSERT: the parameter that is its value in converted, or 0. */
static List *
assigned_params(List *targets, List *converted)
{
	List	   *result = NIL;
	ListCell   *lc;
	ListCell   *lc2 = list_head(converted);

	/* both are in column order, and converted contains all of targets */
	foreach(lc, targets)
	{
		Node	   *expr;

		while (lfirst_node(TargetEntry, lc2)->resno != lfirst_node(TargetEntry, lc)->resno)
			lc2 = lnext(converted, lc2);
		expr = (Node *) lfirst_node(TargetEntry, lc2)->expr;
		if (IsA(expr, RelabelType))
			expr = (Node *) ((RelabelType *) expr)->arg;
		result = lappend_int(result, IsA(expr, Param) ? ((Param *) expr)->paramid : 0);
	}
	return result;
}

static ShardWholeQuery *
print_statement(Query *query, bool single, List *columns, bool keep_constants, const char **reason)
{
	WholeState	state = {0};
	List	   *targets = query->commandType == CMD_INSERT ? query->targetList : NIL;

	query = copyObject(query);
	query->isReturn = false;	/* the body of a function, which core would print as RETURN */
	state.cxt.compares = compares(query);
	state.cxt.keep_constants = keep_constants;
	state.whole = palloc0(sizeof(ShardWholeQuery));
	state.cxt.convert_query = convert_query;
	state.single = single;
	convert_query(query, &state.cxt);
	if (state.cxt.reason == NULL)
		make_outputs(query, &state);
	if (query->commandType == CMD_SELECT)
		query->targetList = list_concat(copyObject(columns), query->targetList);
	else
		query->returningList = list_concat(copyObject(columns), query->returningList);
	/* system columns of a reference table's rows are those of the coordinator */
	if (state.cxt.system_columns && (state.has_reference || columns != NIL))
		shard_whole_refuse(&state.cxt, "system column");
	if (list_length(state.cxt.params) > MAX_PARAMS)
		shard_whole_refuse(&state.cxt, "more parameters than a message takes");
	if (state.cxt.reason == NULL)
	{
		state.whole->assigned = assigned_params(targets, query->targetList);
		state.whole->params = state.cxt.params;
		state.whole->sources = state.cxt.sources;
		state.whole->template = shard_template_print(NULL, query, state.places, state.cxt.params);
		if (state.whole->template == NIL)
			shard_whole_refuse(&state.cxt, "name of a table");
	}
	*reason = state.cxt.reason;
	return state.cxt.reason == NULL ? state.whole : NULL;
}

ShardWholeQuery *
shard_whole_query_print(Query *query, const char **reason)
{
	return print_statement(query, false, NIL, false, reason);
}

ShardWholeQuery *
shard_whole_query_print_columns(Query *query, List *columns, bool keep_constants, const char **reason)
{
	return print_statement(query, false, columns, keep_constants, reason);
}

ShardWholeQuery *
shard_whole_query_print_single(Query *query, const char **reason)
{
	return print_statement(query, true, NIL, false, reason);
}
