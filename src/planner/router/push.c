/*
 * push.c
 *	  Plans of statements that write on all shards in parallel.
 *
 *	 UPDATE, DELETE, INSERT ... SELECT
 *		--> can nodes run its text unchanged (whole_query.c)?
 *		--> core plans the SELECT of the same rows, with our hooks
 *		--> is the plan one scan of shards, with nothing above it?
 *		--> the statement runs on each of these shards
 *
 * Such a plan proves that the result is exact: the changed or inserted rows, with their computed values, are the
 * disjoint union of one query's results on each shard (the invariant in relinfo.h).  So no row of one shard depends
 * on rows of another, and the statement finds everything that it needs on each shard.  An UPDATE must not change the
 * shard key.  The value that an INSERT puts into the target's key must be the shard key of the row that it reads.
 *
 * Planning takes as long as planning one SELECT over two or three tables, independent of the number of shards.
 */
#include "postgres.h"

#include "catalog/colocate.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "planner/path/refusal.h"
#include "planner/router/multi_assign.h"
#include "planner/router/shard_text.h"
#include "planner/router/statement.h"
#include "rewrite/rewriteManip.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

static PlannedStmt *
refuse(const char *reason)
{
	(void) shard_refusal_of_statement(reason);
	return NULL;
}

/* Can this file handle the statement? */
static bool
is_candidate(Query *query)
{
	RangeTblEntry *target;

	if ((query->commandType != CMD_INSERT && query->commandType != CMD_UPDATE &&
		 query->commandType != CMD_DELETE) ||
		query->hasModifyingCTE || query->rowMarks != NIL)
		return false;
	target = rt_fetch(query->resultRelation, query->rtable);
	if (target->rtekind != RTE_RELATION || target->relkind != RELKIND_PARTITIONED_TABLE ||
		shard_map_get_levels(target->relid, false) == NULL)
		return false;
	if (query->commandType == CMD_INSERT)
	{
		RangeTblRef *source;

		if (shard_map_get(target->relid) == NULL)
			return false;

		if (list_length(query->jointree->fromlist) != 1)
			return false;		/* one row */
		source = linitial_node(RangeTblRef, query->jointree->fromlist);
		return rt_fetch(source->rtindex, query->rtable)->rtekind == RTE_SUBQUERY;
	}
	return true;
}

/* A column of the statement's target, so that the SELECT of the same rows has an output column. */
static TargetEntry *
target_column(Query *query, AttrNumber attno)
{
	Oid			relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	Oid			type;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(relid, attno, &type, &typmod, &collation);
	return makeTargetEntry((Expr *) makeVar(query->resultRelation, attno, type, typmod, collation, 0),
						   1, NULL, false);
}

/*
 * The SELECT of the rows that query changes, with the new values, or of the rows that it inserts.  Its columns are in
 * the order of query's target list.  Except for INSERT, a column of the target comes first.  NULL if a multi-column
 * assignment cannot be part of a SELECT.
 */
static Query *
equivalent_select(Query *query, AttrNumber some_attno)
{
	Query	   *select = copyObject(query);
	List	   *tlist = NIL;

	if (query->commandType != CMD_INSERT)
		tlist = list_make1(target_column(query, some_attno));
	if (query->commandType == CMD_UPDATE)
	{
		select->targetList = shard_multi_assign_split(select->targetList);
		if (select->targetList == NIL)
			return NULL;
	}
	foreach_node(TargetEntry, entry, select->targetList)
	{
		entry->resno = list_length(tlist) + 1;
		entry->resjunk = false;
		tlist = lappend(tlist, entry);
	}
	select->commandType = CMD_SELECT;
	select->queryId = 0;		/* libraries that count statements must not count this SELECT */
	select->canSetTag = true;
	select->targetList = tlist;
	select->resultRelation = 0;
	select->returningList = NIL;
	select->onConflict = NULL;
	select->override = OVERRIDING_NOT_SET;
	return select;
}

/*
 * The scan that the plan consists of, or NULL.  *columns: the plan's columns, as expressions over the columns of the
 * scan.  A SubqueryScan above the scan is allowed if it only computes columns.
 */
static ForeignScan *
only_scan(PlannedStmt *stmt, List **columns)
{
	Plan	   *plan = stmt->planTree;
	ForeignScan *scan;

	if (stmt->subplans != NIL || stmt->rowMarks != NIL)
		return NULL;
	*columns = get_tlist_exprs(plan->targetlist, true);
	while (IsA(plan, SubqueryScan))
	{
		List	   *below;
		ListCell   *lc;

		if (plan->qual != NIL || plan->initPlan != NIL)
			return NULL;
		plan = ((SubqueryScan *) plan)->subplan;
		below = get_tlist_exprs(plan->targetlist, true);
		foreach(lc, *columns)
		{
			Var		   *var = lfirst(lc);

			/* a computed column is not a key, so replace it by any expression that is not a Var */
			lfirst(lc) = IsA(var, Var) ? list_nth(below, var->varattno - 1) : (void *) makeBoolConst(true, true);
		}
	}
	scan = (ForeignScan *) plan;
	if (!IsA(plan, ForeignScan) || plan->qual != NIL || plan->initPlan != NIL ||
		plan->lefttree != NULL || scan->scan.scanrelid != 0 ||
		scan->fs_server != shard_option_cluster_server())
		return NULL;
	return scan;
}

/*
 * Is the value for the target's key, column by column, the shard key of the row that is read? values: the inserted
 * values, over the scan's columns.
 */
static bool
inserts_key_of_source(Query *query, List *values, const ShardScanPlan *plan, List *attnos)
{
	List	   *columns = NIL;

	foreach_int(attno, attnos)
	{
		AttrNumber	found = InvalidAttrNumber;
		int			position = 0;

		foreach_node(TargetEntry, entry, query->targetList)
		{
			Var		   *value;

			position++;
			if (entry->resno != attno)
				continue;
			value = list_nth(values, position - 1);
			if (IsA(value, Var) && value->varno == INDEX_VAR)
				found = value->varattno;
		}
		columns = lappend_int(columns, found);
	}
	foreach_ptr(List, key, plan->key_columns)
	{
		if (equal(key, columns))
			return true;
	}
	return false;
}

/* The shards of relid with these shard numbers. */
static List *
shards_of(Oid relid, const Bitmapset *numbers)
{
	const ShardMap *map = shard_map_get_levels(relid, true);
	List	   *shards = NIL;
	int			shardno = -1;

	while ((shardno = bms_next_member(numbers, shardno)) >= 0)
		shards = lappend_oid(shards, map->shards[shardno].relid);
	return shards;
}

/*
 * Plans the SELECT.  The settings disable paths that fetch rows in other ways: the question is whether nodes can
 * compute all of it, not which way is the cheapest.
 */
static PlannedStmt *
plan_select(Query *select, const char *text, int cursor_options, ParamListInfo params)
{
	static const char *const settings[] = {
		"enable_hashjoin", "enable_mergejoin", "enable_nestloop", "enable_hashagg", "enable_sort",
		"shardfdw.enable_key_join", "shardfdw.query_per_node"
	};
	int			nestlevel = NewGUCNestLevel();
	PlannedStmt *stmt;

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i], "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	stmt = shard_plan_query(select, text,
							cursor_options & ~CURSOR_OPT_PARALLEL_OK & ~CURSOR_OPT_SCROLL, params);
	AtEOXact_GUC(true, nestlevel);
	return stmt;
}

/*
 * The range table of the SELECT has the partitions of two-level tables that the SELECT reads.  The statement locks
 * them, as core would do.  Since the SELECT was planned, its locks have prevented changes of the partitions.
 */
static void
lock_parts(PlannedStmt *stmt, const PlannedStmt *select)
{
	foreach_node(RangeTblEntry, rte, select->rtable)
	{
		if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_PARTITIONED_TABLE || !get_rel_relispartition(rte->relid) ||
			list_member_oid(stmt->relationOids, rte->relid))
			continue;
		LockRelationOid(rte->relid, RowExclusiveLock);
		rte = copyObject(rte);
		rte->rellockmode = RowExclusiveLock;
		stmt->rtable = lappend(stmt->rtable, rte);
		stmt->relationOids = lappend_oid(stmt->relationOids, rte->relid);
		shard_stmt_add_unprunable(stmt, list_length(stmt->rtable));
	}
}

PlannedStmt *
shard_push_plan(Query *query, const char *query_string, int cursor_options, ParamListInfo params)
{
	ShardStatementPlan plan = {0};
	ShardWholeQuery *text;
	const ShardScanPlan *scan_plan;
	Bitmapset  *shardnos;
	ForeignScan *scan;
	PlannedStmt *select;
	PlannedStmt *stmt;
	Query	   *rows;
	List	   *attnos;
	List	   *values;
	Oid			target;
	Oid			user;
	const char *reason;

	if (!is_candidate(query))
		return NULL;
	target = rt_fetch(query->resultRelation, query->rtable)->relid;
	attnos = shard_route_key_attnos(target);
	if (list_member_int(attnos, InvalidAttrNumber))
		return refuse("key with expressions");
	if ((query->commandType == CMD_UPDATE && shard_route_assigns_key(target, query->targetList)) ||
		(query->onConflict != NULL && shard_route_assigns_key(target, query->onConflict->onConflictSet)))
		return refuse("shard key is changed");
	/* sub-selects that the equivalent SELECT does not have would read one shard only */
	if (checkExprHasSubLink((Node *) query->returningList) ||
		checkExprHasSubLink((Node *) query->onConflict))
		return refuse("sub-select in RETURNING or ON CONFLICT");
	if (!shard_statement_user(query, &user))
		return refuse("several users");
	text = shard_whole_query_print(query, &reason);
	if (text == NULL)
		return refuse(reason);

	rows = equivalent_select(query, linitial_int(attnos));
	if (rows == NULL)
		return refuse("multi-column assignment");
	select = plan_select(rows, query_string, cursor_options, params);
	scan = only_scan(select, &values);
	if (scan == NULL)
		return refuse("the rows are not found by one scan of the shards");
	scan_plan = shard_plan_private_unpack(SHARD_PLAN_SCAN, scan->fdw_private);
	if (scan_plan->shard_template != NIL || scan_plan->locks_rows ||
		!shard_colocated(target, linitial_oid(scan_plan->relids)))
		return refuse("not shard by shard");
	if (query->commandType == CMD_INSERT && !inserts_key_of_source(query, values, scan_plan, attnos))
		return refuse("rows that are inserted on other shards than they are read on");

	/* the text also has tables that the planner may have removed from the SELECT */
	foreach_oid(relid, text->relids)
	{
		if (!shard_colocated(target, relid))
			return refuse("tables that are not colocated");
	}

	shardnos = shard_map_numbers(shard_map_get_levels(linitial_oid(scan_plan->relids), true), scan_plan->all_shards, scan_plan->shards);
	if (query->commandType == CMD_INSERT || !shard_text_make(query, attnos, shardnos, text, &plan))
	{
		plan.all_shards = scan_plan->all_shards;
		plan.shards = scan_plan->all_shards ? NIL : shards_of(linitial_oid(text->relids), shardnos);
	}
	stmt = shard_statement_make(query, text, &plan, NIL);
	lock_parts(stmt, select);
	return stmt;
}
