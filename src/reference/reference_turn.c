/*
 * reference_turn.c
 *	  Turns: the order of writers to a reference table if there are several coordinators.
 *
 * A row is changed on its client's coordinator first, and then on the other coordinators.  Two
 * sessions that changed the same row would wait for each other, each on its own server, where no
 * detector sees a deadlock.  So writers, and queries that lock rows, take turns before they touch a
 * row, by a lock on the coordinator whose name comes first.  The turns of several tables are all
 * locks of that one server, whose own deadlock detector sees them.
 *
 * Each coordinator also has such a lock itself, which is requested second.  It waits for
 * transactions that are still prepared there after the first coordinator has committed.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/pg_class.h"
#include "catalog/qualified.h"
#include "catalog/reference.h"
#include "commands/trigger.h"
#include "compat.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "guc.h"
#include "nodes/plannodes.h"
#include "own_lock.h"
#include "own_schema.h"
#include "parser/parsetree.h"
#include "reference/reference_turn.h"
#include "remote/run/command.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"


PG_FUNCTION_INFO_V1(shardfdw_take_reference_turn);
PG_FUNCTION_INFO_V1(shardfdw_take_turn);

/* Any user can claim to follow another coordinator, but only a coordinator can switch triggers off. */
bool
shard_reference_follows(void)
{
	return shard_guc_follows_coordinator && SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

/* Takes the turn until the transaction ends. */
static void
take_turn_here(Oid relid)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_REFERENCE_TURN, relid, 0);

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(shard_qualified_relation(lfirst_oid(a)), shard_qualified_relation(lfirst_oid(b)));
}

/*
 * Returns the tables to which a table's foreign keys refer, ordered by name.  Their turns are taken
 * before that of the table.  A session that deletes from one of them, and thereby deletes rows
 * here, takes them in the same order.
 */
static List *
referenced_tables(Relation rel)
{
	List	   *relids = NIL;

	foreach_node(ForeignKeyCacheInfo, fk, RelationGetFKeyList(rel))
		relids = list_append_unique_oid(relids, fk->confrelid);
	relids = list_delete_oid(relids, RelationGetRelid(rel));
	list_sort(relids, compare_names);
	return relids;
}

/* Takes the turn of a table here. refers: before that, those of the tables to which its foreign keys refer. */
static void
take_turns_here(Oid relid, bool refers)
{
	if (refers)
	{
		Relation	rel = relation_open(relid, AccessShareLock);

		foreach_oid(referenced, referenced_tables(rel))
			take_turn_here(referenced);
		relation_close(rel, AccessShareLock);
	}
	take_turn_here(relid);
}

/* Takes the turns of tables, in this order. */
static void
take_turns(List *relids, bool refers)
{
	List	   *peers;
	int			nbefore;
	StringInfoData sql;
	ShardCommand command;

	shard_node_hold_members();
	peers = shard_node_peers(&nbefore);
	if (peers == NIL)
		return;
	if (nbefore > 0)
	{
		initStringInfo(&sql);
		foreach_oid(relid, relids)
			appendStringInfo(&sql, "%s" SHARD_INTERNAL_SCHEMA ".take_turn(%s, %s)", sql.len == 0 ? "SELECT " : ", ",
							 quote_literal_cstr(shard_qualified_relation(relid)), refers ? "true" : "false");
		command = (ShardCommand) {.serverid = ((ShardNodeName *) linitial(peers))->serverid, .userid = GetUserId(),
			.sql = sql.data};
		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
	/* waits for transactions that are still prepared here after they have ended on the first coordinator */
	foreach_oid(relid, relids)
		take_turns_here(relid, refers);
}

/*
 * take_reference_turn() -> trigger, before a statement
 */
Datum
shardfdw_take_reference_turn(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	bool		refers;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_STATEMENT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as BEFORE STATEMENT trigger", "take_reference_turn")));
	if (!shard_node_is_member())
		return PointerGetDatum(NULL);
	refers = TRIGGER_FIRED_BY_INSERT(data->tg_event) || TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	if (!shard_reference_follows())
		take_turns(list_make1_oid(RelationGetRelid(data->tg_relation)), refers);
	else
		/*
		 * This coordinator has the turn from the coordinator that has sent the rows.  It only waits until transactions
		 * that are prepared here have been committed.
		 */
		take_turns_here(RelationGetRelid(data->tg_relation), refers);
	return PointerGetDatum(NULL);
}

/*
 * A query that locks rows of reference tables locks them on this coordinator.  The turns of these tables keep other
 * coordinators from these rows.  Core runs the checks of foreign keys as the tables' owners without row security.  For
 * these, the triggers have taken the turns.
 */
void
shard_reference_turn_start(const QueryDesc *desc, int eflags)
{
	PlannedStmt *stmt = desc->plannedstmt;
	List	   *relids = NIL;

	if (stmt->rowMarks == NIL || (eflags & EXEC_FLAG_EXPLAIN_ONLY) || InNoForceRLSOperation())
		return;
	foreach_node(PlanRowMark, mark, stmt->rowMarks)
	{
		RangeTblEntry *rte = rt_fetch(mark->rti, stmt->rtable);

		if (!mark->isParent && RowMarkRequiresRowShareLock(mark->markType) && rte->rtekind == RTE_RELATION &&
			rte->relkind == RELKIND_RELATION && shard_reference_is(rte->relid))
			relids = list_append_unique_oid(relids, rte->relid);
	}
	if (relids != NIL && !shard_reference_follows() && shard_node_is_member())
		take_turns(relids, false);
}

/*
 * take_turn(relation text, refers boolean) -> void
 */
Datum
shardfdw_take_turn(PG_FUNCTION_ARGS)
{
	Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0))), NoLock, false);

	if (pg_class_aclmask(relid, GetUserId(), ACL_INSERT | ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE, ACLMASK_ANY) == 0 &&
		pg_attribute_aclcheck_all(relid, GetUserId(), ACL_INSERT, ACLMASK_ANY) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(relid, GetUserId(), ACL_UPDATE, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(relid));
	take_turns_here(relid, PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}
