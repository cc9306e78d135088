/*
 * truncate.c
 *	  TRUNCATE of shards: one statement per node for all of its shards.
 *
 * Replicas of shards are truncated in the same transaction, by statements for their nodes.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "replica/replica.h"
#include "deparse/dml.h"
#include "executor/scan/fdw_executor.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "remote/run/command.h"
#include "utils/rel.h"

/* Shards that have replicas on a server. */
typedef struct TruncatedReplicas
{
	Oid			serverid;
	List	   *relids;
} TruncatedReplicas;

/*
 * Adds relid to the tables to be truncated on the servers with replicas of it. *is_noted: its node
 * records changes.  Returns the list of TruncatedReplicas.
 */
static List *
add_replicas(List *replicas, Oid relid, bool *is_noted)
{
	const ShardMap *map = shard_map_get(relid);
	const Shard *shard = map ? &map->shards[0] : NULL;

	*is_noted |= shard != NULL && shard->is_noted;
	for (int i = 0; shard != NULL && i < shard->nreplicas; i++)
	{
		TruncatedReplicas *on_server = NULL;
		ListCell   *lc;

		foreach(lc, replicas)
		{
			if (((TruncatedReplicas *) lfirst(lc))->serverid == shard->replicas[i])
				on_server = lfirst(lc);
		}
		if (on_server == NULL)
		{
			on_server = palloc0(sizeof(TruncatedReplicas));
			on_server->serverid = shard->replicas[i];
			replicas = lappend(replicas, on_server);
		}
		on_server->relids = lappend_oid(on_server->relids, relid);
	}
	return replicas;
}

static void
fill_command(ShardCommand *command, Oid serverid, List *relids, bool restart_seqs, bool is_noted)
{
	const char *sql = shard_dml_truncate(relids, restart_seqs);

	command->serverid = serverid;
	command->userid = GetUserId();
	/* placements accept it only in this way, see 49_replica.sql */
	command->sql = is_noted ? psprintf(SHARD_REPLICA_APPLY_ON "; %s; " SHARD_REPLICA_APPLY_OFF, sql) : sql;
}

/*
 * Core calls this once per server, with all tables to be truncated there.  The node does not
 * cascade, since ddl/ddl_cascade.c has found the affected tables before.
 */
void
shardExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ShardCommand *commands;
	Oid			serverid = InvalidOid;
	List	   *relids = NIL;
	List	   *replicas = NIL;
	bool		is_noted = false;
	int			ncommands = 0;
	ListCell   *lc;

	foreach(lc, rels)
	{
		Relation	rel = lfirst(lc);
		Oid			relid = RelationGetRelid(rel);

		if (!shard_option_table_bool(relid, "truncatable", true))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("foreign table \"%s\" does not allow truncates",
							RelationGetRelationName(rel))));
		serverid = GetForeignServerIdByRelId(relid);
		relids = lappend_oid(relids, relid);
		replicas = add_replicas(replicas, relid, &is_noted);
	}

	if (is_noted)
		shard_replica_note_sent();
	commands = palloc0(sizeof(ShardCommand) * (1 + list_length(replicas)));
	fill_command(&commands[ncommands++], serverid, relids, restart_seqs, is_noted);
	foreach_ptr(const TruncatedReplicas, on_server, replicas)
		fill_command(&commands[ncommands++], on_server->serverid, on_server->relids, restart_seqs, true);
	shard_command_run(commands, ncommands, SHARD_COMMAND_EXCLUSIVE, false);
	shard_command_free(commands, ncommands);
}
