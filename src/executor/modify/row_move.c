/*
 * row_move.c
 *	  UPDATE of the partition key: moves rows from one shard to another.
 *
 * Core does not move rows out of foreign partitions.  Here the caller deletes the old version
 * immediately.  The new version waits for the end of the whole UPDATE, and goes to its new shard by
 * COPY:
 *
 *	 put --> tuplestore, rows in the parent's format --(last end)--> row_sink
 *
 * If it were inserted immediately, the UPDATE might find it in its new shard and update it again.
 *
 * If a statement of another session waited for the old version, it would find the version deleted,
 * and skip the row without an error.  So the old and the new shard are locked against other
 * writers, and against sessions that lock rows, until the transaction ends.  Statements that wait
 * for this lock take their snapshots after it, and see the row in its new shard.  If a session
 * already waits for a row of this transaction, the node finds a deadlock.
 *
 * The lock conflicts with the lock that row-locking reads take.  Two sessions that have both read a
 * shard would wait for each other.  So if the UPDATE knows both shards before it reads, it locks
 * them before.  shard_map_lock_key_change() keeps it apart from statements that lock several shards in any
 * order.
 *
 * Triggers could see the moment between deletion and insertion.  So no rows are moved if parent or
 * shards have triggers that UPDATE fires, or that a DELETE and an INSERT would fire.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tupconvert.h"
#include "catalog/pg_trigger.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "catalog/trigger.h"
#include "compat.h"
#include "deparse/dml.h"
#include "executor/executor.h"
#include "executor/modify/row_move.h"
#include "executor/modify/row_sink.h"
#include "executor/scan/nested_write.h"
#include "executor/scan/statement_view.h"
#include "miscadmin.h"
#include "plan/statement_entry.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

/* A shard to which rows are moved. */
typedef struct MoveTarget
{
	Relation	rel;
	ShardRowTarget *sink;
	TupleConversionMap *map;	/* from the parent's format; NULL: the same */
	TupleTableSlot *slot;		/* used with a map */
} MoveTarget;

struct ShardRowMove
{
	ShardStatementEntry entry;	/* in moves; the key is the parent */
	Relation	parent;
	ShardRouting *routing;
	List	   *key_attnos;		/* IntList: the parent's key columns, of all levels */
	Oid			userid;
	int			nusers;			/* number of begins without end */
	Tuplestorestate *rows;		/* NULL: none yet */
	Bitmapset  *locked;			/* shardnos of the shards that are locked */
	ShardPendingRows *pending;	/* records that there are such rows */
	TupleTableSlot *slot;		/* a row in the parent's format */
};

/* Running UPDATEs, innermost first. */
static slist_head moves = SLIST_STATIC_INIT(moves);

static bool
has_triggers(const TriggerDesc *triggers)
{
	return shard_trigger_fires(triggers, TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE, true) ||
		(triggers != NULL && triggers->trig_update_after_statement);
}

static bool
key_has_expressions(Relation parent)
{
	PartitionKey key = RelationGetPartitionKey(parent);

	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == 0)
			return true;
	}
	return false;
}

static bool
can_move(ResultRelInfo *rinfo)
{
	ResultRelInfo *root = rinfo->ri_RootResultRelInfo;
	const ShardMap *map;

	if (root == NULL || !rinfo->ri_RelationDesc->rd_rel->relispartition)
		return false;
	map = shard_map_get_levels(RelationGetRelid(root->ri_RelationDesc), true);
	return map != NULL && shard_map_find(map, RelationGetRelid(rinfo->ri_RelationDesc)) >= 0 &&
	/* partitions of a table with two levels may have their own triggers for new rows */
		(map->nparts == 0 || !map->has_triggers) &&
		!key_has_expressions(root->ri_RelationDesc) &&
		!has_triggers(root->ri_TrigDesc) && !has_triggers(rinfo->ri_TrigDesc);
}

/* Returns the shardno of a row in the parent's format. */
static int
route_row(ShardRowMove *move, TupleTableSlot *slot)
{
	Datum		values[2 * PARTITION_MAX_KEYS];
	bool		nulls[2 * PARTITION_MAX_KEYS];
	int			nkeys = 0;
	int			shardno;

	foreach_int(attno, move->key_attnos)
	{
		values[nkeys] = slot_getattr(slot, attno, &nulls[nkeys]);
		nkeys++;
	}
	shardno = shard_route_row(move->routing, values, nulls);
	if (shardno < 0)
		shard_route_raise_unrouted(move->routing, values, nulls);
	return shardno;
}

/* Locks shards, a set of shardnos, on their nodes until the transaction ends. */
static void
lock_shards(ShardRowMove *move, const Bitmapset *shards)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * bms_num_members(shards));
	int			ncommands = 0;
	int			shardno = -1;

	while ((shardno = bms_next_member(shards, shardno)) >= 0)
	{
		Oid			relid = move->routing->map->shards[shardno].relid;
		ShardCommand *command = &commands[ncommands++];

		command->serverid = shard_map_server(relid);
		command->userid = move->userid;
		command->label = get_rel_name(relid);
		command->sql = psprintf("LOCK TABLE ONLY %s IN EXCLUSIVE MODE", shard_dml_remote_name(relid));
		/* a connection that has locked something exports no snapshot for what the statement reads later */
		shard_statement_view_pin(move->entry.estate, command->serverid, command->userid);
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, ncommands);
}

/*
 * If the UPDATE reads only one shard, returns the plan node that reads it, and sets *relid.  NULL:
 * it reads several, or something else.
 */
static Plan *
only_scan(ModifyTableState *mtstate, Oid *relid)
{
	PlanState  *node = outerPlanState(mtstate);

	if (IsA(node, AppendState) && ((AppendState *) node)->as_nplans == 1)
		node = ((AppendState *) node)->appendplans[0];
	if (!IsA(node, ForeignScanState) || ((ForeignScan *) node->plan)->scan.scanrelid == 0)
		return NULL;
	*relid = RelationGetRelid(((ForeignScanState *) node)->ss.ss_currentRelation);
	return node->plan;
}

/*
 * Returns the shardno that all rows get; -1 if the UPDATE computes the key. plan: its targets are
 * the values that the UPDATE assigns to the columns colnos of relid.
 */
static int
new_shard(ShardRowMove *move, ModifyTableState *mtstate, Plan *plan, List *colnos, Oid relid)
{
	Datum		values[2 * PARTITION_MAX_KEYS];
	bool		nulls[2 * PARTITION_MAX_KEYS];
	int			nkeys = 0;

	foreach_int(key_attno, move->key_attnos)
	{
		AttrNumber	attno = get_attnum(relid, get_attname(RelationGetRelid(move->parent), key_attno, false));
		Expr	   *value = NULL;
		ListCell   *colno,
				   *target;

		forboth(colno, colnos, target, plan->targetlist)
		{
			if (lfirst_int(colno) == attno)
				value = lfirst_node(TargetEntry, target)->expr;
		}
		/* evaluating an expression could raise an error although the statement has no rows */
		if (value == NULL || !(IsA(value, Const) || (IsA(value, Param) && ((Param *) value)->paramkind == PARAM_EXTERN)))
			return -1;
		values[nkeys] = ExecEvalExprSwitchContext(ExecInitExpr(value, &mtstate->ps), GetPerTupleExprContext(move->entry.estate), &nulls[nkeys]);
		nkeys++;
	}
	return shard_route_row(move->routing, values, nulls);
}

/*
 * If both are known, locks the old and the new shard before rows are read: WHERE k = 1, SET k = 2.
 * All UPDATEs of shard keys take the two locks in the order of shards.
 */
static void
lock_known_shards(ShardRowMove *move, ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	const ShardMap *map = move->routing->map;
	Oid			relid;
	Plan	   *plan = only_scan(mtstate, &relid);
	bool		current = true;
	int			shardno = -1;
	int			from,
				to;

	if (plan == NULL)
		return;
	from = shard_map_find(map, relid);
	to = new_shard(move, mtstate, plan, list_nth(shard_update_colnos(mtstate), rinfo - mtstate->resultRelInfo),
				   RelationGetRelid(rinfo->ri_RelationDesc));
	if (from < 0 || to < 0 || from == to)
		return;
	shard_map_lock_key_change(map->relid);
	move->locked = bms_add_member(bms_make_singleton(from), to);
	while ((shardno = bms_next_member(move->locked, shardno)) >= 0)
		current &= shard_map_lock(map, shardno, RowExclusiveLock);
	/* the map has changed: they are locked when their rows are found */
	if (!current)
		move->locked = NULL;
	shardno = -1;
	while ((shardno = bms_next_member(move->locked, shardno)) >= 0)
		lock_shards(move, bms_make_singleton(shardno));
}

ShardRowMove *
shard_row_move_begin(ModifyTableState *mtstate, ResultRelInfo *rinfo, Oid userid)
{
	EState	   *estate = mtstate->ps.state;
	ShardRowMove *move;
	Relation	parent;
	MemoryContext oldcxt;

	if (!can_move(rinfo))
		return NULL;
	parent = rinfo->ri_RootResultRelInfo->ri_RelationDesc;
	move = shard_statement_entry_find(&moves, estate, PointerGetDatum(parent));
	if (move != NULL)
	{
		move->nusers++;
		return move;
	}

	oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	move = shard_statement_entry_add(&moves, estate, PointerGetDatum(parent), sizeof(ShardRowMove));
	move->parent = parent;
	move->routing = shard_route_open(move->parent);
	if (move->routing == NULL)
		elog(ERROR, "relation %u is not sharded", RelationGetRelid(move->parent));
	move->key_attnos = shard_route_key_attnos(RelationGetRelid(parent));
	move->userid = userid;
	move->nusers = 1;
	move->pending = shard_pending_rows_create(estate, RelationGetRelid(move->parent));
	if (mtstate->operation == CMD_UPDATE)
		lock_known_shards(move, mtstate, rinfo);
	MemoryContextSwitchTo(oldcxt);
	return move;
}

void
shard_row_move_put(ShardRowMove *move, ResultRelInfo *rinfo, TupleTableSlot *slot)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(move->entry.estate->es_query_cxt);
	TupleConversionMap *to_parent = ExecGetChildToRootMap(rinfo);
	Bitmapset  *shards;

	if (move->rows == NULL)
	{
		move->rows = tuplestore_begin_heap(false, false, work_mem);
		shard_pending_rows_set(move->pending, true);
		move->slot = MakeSingleTupleTableSlot(RelationGetDescr(move->parent), &TTSOpsVirtual);
	}
	MemoryContextSwitchTo(GetPerTupleMemoryContext(move->entry.estate));
	if (to_parent != NULL)
		slot = execute_attr_map_slot(to_parent->attrMap, slot, move->slot);

	/* the parent may be a partition itself */
	if (move->parent->rd_rel->relispartition)
		(void) ExecPartitionCheck(rinfo->ri_RootResultRelInfo, slot, move->entry.estate, true);
	shards = bms_make_singleton(shard_map_find(move->routing->map, RelationGetRelid(rinfo->ri_RelationDesc)));
	shards = bms_del_members(bms_add_member(shards, route_row(move, slot)), move->locked);
	if (!bms_is_empty(shards))
		lock_shards(move, shards);
	tuplestore_puttupleslot(move->rows, slot);
	MemoryContextSwitchTo(move->entry.estate->es_query_cxt);
	move->locked = bms_add_members(move->locked, shards);
	MemoryContextSwitchTo(oldcxt);
}

static void
open_target(ShardRowMove *move, ShardRowSink *sink, MoveTarget *target, const Shard *shard)
{
	target->rel = table_open(shard->relid, RowExclusiveLock);
	target->map = convert_tuples_by_name(RelationGetDescr(move->parent),
										 RelationGetDescr(target->rel));
	if (target->map != NULL)
		target->slot = MakeSingleTupleTableSlot(RelationGetDescr(target->rel), &TTSOpsVirtual);
	target->sink = shard_row_sink_open(sink, target->rel, move->userid,
									   shard_dml_all_attnos(target->rel));
}

/* Inserts all rows, and waits until the nodes have stored them. */
static void
insert_rows(ShardRowMove *move)
{
	TupleTableSlot *stored = MakeSingleTupleTableSlot(RelationGetDescr(move->parent),
													  &TTSOpsMinimalTuple);
	ShardRowSink *sink = shard_row_sink_get(move->entry.estate, false);
	MoveTarget *targets = palloc0(sizeof(MoveTarget) * move->routing->map->nshards);

	while (tuplestore_gettupleslot(move->rows, true, false, stored))
	{
		int			shardno = route_row(move, stored);
		MoveTarget *target = &targets[shardno];
		TupleTableSlot *slot = stored;

		CHECK_FOR_INTERRUPTS();
		if (target->rel == NULL)
			open_target(move, sink, target, &move->routing->map->shards[shardno]);
		if (target->map != NULL)
			slot = execute_attr_map_slot(target->map->attrMap, stored, target->slot);
		shard_row_sink_put(target->sink, move->entry.estate, slot);
		ResetPerTupleExprContext(move->entry.estate);
	}
	shard_row_sink_release(sink);

	for (int i = 0; i < move->routing->map->nshards; i++)
	{
		if (targets[i].slot != NULL)
			ExecDropSingleTupleTableSlot(targets[i].slot);
		if (targets[i].rel != NULL)
			table_close(targets[i].rel, NoLock);
	}
	ExecDropSingleTupleTableSlot(stored);
}

void
shard_row_move_end(ShardRowMove *move)
{
	MemoryContext oldcxt;

	if (--move->nusers > 0)
		return;
	if (move->rows != NULL)
	{
		oldcxt = MemoryContextSwitchTo(move->entry.estate->es_query_cxt);
		insert_rows(move);
		shard_pending_rows_set(move->pending, false);
		ExecDropSingleTupleTableSlot(move->slot);
		tuplestore_end(move->rows);
		move->rows = NULL;
		MemoryContextSwitchTo(oldcxt);
	}
	shard_route_close(move->routing);
}
