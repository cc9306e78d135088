/*
 * truncate.c
 *	  TRUNCATE of shards: one statement per node for all of its shards.
 *
 * Copies of shards are truncated in the same transaction, by statements for their nodes.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "copies/copies.h"
#include "deparse/dml.h"
#include "executor/scan/fdw_executor.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "remote/run/command.h"
#include "utils/rel.h"

/* Shards of which a server has copies. */
typedef struct TruncatedCopies
{
	Oid			serverid;
	List	   *relids;
} TruncatedCopies;

/* Adds relid to what is truncated on the servers that have copies of it; *is_noted: its node notes changes.  Returns the list of TruncatedCopies. */
static List *
add_copies(List *copies, Oid relid, bool *is_noted)
{
	const ShardMap *map = shard_map_get(relid);
	const Shard *shard = map ? &map->shards[0] : NULL;

	*is_noted |= shard != NULL && shard->is_noted;
	for (int i = 0; shard != NULL && i < shard->ncopies; i++)
	{
		TruncatedCopies *on_server = NULL;
		ListCell   *lc;

		foreach(lc, copies)
		{
			if (((TruncatedCopies *) lfirst(lc))->serverid == shard->copies[i])
				on_server = lfirst(lc);
		}
		if (on_server == NULL)
		{
			on_server = palloc0(sizeof(TruncatedCopies));
			on_server->serverid = shard->copies[i];
			copies = lappend(copies, on_server);
		}
		on_server->relids = lappend_oid(on_server->relids, relid);
	}
	return copies;
}

static void
fill_command(ShardCommand *command, Oid serverid, List *relids, bool restart_seqs, bool is_noted)
{
	const char *sql = shard_dml_truncate(relids, restart_seqs);

	command->serverid = serverid;
	command->userid = GetUserId();
	/* placements let it pass that way only, see 49_copies.sql */
	command->sql = is_noted ? psprintf(SHARD_COPIES_APPLY_ON "; %s; " SHARD_COPIES_APPLY_OFF, sql) : sql;
}

/*
 * Core calls this once per server, with all tables to be truncated there.  The node does not
 * cascade: whom that would concern has been found before (ddl/ddl_cascade.c).
 */
void
shardExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ShardCommand *commands;
	Oid			serverid = InvalidOid;
	List	   *relids = NIL;
	List	   *copies = NIL;
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
		copies = add_copies(copies, relid, &is_noted);
	}

	if (is_noted)
		shard_copies_note_sent();
	commands = palloc0(sizeof(ShardCommand) * (1 + list_length(copies)));
	fill_command(&commands[ncommands++], serverid, relids, restart_seqs, is_noted);
	foreach_ptr(const TruncatedCopies, on_server, copies)
		fill_command(&commands[ncommands++], on_server->serverid, on_server->relids, restart_seqs, true);
	shard_command_run(commands, ncommands, SHARD_COMMAND_EXCLUSIVE, false);
	shard_command_free(commands, ncommands);
}
