/*
 * reference_trigger.c
 *	  SQL functions of reference tables: the trigger that sends their writes, and the helpers of
 *	  create_reference_table().
 *
 * Each kind of write has two triggers with transition tables:
 *
 *	 AFTER ... FOR EACH STATEMENT	sends what the statement has changed
 *	 AFTER ... FOR EACH ROW			does so earlier, at its first call, if other
 *									row triggers might change the table further, or
 *									if the statement was not run to its end
 *
 * All AFTER triggers of a statement run when its rows are complete, in the order of their names,
 * row triggers before statement triggers.  A row trigger of the user, or a cascading foreign key,
 * can change the rows once more by a separate statement, whose changes are sent at its end.  The
 * nodes must have received the first change by then.  So the names of our triggers sort before
 * others.  A row trigger with a transition table also prevents the table from becoming a partition
 * or child, which could be written through its parent without the statement triggers.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "array_loop.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/reference.h"
#include "commands/trigger.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "open_table.h"
#include "reference/reference_pending.h"
#include "reference/reference_send.h"
#include "reference/reference_trigger.h"
#include "reference/reference_turn.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(shardfdw_send_reference_write);
PG_FUNCTION_INFO_V1(shardfdw_is_reference);
PG_FUNCTION_INFO_V1(shardfdw_copy_reference_rows);

/* ---------- rows that a row trigger has already sent ---------- */

typedef struct SentRows
{
	Tuplestorestate *rows;		/* transition table; the statement trigger ends it */
	int			level;			/* of the subtransaction */
} SentRows;

static List *sent_rows = NIL;	/* of SentRows, in TopTransactionContext */

void
shard_reference_trigger_end_level(int level)
{
	foreach_ptr(SentRows, sent, sent_rows)
	{
		if (sent->level >= level)
			sent_rows = foreach_delete_current(sent_rows, sent);
	}
}

void
shard_reference_trigger_end_transaction(void)
{
	sent_rows = NIL;
}

static void
note_sent(Tuplestorestate *rows)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(TopTransactionContext);
	SentRows   *sent = palloc(sizeof(SentRows));

	sent->rows = rows;
	sent->level = GetCurrentTransactionNestLevel();
	sent_rows = lappend(sent_rows, sent);
	MemoryContextSwitchTo(oldcxt);
}

/* Has a row trigger sent these rows? forget: this is the last call for them. */
static bool
were_sent(Tuplestorestate *rows, bool forget)
{
	foreach_ptr(SentRows, sent, sent_rows)
	{
		if (sent->rows != rows)
			continue;
		if (forget)
			sent_rows = foreach_delete_current(sent_rows, sent);
		return true;
	}
	return false;
}

/* ---------- the trigger ---------- */

/*
 * Must our row trigger send the rows of its event?  Only if another row trigger fires for the event.  Then our
 * statement trigger finds that the rows were sent.
 */
static bool
must_send_early(Relation rel, int event)
{
	/* a copy, since looking up functions may make core rebuild rel's cache entry */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);
	bool		has_others = false;
	bool		has_statement = false;

	for (int i = 0; i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (!TRIGGER_FOR_AFTER(trigger->tgtype) || (trigger->tgtype & event) == 0)
			continue;
		if (!shard_reference_is_trigger(trigger->tgfoid))
			has_others |= TRIGGER_FOR_ROW(trigger->tgtype) &&
				RI_FKey_trigger_type(trigger->tgfoid) != RI_TRIGGER_FK;
		else if (!TRIGGER_FOR_ROW(trigger->tgtype) && trigger->tgenabled != TRIGGER_DISABLED)
			has_statement = true;
	}
	return has_others && has_statement;
}

/* State of the calls for all rows of a query. */
typedef struct RowCalls
{
	bool		early;			/* must_send_early(), or no statement trigger follows */
	Tuplestorestate *sent;		/* rows that were sent, if no statement trigger follows */
} RowCalls;

static RowCalls *
row_calls(FunctionCallInfo fcinfo, Relation rel, int event)
{
	RowCalls   *calls = fcinfo->flinfo->fn_extra;

	if (calls == NULL)
	{
		calls = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(RowCalls));
		calls->early = must_send_early(rel, event) || shard_reference_pending_is_cut_off(RelationGetRelid(rel), event);
		fcinfo->flinfo->fn_extra = calls;
	}
	return calls;
}

static void
refuse_children(Relation rel)
{
	if (rel->rd_rel->relhassubclass && find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot write to reference table \"%s\" because it has child tables",
						RelationGetRelationName(rel)),
				 errhint("End the inheritance with ALTER TABLE ... NO INHERIT.")));
}

static void
send_rows(Relation rel, int event, Tuplestorestate *old_rows, Tuplestorestate *new_rows)
{
	refuse_children(rel);
	if (event == TRIGGER_TYPE_INSERT)
		shard_reference_send_insert(rel, new_rows);
	else if (event == TRIGGER_TYPE_UPDATE)
		shard_reference_send_update(rel, old_rows, new_rows);
	else
		shard_reference_send_delete(rel, old_rows);
}

static bool
has_transition_table(const Trigger *trigger)
{
	return trigger->tgoldtable != NULL || trigger->tgnewtable != NULL;
}

static Tuplestorestate *
store_row(TupleTableSlot *slot)
{
	Tuplestorestate *rows = tuplestore_begin_heap(true, false, work_mem);

	tuplestore_puttupleslot(rows, slot);
	return rows;
}

/* Logical replication applies rows without transition tables, and fires no statement triggers. */
static void
send_row(TriggerData *data, int event)
{
	Tuplestorestate *first = store_row(data->tg_trigslot);
	Tuplestorestate *second = event == TRIGGER_TYPE_UPDATE ? store_row(data->tg_newslot) : first;

	send_rows(data->tg_relation, event, first, second);
	tuplestore_end(first);
	if (second != first)
		tuplestore_end(second);
}

/*
 * send_reference_write() -> trigger
 */
Datum
shardfdw_send_reference_write(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	Relation	rel;
	Tuplestorestate *old_rows;
	Tuplestorestate *new_rows;
	Tuplestorestate *rows;
	bool		by_row;
	int			event;
	RowCalls   *calls = NULL;
	bool		cut_off;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as AFTER trigger", "send_reference_write")));
	/* the coordinator that has sent the rows also informs the nodes */
	if (shard_reference_follows())
		return PointerGetDatum(NULL);
	rel = data->tg_relation;
	by_row = TRIGGER_FIRED_FOR_ROW(data->tg_event);
	old_rows = data->tg_oldtable;
	new_rows = data->tg_newtable;

	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
	{
		shard_reference_send_truncate(rel);
		return PointerGetDatum(NULL);
	}
	event = TRIGGER_FIRED_BY_INSERT(data->tg_event) ? TRIGGER_TYPE_INSERT :
		TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? TRIGGER_TYPE_UPDATE : TRIGGER_TYPE_DELETE;
	if (old_rows == NULL && new_rows == NULL && by_row && has_transition_table(data->tg_trigger))
	{
		send_row(data, event);
		return PointerGetDatum(NULL);
	}
	rows = event == TRIGGER_TYPE_DELETE ? old_rows : new_rows;
	if (rows == NULL || (event == TRIGGER_TYPE_UPDATE && old_rows == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("trigger \"%s\" of table \"%s\" has no transition table",
						data->tg_trigger->tgname, RelationGetRelationName(rel)),
				 errhint("shardfdw.create_reference_table() makes the triggers as they must be.")));

	if (by_row)
		calls = row_calls(fcinfo, rel, event);
	if (by_row ? !calls->early || calls->sent == rows || were_sent(rows, false) : were_sent(rows, true))
		return PointerGetDatum(NULL);
	cut_off = shard_reference_pending_is_cut_off(RelationGetRelid(rel), event);
	if (tuplestore_tuple_count(rows) > 0)
		send_rows(rel, event, old_rows, new_rows);
	shard_reference_pending_sent(RelationGetRelid(rel), event, tuplestore_tuple_count(rows));
	if (by_row && cut_off)
		calls->sent = rows;
	else if (by_row)
		note_sent(rows);
	return PointerGetDatum(NULL);
}

/* ---------- helpers of create_reference_table() ---------- */

/*
 * is_reference(relation regclass) -> bool
 */
Datum
shardfdw_is_reference(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(shard_reference_is(PG_GETARG_OID(0)));
}

/*
 * copy_reference_rows(relation regclass, nodes name[]) -> int8
 *
 * Row security policies are not applied: a replica has all rows, and the owner could disable the
 * policies anyway.
 */
Datum
shardfdw_copy_reference_rows(PG_FUNCTION_ARGS)
{
	Relation	rel = shard_open_table(PG_GETARG_OID(0), ShareRowExclusiveLock);
	List	   *nodes = NIL;
	ShardArrayLoop loop;
	Datum		name;
	uint64		nrows;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel))));
	if (!has_privs_of_role(GetUserId(), rel->rd_rel->relowner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of table %s", RelationGetRelationName(rel))));

	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(1));
	while (shard_array_loop_next(&loop, &name))
	{
		ForeignServer *server = GetForeignServerByName(NameStr(*DatumGetName(name)), false);

		if (!shard_option_is_our_server(server->serverid))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("server \"%s\" is not a node", server->servername)));
		shard_node_check_usage(server->serverid);
		nodes = lappend_oid(nodes, server->serverid);
	}
	nrows = shard_reference_send_table(rel, nodes);
	table_close(rel, NoLock);
	PG_RETURN_INT64((int64) nrows);
}
