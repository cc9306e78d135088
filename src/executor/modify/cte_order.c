/*
 * cte_order.c
 *	  Statements that insert rows into a sharded table, and change rows of the same table in another
 *	  part.
 *
 *	 WITH d AS (DELETE FROM t WHERE ...) INSERT INTO t ...
 *
 * All parts of a statement see the rows that existed before it.  But a node shows to each part what
 * the same transaction has written there.  A DELETE or UPDATE that runs after the INSERT would
 * change the inserted rows, too.  So the DELETE or UPDATE must run before the INSERT:
 *
 *	 nothing reads what it returns				core would run it last; this file runs it first
 *	 the INSERT reads what it returns			it runs before the INSERT anyway
 *	 nothing reads what the INSERT returns		core runs the INSERT last
 *	 otherwise									refused
 *
 * SQL does not define the order in which the parts of a statement change rows.  A part that only
 * reads the table must not see what a part that runs first has changed.  Such statements are
 * refused, too.  A statement that must read before it writes (read_first.c) does so before all of
 * this.
 *
 * The parts that must be first run when the statement's plan is asked for its first row.  That is
 * within core's ExecutorRun(), so other libraries measure them as part of the statement, and treat
 * statements of their triggers and functions as nested ones.
 *
 * Assumption: only CteScan nodes read WITH queries.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/modify/cte_order.h"
#include "executor/modify/read_first.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "utils/lsyscache.h"

/* A part of a statement that writes to a sharded table. */
typedef struct WritingPart
{
	Plan	   *plan;
	int			cte;			/* number of its WITH query among the statement's subplans, 1-based; 0: the main statement */
	bool		inserts;		/* otherwise it updates or deletes */
	Oid			parent;			/* the sharded table, or the top of its partition tree */
} WritingPart;

/* A running statement whose plan was not asked for a row yet. */
typedef struct RunningStatement
{
	struct RunningStatement *outer;
	PlanState  *top;
	bool		reads_first;	/* shard_read_first_is_needed() */
	ExecProcNodeMtd next_row;	/* the original function of top, which first_row() replaces */
} RunningStatement;

static RunningStatement *running = NULL;

/* ---- dependencies ---- */

static bool
is_scan_of_cte(Plan *plan, void *cte)
{
	return IsA(plan, CteScan) && ((CteScan *) plan)->ctePlanId == *(int *) cte;
}

/* Does plan itself read WITH query number cte? */
static bool
scans_cte(Plan *plan, int cte)
{
	return shard_plan_walk(plan, is_scan_of_cte, &cte);
}

/* Does plan read it directly, or through another WITH query? */
static bool
reaches_cte(const PlannedStmt *stmt, Plan *plan, int cte)
{
	int			other = 0;
	ListCell   *lc;

	if (scans_cte(plan, cte))
		return true;
	foreach(lc, stmt->subplans)
	{
		other++;
		if (other != cte && lfirst(lc) != plan && scans_cte(plan, other) &&
			reaches_cte(stmt, lfirst(lc), cte))
			return true;
	}
	return false;
}

/* Does any part of the statement read what part returns? */
static bool
is_read(const PlannedStmt *stmt, const WritingPart *part)
{
	int			cte = part->cte;

	return cte == 0 || shard_plan_walk_statement(stmt, is_scan_of_cte, &cte);
}

/* ---- parts that write ---- */

/* Does relid's partition tree have shards?  The statement may have locked only a part of the tree. */
static bool
has_shards(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(lfirst_oid(lc)))
			return true;
	}
	return false;
}

static List *
add_part(List *parts, const PlannedStmt *stmt, Plan *plan, int cte)
{
	WritingPart part = {plan, cte, false, InvalidOid};
	WritingPart *result;

	if (plan == NULL)
		return parts;
	if (IsA(plan, ModifyTable))
	{
		ModifyTable *modify = (ModifyTable *) plan;

		part.inserts = modify->operation == CMD_INSERT;
		/* parts may name any table of its partition tree */
		part.parent = shard_map_top(rt_fetch(modify->nominalRelation, stmt->rtable)->relid);
	}
	else if (IsA(plan, CustomScan) &&
			 strcmp(((CustomScan *) plan)->methods->CustomName, SHARD_SOURCE_NAME) == 0)
	{
		part.inserts = true;
		part.parent = ((ShardSourcePlan *) shard_plan_private_unpack(SHARD_PLAN_SOURCE, ((CustomScan *) plan)->custom_private))->relid;
	}
	if (!OidIsValid(part.parent) || !has_shards(part.parent))
		return parts;
	result = palloc(sizeof(WritingPart));
	*result = part;
	return lappend(parts, result);
}

static List *
find_parts(const PlannedStmt *stmt)
{
	List	   *parts = NIL;
	int			cte = 0;
	ListCell   *lc;

	foreach(lc, stmt->subplans)
		parts = add_part(parts, stmt, lfirst(lc), ++cte);
	return add_part(parts, stmt, stmt->planTree, 0);
}

/* ---- the order ---- */

static void
refuse(Oid parent, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot insert rows into sharded table \"%s\" and change others in one statement",
					get_rel_name(parent)),
			 errdetail_internal("%s", detail),
			 errhint("Use several statements in a transaction.")));
}

/* Raises if a part of the statement only reads parent. */
static void
check_not_read(const PlannedStmt *stmt, Oid parent)
{
	foreach_node(RangeTblEntry, rte, stmt->rtable)
	{
		/* EXCLUDED has the relkind of a composite type */
		if (rte->rtekind == RTE_RELATION && rte->relkind != RELKIND_COMPOSITE_TYPE &&
			shard_rte_required_perms(stmt, rte) == ACL_SELECT && shard_map_top(rte->relid) == parent)
			refuse(parent, _("Another part of it reads the table, and would see what WITH has changed."));
	}
}

/* Must change run before insert?  Raises if that is impossible. */
static bool
comes_first(const PlannedStmt *stmt, const WritingPart *change, const WritingPart *insert)
{
	if (insert->parent != change->parent)
		return false;
	if (!is_read(stmt, change))
		return true;
	if (is_read(stmt, insert) &&
		!(change->cte != 0 && reaches_cte(stmt, insert->plan, change->cte)))
		refuse(change->parent, _("What it changes must not depend on what it inserts."));
	return false;
}

/* Runs part to its end.  Core will find it finished. */
static void
run_part(EState *estate, const WritingPart *part)
{
	foreach_ptr(PlanState, ps, estate->es_auxmodifytables)
	{
		TupleTableSlot *slot;

		if (ps->plan != part->plan)
			continue;
		do
		{
			ResetPerTupleExprContext(estate);
			slot = ExecProcNode(ps);
		} while (!TupIsNull(slot));
	}
}

static void
run_changes_first(EState *estate)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	List	   *parts = find_parts(stmt);
	List	   *first = NIL;
	ListCell   *lc;

	foreach_ptr(WritingPart, change, parts)
	{
		foreach_ptr(WritingPart, insert, parts)
		{
			if (!change->inserts && insert->inserts &&
				comes_first(stmt, change, insert))
				first = list_append_unique_ptr(first, change);
		}
	}
	foreach(lc, first)
		check_not_read(stmt, ((WritingPart *) lfirst(lc))->parent);
	foreach(lc, first)
		run_part(estate, lfirst(lc));
	MemoryContextSwitchTo(oldcxt);
}

/* Replaces the function of a statement's top node, for its first row. */
static TupleTableSlot *
first_row(PlanState *ps)
{
	RunningStatement *statement = running;

	while (statement->top != ps)
		statement = statement->outer;
	statement->top = NULL;
	ExecSetExecProcNode(ps, statement->next_row);
	if (statement->reads_first)
		shard_read_first(ps->state, ps);
	if (ps->state->es_plannedstmt->hasModifyingCTE)
		run_changes_first(ps->state);
	/* not ExecProcNode(), which would measure the node twice */
	return statement->next_row(ps);
}

void
shard_cte_order_run(QueryDesc *desc, ScanDirection direction, void (*run) (void *arg), void *arg)
{
	RunningStatement statement;

	statement.reads_first = shard_read_first_is_needed(desc);
	if ((!desc->plannedstmt->hasModifyingCTE && !statement.reads_first) || desc->estate->es_finished ||
		ScanDirectionIsNoMovement(direction))
	{
		run(arg);
		return;
	}
	statement.outer = running;
	statement.top = desc->planstate;
	statement.next_row = desc->planstate->ExecProcNodeReal;
	running = &statement;
	ExecSetExecProcNode(desc->planstate, first_row);
	PG_TRY();
	{
		run(arg);
	}
	PG_FINALLY();
	{
		running = statement.outer;
	}
	PG_END_TRY();
	/* the plan was never asked for a row */
	if (statement.top != NULL)
		ExecSetExecProcNode(statement.top, statement.next_row);
}
