/*
 * placement.c
 *	  Changes the servers of shards in the catalogs of this and the other coordinators.
 *
 * The commit of a move changes all of them (remote/xact/twophase.c), after the nodes.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "array_loop.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "catalog/shard_server.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "move/job/attempt.h"
#include "move/job/job.h"
#include "move/job/table.h"
#include "move/placement.h"
#include "own_lock.h"
#include "own_schema.h"
#include "remote/run/command.h"
#include "remote/wire/wait.h"
#include "service/recover.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#define POLL_MS 100

PG_FUNCTION_INFO_V1(shardfdw_lock_placements);
PG_FUNCTION_INFO_V1(shardfdw_set_placements);

/* ---------- called by another coordinator ---------- */

/* The user's shards with these quoted names.  Does not lock them. */
static List *
find_shards(ArrayType *names)
{
	List	   *shards = NIL;
	ShardArrayLoop loop;
	Datum		name;

	shard_array_loop_begin(&loop, names);
	while (shard_array_loop_next(&loop, &name))
	{
		Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(DatumGetTextPP(name))), NoLock, false);

		if (!shard_class_ownercheck(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, TextDatumGetCString(name));
		shards = list_append_unique_oid(shards, relid);
	}
	return shards;
}

/* Locks shards.  Each must be on the node. */
static void
lock_shards(List *shards, Oid serverid)
{
	foreach_oid(relid, shards)
	{
		LockRelationOid(relid, AccessExclusiveLock);
		if (!SearchSysCacheExists1(FOREIGNTABLEREL, ObjectIdGetDatum(relid)) || !get_rel_relispartition(relid) ||
			GetForeignServerIdByRelId(relid) != serverid)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("coordinator \"%s\" does not have shard %s on node \"%s\"", shard_node_own_name(), get_rel_name(relid), GetForeignServer(serverid)->servername)));
	}
}

/* Locks the tables of shards, as queries do before they lock the shards. */
static void
lock_parents(List *shards)
{
	foreach_oid(shard, shards)
	{
		Oid			parent = get_rel_relispartition(shard) ? get_partition_parent(shard, true) : InvalidOid;
		Oid			default_partition;

		if (!OidIsValid(parent))
			continue;
		LockRelationOid(parent, AccessExclusiveLock);
		default_partition = get_default_partition_oid(parent);
		if (OidIsValid(default_partition))
			LockRelationOid(default_partition, AccessExclusiveLock);
	}
}

/*
 * lock_placements(shards text[], node name, replaced boolean) -> void
 */
Datum
shardfdw_lock_placements(PG_FUNCTION_ARGS)
{
	Oid			serverid = shard_node_by_name(PG_GETARG_NAME(1), false);
	List	   *shards = find_shards(PG_GETARG_ARRAYTYPE_P(0));

	if (PG_GETARG_BOOL(2))
		lock_parents(shards);
	lock_shards(shards, serverid);
	PG_RETURN_VOID();
}

/*
 * set_placements(shards text[], source name, target name) -> void
 */
Datum
shardfdw_set_placements(PG_FUNCTION_ARGS)
{
	Oid			source = shard_node_by_name(PG_GETARG_NAME(1), false);
	Oid			target = shard_node_by_name(PG_GETARG_NAME(2), false);
	List	   *shards = find_shards(PG_GETARG_ARRAYTYPE_P(0));

	lock_shards(shards, source);
	foreach_oid(shard, shards)
		shard_server_set(shard, get_partition_parent(shard, true), source, target);
	PG_RETURN_VOID();
}

/* ---------- all coordinators ---------- */

/* Runs sql on coordinators in this transaction, one after the other, as each may wait for locks. */
static void
run_on_peers(ShardMove *move, const List *peers, const char *sql)
{
	for (int i = 0; i < list_length(peers); i++)
	{
		const ShardNodeName *peer = list_nth(peers, i);
		ShardCommand command = {.serverid = peer->serverid, .userid = move->job.userid, .sql = sql};

		shard_attempts_await(&move->job, psprintf("coordinator \"%s\"", peer->name));
		shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
		shard_command_free(&command, 1);
	}
}

/* The shards' names as an array. */
static char *
name_array(const ShardMove *move)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < move->ntables; i++)
		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "ARRAY[", quote_literal_cstr(move->tables[i].name));
	appendStringInfoChar(&text, ']');
	return text.data;
}

void
shard_placement_open_peers(const ShardMove *move)
{
	ShardCommand *commands;
	int			nbefore;
	List	   *peers;

	if (shard_node_is_member())
		shard_node_hold_members();
	peers = shard_node_peers(&nbefore);
	if (peers == NIL)
		return;
	commands = palloc0(sizeof(ShardCommand) * list_length(peers));
	for (int i = 0; i < list_length(peers); i++)
		commands[i] = (ShardCommand) {.serverid = ((ShardNodeName *) list_nth(peers, i))->serverid, .userid = move->job.userid,
			.sql = psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".begin_following(%s)", quote_literal_cstr(shard_identity_get()))};
	shard_command_run(commands, list_length(peers), SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, list_length(peers));
}

void
shard_placement_lock_peers(ShardMove *move, int timeout_ms, bool before)
{
	List	   *peers;
	int			nbefore;

	peers = shard_node_peers(&nbefore);
	peers = before ? list_truncate(peers, nbefore) : list_delete_first_n(peers, nbefore);
	run_on_peers(move, peers, psprintf("SET LOCAL lock_timeout = %d; SELECT " SHARD_INTERNAL_SCHEMA ".lock_placements(%s, %s, %s); SET LOCAL lock_timeout TO DEFAULT",
								timeout_ms, name_array(move), quote_literal_cstr(move->source_name), SHARD_MOVE_REPLACES(move) ? "true" : "false"));
}

void
shard_placement_switch(ShardMove *move)
{
	int			nbefore;

	for (int i = 0; i < move->ntables; i++)
		shard_server_set(move->tables[i].relid, move->tables[i].parent, move->source, move->target);
	run_on_peers(move, shard_node_peers(&nbefore), psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".set_placements(%s, %s, %s)", name_array(move),
								quote_literal_cstr(move->source_name), quote_literal_cstr(move->target_name)));
}

/* ---------- afterwards ---------- */

/* The value returned by a coordinator; NULL: null, or it does not answer. */
static char *
ask_peer(const ShardMove *move, Oid serverid, const char *sql, bool *answers)
{
	ShardCommand command;
	char	   *answer = NULL;

	shard_move_begin(move->job.userid);
	command = (ShardCommand) {.serverid = serverid, .userid = move->job.userid, .sql = sql};
	shard_command_run(&command, 1, SHARD_COMMAND_SETTLE, true);
	*answers = command.error == NULL && PQntuples(command.result) == 1;
	if (*answers && !PQgetisnull(command.result, 0, 0))
		answer = MemoryContextStrdup(move->job.cxt, PQgetvalue(command.result, 0, 0));
	shard_command_free(&command, 1);
	shard_move_commit();
	return answer;
}

/* Is it still a coordinator of this cluster? */
static bool
is_peer(const ShardMove *move, Oid serverid)
{
	bool		found = false;
	int			nbefore;

	shard_move_begin(move->job.userid);
	foreach_ptr(ShardNodeName, node, shard_node_peers(&nbefore))
		found = found || node->serverid == serverid;
	shard_move_commit();
	return found;
}

/*
 * Waits for the transactions that are open on a coordinator when it knows of the switch, except those that wait for a
 * job (catalog/moving.h): its jobs wait for such transactions of this coordinator.
 */
static void
wait_for_peer(const ShardMove *move, Oid serverid, const char *name)
{
	const char *open_there = psprintf("pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()"
									  " WHERE l.locktype = 'virtualxid' AND NOT EXISTS (SELECT FROM pg_catalog.pg_locks w"
									  " WHERE w.virtualtransaction = l.virtualtransaction AND w.locktype = 'advisory' AND w.database = d.oid"
									  " AND w.classid = 0 AND w.objid = 0 AND w.objsubid = %d)", SHARD_LOCK_JOB_WAIT);
	char	   *open = NULL;
	bool		answers = false;
	bool		told = false;

	while (is_peer(move, serverid))
	{
		if (open == NULL)
		{
			/* it may not have the commit yet */
			shard_move_begin(move->job.userid);
			shard_recover_log(shard_recover_settle(serverid));
			shard_move_commit();
			open = ask_peer(move, serverid, psprintf("SELECT pg_catalog.array_agg(l.virtualtransaction) FROM %s AND l.pid <> pg_catalog.pg_backend_pid()"
													 " AND l.pid IN (SELECT a.pid FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.oid)", open_there), &answers);
			if (answers && open == NULL)
				break;
		}
		else
		{
			const char *left = ask_peer(move, serverid, psprintf("SELECT pg_catalog.min(l.virtualtransaction) FROM %s AND l.virtualtransaction = ANY (%s)",
																 open_there, quote_literal_cstr(open)), &answers);

			if (answers && left == NULL)
				break;
		}
		if (!told)
			shard_job_set_waiting(&move->job, psprintf("transactions on coordinator \"%s\" that began before the switch, and may read the old tables", name));
		told = true;
		shard_wait_pause(POLL_MS, false);
	}
	if (told)
		shard_job_set_waiting(&move->job, NULL);
}

void
shard_placement_wait_for_peers(const ShardMove *move)
{
	MemoryContext oldcxt;
	List	   *peers = NIL;
	int			nbefore;

	shard_move_begin(move->job.userid);
	oldcxt = MemoryContextSwitchTo(move->job.cxt);
	peers = shard_node_peers(&nbefore);
	MemoryContextSwitchTo(oldcxt);
	shard_move_commit();
	foreach_ptr(ShardNodeName, node, peers)
		wait_for_peer(move, node->serverid, node->name);
}
