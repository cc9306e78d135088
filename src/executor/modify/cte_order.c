/*
 * cte_order.c
 *	  Runs statements of which two parts write to the same sharded table, or refuses them.
 *
 * If one part inserts rows, and another one changes rows:
 *
 *	 WITH d AS (DELETE FROM t WHERE ...) INSERT INTO t ...
 *
 * All parts of a statement see the rows that existed before it.  But a node shows to each part what the same
 * transaction has written there.  A DELETE or UPDATE that runs after the INSERT would change the inserted rows, too.
 * So the DELETE or UPDATE must run before the INSERT:
 *
 *	 a part of WITH				this file runs it first, and stores what it returns
 *	 the main statement			core runs it first, if nothing reads what the INSERT returns
 *
 * In all other cases the statement is refused, for example if the rows to change depend on what the INSERT returns.
 *
 * SQL does not define the order in which the parts of a statement change rows.  A part that only reads the table must
 * not see what a part that runs first has changed.  Such statements are refused, too.  A statement that must read
 * before it writes (read_first.c) reads before all of this.
 *
 * If two parts change rows, PostgreSQL changes each row only once.  A node would change it twice.  So the statement
 * is refused.  Two exceptions: if both parts delete rows, the second one does not find those of the first one.
 * DELETE runs before INSERT ... ON CONFLICT DO UPDATE, as before any INSERT.  A foreign key may also change rows of
 * another part's table (tied_parts.c).  That part may also be one that writes a reference table: nodes check rows that
 * refer to a row before it is deleted, and delete them then.
 *
 * The parts that must be first run when the executor asks the statement's plan for its first row.  That is within
 * core's ExecutorRun(), so other libraries measure them as part of the statement, and treat statements of their
 * triggers and functions as nested ones.
 *
 * Assumption: only CteScan nodes read WITH queries.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/modify/cte_order.h"
#include "executor/modify/read_first.h"
#include "executor/tied_parts.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "utils/lsyscache.h"

typedef enum PartKind
{
	PART_INSERT,				/* all other INSERTs */
	PART_UPSERT,				/* INSERT ... ON CONFLICT DO UPDATE */
	PART_UPDATE,
	PART_DELETE,
	PART_MERGE
} PartKind;

/* A part of a statement that writes to a sharded table, or to a reference table. */
typedef struct WritingPart
{
	Plan	   *plan;
	int			cte;			/* number of its WITH query among the statement's subplans, 1-based; 0: the main statement */
	PartKind	kind;
	Oid			parent;			/* the table, or the top of its partition tree */
	List	   *members;		/* OIDs of this table, and of its partitions or the tables that inherit from it */
	Oid			userid;			/* user of the connections to nodes */
	bool		is_reference;
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

	if (scans_cte(plan, cte))
		return true;
	foreach_ptr(Plan, subplan, stmt->subplans)
	{
		other++;
		if (other != cte && subplan != plan && scans_cte(plan, other) &&
			reaches_cte(stmt, subplan, cte))
			return true;
	}
	return false;
}

/* The state of a part of WITH. */
static PlanState *
part_state(EState *estate, const WritingPart *part)
{
	return list_nth(estate->es_subplanstates, part->cte - 1);
}

/* Does ps read what the plan returns, directly or through another WITH query?  Looks at sub-selects, too. */
static bool
reads_plan(PlanState *ps, void *plan)
{
	if (IsA(ps, CteScanState))
	{
		PlanState  *query = ((CteScanState *) ps)->cteplanstate;

		if (query->plan == plan || reads_plan(query, plan))
			return true;
	}
	return planstate_tree_walker(ps, reads_plan, plan);
}

/* Does any part of the statement read what part returns? */
static bool
is_read(const PlannedStmt *stmt, const WritingPart *part)
{
	int			cte = part->cte;

	return cte == 0 || shard_plan_walk_statement(stmt, is_scan_of_cte, &cte);
}

/* ---- parts that write ---- */

static bool
is_shard(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(relid);
}

/* Are there shards among the tables?  The statement may have locked only a part of them. */
static bool
has_shards(const List *members)
{
	foreach_oid(member, members)
	{
		if (is_shard(member))
			return true;
	}
	return false;
}

static PartKind
part_kind(CmdType operation, bool does_update)
{
	switch (operation)
	{
		case CMD_UPDATE:
			return PART_UPDATE;
		case CMD_DELETE:
			return PART_DELETE;
		case CMD_MERGE:
			return PART_MERGE;
		default:
			return does_update ? PART_UPSERT : PART_INSERT;
	}
}

static List *
add_part(List *parts, EState *estate, Plan *plan, int cte)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;
	WritingPart part = {plan, cte, PART_INSERT, InvalidOid, NIL, InvalidOid, false};
	WritingPart *result;

	if (plan == NULL)
		return parts;
	if (IsA(plan, ModifyTable))
	{
		ModifyTable *modify = (ModifyTable *) plan;
		Index		named = modify->rootRelation > 0 ? modify->rootRelation : linitial_int(modify->resultRelations);

		part.kind = part_kind(modify->operation, modify->onConflictAction == ONCONFLICT_UPDATE);
		/* parts may name any table of its partition tree */
		part.parent = shard_map_top(rt_fetch(modify->nominalRelation, stmt->rtable)->relid);
		part.userid = shard_result_userid(estate->es_result_relations[named - 1], estate);
	}
	else if (IsA(plan, CustomScan) &&
			 strcmp(((CustomScan *) plan)->methods->CustomName, SHARD_SOURCE_NAME) == 0)
	{
		const ShardSourcePlan *source = shard_plan_private_unpack(SHARD_PLAN_SOURCE, ((CustomScan *) plan)->custom_private);

		part.kind = part_kind(source->operation, source->does_update);
		part.parent = source->relid;
		part.userid = OidIsValid(source->check_as_user) ? source->check_as_user : GetUserId();
	}
	if (OidIsValid(part.parent))
		part.members = find_all_inheritors(part.parent, NoLock, NULL);
	part.is_reference = list_length(part.members) == 1 && shard_reference_is(part.parent);
	if (!part.is_reference && !has_shards(part.members))
		return parts;
	result = palloc(sizeof(WritingPart));
	*result = part;
	return lappend(parts, result);
}

static List *
find_parts(EState *estate)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;
	List	   *parts = NIL;
	int			cte = 0;

	foreach_ptr(Plan, subplan, stmt->subplans)
		parts = add_part(parts, estate, subplan, ++cte);
	return add_part(parts, estate, stmt->planTree, 0);
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

/* Is other one of the tables of the part, or does it share shards with them? */
static bool
shares_shards(const WritingPart *part, Oid other)
{
	if (part->parent == other)
		return true;
	foreach_oid(member, find_all_inheritors(other, NoLock, NULL))
	{
		if (list_member_oid(part->members, member))
			return true;
	}
	return false;
}

/* Does the statement lock rows of the range table entry? */
static bool
locks_rows_of(const PlannedStmt *stmt, Index rti)
{
	foreach_ptr(PlanRowMark, mark, stmt->rowMarks)
	{
		if (mark->rti == rti && mark->strength != LCS_NONE)
			return true;
	}
	return false;
}

/* Raises if a part of the statement only reads, or locks, the table that change writes to. */
static void
check_not_read(const PlannedStmt *stmt, const WritingPart *change)
{
	Index		rti = 0;

	foreach_node(RangeTblEntry, rte, stmt->rtable)
	{
		rti++;
		/* EXCLUDED has the relkind of a composite type */
		if (rte->rtekind == RTE_RELATION && rte->relkind != RELKIND_COMPOSITE_TYPE &&
			(shard_rte_required_perms(stmt, rte) == ACL_SELECT || locks_rows_of(stmt, rti)) &&
			shares_shards(change, shard_map_top(rte->relid)))
			refuse(change->parent, _("Another part of it reads the table, and would see what WITH has changed."));
	}
}

/*
 * Must change run before insert?  Raises if that is impossible.  The main statement runs before an INSERT whose rows
 * nothing reads.
 */
static bool
comes_first(EState *estate, const WritingPart *change, const WritingPart *insert)
{
	const PlannedStmt *stmt = estate->es_plannedstmt;

	if ((change->kind != PART_UPDATE && change->kind != PART_DELETE) || change->is_reference ||
		(insert->kind != PART_INSERT && insert->kind != PART_UPSERT) || !shares_shards(change, insert->parent))
		return false;
	if (change->cte == 0 ? is_read(stmt, insert) : reads_plan(part_state(estate, change), insert->plan))
		refuse(change->parent, _("What it changes must not depend on what it inserts."));
	if (change->cte != 0 && !reaches_cte(stmt, insert->plan, change->cte))
		check_not_read(stmt, change);
	return change->cte != 0;
}

/* ---- parts that change the same rows ---- */

/* Might a row be changed by parts of both kinds, other than by DELETE first? */
static bool
may_change_twice(PartKind kind, PartKind other)
{
	if (kind == PART_MERGE || other == PART_MERGE)
		return true;
	if (kind == PART_INSERT || other == PART_INSERT)
		return false;
	if (kind == PART_UPSERT || other == PART_UPSERT)
		return kind != PART_DELETE && other != PART_DELETE;
	return kind == PART_UPDATE || other == PART_UPDATE;
}

static List *
shards_of(const WritingPart *part)
{
	List	   *result = NIL;

	foreach_oid(member, part->members)
	{
		if (is_shard(member))
			result = lappend_oid(result, member);
	}
	return result;
}

/* One shard of each sharded table that the part changes; or the reference table. */
static List *
changed_shards(const WritingPart *part, EState *estate)
{
	List	   *shards = NIL;

	if (part->is_reference)
		return list_make1_oid(part->parent);
	if (IsA(part->plan, ModifyTable))
	{
		foreach_int(rti, ((ModifyTable *) part->plan)->resultRelations)
		{
			Oid			relid = exec_rt_fetch(rti, estate)->relid;

			if (is_shard(relid))
				shards = lappend_oid(shards, relid);
		}
	}
	return shard_tied_parts_samples(shards != NIL ? shards : shards_of(part));
}

/* Names of the columns on the node that the part, an UPDATE or an upsert, updates; NIL: any. */
static List *
updated_columns(const ModifyTable *modify, EState *estate, bool renames)
{
	Oid			relid = exec_rt_fetch(linitial_int(modify->resultRelations), estate)->relid;
	List	   *result = NIL;

	if (renames)
		return NIL;
	foreach_int(rti, modify->resultRelations)
	{
		const ResultRelInfo *target = estate->es_result_relations[rti - 1];

		/* NULL: the statement's values exclude the partition */
		if (target != NULL && shard_tied_parts_updates_others(target->ri_RelationDesc))
			return NIL;
	}
	foreach_int(attno, modify->operation == CMD_INSERT ? modify->onConflictCols : (List *) linitial(modify->updateColnosLists))
	{
		char	   *name = get_attname(relid, attno, true);

		if (name != NULL)
			result = lappend(result, name);
	}
	return result;
}

/* May foreign keys change rows of other's table because of what the part changes? */
static bool
reaches_by_keys(const WritingPart *part, const WritingPart *other, EState *estate)
{
	ShardTiedChange change = {0};

	/* rows of reference tables reach the nodes after those of other parts */
	if (part->kind == PART_INSERT || other->is_reference || (part->is_reference && other->kind == PART_DELETE))
		return false;
	change.userid = part->userid;
	change.deletes = part->kind == PART_DELETE || part->kind == PART_MERGE;
	change.updates = part->kind != PART_DELETE;
	foreach_oid(shard, changed_shards(part, estate))
	{
		const ShardMap *map = shard_map_get(shard);

		change.shard = shard;
		if (IsA(part->plan, ModifyTable) && !change.deletes)
			change.columns = updated_columns((const ModifyTable *) part->plan, estate, !part->is_reference && (map == NULL || map->renames));
		if (shard_tied_parts_reach(&change, shards_of(other)))
			return true;
	}
	return false;
}

static void
check_keys(const WritingPart *part, const WritingPart *other, EState *estate)
{
	if (reaches_by_keys(part, other, estate))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("two parts of the statement may change the same row of table \"%s\"", get_rel_name(other->parent)),
				 errdetail("One of them changes rows of table \"%s\", and a foreign key then changes rows of this table before the other part does.",
						   get_rel_name(part->parent)),
				 errhint("Use several statements in a transaction.")));
}

static void
check_changes(List *parts, EState *estate)
{
	int			nparts = list_length(parts);

	for (int i = 0; i < nparts; i++)
	{
		const WritingPart *part = list_nth(parts, i);

		for (int j = i + 1; j < nparts; j++)
		{
			const WritingPart *other = list_nth(parts, j);

			if (!part->is_reference && may_change_twice(part->kind, other->kind) && shares_shards(part, other->parent))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("two parts of the statement may change the same row of table \"%s\"", get_rel_name(part->parent)),
						 errdetail("The second part would change it again, because a node shows it what the first part has changed."),
						 errhint("Use several statements in a transaction.")));
			check_keys(part, other, estate);
			check_keys(other, part, estate);
		}
	}
}

/* ---- running ---- */

/* Runs the UPDATE and DELETE parts of WITH that must run before an INSERT, and stores what they return. */
static void
run_changes_first(EState *estate, List *parts)
{
	List	   *first = NIL;

	foreach_ptr(WritingPart, change, parts)
	{
		foreach_ptr(WritingPart, insert, parts)
		{
			if (comes_first(estate, change, insert))
				first = list_append_unique_ptr(first, change);
		}
	}
	foreach_ptr(WritingPart, change, first)
		shard_read_first_store(estate, part_state(estate, change));
}

/* Replaces the function of a statement's top node, for its first row. */
static TupleTableSlot *
first_row(PlanState *ps)
{
	RunningStatement *statement = running;
	EState	   *estate = ps->state;
	List	   *parts = NIL;
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);

	while (statement->top != ps)
		statement = statement->outer;
	statement->top = NULL;
	ExecSetExecProcNode(ps, statement->next_row);
	if (estate->es_plannedstmt->hasModifyingCTE)
	{
		parts = find_parts(estate);
		check_changes(parts, estate);
	}
	if (statement->reads_first)
		shard_read_first(estate, ps);
	run_changes_first(estate, parts);
	MemoryContextSwitchTo(oldcxt);
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
