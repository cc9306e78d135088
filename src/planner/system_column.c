/*
 * system_column.c
 *	  Refuses uses of system columns that would give other results than on a plain table.
 *
 * A ctid is the position of a row in its shard.  So rows of several shards may have the same ctid. xmin, xmax, cmin
 * and cmax ("versions") are counted by each node, and differently by the coordinator.  Applications written for plain
 * tables identify a row by its ctid, and a transaction by xmin.  So only these uses are allowed, all others are
 * errors:
 *
 *	 output		a column of a result or sub-select, also with a cast; columns of
 *				sub-selects are followed to the place where they are used
 *	 IS NULL, count(), ORDER BY of a ctid if peers are not treated as equal
 *				(WITH TIES, rank() and similar functions treat them as equal)
 *	 compared	with a value, if only rows of one shard are compared; xmin and xmax with 0 always;
 *				with another system column of the same table, if both rows are on one shard
 *	 grouped	GROUP BY, DISTINCT, PARTITION BY, UNION and arguments of aggregates, if each
 *				group is on one shard; with GROUPING SETS the groups of each set
 *
 * system_row.c decides which rows are on one shard.
 *
 * A version must not be compared with a value of the coordinator's transactions: functions must be immutable, and
 * versions of other tables are refused.  A ctid must not be compared with a tid that a user's function returns.
 *
 * If a statement runs on one shard unchanged, all uses of a ctid are allowed, unless the statement calls functions of
 * users.  These may read other shards.  Uses of versions are checked, because the coordinator computes some values of
 * the statement from its own state.
 *
 * Core may inline the body of a SQL function, which the statement does not show.  If the plan of a shard reads a
 * system column that the statement does not name, an inlined function reads it.  That is refused, too, unless only
 * one shard is left (shard_system_column_check_scan).  If the statement names a system column, it is checked with the
 * function bodies inlined.
 *
 * Conditions that must hold are kept as a stack of frames.  The first frame of a query level has its WHERE and its
 * inner joins.  Each AND below adds another frame.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/heap.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/shippable/shippable_rule.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_agg.h"
#include "parser/parsetree.h"
#include "plan/plan_functions.h"
#include "planner/system_column.h"
#include "planner/system_row.h"
#include "query_parts.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

typedef struct CheckContext
{
	ShardRowScope scope;
	bool		versions;		/* look for versions; otherwise for ctids */
} CheckContext;

/* Tables whose system columns are named in the statement that is being planned. */
static ShardSystemColumns named;

static bool check_walker(Node *node, CheckContext *cxt);
static void check_aggregate(const Aggref *agg, CheckContext *cxt);
static void check_grouped(CheckContext *cxt, List *values, List *exprs, ShardRowPins pins);

static void __attribute__((noreturn))
refuse(Oid relid, AttrNumber attno)
{
	if (attno == SelfItemPointerAttributeNumber)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot tell rows of sharded table \"%s\" by ctid alone", get_rel_name(relid)),
				 errdetail("Rows of several shards have the same ctid."),
				 errhint("Compare tableoid, too, as in (tableoid, ctid) = (...), or the shard key, or use a unique key.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot use system column \"%s\" of sharded table \"%s\" here",
					NameStr(SystemAttributeDefinition(attno)->attname), get_rel_name(relid)),
			 errdetail("Each node counts transactions and commands by itself."),
			 errhint("Return it as it is, or compare it, together with the shard key, with what was read from the same row.")));
}

static bool
is_version(AttrNumber attno)
{
	return attno < SelfItemPointerAttributeNumber && attno > TableOidAttributeNumber;
}

static bool
is_xid(AttrNumber attno)
{
	return attno == MinTransactionIdAttributeNumber || attno == MaxTransactionIdAttributeNumber;
}

/* Is column one of the system columns that the walk looks for? */
static bool
is_looked_for(const CheckContext *cxt, const ShardRowColumn *column)
{
	return cxt->versions ? column->is_version : column->is_ctid;
}

/* Is expr one of the columns that the walk looks for, with or without a cast? */
static bool
is_system_column(const CheckContext *cxt, const Node *expr, ShardRowColumn *column)
{
	return shard_system_row_resolve(&cxt->scope, expr, column) && is_looked_for(cxt, column);
}

/* ---------- comparisons ---------- */

/* Checks a use that is allowed if rows are on one shard. pins: the conditions of the scope that may prove that. */
static void
check_one_shard(const CheckContext *cxt, const ShardRowColumn *use, List *exprs, ShardRowPins pins)
{
	if (use->sharded && !shard_system_row_is_one_shard(&cxt->scope, use, exprs, pins))
		refuse(use->relid, use->attno);
}

/* Checks the uses inside of an expression that is a system column. */
static void
check_below(CheckContext *cxt, const Node *expr)
{
	expr = shard_system_row_without_casts(expr);
	if (IsA(expr, SubLink))
		(void) check_walker(((const SubLink *) expr)->subselect, cxt);
	else if (IsA(expr, Aggref))
		check_aggregate((const Aggref *) expr, cxt);
	else if (!IsA(expr, Var) && !IsA(expr, Param))
		(void) check_walker(unconstify(Node *, expr), cxt);
}

/* Checks a value that is compared or returned.  If the value is a row, the row itself has to determine the shard. */
static void
check_value(CheckContext *cxt, const Node *value)
{
	if (IsA(value, RowExpr))
		check_grouped(cxt, ((const RowExpr *) value)->args, ((const RowExpr *) value)->args, SHARD_ROW_PINS_NONE);
	else if (IsA(value, ArrayExpr))
	{
		foreach_ptr(const Node, element, ((const ArrayExpr *) value)->elements)
			check_value(cxt, element);
	}
	else
		(void) check_walker(unconstify(Node *, value), cxt);
}

/* Is it the number 0, of any type? */
static bool
is_zero(const Node *expr)
{
	const Const *value = (const Const *) shard_system_row_without_casts(expr);
	Oid			output;
	bool		varlena;

	if (!IsA(value, Const) || value->constisnull)
		return false;
	getTypeOutputInfo(value->consttype, &output, &varlena);
	return strcmp(OidOutputFunctionCall(output, value->constvalue), "0") == 0;
}

/* Finds a system column. */
static bool
find_walker(Node *node, void *arg)
{
	CheckContext *cxt = arg;
	ShardRowColumn column;

	if (node == NULL || IsA(node, Query))
		return false;
	if ((IsA(node, Var) || IsA(node, Param) || IsA(node, SubLink)) && is_system_column(cxt, node, &column) && column.sharded)
		return true;
	return expression_tree_walker(node, find_walker, arg);
}

/* Checks values that are compared with each other. left, right: other values that the same row comparison compares. */
static void
check_compared(CheckContext *cxt, List *values, List *left, List *right)
{
	List	   *uses = NIL;
	List	   *others = NIL;
	const ShardRowColumn *sharded = NULL;
	bool		constant = true;

	foreach_ptr(Node, value, values)
	{
		ShardRowColumn *use = palloc(sizeof(ShardRowColumn));

		if (!is_system_column(cxt, value, use))
		{
			others = lappend(others, value);
			continue;
		}
		uses = lappend(uses, use);
		if (use->sharded)
			sharded = use;
		check_below(cxt, value);
	}
	foreach_ptr(Node, other, others)
		check_value(cxt, other);
	if (sharded == NULL)
		return;
	foreach_ptr(Node, other, others)
	{
		if (find_walker(other, cxt) || (cxt->versions && contain_mutable_functions(other)))
			refuse(sharded->relid, sharded->attno);
		constant &= shard_rule_is_value(other, true);
	}
	foreach_ptr(const ShardRowColumn, use, uses)
	{
		if (use != sharded && !shard_system_row_is_same_shard(&cxt->scope, sharded, use, left, right))
			refuse(sharded->relid, sharded->attno);
	}
	if (list_length(uses) == 1 && list_length(others) == 1 && is_xid(sharded->attno) && !sharded->mixed &&
		is_zero(linitial(others)))
		return;
	if (list_length(uses) == 1 || others != NIL)
		check_one_shard(cxt, sharded, list_concat_copy(left, right), constant ? SHARD_ROW_PINS_CONSTANT : SHARD_ROW_PINS_ANY);
}

/* The expressions of GROUP BY and similar clauses. */
static List *
clause_exprs(const CheckContext *cxt, List *clauses, List *targets)
{
	List	   *exprs = NIL;

	foreach_node(SortGroupClause, clause, clauses)
	{
		const TargetEntry *target = get_sortgroupref_tle(clause->tleSortGroupRef, targets);
		Node	   *expr = (Node *) target->expr;

		if (IsA(expr, Var) && ((Var *) expr)->varlevelsup == 0)
		{
			List	  **groups = shard_rte_group_exprs(rt_fetch(((Var *) expr)->varno, cxt->scope.level->query->rtable));

			if (groups != NULL)
				expr = list_nth(*groups, ((Var *) expr)->varattno - 1);
		}
		exprs = lappend(exprs, expr);
	}
	return exprs;
}

/* Checks values that are grouped by equality, together with exprs. */
static void
check_grouped(CheckContext *cxt, List *values, List *exprs, ShardRowPins pins)
{
	foreach_ptr(Node, value, values)
	{
		ShardRowColumn use;

		if (is_system_column(cxt, value, &use))
			check_one_shard(cxt, &use, exprs, pins);
		else
			check_value(cxt, shard_system_row_without_casts(value));
	}
}

/* A list of the expressions of each grouping set.  Without grouping sets: a list with the expressions of GROUP BY. */
static List *
grouping_sets(const CheckContext *cxt)
{
	const Query *query = cxt->scope.level->query;
	List	   *sets = NIL;

	if (query->groupingSets == NIL)
		return list_make1(clause_exprs(cxt, query->groupClause, query->targetList));
	foreach_ptr(List, refs, expand_grouping_sets(query->groupingSets, query->groupDistinct, -1))
	{
		List	   *clauses = NIL;

		foreach_int(ref, refs)
			clauses = lappend(clauses, get_sortgroupref_clause(ref, query->groupClause));
		sets = lappend(sets, clause_exprs(cxt, clauses, query->targetList));
	}
	return sets;
}

/* Finds a function of window whose result depends on which rows are peers. */
static bool
peers_walker(Node *node, void *arg)
{
	const WindowClause *window = arg;
	const WindowFunc *func = (const WindowFunc *) node;

	if (node == NULL)
		return false;
	if (!IsA(node, WindowFunc) || func->winref != window->winref)
		return expression_tree_walker(node, peers_walker, arg);
	switch (func->winfnoid)
	{
		case F_ROW_NUMBER:
		case F_NTILE:
		case F_LAG_ANYELEMENT:
		case F_LAG_ANYELEMENT_INT4:
		case F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
		case F_LEAD_ANYELEMENT:
		case F_LEAD_ANYELEMENT_INT4:
		case F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
			return false;
		case F_RANK_:
		case F_DENSE_RANK_:
		case F_PERCENT_RANK_:
		case F_CUME_DIST_:
			return true;
		default:
			return (window->frameOptions & FRAMEOPTION_ROWS) == 0 ||
				(window->frameOptions & (FRAMEOPTION_EXCLUDE_GROUP | FRAMEOPTION_EXCLUDE_TIES)) != 0;
	}
}

static void
check_aggregate(const Aggref *agg, CheckContext *cxt)
{
	List	   *sets = agg->agglevelsup == 0 ? grouping_sets(cxt) : list_make1(NIL);
	List	   *distinct = clause_exprs(cxt, agg->aggdistinct, agg->args);

	check_grouped(cxt, distinct, distinct, SHARD_ROW_PINS_CONSTANT);
	foreach_node(TargetEntry, entry, agg->args)
	{
		ShardRowColumn use;

		if (!is_system_column(cxt, (Node *) entry->expr, &use))
			check_value(cxt, shard_system_row_without_casts((Node *) entry->expr));
		else if (agg->aggfnoid != F_COUNT_ANY && (!entry->resjunk || cxt->versions))
			foreach_ptr(List, set, sets)
				check_one_shard(cxt, &use, set, SHARD_ROW_PINS_CONSTANT);
	}
	(void) check_walker((Node *) agg->aggdirectargs, cxt);
	(void) check_walker((Node *) agg->aggfilter, cxt);
}

/* Is column attno of a part of a set operation a system column of a sharded table? */
static bool
find_in_parts(CheckContext *cxt, const Node *part, AttrNumber attno, ShardRowColumn *column)
{
	const SetOperationStmt *setop = (const SetOperationStmt *) part;

	if (IsA(part, RangeTblRef))
	{
		const RangeTblEntry *rte = rt_fetch(((const RangeTblRef *) part)->rtindex, cxt->scope.level->query->rtable);

		return shard_system_row_resolve_output(cxt->scope.level, rte->subquery, attno, column) &&
			is_looked_for(cxt, column) && column->sharded;
	}
	return find_in_parts(cxt, setop->larg, attno, column) || find_in_parts(cxt, setop->rarg, attno, column);
}

static void
check_set_operation(CheckContext *cxt, const Node *node)
{
	const SetOperationStmt *setop = (const SetOperationStmt *) node;
	int			ncompared;
	ShardRowColumn column;

	if (node == NULL || !IsA(node, SetOperationStmt))
		return;
	ncompared = setop->all && setop->op == SETOP_UNION ? 0 : list_length(setop->colTypes);
	for (int i = list_length(setop->colTypes); i > 0 && ncompared > 0; i--)
	{
		if (shard_system_row_is_told(cxt->scope.level, node, i))
			ncompared = 0;
	}
	for (int i = 1; i <= ncompared; i++)
	{
		if (find_in_parts(cxt, node, i, &column))
			refuse(column.relid, column.attno);
	}
	check_set_operation(cxt, setop->larg);
	check_set_operation(cxt, setop->rarg);
}

/* Checks a value that is returned, or tested for NULL. */
static void
check_output(CheckContext *cxt, const Node *expr)
{
	ShardRowColumn use;

	if (is_system_column(cxt, expr, &use))
		check_below(cxt, expr);
	else
		check_value(cxt, shard_system_row_without_casts(expr));
}

/* CASE arg WHEN value ...: checks the comparisons of arg with each value. */
static void
check_case(const CaseExpr *expr, CheckContext *cxt)
{
	foreach_node(CaseWhen, when, expr->args)
	{
		const Node *test = (const Node *) when->expr;

		check_compared(cxt, list_make2(expr->arg, IsA(test, OpExpr) ? llast(((const OpExpr *) test)->args) : (void *) test),
					   NIL, NIL);
		(void) check_walker((Node *) when->result, cxt);
	}
	(void) check_walker((Node *) expr->defresult, cxt);
}

/* ---------- the walker ---------- */

/* Walks over a condition whose parts must all hold. sublink: the SubLink whose test it is, or NULL. */
static void
check_condition(Node *condition, const SubLink *sublink, CheckContext *cxt)
{
	ShardRowFrame frame = {cxt->scope.frame, cxt->scope.level, sublink, shard_query_conditions(condition)};

	cxt->scope.frame = &frame;
	(void) check_walker((Node *) frame.conditions, cxt);
	cxt->scope.frame = frame.outer;
}

static void
check_query(Query *query, CheckContext *cxt)
{
	ShardRowLevel *level = shard_system_row_level(cxt->scope.level, query);
	ShardRowFrame frame = {cxt->scope.frame, level, NULL, shard_system_row_conditions((Node *) query->jointree)};
	Node	  **merge_condition = query->commandType == CMD_MERGE ? shard_query_merge_condition(query) : NULL;
	List	   *exprs;

	if (merge_condition != NULL)
		frame.conditions = list_concat(frame.conditions, shard_query_conditions(*merge_condition));
	cxt->scope.level = level;
	cxt->scope.frame = &frame;
	foreach_ptr(List, set, grouping_sets(cxt))
		check_grouped(cxt, set, set, SHARD_ROW_PINS_CONSTANT);
	exprs = clause_exprs(cxt, query->distinctClause, query->targetList);
	check_grouped(cxt, exprs, exprs, SHARD_ROW_PINS_CONSTANT);
	exprs = cxt->versions || query->limitOption == LIMIT_OPTION_WITH_TIES ?
		clause_exprs(cxt, query->sortClause, query->targetList) : NIL;
	check_grouped(cxt, exprs, exprs, SHARD_ROW_PINS_CONSTANT);
	foreach_node(WindowClause, window, query->windowClause)
	{
		List	   *order = clause_exprs(cxt, window->orderClause, query->targetList);

		exprs = clause_exprs(cxt, window->partitionClause, query->targetList);
		check_grouped(cxt, exprs, exprs, SHARD_ROW_PINS_CONSTANT);
		if (cxt->versions)
			check_grouped(cxt, order, exprs, SHARD_ROW_PINS_CONSTANT);
		else if (peers_walker((Node *) query->targetList, window))
			check_grouped(cxt, order, list_concat_copy(exprs, order), SHARD_ROW_PINS_CONSTANT);
	}
	check_set_operation(cxt, query->setOperations);
	(void) query_tree_walker(query, check_walker, cxt, QTW_IGNORE_JOINALIASES | SHARD_QTW_IGNORE_GROUPEXPRS);
	cxt->scope.frame = frame.outer;
	cxt->scope.level = level->parent;
}

/* Checks a row comparison: (a, b) < (c, d). */
static void
check_row_compare(RowCompareExpr *expr, CheckContext *cxt)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, expr->largs, lc2, expr->rargs)
		check_compared(cxt, list_make2(lfirst(lc), lfirst(lc2)), expr->largs, expr->rargs);
}

static bool
check_walker(Node *node, CheckContext *cxt)
{
	ShardRowColumn use;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
			check_query((Query *) node, cxt);
			return false;
		case T_Var:
		case T_Param:
			if (is_system_column(cxt, node, &use) && use.sharded)
				refuse(use.relid, use.attno);
			return false;
		case T_TargetEntry:
			check_output(cxt, (Node *) ((TargetEntry *) node)->expr);
			return false;
		case T_NullTest:
			check_output(cxt, (Node *) ((NullTest *) node)->arg);
			return false;
		case T_OpExpr:
		case T_DistinctExpr:
			/* later uses of the results of other operators are not checked */
			if (((OpExpr *) node)->opresulttype != BOOLOID)
				break;
			check_compared(cxt, ((OpExpr *) node)->args, NIL, NIL);
			return false;
		case T_ScalarArrayOpExpr:
			check_compared(cxt, ((ScalarArrayOpExpr *) node)->args, NIL, NIL);
			return false;
		case T_FuncExpr:
			if (cxt->versions || ((FuncExpr *) node)->funcresulttype != BOOLOID)
				break;
			check_compared(cxt, ((FuncExpr *) node)->args, NIL, NIL);
			return false;
		case T_RowCompareExpr:
			check_row_compare((RowCompareExpr *) node, cxt);
			return false;
		case T_CaseExpr:
			if (((CaseExpr *) node)->arg == NULL)
				break;
			check_case((CaseExpr *) node, cxt);
			return false;
		case T_Aggref:
			/* later uses of what is computed from the aggregate are not checked */
			if (is_system_column(cxt, node, &use) && use.sharded)
				refuse(use.relid, use.attno);
			check_aggregate((Aggref *) node, cxt);
			return false;
		case T_BoolExpr:
			if (!is_andclause(node))
				break;
			check_condition(node, cxt->scope.frame->sublink, cxt);
			return false;
		case T_SubLink:
			check_condition(((SubLink *) node)->testexpr, (SubLink *) node, cxt);
			if (is_system_column(cxt, node, &use) && use.sharded)
				refuse(use.relid, use.attno);
			return check_walker(((SubLink *) node)->subselect, cxt);
		case T_JoinExpr:
			(void) check_walker(((JoinExpr *) node)->larg, cxt);
			(void) check_walker(((JoinExpr *) node)->rarg, cxt);
			check_condition(((JoinExpr *) node)->quals, NULL, cxt);
			return false;
		case T_OnConflictExpr:
			{
				const Query *outer = cxt->scope.conflict;

				cxt->scope.conflict = cxt->scope.level->query;
				(void) expression_tree_walker(node, check_walker, cxt);
				cxt->scope.conflict = outer;
				return false;
			}
		default:
			break;
	}
	return expression_tree_walker(node, check_walker, cxt);
}

typedef struct NameContext
{
	ShardRowLevel *level;
	ShardSystemColumns columns;
} NameContext;

/* Notes the sharded tables whose system columns the statement names. */
static bool
find_table_walker(Node *node, NameContext *cxt)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		ShardRowLevel level = {.parent = cxt->level, .query = (Query *) node};

		cxt->level = &level;
		(void) query_tree_walker((Query *) node, find_table_walker, cxt, 0);
		cxt->level = level.parent;
		return false;
	}
	if (IsA(node, Var) && ((Var *) node)->varattno < 0)
	{
		const Var  *var = (Var *) node;
		const ShardRowLevel *level = cxt->level;
		const ShardMap *map;

		for (Index up = var->varlevelsup; up > 0 && level != NULL; up--)
			level = level->parent;
		map = level != NULL ? shard_system_row_map(level->query, var->varno) : NULL;
		if (map != NULL && is_version(var->varattno))
			cxt->columns.versions = list_append_unique_oid(cxt->columns.versions, map->relid);
		else if (map != NULL && var->varattno == SelfItemPointerAttributeNumber && map->nshards > 1)
			cxt->columns.ctids = list_append_unique_oid(cxt->columns.ctids, map->relid);
		return false;
	}
	return expression_tree_walker(node, find_table_walker, cxt);
}

ShardSystemColumns
shard_system_column_enter(Query *query)
{
	NameContext cxt = {0};
	ShardSystemColumns outer = named;

	if (query != NULL)
		(void) find_table_walker((Node *) query, &cxt);
	named = cxt.columns;
	return outer;
}

void
shard_system_column_leave(ShardSystemColumns outer)
{
	named = outer;
}

static bool
has_functions_in_from(Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		foreach_node(RangeTblEntry, rte, level->rtable)
		{
			if (rte->rtekind == RTE_FUNCTION)
				return true;
		}
	}
	return false;
}

/* Inlines SQL functions in FROM, as core does later. */
static bool
put_bodies_walker(Node *node, PlannerInfo *root)
{
	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, put_bodies_walker, root);
	foreach_node(RangeTblEntry, rte, ((Query *) node)->rtable)
	{
		Query	   *body = NULL;

		if (rte->rtekind == RTE_FUNCTION)
		{
			root->parse = (Query *) node;
			rte->functions = (List *) eval_const_expressions(root, (Node *) rte->functions);
			body = inline_function_in_from(root, rte);
		}
		if (body != NULL)
		{
			rte->rtekind = RTE_SUBQUERY;
			rte->subquery = body;
			rte->functions = NIL;
		}
	}
	return query_tree_walker((Query *) node, put_bodies_walker, root, 0);
}

static void
check_statement(Query *query, bool versions)
{
	CheckContext cxt = {.versions = versions};

	if (has_functions_in_from(query))
	{
		PlannerInfo *root = makeNode(PlannerInfo);

		root->glob = makeNode(PlannerGlobal);
		root->planner_cxt = CurrentMemoryContext;
		query = copyObject(query);
		(void) put_bodies_walker((Node *) query, root);
	}
	check_query(query, &cxt);
}

void
shard_system_column_check_versions(Query *query)
{
	if (named.versions != NIL)
		check_statement(query, true);
}

void
shard_system_column_check_ctids(Query *query, bool one_shard)
{
	if (named.ctids != NIL && (!one_shard || shard_plan_functions_of_query(query) != SHARD_FUNCTIONS_NONE))
		check_statement(query, false);
}

void
shard_system_column_check_scan(PlannerInfo *root, Index rtindex, Bitmapset *columns)
{
	const AppendRelInfo *appinfo = root->append_rel_array ? root->append_rel_array[rtindex] : NULL;
	Index		parent = appinfo ? appinfo->parent_relid : 0;
	const ShardMap *map;

	if (parent == 0 || bms_num_members(find_base_rel(root, parent)->live_parts) == 1)
		return;
	/* for a two-level table, the statement names the root table */
	while (root->append_rel_array[parent] != NULL)
		parent = root->append_rel_array[parent]->parent_relid;
	map = shard_map_get_levels(planner_rt_fetch(parent, root)->relid, true);
	if (map == NULL || map->nshards == 1)
		return;
	for (AttrNumber attno = SelfItemPointerAttributeNumber; attno > TableOidAttributeNumber; attno--)
	{
		/* rows that are changed or locked are always identified by their ctid */
		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns) &&
			!list_member_oid(is_version(attno) ? named.versions : named.ctids, map->relid) &&
			(is_version(attno) || (root->rowMarks == NIL && !bms_is_member(rtindex, root->all_result_relids))))
			refuse(map->relid, attno);
	}
}
