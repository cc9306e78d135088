/*
 * reference_run.c
 *	  Commands that change rows in all replicas of a reference table.
 *
 *	 run on all nodes --> counts right?	 --yes-->  done
 *								| no
 *								+--> wait for prepared transactions --> run again --> right?  --no-->  error
 *
 * A transaction commits on the coordinator first, and on the nodes shortly after.  A session that
 * changes its rows in between sees them on the coordinator, but does not find them on a node.  The
 * node waits for a row that is being changed, but not for one that is being inserted or gets another
 * key.
 *
 * All such transactions were prepared on the node before the coordinator showed their rows.  So
 * when the transactions that are prepared now have ended, either the rows are there, or the replica
 * differs.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/node_list.h"
#include "catalog/qualified.h"
#include "catalog/reference.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "node_position.h"
#include "own_schema.h"
#include "reference/reference_run.h"
#include "remote/run/settle.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Creates commands with the same text for some nodes, one for each element of params. */
static ShardCommand *
make_commands(ShardReferenceWrite *write, List *nodes, const char *sql, int nparams, List *params)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(list_length(nodes) * list_length(params), 1));
	ShardCommand *command = commands;
	ListCell   *lc;

	foreach(lc, params)
	{
		foreach_oid(serverid, nodes)
		{
			*command = (ShardCommand) {.serverid = serverid, .userid = write->userid, .sql = sql,
				.label = write->relation, .nparams = nparams, .params = lfirst(lc), .inlines = true};
			command++;
		}
	}
	return commands;
}

/*
 * The other coordinators have the table, too.  Their triggers and foreign keys do not fire, since
 * the changes made by triggers and foreign keys here are also sent.
 */
static List *
open_peers(ShardReferenceWrite *write)
{
	List	   *peers = NIL;
	int			nbefore;
	ShardCommand *commands;

	foreach_ptr(ShardNodeName, node, shard_node_peers(&nbefore))
		peers = lappend_oid(peers, node->serverid);
	if (peers == NIL)
		return NIL;
	commands = make_commands(write, peers, psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".begin_following(%s); SET LOCAL session_replication_role = replica",
												   quote_literal_cstr(shard_identity_get())), 0, list_make1(NULL));
	shard_command_run(commands, list_length(peers), SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, list_length(peers));
	return peers;
}

void
shard_reference_run_begin(ShardReferenceWrite *write, Relation rel)
{
	shard_node_position_note_references();
	write->rel = rel;
	write->cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw reference write",
									   ALLOCSET_SMALL_SIZES);
	write->row_cxt = AllocSetContextCreate(write->cxt, "shardfdw reference row",
										   ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(write->cxt);
	write->relation = shard_qualified_relation(RelationGetRelid(rel));
	write->userid = GetUserId();
	write->peers = open_peers(write);
	write->nodes = list_concat_copy(write->peers, shard_reference_nodes());
}

void
shard_reference_run_end(ShardReferenceWrite *write, MemoryContext caller_cxt)
{
	MemoryContextSwitchTo(caller_cxt);
	MemoryContextDelete(write->cxt);
}

void
shard_reference_run_settle(ShardReferenceWrite *write)
{
	list_free(shard_settle_wait(write->nodes, write->userid, SHARD_COMMAND_WRITE));
}

/* ---------- counts ---------- */

static void
report_difference(ShardReferenceWrite *write, const ShardCommand *command, int64 nrows, int64 nchanged)
{
	const char *node = GetForeignServer(command->serverid)->servername;

	/* the node's snapshot may be older than a commit that the coordinator's snapshot shows */
	if (IsolationUsesXactSnapshot() && nchanged < nrows)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access to reference table \"%s\" on node \"%s\"",
						RelationGetRelationName(write->rel), node),
				 errdetail("%lld rows were to be changed there, %lld were found.",
						   (long long) nrows, (long long) nchanged),
				 errhint("The transaction might succeed if retried; shardfdw.check_cluster() shows whether the replica differs.")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the replica of reference table \"%s\" on node \"%s\" differs",
					RelationGetRelationName(write->rel), node),
			 errdetail("%lld rows were to be changed there, %lld were found.",
					   (long long) nrows, (long long) nchanged),
			 shard_node_is_coordinator(command->serverid) ?
			 errhint("A policy of the table there may hide the rows; SELECT * FROM shardfdw.check_cluster('rows') tells whether rows differ.") :
			 errhint("SELECT shardfdw.enable_node(%s) makes it again.", quote_literal_cstr(node))));
}

static int64
rows_changed(const ShardCommand *command)
{
	return strtoi64(PQcmdTuples(command->result), NULL, 10);
}

/*
 * A command has changed nchanged rows instead of nrows.  If prepared transactions may be the reason, waits for them and
 * runs the command again; otherwise raises an error.
 */
static void
run_again(ShardReferenceWrite *write, const ShardCommand *command, int64 nrows, int64 nchanged,
		  ShardReferenceCount count)
{
	ShardCommand again = *command;

	if (count != SHARD_REFERENCE_COUNT_ONCE && nchanged < nrows && !IsolationUsesXactSnapshot())
	{
		shard_reference_run_settle(write);
		shard_command_run(&again, 1, SHARD_COMMAND_WRITE, false);
		if (count == SHARD_REFERENCE_COUNT_AGAIN)
			nchanged = 0;
		nchanged += rows_changed(&again);
		shard_command_free(&again, 1);
	}
	if (nchanged != nrows)
		report_difference(write, command, nrows, nchanged);
}

void
shard_reference_run_rows(ShardReferenceWrite *write, const char *sql, int nparams, List *params, int64 nrows,
						 ShardReferenceCount count)
{
	int			ncommands = list_length(write->nodes) * list_length(params);
	ShardCommand *commands = make_commands(write, write->nodes, sql, nparams, params);

	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < ncommands; i++)
	{
		int64		nchanged = rows_changed(&commands[i]);

		if (nchanged != nrows)
			run_again(write, &commands[i], nrows, nchanged, count);
	}
	shard_command_free(commands, ncommands);
	pfree(commands);
}

void
shard_reference_run_exclusive(ShardReferenceWrite *write, List *nodes, const char *sql)
{
	int			ncommands = list_length(nodes);
	ShardCommand *commands = make_commands(write, nodes, sql, 0, list_make1(NULL));

	if (ncommands == 0)
		return;
	shard_command_run(commands, ncommands, SHARD_COMMAND_EXCLUSIVE, false);
	shard_command_free(commands, ncommands);
}

void
shard_reference_run(ShardReferenceWrite *write, const char *sql, ShardReferenceParams *keys, ShardReferenceParams *values,
					int64 nrows, ShardReferenceCount count)
{
	const char **params = shard_reference_param_collect(keys, values);

	shard_reference_run_rows(write, sql, keys->ncolumns + (values ? values->ncolumns : 0), list_make1(params), nrows, count);
	pfree(params);
	shard_reference_param_empty(keys);
	if (values)
		shard_reference_param_empty(values);
}
