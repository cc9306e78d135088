/*
 * reference_pending.c
 *	  Refuses to read a reference table on nodes that lack rows of it.
 *
 * A statement that writes to a reference table sends its rows when they are complete (reference_trigger.c).  Before
 * that, the statement may call a VOLATILE function or a trigger, which must see the rows written so far.  A query of
 * the function sees them if it reads the table on the coordinator.  It would not see them if nodes read the table.
 *
 * When core checks the permissions of a statement that begins, the statement is recorded with the kinds of writes that
 * it may do.  COPY has no executor, and is recorded, too.  Each written row queues an event of our AFTER triggers, so
 * core knows whether there are rows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/option.h"
#include "catalog/pg_trigger.h"
#include "catalog/reference.h"
#include "commands/trigger.h"
#include "compat.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "plan/plan_walk.h"
#include "reference/reference_pending.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

typedef struct PendingTable
{
	Oid			relid;
	int			events;			/* TRIGGER_TYPE_... of writes that were not sent yet */
	CommandId	curcid;			/* of the statement's snapshot; queries with a higher one see its rows */
	int			level;			/* of the subtransaction */
	EState	   *estate;			/* NULL: unknown */
	bool		is_sole;		/* the statement has a single part that writes, so its number of rows is es_processed */
	bool		is_cut_off;		/* the statement was not run to its end, so its AFTER STATEMENT triggers do not fire */
	uint64		nsent;			/* number of rows */
	int			trigger_depth;	/* for an action of a foreign key: depth of its trigger; otherwise 0 */
} PendingTable;

/* List of PendingTable: running statements, outermost first.  In TopTransactionContext. */
static List *pending_tables = NIL;

/* ---------- which statements ---------- */

static int
written_events(AclMode required)
{
	return ((required & ACL_INSERT) ? TRIGGER_TYPE_INSERT : 0) |
		((required & ACL_UPDATE) ? TRIGGER_TYPE_UPDATE : 0) |
		((required & ACL_DELETE) ? TRIGGER_TYPE_DELETE : 0);
}

void
shard_reference_pending_note(List *permissions)
{
	foreach_ptr(const ShardPermissions, permission, permissions)
	{
		int			events = written_events(permission->requiredPerms);
		PendingTable *table;
		MemoryContext oldcxt;

		if (events == 0 || permission->relid < FirstNormalObjectId ||
			get_rel_relkind(permission->relid) != RELKIND_RELATION || !shard_reference_is(permission->relid))
			continue;
		oldcxt = MemoryContextSwitchTo(TopTransactionContext);
		table = palloc0(sizeof(PendingTable));
		table->relid = permission->relid;
		table->events = events;
		table->curcid = ActiveSnapshotSet() ? GetActiveSnapshot()->curcid : FirstCommandId;
		table->level = GetCurrentTransactionNestLevel();
		pending_tables = lappend(pending_tables, table);
		MemoryContextSwitchTo(oldcxt);
	}
}

static void
forget_table(void *arg)
{
	pending_tables = list_delete_ptr(pending_tables, arg);
}

static void
keep_until_statement_ends(PendingTable *table, EState *estate)
{
	MemoryContextCallback *callback = MemoryContextAllocZero(estate->es_query_cxt, sizeof(MemoryContextCallback));

	callback->func = forget_table;
	callback->arg = table;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
}

/*
 * Rows written by actions of foreign keys are sent at the end of the statement to which their
 * triggers belong.  Rows of the same kind are sent together.  Returns false if there are such rows.
 */
static bool
keep_until_sent(PendingTable *table)
{
	int			depth = DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0));

	foreach_ptr(const PendingTable, other, pending_tables)
	{
		if (other->relid == table->relid && other->events == table->events && other->trigger_depth == depth)
			return false;
	}
	table->trigger_depth = depth;
	return true;
}

int
shard_reference_pending_count(void)
{
	return list_length(pending_tables);
}

void
shard_reference_pending_start(QueryDesc *desc, int eflags, int nbefore)
{
	const PlannedStmt *stmt = desc->plannedstmt;

	/* functions called to choose partitions have ended */
	if ((stmt->commandType == CMD_SELECT && !stmt->hasModifyingCTE) || (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0)
	{
		/* row locks need the UPDATE permission */
		pending_tables = list_truncate(pending_tables, Min(nbefore, list_length(pending_tables)));
		return;
	}
	for (int i = list_length(pending_tables) - 1; i >= nbefore; i--)
	{
		PendingTable *table = list_nth(pending_tables, i);

		if ((eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0)
		{
			if (!keep_until_sent(table))
				forget_table(table);
			continue;
		}
		keep_until_statement_ends(table, desc->estate);
		table->estate = desc->estate;
		/* rows of statements that rules add are not counted */
		table->is_sole = stmt->commandType != CMD_SELECT && !stmt->hasModifyingCTE && stmt->canSetTag;
	}
}

/* ---------- which of them have rows that nodes lack ---------- */

static PendingTable *
find_innermost(Oid relid, int event)
{
	for (int i = list_length(pending_tables) - 1; i >= 0; i--)
	{
		PendingTable *table = list_nth(pending_tables, i);

		if (table->relid == relid && (table->events & event) != 0)
			return table;
	}
	return NULL;
}

void
shard_reference_pending_sent(Oid relid, int event, int64 nrows)
{
	PendingTable *table = find_innermost(relid, event);

	if (table == NULL)
		return;
	table->events &= ~event;
	table->nsent += nrows;
	/* an upsert of a single row, for example, has no rows of the other kinds */
	if (table->events == 0 || (table->is_sole && table->nsent == table->estate->es_processed))
		forget_table(table);
}

bool
shard_reference_pending_is_cut_off(Oid relid, int event)
{
	const PendingTable *table = find_innermost(relid, event);

	return table != NULL && table->is_cut_off;
}

/*
 * A caller of SPI may request a number of rows of RETURNING.  Then core stops there, and runs the
 * AFTER ROW triggers.
 */
void
shard_reference_pending_finish(const QueryDesc *desc)
{
	if (desc->planstate != NULL && IsA(desc->planstate, ModifyTableState) && !((ModifyTableState *) desc->planstate)->mt_done)
	{
		foreach_ptr(PendingTable, table, pending_tables)
			table->is_cut_off |= table->estate == desc->estate;
	}
}

/*
 * If the plan node scans a range table entry on the coordinator, removes it from *context, a set of
 * range table indexes.
 */
static bool
remove_scanned(Plan *plan, void *context)
{
	Bitmapset **rtis = context;

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
			*rtis = bms_del_member(*rtis, ((Scan *) plan)->scanrelid);
			return bms_is_empty(*rtis);
		default:
			return false;
	}
}

/* Are references to the table left to nodes?  That is the case if the coordinator neither scans nor writes them. */
static bool
leaves_to_nodes(const PlannedStmt *stmt, Oid relid)
{
	Bitmapset  *rtis = NULL;
	int			rti = 0;

	foreach_node(RangeTblEntry, rte, stmt->rtable)
	{
		rti++;
		if (rte->rtekind == RTE_RELATION && rte->relid == relid && !shard_is_result_relation(stmt, rti))
			rtis = bms_add_member(rtis, rti);
	}
	if (rtis != NULL)
		shard_plan_walk_statement(stmt, remove_scanned, &rtis);
	return !bms_is_empty(rtis);
}

/* Does the plan node run on nodes? */
static bool
uses_nodes(Plan *plan, void *context)
{
	return IsA(plan, CustomScan) ||
		(IsA(plan, ForeignScan) && shard_option_is_our_server(((ForeignScan *) plan)->fs_server));
}

/* A cursor may have been opened before rows were written, so each FETCH is checked. */
void
shard_reference_pending_check(const QueryDesc *desc)
{
	foreach_ptr(const PendingTable, table, pending_tables)
	{
		/* a query with the snapshot of the statement that writes these rows does not see them */
		if (desc->snapshot == NULL || desc->snapshot->curcid <= table->curcid ||
			!leaves_to_nodes(desc->plannedstmt, table->relid) || !AfterTriggerPendingOnRel(table->relid) ||
			!shard_plan_walk_statement(desc->plannedstmt, uses_nodes, NULL))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a function cannot read reference table \"%s\" on nodes now", get_rel_name(table->relid)),
				 errdetail("The statement that calls the function writes to the table, and nodes get its rows when it ends."),
				 errhint("Declare the function STABLE if it need not see what the statement writes. Otherwise read the table in a query without sharded tables.")));
	}
}

/* ---------- the end of transactions ---------- */

void
shard_reference_pending_end_level(int level)
{
	foreach_ptr(PendingTable, table, pending_tables)
	{
		if (table->level >= level)
			pending_tables = foreach_delete_current(pending_tables, table);
	}
}

void
shard_reference_pending_end_transaction(void)
{
	pending_tables = NIL;
}
