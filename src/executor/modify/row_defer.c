/*
 * row_defer.c
 *	  UPDATE, row by row, of tables with deferrable unique keys.
 *
 * PostgreSQL checks a deferrable key at the end of the statement, so that rows may have equal
 * values in between.  A node that gets a statement per row would check after each row.  So its keys
 * are set DEFERRED before the first row of a shard, and IMMEDIATE at the end of the whole
 * statement:
 *
 *	 begin (each shard) --> first row: SET CONSTRAINTS ... DEFERRED --> rows --(last end)--> IMMEDIATE
 *
 * If SET CONSTRAINTS ALL DEFERRED was run in the transaction, nothing must be done.  If a function of the statement
 * runs it, the keys stay DEFERRED.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_index.h"
#include "compat.h"
#include "deparse/dml.h"
#include "executor/modify/row_defer.h"
#include "plan/statement_entry.h"
#include "remote/run/command.h"
#include "remote/run/constraints.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

struct ShardRowDefer
{
	ShardStatementEntry entry;	/* in statements */
	int			nusers;			/* number of begins without end */
	bool		all_immediate;	/* SET CONSTRAINTS ALL IMMEDIATE was run in the transaction */
	List	   *shards;			/* List of ShardCommand, each of which sets the keys of a shard IMMEDIATE */
	List	   *relids;			/* the shards */
};

/* Running statements, innermost first. */
static slist_head statements = SLIST_STATIC_INIT(statements);

/* Has the table a key that is not checked with each row?  The statement may name a table below it, and not lock it. */
static bool
has_deferrable_key(Oid relid)
{
	Relation	rel = try_table_open(relid, AccessShareLock);
	List	   *indexes;
	bool		result = false;

	if (rel == NULL)
		return false;
	indexes = RelationGetIndexList(rel);
	foreach_oid(indexid, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));

		if (!HeapTupleIsValid(tuple))
			continue;
		result |= !((Form_pg_index) GETSTRUCT(tuple))->indimmediate;
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	table_close(rel, AccessShareLock);
	return result;
}

ShardRowDefer *
shard_row_defer_begin(EState *estate, Oid relid)
{
	ShardConstraintsMode mode = shard_constraints_mode();
	bool		deferrable = false;
	ShardRowDefer *defer;

	if (mode == SHARD_CONSTRAINTS_DEFERRED || !get_rel_relispartition(relid))
		return NULL;
	/* the sharded table has the keys */
	foreach_oid(ancestor, get_partition_ancestors(relid))
		deferrable |= has_deferrable_key(ancestor);
	if (!deferrable)
		return NULL;
	defer = shard_statement_entry_find(&statements, estate, 0);
	if (defer == NULL)
	{
		defer = shard_statement_entry_add(&statements, estate, 0, sizeof(ShardRowDefer));
		defer->all_immediate = mode == SHARD_CONSTRAINTS_IMMEDIATE;
	}
	defer->nusers++;
	return defer;
}

/* Returns the command that sets the mode of a table's keys that are checked at the end of a statement. */
static char *
set_command(const ShardRowDefer *defer, const char *relation, const char *mode)
{
	char	   *body = psprintf("DECLARE names pg_catalog.text; BEGIN"
								" SELECT pg_catalog.string_agg(pg_catalog.format('%%I.%%I', n.nspname, c.conname), ', ') INTO names"
								" FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace"
								" WHERE c.conrelid = %s::pg_catalog.regclass AND c.contype IN ('p', 'u', 'x') AND c.condeferrable%s;"
								" IF names IS NOT NULL THEN EXECUTE 'SET CONSTRAINTS ' || names || ' %s'; END IF; END",
								quote_literal_cstr(relation), defer->all_immediate ? "" : " AND NOT c.condeferred", mode);

	return psprintf("DO %s", quote_literal_cstr(body));
}

void
shard_row_defer_shard(ShardRowDefer *defer, Oid relid, Oid serverid, Oid userid, const char *label)
{
	MemoryContext oldcxt;
	ShardCommand *command;
	ShardCommand first;

	if (list_member_oid(defer->relids, relid))
		return;
	oldcxt = MemoryContextSwitchTo(defer->entry.estate->es_query_cxt);
	command = palloc0(sizeof(ShardCommand));
	command->serverid = serverid;
	command->userid = userid;
	command->label = label;
	first = *command;
	first.sql = set_command(defer, shard_dml_remote_name(relid), "DEFERRED");
	command->sql = set_command(defer, shard_dml_remote_name(relid), "IMMEDIATE");
	shard_command_run(&first, 1, SHARD_COMMAND_WRITE, false);
	shard_command_free(&first, 1);
	defer->shards = lappend(defer->shards, command);
	defer->relids = lappend_oid(defer->relids, relid);
	MemoryContextSwitchTo(oldcxt);
}

void
shard_row_defer_end(ShardRowDefer *defer)
{
	MemoryContext oldcxt;
	ShardCommand *commands;
	int			ncommands = list_length(defer->shards);

	/* functions of the statement may have deferred the keys to the end of the transaction */
	if (--defer->nusers > 0 || ncommands == 0 || shard_constraints_mode() == SHARD_CONSTRAINTS_DEFERRED)
		return;
	oldcxt = MemoryContextSwitchTo(defer->entry.estate->es_query_cxt);
	commands = palloc(sizeof(ShardCommand) * ncommands);
	foreach_ptr(ShardCommand, command, defer->shards)
		commands[foreach_current_index(command)] = *command;
	defer->shards = defer->relids = NIL;
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, ncommands);
	MemoryContextSwitchTo(oldcxt);
}
