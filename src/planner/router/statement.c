/*
 * statement.c
 *	  The PlannedStmt of a statement that nodes run unchanged.
 *
 *	  PlannedStmt
 *		planTree	CustomScan "ShardStatement", whose columns are the statement's
 *		rtable		the range table entries of all levels: locks and permissions
 *		relationOids	these tables and their shards: their changes invalidate the plan
 *		invalItems	domains: their changes invalidate the plan, too
 *
 * For core, a statement that changes tables has no result relations: the node counts the rows.
 */
#include "postgres.h"

#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/path/early_stop.h"
#include "planner/path/scan_output.h"
#include "planner/router/statement.h"
#include "query_parts.h"
#include "utils/syscache.h"

/* Cost that EXPLAIN shows.  It does not depend on parameters, so that core chooses generic plans. */
#define STATEMENT_COST	100.0

/* A copy for the executor.  Parts that the executor does not need are left out, as in setrefs.c. */
static RangeTblEntry *
executor_rte(const RangeTblEntry *rte)
{
	RangeTblEntry *result = makeNode(RangeTblEntry);

	*result = *rte;
	result->tablesample = NULL;
	result->subquery = NULL;
	result->joinaliasvars = NIL;
	result->joinleftcols = NIL;
	result->joinrightcols = NIL;
	result->join_using_alias = NULL;
	result->functions = NIL;
	result->tablefunc = NULL;
	result->values_lists = NIL;
	result->coltypes = NIL;
	result->coltypmods = NIL;
	result->colcollations = NIL;
	result->securityQuals = NIL;
	shard_rte_clear_group(result);
	return result;
}

/* Adds the range table entries of query and all lower levels to the statement. */
static void
add_rtes(PlannedStmt *stmt, Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		foreach_node(RangeTblEntry, from, level->rtable)
		{
			RangeTblEntry *rte = executor_rte(from);

			shard_stmt_add_permissions(stmt, level, rte);
			stmt->rtable = lappend(stmt->rtable, rte);
			if (rte->rtekind == RTE_RELATION)
				stmt->relationOids = lappend_oid(stmt->relationOids, rte->relid);
			if (rte->rtekind == RTE_RELATION || (rte->rtekind == RTE_SUBQUERY && OidIsValid(rte->relid)))
				shard_stmt_add_unprunable(stmt, list_length(stmt->rtable));
		}
	}
}

static bool
add_domains_walker(Node *node, void *arg)
{
	PlannedStmt *stmt = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, add_domains_walker, arg, 0);
	if (IsA(node, CoerceToDomain))
	{
		PlanInvalItem *item = makeNode(PlanInvalItem);

		/* as setrefs.c does for domains without constraints */
		item->cacheId = TYPEOID;
		item->hashValue = GetSysCacheHashValue1(TYPEOID,
												ObjectIdGetDatum(((CoerceToDomain *) node)->resulttype));
		stmt->invalItems = lappend(stmt->invalItems, item);
	}
	return expression_tree_walker(node, add_domains_walker, arg);
}

void
shard_statement_add_domains(PlannedStmt *stmt, Query *query)
{
	(void) add_domains_walker((Node *) query, stmt);
}

/*
 * Makes the plan depend on the shards of the statement's tables, and on the partitions of two-level tables, because
 * the plan relies on their definitions.  If the shards that run the statement are known (shards is not NIL), a
 * two-level table adds only these.
 */
static void
depend_on_shards(PlannedStmt *stmt, List *shards, List *relids)
{
	List	   *seen = NIL;

	foreach_oid(relid, relids)
	{
		const ShardMap *map;

		if (list_member_oid(seen, relid))
			continue;
		seen = lappend_oid(seen, relid);
		map = shard_map_get_levels(relid, true);
		if (map != NULL && map->nparts > 0 && shards != NIL)
			stmt->relationOids = list_concat(stmt->relationOids, shards);
		else
		{
			for (int i = 0; map != NULL && i < map->nshards; i++)
				stmt->relationOids = lappend_oid(stmt->relationOids, map->shards[i].relid);
			for (int i = 0; map != NULL && i < map->nparts; i++)
				stmt->relationOids = lappend_oid(stmt->relationOids, map->parts[i].relid);
		}
	}
	list_free(seen);
}

/* Finds an expression that EXPLAIN cannot print outside of the query. */
static bool
not_printable_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			{
				Var		   *var = (Var *) node;

				return var->varlevelsup != 0 || var->varattno <= 0 ||
					rt_fetch(var->varno, (List *) context)->rtekind != RTE_RELATION;
			}
		case T_SubLink:
		case T_WindowFunc:
		case T_GroupingFunc:
		case T_Param:
			return true;
		default:
			return expression_tree_walker(node, not_printable_walker, context);
	}
}

/*
 * The plan's target list, over *scan_tlist.  EXPLAIN VERBOSE shows *scan_tlist, so it has the query's expressions if
 * these can be printed.
 */
static List *
make_target_list(Query *query, List **scan_tlist)
{
	List	   *from = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
	List	   *tlist = NIL;

	*scan_tlist = NIL;
	foreach_node(TargetEntry, entry, from)
	{
		Node	   *expr = (Node *) entry->expr;
		Oid			type = exprType(expr);
		int32		typmod = exprTypmod(expr);
		Oid			collation = exprCollation(expr);
		AttrNumber	resno = list_length(tlist) + 1;
		TargetEntry *column;

		if (entry->resjunk)
			continue;
		if (not_printable_walker(expr, query->rtable))
			expr = (Node *) makeNullConst(type, typmod, collation);
		*scan_tlist = lappend(*scan_tlist,
							  makeTargetEntry(copyObject((Expr *) expr), resno, entry->resname, false));
		column = makeTargetEntry((Expr *) makeVar(INDEX_VAR, resno, type, typmod, collation, 0),
								 resno, entry->resname, false);
		column->resorigtbl = entry->resorigtbl;
		column->resorigcol = entry->resorigcol;
		tlist = lappend(tlist, column);
	}
	return tlist;
}

/* Number of the parameter that has the value of key.  Adds a parameter if there is none. */
static int
key_param(Query *query, const ShardWholeQuery *text, List **params, Node *key)
{
	int			number = 0;
	ListCell   *lc;
	ListCell   *lc2;

	/* a volatile function gives the value only at its own place in the statement */
	if (query->commandType == CMD_INSERT)
	{
		forboth(lc, query->targetList, lc2, text->assigned)
		{
			if ((Node *) lfirst_node(TargetEntry, lc)->expr == key && lfirst_int(lc2) != 0)
				return lfirst_int(lc2);
		}
	}
	Assert(!contain_volatile_functions(key));
	foreach(lc, text->sources)
	{
		number++;
		if (equal(lfirst(lc), key))
			return number;
	}
	*params = lappend(*params, expression_planner(copyObject((Expr *) key)));
	return list_length(*params);
}

/* Row marks of SELECT ... FOR UPDATE and similar.  Core uses them to decide whether a plan only reads. */
static List *
make_row_marks(Query *query)
{
	List	   *marks = NIL;

	foreach_node(RowMarkClause, clause, query->rowMarks)
	{
		PlanRowMark *mark = makeNode(PlanRowMark);

		mark->rti = mark->prti = clause->rti;
		mark->rowmarkId = list_length(marks) + 1;
		mark->markType = ROW_MARK_REFERENCE;
		mark->allMarkTypes = 1 << ROW_MARK_REFERENCE;
		mark->strength = clause->strength;
		mark->waitPolicy = clause->waitPolicy;
		mark->isParent = true;	/* the executor ignores this mark */
		marks = lappend(marks, mark);
	}
	return marks;
}

static bool
locks_rows(Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		if (level->rowMarks != NIL)
			return true;
	}
	return false;
}

bool
shard_statement_user(Query *query, Oid *check_as_user)
{
	bool		is_known = false;

	*check_as_user = InvalidOid;
	foreach_node(Query, level, shard_query_levels(query))
	{
		foreach_node(RangeTblEntry, rte, level->rtable)
		{
			Oid			user;

			if (rte->rtekind != RTE_RELATION || shard_map_get_levels(rte->relid, false) == NULL)
				continue;
			user = shard_rte_check_as_user(level, rte);
			if (is_known && user != *check_as_user)
				return false;
			*check_as_user = user;
			is_known = true;
		}
	}
	return true;
}

/* Copies the properties of query and text to the plan. */
static void
fill_plan(ShardStatementPlan *plan, Query *query, const ShardWholeQuery *text)
{
	plan->operation = query->commandType;
	plan->returns_rows = query->commandType == CMD_SELECT || query->returningList != NIL;
	plan->set_processed = query->canSetTag && query->commandType != CMD_SELECT;
	plan->only_locks = query->commandType == CMD_SELECT && !query->hasModifyingCTE && locks_rows(query);
	plan->on_writer = query->commandType != CMD_SELECT || query->hasModifyingCTE || plan->only_locks;
	plan->for_values = shard_early_stop_of_statement(query);
	plan->relids = text->relids;
	plan->template = text->template;
	plan->outputs = shard_scan_convert_outputs(text->outputs, &plan->noutputs);
	if (!shard_statement_user(query, &plan->check_as_user))
		elog(ERROR, "tables of a statement for nodes belong to several users");
}

/* The PlannedStmt around a CustomScan, without its dependencies. */
static PlannedStmt *
make_stmt(Query *query, const char *name, List *exprs, List *custom_private, bool returns_rows)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	CustomScan *scan = makeNode(CustomScan);

	scan->scan.plan.targetlist = make_target_list(query, &scan->custom_scan_tlist);
	scan->scan.plan.startup_cost = STATEMENT_COST;
	scan->scan.plan.total_cost = STATEMENT_COST;
	scan->scan.plan.plan_rows = returns_rows ? 1 : 0;
	scan->custom_exprs = exprs;
	scan->custom_private = custom_private;
	scan->methods = GetCustomScanMethods(name, false);

	stmt->commandType = query->commandType;
	stmt->queryId = query->queryId;
	stmt->hasReturning = query->returningList != NIL;
	stmt->hasModifyingCTE = query->hasModifyingCTE;
	stmt->canSetTag = query->canSetTag;
	stmt->planTree = &scan->scan.plan;
	stmt->rowMarks = make_row_marks(query);
	stmt->stmt_location = query->stmt_location;
	stmt->stmt_len = query->stmt_len;
	add_rtes(stmt, query);
	shard_statement_add_domains(stmt, query);
	return stmt;
}

PlannedStmt *
shard_statement_make(Query *query, const ShardWholeQuery *text, ShardStatementPlan *plan,
					 List *keys)
{
	List	   *params = list_copy(text->params);
	PlannedStmt *stmt;

	fill_plan(plan, query, text);
	plan->key_params = NIL;
	foreach_ptr(Node, key, keys)
		plan->key_params = lappend_int(plan->key_params, key_param(query, text, &params, key));
	stmt = make_stmt(query, SHARD_STATEMENT_NAME, params, shard_plan_private_pack(SHARD_PLAN_STATEMENT, plan), plan->returns_rows);
	depend_on_shards(stmt, plan->shards, text->relids);
	return stmt;
}

PlannedStmt *
shard_statement_make_scan(Query *query, const char *name, List *exprs, List *custom_private,
						  bool returns_rows, List *relids)
{
	PlannedStmt *stmt = make_stmt(query, name, exprs, custom_private, returns_rows);

	depend_on_shards(stmt, NIL, relids);
	return stmt;
}
