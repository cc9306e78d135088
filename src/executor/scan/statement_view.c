/*
 * statement_view.c
 *	  Defines which rows of the nodes a statement sees that both reads and writes.
 *
 * In PostgreSQL no part of a statement sees what another part of it writes:
 *
 *	 WITH i AS (INSERT INTO t ... RETURNING *) SELECT ... FROM i, t
 *
 * reads t as it was before.  A shard scan takes its snapshot of a node when it starts, which may be after the INSERT.
 * Then it would read on the connection that has written, and see the new rows.  So the snapshot is taken earlier: a
 * connection that only reads exports it, and all scans of the statement use it (remote/xact/txn.h).
 *
 * There is no such snapshot in two cases.  If an earlier statement of the transaction has written to the node, other
 * connections do not see those rows.  At REPEATABLE READ and above, the writer shares the transaction's snapshot.  In
 * these cases the statement reads before it writes (executor/modify/read_first.c).  Reads that cannot be done before,
 * for example for RETURNING, are refused.
 *
 * PostgreSQL's LockRows leaves out rows that were changed since the statement began, and executor/modify/row_lock.c
 * does so for rows of nodes.  Some rows reach the client without that check: rows of whole statements, and rows that
 * the planner leaves unchecked (planner/path/late_lock.c).  The node has sent all of them when the first one was
 * fetched.  Cursors and loops have no such plans.  But by the extended protocol, a client may fetch the rows of any
 * statement in parts:
 *
 *	 Execute (50 rows) --> UPDATE of a further row --> Execute (50 rows)
 *
 * If the table was changed before a part, the rows of the part are refused.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/option.h"
#include "catalog/pg_proc.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "executor/scan/nested_write.h"
#include "executor/scan/statement_view.h"
#include "lib/ilist.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "plan/plan_functions.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "remote/pool/pool.h"
#include "remote/run/stream.h"
#include "remote/xact/txn.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* A statement whose snapshots of nodes are taken before it writes. */
typedef struct PinnedStatement
{
	slist_node	link;			/* in statements */
	EState	   *estate;
	bool		needed;			/* it may read after it has written */
	bool		calls_volatile;	/* its plan has VOLATILE functions that may write */
	bool		has_triggers;	/* such a function is a trigger of its result relations */
	List	   *unchecked;		/* tables whose locked rows LockRows does not check; OidList */
	List	   *late;			/* tables of locking scans that began after a change of the table; OidList */
	List	   *pools;			/* of ShardPool: nodes that are done */
} PinnedStatement;

/* Running statements, innermost first. */
static slist_head statements = SLIST_STATIC_INIT(statements);

static void
forget_statement(void *arg)
{
	slist_delete(&statements, &((PinnedStatement *) arg)->link);
}

/*
 * Does this plan node (of the PlannedStmt in context) read from nodes of the cluster?  Scans that
 * lock rows, to change them or not, do not count: they read on the connection that writes.
 */
static bool
reads_nodes(Plan *plan, void *context)
{
	const PlannedStmt *stmt = context;
	ForeignScan *scan = (ForeignScan *) plan;

	return IsA(plan, ForeignScan) && scan->operation == CMD_SELECT &&
		!(shard_option_is_our_server(scan->fs_server) && shard_plan_private_locks(scan->fdw_private)) &&
		(scan->scan.scanrelid == 0 || !shard_is_result_relation(stmt, scan->scan.scanrelid));
}

/*
 * May the statement, which writes, read nodes after it has written?  Functions that are not
 * volatile read by its snapshot.
 */
bool
shard_statement_view_reads(EState *estate)
{
	PlannedStmt *stmt = estate->es_plannedstmt;

	return stmt != NULL &&
		(shard_plan_walk_statement(stmt, reads_nodes, stmt) ||
		 (shard_plan_functions_of_statement(stmt) & SHARD_FUNCTIONS_STEADY) != 0);
}

bool
shard_statement_view_lacks_snapshot(void)
{
	return IsolationUsesXactSnapshot() || shard_txn_has_writers();
}

/* A receiver of rows that refuses all rows. */
typedef struct RefusingReceiver
{
	DestReceiver pub;			/* must be first */
	DestReceiver *dest;			/* the receiver that must not get them */
	Oid			relid;			/* the table that was changed */
} RefusingReceiver;

/* What a scan of a statement reads, and as of which command. */
typedef struct ScanView
{
	ShardStreamView stream;		/* must be first */
	List	   *relids;
	bool		by_keys;		/* writes to other tables count, too, if they may reach the scan's by foreign keys */
	bool		of_written;		/* a scan of the written table, which locks rows for the statement */
	bool		of_updated;		/* the same, and the table is not only deleted from */
	EState	   *estate;			/* of note_late() */
} ScanView;

void
shard_statement_view_refuse(Oid relid, const char *node)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot read table \"%s\" as it was when the statement began", get_rel_name(shard_map_top(relid))),
			 errdetail("The transaction has changed rows since then, and its changes cannot be hidden on node \"%s\".", node),
			 errhint("Read the table in a separate statement, before it is changed.")));
}

bool
shard_statement_view_is_changed(const EState *estate, Oid relid, Oid serverid, Oid userid)
{
	const ShardPool *pool = shard_pool_get(serverid, userid);
	CommandId	cid = estate->es_snapshot->curcid;

	return pool->writer != NULL && shard_txn_written_since(pool->writer, cid) && shard_nested_write_since(relid, cid, true);
}

bool
shard_statement_view_was_changed(const EState *estate, Oid relid)
{
	return shard_nested_write_before(relid, estate->es_snapshot->curcid);
}

/* Returns one of the tables that was changed since the statement began.  InvalidOid: none. */
static Oid
changed_table(const ScanView *view)
{
	foreach_oid(relid, view->relids)
	{
		if (shard_nested_write_since(relid, view->stream.cid, view->by_keys))
			return relid;
	}
	return InvalidOid;
}

/* Raises if one of the tables was changed since the statement began.  Callback ShardStreamView.refuse. */
static void
refuse_changed(const ShardStreamView *stream, const char *node)
{
	Oid			relid = changed_table((const ScanView *) stream);

	if (OidIsValid(relid))
		shard_statement_view_refuse(relid, node);
}

static ScanView *
create_view(const EState *estate, const List *rels)
{
	ScanView   *view = palloc0(sizeof(ScanView));
	ListCell   *lc;

	view->stream.cid = estate->es_snapshot->curcid;
	view->stream.refuse = refuse_changed;
	foreach(lc, rels)
		view->relids = lappend_oid(view->relids, RelationGetRelid((Relation) lfirst(lc)));
	return view;
}

const ShardStreamView *
shard_statement_view_create(const EState *estate, const List *rels)
{
	ScanView   *view = create_view(estate, rels);

	view->by_keys = true;
	return &view->stream;
}

bool
shard_statement_view_writes(EState *estate)
{
	PlannedStmt *stmt = estate->es_plannedstmt;

	return stmt != NULL && (stmt->commandType != CMD_SELECT || stmt->hasModifyingCTE);
}

bool
shard_statement_view_only_reads(EState *estate)
{
	return estate->es_plannedstmt != NULL && CommandIsReadOnly(estate->es_plannedstmt);
}

static PinnedStatement *
find_statement(const EState *estate)
{
	slist_iter	iter;

	slist_foreach(iter, &statements)
	{
		PinnedStatement *statement = slist_container(PinnedStatement, link, iter.cur);

		if (statement->estate == estate)
			return statement;
	}
	return NULL;
}

static PinnedStatement *
get_statement(EState *estate)
{
	PinnedStatement *statement = find_statement(estate);
	MemoryContextCallback *callback;

	if (statement != NULL)
		return statement;
	statement = MemoryContextAllocZero(estate->es_query_cxt, sizeof(PinnedStatement));
	statement->estate = estate;
	statement->needed = shard_statement_view_reads(estate);
	statement->calls_volatile = estate->es_plannedstmt != NULL &&
		(shard_plan_functions_of_statement(estate->es_plannedstmt) & SHARD_FUNCTIONS_VOLATILE) != 0;
	callback = MemoryContextAllocZero(estate->es_query_cxt, sizeof(MemoryContextCallback));
	callback->func = forget_statement;
	callback->arg = statement;
	slist_push_head(&statements, &statement->link);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
	return statement;
}

bool
shard_statement_view_calls_volatile(EState *estate)
{
	return get_statement(estate)->calls_volatile;
}

bool
shard_statement_view_locks_first(const EState *estate)
{
	const PinnedStatement *statement = find_statement(estate);

	return statement != NULL && (statement->calls_volatile || statement->has_triggers);
}

/* Notes that the scan began after one of its tables was changed.  Callback ShardStreamView.refuse. */
static void
note_late(const ShardStreamView *stream, const char *node)
{
	const ScanView *view = (const ScanView *) stream;
	PinnedStatement *statement;
	MemoryContext oldcxt;

	if (!OidIsValid(changed_table(view)))
		return;
	statement = get_statement(view->estate);
	oldcxt = MemoryContextSwitchTo(view->estate->es_query_cxt);
	statement->late = list_concat_unique_oid(statement->late, view->relids);
	MemoryContextSwitchTo(oldcxt);
}

bool
shard_statement_view_began_late(const EState *estate, Oid relid)
{
	const PinnedStatement *statement = find_statement(estate);

	return statement != NULL && list_member_oid(statement->late, relid);
}

/* Is it an UPDATE or MERGE of the range table entry (0: of any)?  context points to the entry's index. */
static bool
is_update_of(Plan *plan, void *context)
{
	Index		rti = *(Index *) context;

	return IsA(plan, ModifyTable) && ((ModifyTable *) plan)->operation != CMD_DELETE &&
		(rti == 0 || list_member_int(((ModifyTable *) plan)->resultRelations, rti));
}

const ShardStreamView *
shard_statement_view_create_locking(EState *estate, const List *rels, Index scanrelid)
{
	bool		of_written = shard_statement_view_writes(estate) &&
		(scanrelid == 0 || shard_is_result_relation(estate->es_plannedstmt, scanrelid));
	ScanView   *view = create_view(estate, rels);

	view->of_written = of_written;
	view->of_updated = of_written && shard_plan_walk_statement(estate->es_plannedstmt, is_update_of, &scanrelid);
	view->by_keys = true;
	/* writes of the statement's functions and triggers have higher command numbers than its own writes */
	if (of_written)
		view->stream.cid++;
	else if (!shard_statement_view_calls_volatile(estate))
	{
		view->estate = estate;
		view->stream.refuse = note_late;
	}
	return &view->stream;
}

void
shard_statement_view_read_again(const EState *estate, const ShardStreamView *stream)
{
	ScanView   *view = (ScanView *) unconstify(ShardStreamView *, stream);

	/* rows that a DELETE has deleted are not found again */
	if (view->of_updated)
		view->stream.cid = estate->es_snapshot->curcid;
}

void
shard_statement_view_add_unchecked(EState *estate, List *relids)
{
	PinnedStatement *statement = get_statement(estate);
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);

	statement->unchecked = list_concat_unique_oid(statement->unchecked, relids);
	MemoryContextSwitchTo(oldcxt);
}

static bool
refuse_row(TupleTableSlot *slot, DestReceiver *self)
{
	Oid			relid = ((RefusingReceiver *) self)->relid;

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot return rows that were locked before the transaction has changed table \"%s\"", get_rel_name(shard_map_top(relid))),
			 errdetail("The table was changed since the statement began, and the nodes have sent the rows of the statement before."),
			 errhint("Fetch all rows before you change the table, or use a cursor that DECLARE creates.")));
	return false;
}

static void
refusing_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	DestReceiver *dest = ((RefusingReceiver *) self)->dest;

	dest->rStartup(dest, operation, desc);
}

static void
refusing_shutdown(DestReceiver *self)
{
	DestReceiver *dest = ((RefusingReceiver *) self)->dest;

	dest->rShutdown(dest);
}

DestReceiver *
shard_statement_view_receiver(const QueryDesc *desc)
{
	const PinnedStatement *statement = find_statement(desc->estate);
	RefusingReceiver *receiver;

	foreach_oid(relid, statement != NULL ? statement->unchecked : NIL)
	{
		if (!shard_nested_write_since(relid, desc->estate->es_snapshot->curcid, true))
			continue;
		receiver = MemoryContextAllocZero(desc->estate->es_query_cxt, sizeof(RefusingReceiver));
		receiver->pub = *desc->dest;
		receiver->pub.receiveSlot = refuse_row;
		receiver->pub.rStartup = refusing_startup;
		receiver->pub.rShutdown = refusing_shutdown;
		receiver->dest = desc->dest;
		receiver->relid = relid;
		return &receiver->pub;
	}
	return desc->dest;
}

/* Starts a stream of the statement on the node, which exports the statement's snapshot. */
static void
export_snapshot(EState *estate, Oid serverid, Oid userid)
{
	ShardSnapshot *snapshot = shard_txn_snapshot(estate->es_query_cxt);
	ShardStreamSpec spec = {0};
	ShardStream *stream;
	ShardRow	row;

	/* a single stream would run without a transaction, and thus without a snapshot to share */
	shard_snapshot_expect(snapshot, serverid, userid, 2);

	spec.serverid = serverid;
	spec.userid = userid;
	spec.sql = "SELECT 1";
	spec.ncolumns = 1;
	spec.workers = -1;
	stream = shard_stream_open(estate->es_query_cxt, snapshot, &spec);
	while (shard_stream_next_row(stream, &row))
		;
	shard_stream_close(stream);
}

void
shard_statement_view_add_triggers(EState *estate, const TriggerDesc *triggers)
{
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		if (triggers->triggers[i].tgfoid < FirstNormalObjectId)
			continue;
		/* volatile functions take their own snapshots */
		if (func_volatile(triggers->triggers[i].tgfoid) == PROVOLATILE_VOLATILE)
			get_statement(estate)->has_triggers = true;
		else
			get_statement(estate)->needed = true;
	}
}

void
shard_statement_view_pin(EState *estate, Oid serverid, Oid userid)
{
	PinnedStatement *statement = get_statement(estate);
	ShardSnapshot *snapshot;
	ShardPool  *pool;
	MemoryContext oldcxt;

	if (!statement->needed || IsolationUsesXactSnapshot())
		return;
	pool = shard_pool_get(serverid, userid);
	if (list_member_ptr(statement->pools, pool))
		return;
	oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	statement->pools = lappend(statement->pools, pool);
	MemoryContextSwitchTo(oldcxt);

	/* a scan that has begun may have exported it already */
	snapshot = shard_txn_snapshot(estate->es_query_cxt);
	if (pool->writer == NULL && !shard_txn_is_exported(snapshot, serverid, userid))
		export_snapshot(estate, serverid, userid);
	snapshot->shared_as = estate->es_snapshot;
	if (snapshot->local == NULL)
		shard_snapshot_note_local(snapshot, estate->es_snapshot);
}
