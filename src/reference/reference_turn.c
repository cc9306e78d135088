/*
 * reference_turn.c
 *	  Whose turn it is to write to a reference table, where there are several coordinators.
 *
 * A row is changed where its client is, and then on the other coordinators.  Two that changed the same row would
 * wait for each other, each on its own server, where nobody sees a deadlock.  So writers take turns before they touch a row: by a
 * lock on the coordinator that comes first by its name.  Turns of several tables are all locks of that one
 * server, whose own deadlock detection sees them.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "guc.h"
#include "miscadmin.h"
#include "own_schema.h"
#include "reference/reference_turn.h"
#include "remote/run/command.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

/* Key of the lock: an advisory lock of a kind that no SQL function takes. */
#define LOCK_KEY 0x7475726e
#define LOCK_KIND 6

PG_FUNCTION_INFO_V1(shardfdw_take_reference_turn);
PG_FUNCTION_INFO_V1(shardfdw_take_turn);

/* Anybody can say that he follows another coordinator, but not switch triggers off, as that one does. */
bool
shard_reference_follows(void)
{
	return shard_guc_follows_coordinator && SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

/* Until the transaction ends. */
static void
take_turn_here(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, relid, LOCK_KEY, LOCK_KIND);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/*
 * take_reference_turn() -> trigger, before a statement
 */
Datum
shardfdw_take_reference_turn(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	List	   *peers;
	int			nbefore;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_STATEMENT(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as BEFORE STATEMENT trigger", "take_reference_turn")));
	/* the coordinator that has sent the rows has it */
	if (shard_reference_follows() || !shard_node_is_member())
		return PointerGetDatum(NULL);
	shard_node_hold_members();
	peers = shard_node_peers(&nbefore);
	if (peers != NIL && nbefore > 0)
	{
		ShardCommand command = {0};

		command.serverid = ((ShardNodeName *) linitial(peers))->serverid;
		command.userid = GetUserId();
		command.sql = psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".take_turn(%s)",
							   quote_literal_cstr(quote_qualified_identifier(get_namespace_name(RelationGetNamespace(data->tg_relation)),
																			 RelationGetRelationName(data->tg_relation))));
		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
	else if (peers != NIL)
		take_turn_here(RelationGetRelid(data->tg_relation));
	return PointerGetDatum(NULL);
}

/*
 * take_turn(relation text) -> void
 */
Datum
shardfdw_take_turn(PG_FUNCTION_ARGS)
{
	Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0))), NoLock, false);

	if (pg_class_aclmask(relid, GetUserId(), ACL_INSERT | ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE, ACLMASK_ANY) == 0)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(relid));
	take_turn_here(relid);
	PG_RETURN_VOID();
}
