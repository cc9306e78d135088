/*
 * hooks.c
 *	  Makes core plan a sharded table as one foreign table.
 *
 * Statements that nodes can run unchanged are planned before: see statement.h.  For other statements:
 *
 *	   planner_hook             turns RTEs of sharded parents into foreign-table RTEs
 *	   get_relation_info_hook   (on 19 build_simple_rel_hook) gives their RelOptInfos
 *								our FdwRoutine and server.  Reference tables get them,
 *								too, but stay plain tables otherwise
 *	   get_relation_stats_hook  gives their columns the parent's statistics
 *	   set_rel_pathlist_hook	does the same for sub-selects that nodes compute completely
 *								(absorb.c), and gives reference tables their ShardRelInfo
 *
 * The hook leaves an RTE to core's partition planning, which is always right, if
 *
 *	   - the RTE is the target of the statement;
 *	   - the RTE's query level locks rows, or is UPDATE, DELETE or MERGE, or may be
 *		 pulled up into such a level: core then looks up the wrapper by the OID of
 *		 the parent, which has no wrapper;
 *	   - the statement uses a system column of the RTE: core takes these columns from
 *		 the scanned relation, and a scan of many shards has none;
 *	   - the RTE has TABLESAMPLE or row security conditions.
 *
 * Like standard_planner(), the hook changes its query.  Sharded parents that appear only during planning (inlined SQL
 * functions) are also left to core's partition planning.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "catalog/table_right.h"
#include "compat.h"
#include "guc.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "parser/parsetree.h"
#include "plan/plan_functions.h"
#include "planner/async_subplan.h"
#include "planner/jit.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/late_lock.h"
#include "planner/path/refusal.h"
#include "planner/path/relinfo.h"
#include "planner/rewrite/absorb.h"
#include "planner/rewrite/decorrelate.h"
#include "planner/rewrite/locked_keys.h"
#include "planner/rewrite/two_level.h"
#include "planner/source/source_cte.h"
#include "planner/source/source_modify.h"
#include "planner/system_column.h"
#include "planner/router/statement.h"
#include "planner/router/statement_cache.h"
#include "planner/window_print.h"
#include "query_parts.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

/* A query level above the current position of the walker. */
typedef struct MarkLevel
{
	struct MarkLevel *parent;
	Query	   *query;
	bool		locks;			/* its relations get row marks, or may be pulled up into a level that has row marks */
	Bitmapset  *syscol_rels;	/* range table indexes whose system columns are used */
} MarkLevel;

typedef struct MarkContext
{
	MarkLevel *level;
	bool		any_locks;		/* some level of the statement has row marks */
} MarkContext;

static planner_hook_type prev_planner_hook = NULL;
static shard_simple_rel_hook_type prev_simple_rel_hook = NULL;
static get_relation_stats_hook_type prev_stats_hook = NULL;
static set_rel_pathlist_hook_type prev_rel_pathlist_hook = NULL;

/* True if some sharded table of the statement that is being planned was turned into one foreign table. */
static bool statement_marked = false;

static void mark_query(Query *query, MarkContext *cxt, bool locks);

static bool
is_sharded_rte(const RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION &&
		rte->relkind == RELKIND_PARTITIONED_TABLE &&
		rte->inh &&
		shard_map_get_levels(rte->relid, false) != NULL;
}

/* Is it a sharded target of MERGE, or of INSERT, for which core does not set inh? */
static bool
is_source_target(const Query *query, const RangeTblEntry *rte)
{
	return (query->commandType == CMD_INSERT || query->commandType == CMD_MERGE) &&
		rte == rt_fetch(query->resultRelation, query->rtable) &&
		rte->relkind == RELKIND_PARTITIONED_TABLE && shard_source_target_map(query, rte->relid) != NULL;
}

/*
 * Finds a sharded table at any level.  Looks at expressions only if there are sub-selects, because this test also
 * runs for statements without sharded tables.
 */
static bool
find_sharded_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return is_sharded_rte((RangeTblEntry *) node);
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		if (query->hasSubLinks &&
			query_tree_walker(query, find_sharded_walker, context, QTW_EXAMINE_RTES_BEFORE))
			return true;

		foreach_node(RangeTblEntry, rte, query->rtable)
		{
			if (is_sharded_rte(rte) || is_source_target(query, rte))
				return true;
			if (rte->rtekind == RTE_SUBQUERY &&
				find_sharded_walker((Node *) rte->subquery, context))
				return true;
		}
		foreach_node(CommonTableExpr, cte, query->cteList)
		{
			if (find_sharded_walker(cte->ctequery, context))
				return true;
		}
		return false;
	}
	return expression_tree_walker(node, find_sharded_walker, context);
}

/* Does any level mark rows? */
static bool
locks_rows(Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		if (level->rowMarks != NIL || (level->commandType != CMD_SELECT && level->commandType != CMD_INSERT &&
									   level->commandType != CMD_UTILITY))
			return true;
	}
	return false;
}

/*
 * Can some level of the statement lock rows?  The test is fast for most statements, because it also runs for
 * statements without sharded tables.
 */
static bool
may_lock_rows(const Query *query)
{
	if (query->rowMarks != NIL || query->hasSubLinks || query->cteList != NIL)
		return true;
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		if (rte->rtekind == RTE_SUBQUERY)
			return true;
	}
	return false;
}

/* True if core never pulls this sub-select up into the level around it. */
static bool
is_fence(const Query *query)
{
	return query->hasAggs || query->hasWindowFuncs || query->groupClause != NIL ||
		query->groupingSets != NIL || query->havingQual != NULL ||
		query->limitOffset != NULL || query->limitCount != NULL ||
		query->distinctClause != NIL;
}

static bool
mark_walker(Node *node, MarkContext *cxt)
{
	if (node == NULL)
		return false;

	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varattno < 0)
		{
			MarkLevel *level = cxt->level;

			for (Index up = var->varlevelsup; up > 0 && level != NULL; up--)
				level = level->parent;
			if (level != NULL)
				level->syscol_rels = bms_add_member(level->syscol_rels, var->varno);
		}
		return false;
	}

	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_SUBQUERY)
		{
			mark_query(rte->subquery, cxt, cxt->level->locks && !is_fence(rte->subquery));
			return false;
		}
		/* the walker below visits the rest of it (functions, VALUES, ...) */
		return false;
	}

	if (IsA(node, CommonTableExpr))
	{
		CommonTableExpr *cte = (CommonTableExpr *) node;
		Query	   *query = castNode(Query, cte->ctequery);

		/* core may inline it at any level that references it */
		mark_query(query, cxt, cxt->any_locks && !is_fence(query) &&
				   cte->ctematerialized != CTEMaterializeAlways);
		return false;
	}

	if (IsA(node, SubLink))
	{
		SubLink    *sublink = (SubLink *) node;
		Query	   *query = castNode(Query, sublink->subselect);
		bool		may_join = false;

		/* if EXISTS becomes a join, even its GROUP BY and DISTINCT are removed */
		if (sublink->subLinkType == EXISTS_SUBLINK)
			may_join = true;
		else if (sublink->subLinkType == ANY_SUBLINK)
			may_join = !is_fence(query);

		mark_query(query, cxt, cxt->level->locks && may_join);
		return mark_walker(sublink->testexpr, cxt);
	}

	if (IsA(node, Query))
	{
		/* a Query at any other place: assume the worst */
		mark_query((Query *) node, cxt, cxt->level->locks);
		return false;
	}

	return expression_tree_walker(node, mark_walker, cxt);
}

/* Why core plans a sharded table of level, other than its target, over single shards; NULL: it need not. */
static const char *
single_scans_reason(const MarkLevel *level, int rtindex, const RangeTblEntry *rte)
{
	if (bms_is_member(rtindex, level->syscol_rels))
		return "a system column of the table is used";
	if (rte->tablesample != NULL)
		return "TABLESAMPLE";
	if (rte->securityQuals != NIL)
		return "row security policies";
	return level->locks ? "rows are locked or changed" : NULL;
}

/*
 * Turns the RTEs of sharded parents at this level and below into foreign-table RTEs. locks: the level may be pulled
 * up into a level that marks rows.
 */
static void
mark_query(Query *query, MarkContext *cxt, bool locks)
{
	MarkLevel	level = {0};
	int			rtindex = 0;

	level.parent = cxt->level;
	level.query = query;
	level.locks = locks || query->rowMarks != NIL ||
		query->commandType == CMD_UPDATE || query->commandType == CMD_DELETE ||
		query->commandType == CMD_MERGE;

	/* lower levels first, because they may use system columns of this level */
	cxt->level = &level;
	query_tree_walker(query, mark_walker, cxt,
					  QTW_EXAMINE_RTES_BEFORE | QTW_IGNORE_RT_SUBQUERIES);
	cxt->level = level.parent;

	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		const char *reason;

		rtindex++;
		if (rtindex == query->resultRelation || !is_sharded_rte(rte))
			continue;
		reason = single_scans_reason(&level, rtindex, rte);
		if (reason != NULL)
		{
			shard_refusal_of_table(rte->relid, reason);
			continue;
		}
		rte->relkind = RELKIND_FOREIGN_TABLE;
		rte->inh = false;
	}
	bms_free(level.syscol_rels);
}

/*
 * Is it an INSERT of several rows with volatile functions?  These may read the rows before their own, so those rows
 * have to be on their nodes when the functions are called.
 */
static bool
computes_rows_in_step(Query *query)
{
	if (query->commandType != CMD_INSERT)
		return false;
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		if (rte->rtekind == RTE_VALUES)
			return (shard_plan_functions_of_query(query) & SHARD_FUNCTIONS_VOLATILE) != 0;
	}
	return false;
}

/*
 * Does the statement lock rows, and may its rows be fetched in parts: by a cursor, or by the loop of a function?  Then
 * it must leave out rows that the transaction changes between two parts.  A node that runs the whole statement does not
 * leave them out.
 *
 * Core plans such statements without CURSOR_OPT_PARALLEL_OK.  In a loop, a statement with a single row has only one
 * part.  A cursor with a single row may still be fetched from after a change.
 */
static bool
locks_in_parts(Query *query, int cursor_options)
{
	Node	   *limit;

	if ((cursor_options & CURSOR_OPT_PARALLEL_OK) != 0 || query->commandType != CMD_SELECT || query->hasModifyingCTE ||
		!may_lock_rows(query) || !locks_rows(query))
		return false;
	if ((cursor_options & CURSOR_OPT_FAST_PLAN) != 0 || query->limitCount == NULL || query->limitOption != LIMIT_OPTION_COUNT)
		return true;
	limit = eval_const_expressions(NULL, query->limitCount);
	return !IsA(limit, Const) || castNode(Const, limit)->constisnull || DatumGetInt64(castNode(Const, limit)->constvalue) > 1;
}

/*
 * Does the statement insert rows that its user may not read, into shards with replicas?  COPY sends such rows to the
 * replicas, too.  If a node ran the statement, the rows would have to be read there before they are sent to replicas.
 */
static bool
inserts_unread_replicas(Query *query)
{
	RangeTblEntry *rte;
	const ShardMap *map;
	Oid			userid;

	if (query->commandType != CMD_INSERT || query->onConflict != NULL || query->returningList != NIL)
		return false;
	rte = rt_fetch(query->resultRelation, query->rtable);
	map = shard_map_get_levels(rte->relid, false);
	userid = shard_rte_check_as_user(query, rte);
	return map != NULL && map->has_replicas && !shard_table_right_on_all(rte->relid, OidIsValid(userid) ? userid : GetUserId(), ACL_SELECT);
}

/* The plan of a statement that nodes run unchanged, or NULL. */
static PlannedStmt *
plan_whole_statement(Query *parse, const char *query_string, int cursor_options,
					 ParamListInfo params)
{
	PlannedStmt *stmt = NULL;
	bool		in_step = computes_rows_in_step(parse) || inserts_unread_replicas(parse);

	shard_system_column_check_versions(parse);
	if (shard_guc_enable_router && !in_step && !locks_in_parts(parse, cursor_options))
		stmt = shard_statement_cache_plan(parse);
	shard_system_column_check_ctids(parse, stmt != NULL);
	if (stmt == NULL && shard_guc_enable_statement_push && !in_step)
		stmt = shard_push_plan(parse, query_string, cursor_options, params);
	if (stmt == NULL)
		stmt = shard_source_plan(parse, query_string, cursor_options, params);

	/* as in standard_planner() */
	if (stmt != NULL && (cursor_options & CURSOR_OPT_SCROLL) &&
		!ExecSupportsBackwardScan(stmt->planTree))
		stmt->planTree = materialize_finished_plan(stmt->planTree);
	return stmt;
}

/* Result: can reference tables be read on the nodes of the statement's other tables? */
static void
mark_statement(Query *query)
{
	MarkContext cxt = {0};

	if (shard_guc_enable_decorrelation)
		shard_decorrelate(query);
	if (shard_guc_enable_partial_aggregate)
		shard_two_level_group(query);
	cxt.any_locks = locks_rows(query);
	mark_query(query, &cxt, false);
}

/*
 * Other libraries' planner hooks that come after this one do not see statements that are planned without core.  This
 * function calls them with an empty SELECT that has the statement's text and queryId, so that libraries that count
 * plans count the statement.
 */
static void
show_to_others(const Query *statement, const char *query_string, ExplainState *es)
{
	Query	   *shown;

	if (prev_planner_hook == NULL || statement->queryId == 0)
		return;
	shown = makeNode(Query);
	shown->commandType = CMD_SELECT;
	shown->querySource = statement->querySource;
	shown->queryId = statement->queryId;
	shown->canSetTag = true;
	shown->jointree = makeFromExpr(NIL, NULL);
	shown->stmt_location = statement->stmt_location;
	shown->stmt_len = statement->stmt_len;
	(void) shard_call_planner(prev_planner_hook, shown, query_string, 0, NULL, es);
}

/* The plan of a statement that does not need core's planner, or NULL. */
static PlannedStmt *
plan_without_core(Query *parse, bool sharded, const char *query_string, int cursor_options, ParamListInfo params,
				  ExplainState *es)
{
	PlannedStmt *stmt = NULL;

	if (parse->commandType != CMD_UTILITY && OidIsValid(shard_option_cluster_server()))
		shard_source_check_conflicts(parse);
	if (!sharded && parse->commandType != CMD_UTILITY && !locks_in_parts(parse, cursor_options))
		stmt = shard_single_plan(parse, cursor_options);
	else if (sharded)
	{
		shard_source_merge_views(parse);
		stmt = plan_whole_statement(parse, query_string, cursor_options, params);
	}
	if (stmt != NULL)
		show_to_others(parse, query_string, es);
	return stmt;
}

static PlannedStmt *
plan_by_core(Query *parse, bool sharded, const char *query_string, int cursor_options, ParamListInfo params,
			 ExplainState *es)
{
	PlannedStmt *stmt;
	bool		may_lock = parse->commandType != CMD_UTILITY && OidIsValid(shard_option_cluster_server()) && may_lock_rows(parse);
	bool		marked = sharded && shard_guc_enable_shard_scan;

	(void) shard_late_lock_enter(may_lock ? parse : NULL, (cursor_options & CURSOR_OPT_PARALLEL_OK) == 0);
	if (may_lock || sharded)
		shard_locked_keys(parse);
	if (sharded)
		shard_source_cte_replace(parse);
	if (marked)
		mark_statement(parse);
	statement_marked = marked;
	stmt = shard_call_planner(prev_planner_hook ? prev_planner_hook : standard_planner,
							  parse, query_string, cursor_options, params, es);
	shard_source_cte_finish(stmt);
	if (marked)
	{
		shard_refusal_explain(stmt);
		shard_jit_adjust(stmt);
	}
	shard_window_print_replace(stmt);
	shard_async_subplan_adjust(stmt);
	return stmt;
}

static PlannedStmt *
shard_planner(Query *parse, const char *query_string, int cursor_options, ParamListInfo params,
			  ExplainState *es)
{
	bool		sharded = parse->commandType != CMD_UTILITY &&
		OidIsValid(shard_option_cluster_server()) &&
		find_sharded_walker((Node *) parse, NULL);

	/* functions that are evaluated during planning run statements, which are planned with this state */
	bool		outer_marked = statement_marked;
	ShardSystemColumns outer_columns = shard_system_column_enter(sharded ? parse : NULL);
	ShardRefusals outer_refusals = shard_refusal_enter();
	List	   *outer_ctes = shard_source_cte_enter();
	ShardLateLocks outer_late = shard_late_lock_enter(NULL, false);
	PlannedStmt *volatile stmt;

	PG_TRY();
	{
		stmt = plan_without_core(parse, sharded, query_string, cursor_options, params, es);
		if (stmt == NULL)
			stmt = plan_by_core(parse, sharded, query_string, cursor_options, params, es);
	}
	PG_FINALLY();
	{
		statement_marked = outer_marked;
		shard_system_column_leave(outer_columns);
		shard_refusal_leave(outer_refusals);
		shard_source_cte_leave(outer_ctes);
		shard_late_lock_leave(outer_late);
	}
	PG_END_TRY();
	return stmt;
}

SHARD_PLANNER_ENTRY(planner_entry, shard_planner)

/*
 * Our FdwRoutine, made once.  Core's look-up by server would read three catalogs and call the handler for every
 * relation of every query.
 */
static FdwRoutine *
cluster_routine(Oid serverid)
{
	static FdwRoutine *routine = NULL;

	if (routine == NULL)
	{
		FdwRoutine *made = GetFdwRoutineByServerId(serverid);

		routine = MemoryContextAlloc(TopMemoryContext, sizeof(FdwRoutine));
		memcpy(routine, made, sizeof(FdwRoutine));
	}
	return routine;
}

/*
 * Is it a reference table whose replicas on the nodes may be read?  Not if its rows are locked or changed, or if this
 * statement inserts into it.
 */
static bool
is_readable_reference(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte)
{
	Query	   *parse = root->parse;

	if (!statement_marked || rel->reloptkind != RELOPT_BASEREL ||
		rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION ||
		rte->inh || rte->tablesample != NULL || rte->securityQuals != NIL ||
		root->rowMarks != NIL || parse->commandType == CMD_UPDATE ||
		parse->commandType == CMD_DELETE || parse->commandType == CMD_MERGE)
		return false;
	if (parse->resultRelation > 0 &&
		planner_rt_fetch(parse->resultRelation, root)->relid == rte->relid)
		return false;
	return shard_reference_is(rte->relid) && !has_subclass(rte->relid);
}

static void
shard_simple_rel(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);

	if (!shard_relinfo_is_sharded(rte))
	{
		/* core offers joins with the table to the wrapper, and plans its scans itself */
		if (is_readable_reference(root, rel, rte))
		{
			rel->serverid = shard_option_cluster_server();
			rel->fdwroutine = cluster_routine(rel->serverid);
		}
		return;
	}

	/* core sets rel->userid */
	rel->serverid = shard_option_cluster_server();
	rel->useridiscurrent = false;
	rel->fdwroutine = cluster_routine(rel->serverid);
	rel->tuples = shard_relinfo_tuples(rte->relid, rel->tuples);
	rel->pages = 0;
}

SHARD_SIMPLE_REL_ENTRY(simple_rel_entry, prev_simple_rel_hook, shard_simple_rel)

/*
 * Uses the statistics that ANALYZE has computed for the whole partition tree.  A hook that returns statistics also
 * has to check permissions.  This one checks them as core does for a table without row security.
 */
static bool
shard_relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attnum,
					 VariableStatData *vardata)
{
	Oid			userid;

	if (prev_stats_hook && prev_stats_hook(root, rte, attnum, vardata))
		return true;
	if (!shard_relinfo_is_sharded(rte))
		return false;

	vardata->statsTuple = SearchSysCache3(STATRELATTINH,
										  ObjectIdGetDatum(rte->relid),
										  Int16GetDatum(attnum),
										  BoolGetDatum(true));
	vardata->freefunc = ReleaseSysCache;
	if (HeapTupleIsValid(vardata->statsTuple))
	{
		userid = vardata->rel && OidIsValid(vardata->rel->userid) ?
			vardata->rel->userid : GetUserId();
		vardata->acl_ok = rte->securityQuals == NIL &&
			(pg_class_aclcheck(rte->relid, userid, ACL_SELECT) == ACLCHECK_OK ||
			 pg_attribute_aclcheck(rte->relid, attnum, userid, ACL_SELECT) == ACLCHECK_OK);
	}
	else
		vardata->acl_ok = true;
	return true;
}

static void
shard_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (prev_rel_pathlist_hook)
		prev_rel_pathlist_hook(root, rel, rti, rte);
	if (!statement_marked)
		return;
	shard_absorb_subselect(root, rel, rte);
	/* a reference table, marked by shard_simple_rel() */
	if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION &&
		shard_relinfo_is_ours(rel))
		shard_relinfo_create_reference(root, rel);
}

void
shard_hooks_init(void)
{
	shard_relinfo_init(shardGetForeignPlan);
	prev_planner_hook = planner_hook;
	planner_hook = planner_entry;
	prev_simple_rel_hook = SHARD_SIMPLE_REL_HOOK;
	SHARD_SIMPLE_REL_HOOK = simple_rel_entry;
	prev_stats_hook = get_relation_stats_hook;
	get_relation_stats_hook = shard_relation_stats;
	prev_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = shard_rel_pathlist;
	shard_source_cte_init();
}
