/*
 * replica_place.c
 *	  SQL functions that make replicas of shards, and exchange them with the primary.
 */
#include "postgres.h"

#include "array_loop.h"
#include "catalog/node_list.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "catalog/shard_server.h"
#include "compat.h"
#include "replica/replica.h"
#include "replica/replica_rows.h"
#include "replica/replica_sql.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "node_position.h"
#include "own_lock.h"
#include "own_schema.h"
#include "own_sql.h"
#include "remote/run/command.h"
#include "remote/run/settle.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(shardfdw_copy_shard_rows);
PG_FUNCTION_INFO_V1(shardfdw_set_shard_node);
PG_FUNCTION_INFO_V1(shardfdw_settle_node);
PG_FUNCTION_INFO_V1(shardfdw_apply_replicas);
PG_FUNCTION_INFO_V1(shardfdw_take_replicas_turn);
PG_FUNCTION_INFO_V1(shardfdw_note_left_shard);
PG_FUNCTION_INFO_V1(shardfdw_forget_position);
PG_FUNCTION_INFO_V1(shardfdw_forget_reference_position);
PG_FUNCTION_INFO_V1(shardfdw_note_dropped_reference);
PG_FUNCTION_INFO_V1(shardfdw_confirm_node);

/* Returns the map of a shard's table. *shardno: the shard's number in the map.  The user must own the shard. */
static const ShardMap *
find_shard(Oid relid, int *shardno)
{
	const ShardMap *map = NULL;

	if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE && get_rel_relispartition(relid))
		map = shard_map_get(get_partition_parent(relid, false));
	*shardno = map ? shard_map_find(map, relid) : -1;
	if (*shardno < 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation with OID %u is no shard", relid)));
	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
	return map;
}

/* (shard regclass, node name) -> bigint */
Datum
shardfdw_copy_shard_rows(PG_FUNCTION_ARGS)
{
	int			shardno;
	const ShardMap *map = find_shard(PG_GETARG_OID(0), &shardno);
	const Shard *shard = &map->shards[shardno];
	Oid			target = shard_node_by_name(PG_GETARG_NAME(1), false);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw copy", ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardCopySet *set = shard_copy_set_create(cxt, NULL, NULL);
	ShardReplicaSql sql;
	int64		nrows;

	shard_replica_sql(map, shardno, &sql);
	shard_replica_note_sent();
	nrows = shard_replica_rows_send(shard, GetUserId(), sql.all, sql.insert, &target, 1, set, cxt);
	shard_copy_set_finish(set);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	PG_RETURN_INT64(nrows);
}

/* (shard regclass, node name) -> void */
Datum
shardfdw_set_shard_node(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	int			shardno;
	const ShardMap *map;
	Oid			target = shard_node_by_name(PG_GETARG_NAME(1), false);

	LockRelationOid(relid, ExclusiveLock);
	map = find_shard(relid, &shardno);
	shard_server_set(relid, map->relid, map->shards[shardno].serverid, target);
	PG_RETURN_VOID();
}

/* (node name) -> void */
Datum
shardfdw_settle_node(PG_FUNCTION_ARGS)
{
	Name		name = PG_GETARG_NAME(0);
	Oid			serverid = shard_node_by_name(name, false);

	if (shard_settle_wait(list_make1_oid(serverid), GetUserId(), SHARD_COMMAND_AUTOCOMMIT) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("node \"%s\" has prepared transactions that no session is about to end", NameStr(*name)),
				 errhint("SELECT * FROM shardfdw.recover_prepared_transactions() commits or rolls back those of this coordinator, and says why others stay.")));
	PG_RETURN_VOID();
}

/* () -> void */
Datum
shardfdw_apply_replicas(PG_FUNCTION_ARGS)
{
	(void) shard_replica_apply();
	PG_RETURN_VOID();
}

/* (relations regclass[], is_shared boolean) -> void */
Datum
shardfdw_take_replicas_turn(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_REPLICAS_TURN, 0, 0);
	LOCKMODE	mode = PG_GETARG_BOOL(1) ? ShareLock : ExclusiveLock;
	ShardArrayLoop loop;
	Datum		value;
	bool		has_table = false;

	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(0));
	/* only a role that may create tables with replicas can keep other sessions waiting */
	while (shard_array_loop_next(&loop, &value))
	{
		Oid			relid = DatumGetObjectId(value);

		/* ignored: the function that locks the table reports that the table has been dropped */
		if (get_rel_name(relid) == NULL)
			continue;
		shard_node_check_table(relid);
		has_table = true;
	}
	if (has_table)
		shard_node_check_any_usage();
	(void) LockAcquire(&tag, mode, false, false);
	/* without a table, the call only waits for other sessions, and does not keep the lock */
	if (!has_table)
		(void) LockRelease(&tag, mode, false);
	PG_RETURN_VOID();
}

/* (shard regclass, node name) -> void */
Datum
shardfdw_note_left_shard(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	const ShardSqlParam params[] = {shard_sql_oid(relid), shard_sql_text(NameStr(*PG_GETARG_NAME(1)))};

	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
	(void) shard_own_sql_run("SELECT " SHARD_INTERNAL_SCHEMA ".write_left_shard($1, $2::pg_catalog.name)", lengthof(params), params);
	PG_RETURN_VOID();
}

/*
 * Deletes the rows of a node that satisfy condition.  The condition is appended to the DELETE; $1 is the node's name.
 */
static void
forget_position(Name node, const char *condition)
{
	ShardSqlParam param = shard_sql_text(NameStr(*node));

	(void) shard_own_sql_run(psprintf("DELETE FROM " SHARD_INTERNAL_SCHEMA ".node_position p WHERE p.server = $1%s", condition), 1, &param);
}

/* (node name) -> void */
Datum
shardfdw_forget_position(PG_FUNCTION_ARGS)
{
	forget_position(PG_GETARG_NAME(0),
					" AND CASE WHEN p.of_replicas THEN NOT EXISTS (SELECT FROM " SHARD_INTERNAL_SCHEMA ".tables_with_replicas($1, '{primary,replica}'))"
					" ELSE NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_server s WHERE s.srvname = $1) END");
	PG_RETURN_VOID();
}

/* () -> void */
Datum
shardfdw_note_dropped_reference(PG_FUNCTION_ARGS)
{
	shard_node_position_note_dropped();
	PG_RETURN_VOID();
}

/* (node name) -> void */
Datum
shardfdw_forget_reference_position(PG_FUNCTION_ARGS)
{
	forget_position(PG_GETARG_NAME(0), " AND NOT p.of_replicas");
	/* this transaction notes a new position when it commits on the node */
	shard_node_position_note_references();
	PG_RETURN_VOID();
}

/* (name name) -> void */
Datum
shardfdw_confirm_node(PG_FUNCTION_ARGS)
{
	Name		name = PG_GETARG_NAME(0);
	Oid			serverid = shard_node_by_name(name, false);
	ShardNodePosition positions[SHARD_POSITION_KINDS];

	(void) shard_node_position_read(NameStr(*name), positions);
	forget_position(name, "");
	/*
	 * Otherwise a state of the node that is older than the confirmed one would be accepted until the next write.  So
	 * this transaction notes the present position of the node.
	 */
	if (positions[SHARD_POSITION_REPLICAS].timeline != 0)
		shard_replica_note_sent();
	if (positions[SHARD_POSITION_REFERENCES].timeline != 0)
		shard_node_position_note_references();
	if (positions[SHARD_POSITION_REPLICAS].timeline != 0 || positions[SHARD_POSITION_REFERENCES].timeline != 0)
	{
		ShardCommand command = {.serverid = serverid, .userid = GetUserId(), .sql = "SELECT"};

		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
	PG_RETURN_VOID();
}
