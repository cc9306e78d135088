/*
 * constraints.c
 *	  SET CONSTRAINTS on the nodes to which this transaction writes.
 *
 * Nodes that join the transaction later get the commands with their BEGIN or SAVEPOINT, see txn_constraints.c.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "miscadmin.h"
#include "remote/run/command.h"
#include "remote/run/constraints.h"
#include "remote/xact/txn_private.h"
#include "utils/builtins.h"

#define ALL_DEFERRED "SET CONSTRAINTS ALL DEFERRED"

/* Runs sql on the nodes to which the transaction writes, and records it for the others. */
static void
set_mode(const char *name, const char *sql)
{
	int			ncommands = list_length(shard_txn_writers);
	ShardCommand *commands = palloc0(Max(ncommands, 1) * sizeof(ShardCommand));

	foreach_ptr(const ShardWriter, writer, shard_txn_writers)
	{
		ShardCommand *command = &commands[foreach_current_index(writer)];

		*command = (ShardCommand) {.serverid = writer->serverid, .userid = writer->userid, .sql = sql};
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, ncommands);
	pfree(commands);
	shard_txn_note_constraints(GetCurrentTransactionNestLevel(), name, sql);
}

void
shard_constraints_set_all(bool deferred)
{
	if (deferred)
	{
		set_mode(NULL, ALL_DEFERRED);
		return;
	}
	/*
	 * the trigger that keeps shards from committing without their replicas stays deferred, also on
	 * tables written to later
	 */
	(void) shard_txn_upcalls->apply_replicas();
	set_mode(NULL, psprintf("SET CONSTRAINTS ALL IMMEDIATE; DO %s",
							quote_literal_cstr("DECLARE name text; BEGIN FOR name IN SELECT DISTINCT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_constraint c"
											   " JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace WHERE c.conname = 'shardfdw_replicated' AND c.contype = 't'"
											   " AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')"
											   " LOOP EXECUTE 'SET CONSTRAINTS ' || name || '.shardfdw_replicated DEFERRED'; END LOOP; END")));
}

ShardConstraintsMode
shard_constraints_mode(void)
{
	const char *sql = shard_txn_constraints_of_all();

	return sql == NULL ? SHARD_CONSTRAINTS_OWN :
		strcmp(sql, ALL_DEFERRED) == 0 ? SHARD_CONSTRAINTS_DEFERRED : SHARD_CONSTRAINTS_IMMEDIATE;
}

/*
 * A node may have no table with such a key.  If nodes find violations, that is an error, as in SET
 * CONSTRAINTS itself.
 */
void
shard_constraints_set_key(const char *schema, const char *name, bool deferred)
{
	const char *qualified = quote_qualified_identifier(schema, name);
	char	   *body = psprintf("BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace"
								" WHERE n.nspname = %s AND c.conname = %s AND c.condeferrable) THEN SET CONSTRAINTS %s %s; END IF; END",
								quote_literal_cstr(schema), quote_literal_cstr(name), qualified, deferred ? "DEFERRED" : "IMMEDIATE");

	set_mode(qualified, psprintf("DO %s", quote_literal_cstr(body)));
}

ShardConstraintKind
shard_constraints_find_key(const List *servers, const char *schema, const char *name)
{
	int			ncommands = list_length(servers);
	ShardCommand *commands = palloc0(Max(ncommands, 1) * sizeof(ShardCommand));
	ShardConstraintKind kind = SHARD_CONSTRAINT_NONE;
	const ListCell *lc;

	foreach(lc, servers)
	{
		ShardCommand *command = &commands[foreach_current_index(lc)];

		*command = (ShardCommand) {.serverid = lfirst_oid(lc), .userid = GetUserId(), .nfields = 1};
		command->sql = psprintf("SELECT bool_and(c.condeferrable) FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace"
								" WHERE n.nspname = %s AND c.conname = %s AND c.contype = 'f'",
								quote_literal_cstr(schema), quote_literal_cstr(name));
	}
	/* READ mode, since this transaction may have created it */
	shard_command_run(commands, ncommands, SHARD_COMMAND_READ, false);
	for (int i = 0; i < ncommands; i++)
	{
		const PGresult *res = commands[i].result;

		if (PQntuples(res) != 1 || PQgetisnull(res, 0, 0) || kind == SHARD_CONSTRAINT_IMMEDIATE)
			continue;
		kind = PQgetvalue(res, 0, 0)[0] == 't' ? SHARD_CONSTRAINT_DEFERRABLE : SHARD_CONSTRAINT_IMMEDIATE;
	}
	shard_command_free(commands, ncommands);
	return kind;
}
