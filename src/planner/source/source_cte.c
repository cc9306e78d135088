/*
 * source_cte.c
 *	  INSERT ... ON CONFLICT and MERGE in WITH, over rows that the coordinator computes.
 *
 * Core plans a statement in WITH together with the main query.  While core plans, the query that computes the source
 * rows replaces the statement:
 *
 *	 WITH w AS (INSERT ...)
 *		-> WITH w AS (SELECT NULL, ...,  c1, c2, ...)	RETURNING's columns; the source's, junk
 *		-> core: plan of the SELECT, below a CustomPath of ours
 *		-> CustomScan "ShardSourceModify" over it, once core has finished
 *
 * Core drops a SELECT in WITH that is not referenced, and inlines one that is referenced once.  The SELECT of this
 * file is marked as materialized and in use, so core does neither.  The executor always runs it to completion
 * (executor/modify/source_modify_exec.c).
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "planner/path/refusal.h"
#include "planner/source/source_cte.h"
#include "planner/source/source_modify.h"
#include "planner/router/statement.h"
#include "rewrite/rewriteManip.h"
#include "utils/rel.h"

/* A statement in WITH. id: the queryId of the SELECT that replaces it. */
typedef struct SourceCte
{
	uint64		id;
	Query	   *query;			/* the statement */
	ShardSourcePlan *plan;
	CustomScan *made;			/* contents of the finished plan node */
	Index		target;			/* range table index in the SELECT */
	CustomScan *cscan;			/* in core's plan */
} SourceCte;

static List *pending = NIL;
static uint64 last_id = 0;
static create_upper_paths_hook_type prev_upper_paths_hook = NULL;

/* ---- before core plans ---- */

/* The SELECT: NULLs of the types of RETURNING, then the source's columns as junk. */
static Query *
make_select(const ShardSourceInfo *info, uint64 id)
{
	Query	   *select = shard_source_child(info);
	List	   *tlist = NIL;

	foreach_node(TargetEntry, entry, info->query->returningList)
	{
		Node	   *expr = (Node *) entry->expr;
		Const	   *null = makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));

		tlist = lappend(tlist, makeTargetEntry((Expr *) null, entry->resno, entry->resname, false));
	}
	foreach_node(TargetEntry, entry, select->targetList)
	{
		entry->resno = list_length(tlist) + 1;
		entry->resjunk = true;
		tlist = lappend(tlist, entry);
	}
	select->targetList = tlist;
	select->queryId = id;
	select->canSetTag = false;
	return select;
}

static void
replace_statement(CommonTableExpr *cte)
{
	Query	   *query = castNode(Query, cte->ctequery);
	ShardSourceInfo info;
	SourceCte  *source;

	if (query->commandType == CMD_SELECT || !shard_source_begin(&info, query))
		return;
	source = palloc0(sizeof(SourceCte));
	source->id = ++last_id;
	source->query = query;
	source->made = makeNode(CustomScan);
	source->plan = shard_source_build(&info, source->made);
	source->plan->first_column = list_length(query->returningList);
	source->target = info.target;
	pending = lappend(pending, source);

	cte->ctequery = (Node *) make_select(&info, source->id);
	cte->ctematerialized = CTEMaterializeAlways;
	cte->cterefcount = Max(cte->cterefcount, 1);
	table_close(info.rel, NoLock);
}

List *
shard_source_cte_enter(void)
{
	List	   *outer = pending;

	pending = NIL;
	return outer;
}

void
shard_source_cte_replace(Query *query)
{
	if (!query->hasModifyingCTE)
		return;
	foreach_node(CommonTableExpr, cte, query->cteList)
		replace_statement(cte);
}

/* ---- while core plans ---- */

static SourceCte *
find_pending(const Query *query)
{
	foreach_ptr(SourceCte, source, pending)
	{
		if (query->commandType == CMD_SELECT && source->id == (uint64) query->queryId)
			return source;
	}
	return NULL;
}

/*
 * Makes the CustomScan.  The columns of RETURNING stay NULLs until core has finished.  The plan has one Var, a probe
 * that shows by how much core shifts range table indexes.
 */
static Plan *
plan_source(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			List *custom_plans)
{
	SourceCte  *source = find_pending(root->parse);
	CustomScan *cscan = makeNode(CustomScan);
	Var		   *probe = makeVar(source->target, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);

	foreach_node(TargetEntry, original, tlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(original);
		Node	   *expr = (Node *) entry->expr;

		entry->expr = (Expr *) makeNullConst(exprType(expr), exprTypmod(expr), exprCollation(expr));
		cscan->scan.plan.targetlist = lappend(cscan->scan.plan.targetlist, entry);
	}
	cscan->custom_scan_tlist = list_make1(makeTargetEntry((Expr *) probe, 1, NULL, false));
	cscan->custom_plans = custom_plans;
	cscan->custom_exprs = source->made->custom_exprs;
	cscan->custom_private = shard_plan_private_pack(SHARD_PLAN_SOURCE, source->plan);
	cscan->methods = source->made->methods;
	source->cscan = cscan;
	shard_refusal_explain_input(linitial(custom_plans));
	return (Plan *) cscan;
}

static const CustomPathMethods path_methods = {
	.CustomName = SHARD_SOURCE_NAME,
	.PlanCustomPath = plan_source
};

/* Puts a CustomPath of ours above each path of a SELECT that replaces a statement. */
static void
source_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				   RelOptInfo *output_rel, void *extra)
{
	CustomPath *path;
	Path	   *child = NULL;

	if (prev_upper_paths_hook)
		prev_upper_paths_hook(root, stage, input_rel, output_rel, extra);
	if (stage != UPPERREL_FINAL || pending == NIL || find_pending(root->parse) == NULL)
		return;
	foreach_ptr(Path, candidate, output_rel->pathlist)
	{
		if (child == NULL || compare_path_costs(candidate, child, TOTAL_COST) < 0)
			child = candidate;
	}
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = output_rel;
	path->path.pathtarget = child->pathtarget;
	path->path.rows = child->rows;
	path->path.startup_cost = child->total_cost;
	path->path.total_cost = child->total_cost;
	path->custom_paths = list_make1(child);
	path->methods = &path_methods;
	/* the path writes */
	output_rel->consider_parallel = false;
	output_rel->pathlist = list_make1(path);
	output_rel->partial_pathlist = NIL;
}

/* ---- after core has planned ---- */

void
shard_source_cte_finish(PlannedStmt *stmt)
{
	foreach_ptr(SourceCte, source, pending)
	{
		CustomScan *cscan = source->cscan;
		TargetEntry *probe;

		if (cscan == NULL)
			elog(ERROR, "a statement in WITH has no plan");
		probe = linitial_node(TargetEntry, cscan->custom_scan_tlist);
		cscan->custom_scan_tlist = source->made->custom_scan_tlist;
		OffsetVarNodes((Node *) cscan->custom_scan_tlist,
					   castNode(Var, probe->expr)->varno - source->target, 0);
		cscan->scan.plan.targetlist = source->made->scan.plan.targetlist;
		shard_statement_add_domains(stmt, source->query);
	}
}

void
shard_source_cte_leave(List *outer)
{
	pending = outer;
}

void
shard_source_cte_init(void)
{
	prev_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = source_upper_paths;
}
