/*
 * ddl_send.c
 *	  Sends commands for tables to all nodes in parallel.
 *
 * In a transaction they use the writing connection of the node.  So they commit, or are rolled back to a savepoint,
 * together with the changes on the coordinator.
 *
 * Commands may contain expressions and names of the user's choice.  They run as a role of the node that other users
 * may share.  So the user needs USAGE on the server, as for creating foreign tables.  There are two exceptions.
 * USAGE is not needed if the user's own mapping names a role with the same name, as add_user() creates it, and no
 * other mapping names that role.  Commands that only name shards and existing objects of shards do not need it
 * either: DROP, LOCK TABLE, GRANT on tables, VACUUM.
 *
 * If the user acts for another owner, the table on the node must belong to that owner.  This holds if a user who is
 * not a superuser could choose the table that the foreign table stands for (catalog/shard_server.h).
 *
 * A session that follows another coordinator (ddl/peer/) sends no commands and queries: the other coordinator does.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/moving.h"
#include "catalog/node_list.h"
#include "catalog/pg_user_mapping.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "ddl/ddl_send.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "identity.h"
#include "libpq-fe.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

ShardDdlBatch *
shard_ddl_batch_create(const ShardDdlTable *table)
{
	ShardDdlBatch *batch = palloc0(sizeof(ShardDdlBatch));

	batch->table = table;
	batch->texts = palloc0(sizeof(StringInfoData) * table->nshards);
	for (int i = 0; i < table->nshards; i++)
		initStringInfo(&batch->texts[i]);
	return batch;
}

void
shard_ddl_batch_add(ShardDdlBatch *batch, int shardno, const char *fmt,...)
{
	StringInfo	text = &batch->texts[shardno];

	if (text->len > 0)
		appendStringInfoString(text, "; ");
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(text, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(text, needed);
	}
}

void
shard_ddl_batch_add_all(ShardDdlBatch *batch, const char *before, const char *after)
{
	for (int i = 0; i < batch->table->nshards; i++)
		shard_ddl_batch_add(batch, i, "%s%s%s", before, batch->table->shards[i].relation, after);
}

void
shard_ddl_batch_add_named_by(ShardDdlBatch *batch)
{
	shard_ddl_batch_add_all(batch, "COMMENT ON TYPE ", psprintf(" IS %s", quote_literal_cstr(shard_identity_named_by())));
}

/* Converts the batch's commands for remote/command; *shardnos: the shard of each. */
static ShardCommand *
make_commands(ShardDdlBatch *batch, int *ncommands, int **shardnos)
{
	const ShardDdlTable *table = batch->table;
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * table->nshards);

	*ncommands = 0;
	*shardnos = palloc(sizeof(int) * table->nshards);
	for (int i = 0; i < table->nshards; i++)
	{
		ShardCommand *command = &commands[*ncommands];

		if (batch->texts[i].len == 0)
			continue;
		*command = (ShardCommand) {.serverid = table->shards[i].serverid, .userid = GetUserId(),
			.sql = pstrdup(batch->texts[i].data), .label = table->shards[i].relation};
		(*shardnos)[(*ncommands)++] = i;
		resetStringInfo(&batch->texts[i]);
	}
	return commands;
}

/* Does a user mapping name this role of the nodes? */
static bool
mapping_names(Relation mappings, HeapTuple mapping, const char *role)
{
	bool		isnull;
	Datum		options = heap_getattr(mapping, Anum_pg_user_mapping_umoptions, RelationGetDescr(mappings), &isnull);

	foreach_node(DefElem, option, isnull ? NIL : untransformRelOptions(options))
	{
		if (strcmp(option->defname, "user") == 0)
			return strcmp(defGetString(option), role) == 0;
	}
	return false;
}

/* Does the current user's own mapping name a role with the same name, and no other mapping of the server that role? */
static bool
has_own_role(Oid serverid)
{
	const char *name = GetUserNameFromId(GetUserId(), false);
	ShardCatalogScan scan;
	HeapTuple	tuple;
	bool		is_own = false;
	bool		is_shared = false;

	shard_catalog_scan_begin_oid(&scan, UserMappingRelationId, InvalidOid, Anum_pg_user_mapping_umserver, serverid);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		if (!mapping_names(scan.rel, tuple, name))
			continue;
		if (((Form_pg_user_mapping) GETSTRUCT(tuple))->umuser == GetUserId())
			is_own = true;
		else
			is_shared = true;
	}
	shard_catalog_scan_end(&scan);
	return is_own && !is_shared;
}

/* Raises an error unless the user has USAGE on the servers. */
static void
check_usage(const ShardCommand *commands, int ncommands)
{
	for (int i = 0; i < ncommands; i++)
		if (!has_own_role(commands[i].serverid))
			shard_node_check_usage(commands[i].serverid);
}

/*
 * The query for the node of shard i, for all shards there with the same owner; NULL: part of an earlier shard's
 * query.
 */
static char *
question_of(const ShardDdlTable *table, int i)
{
	const ShardDdlShard *first = &table->shards[i];
	StringInfoData text;

	if (!OidIsValid(first->owner))
		return NULL;
	initStringInfo(&text);
	for (int j = 0; j < table->nshards; j++)
	{
		const ShardDdlShard *shard = &table->shards[j];

		if (shard->owner != first->owner || shard->serverid != first->serverid)
			continue;
		if (j < i)
			return NULL;
		appendStringInfo(&text, "%s(%s, %s)", text.len > 0 ? ", " : "", quote_literal_cstr(shard->schema), quote_literal_cstr(shard->name));
	}
	return psprintf("SELECT format('%%I.%%I', n.nspname, c.relname), pg_get_userbyid(c.relowner), current_user FROM (VALUES %s) s(schema, name) "
					"JOIN pg_namespace n ON n.nspname = s.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.name "
					"WHERE NOT pg_has_role(c.relowner, 'USAGE') LIMIT 1", text.data);
}

void
shard_ddl_check_owners(const ShardDdlTable *table)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * table->nshards);
	int			ncommands = 0;

	/*
	 * a session that follows another coordinator claims that itself, so tables of reference tables are checked in any
	 * case
	 */
	for (int i = 0; i < table->nshards && (table->is_reference || !shard_guc_follows_coordinator); i++)
	{
		const char *sql = question_of(table, i);

		if (sql == NULL)
			continue;
		commands[ncommands++] = (ShardCommand) {.serverid = table->shards[i].serverid,
			.userid = table->shards[i].owner, .sql = sql, .nfields = 3};
	}
	/*
	 * the owner's connection does not see what this transaction has changed on the node; the current user was allowed
	 * to change it
	 */
	shard_command_run(commands, ncommands, SHARD_COMMAND_AUTOCOMMIT, false);
	for (int i = 0; i < ncommands; i++)
		if (PQntuples(commands[i].result) > 0)
		{
			const char *owner = GetUserNameFromId(commands[i].userid, false);

			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("table %s on node \"%s\" belongs to role \"%s\", and not to role \"%s\"", PQgetvalue(commands[i].result, 0, 0),
							GetForeignServer(commands[i].serverid)->servername, PQgetvalue(commands[i].result, 0, 1), PQgetvalue(commands[i].result, 0, 2)),
					 table->is_reference ? errdetail("A reference table would stand for it.") :
					 errdetail("Role \"%s\" owns the foreign table here, and could let it stand for a table of others.", owner),
					 table->is_reference ? errhint("Choose another name.") :
					 errhint("Do it as the owner: SET ROLE %s. Or, if the table on the node is the right one, give it there to role \"%s\".",
							 quote_identifier(owner), PQgetvalue(commands[i].result, 0, 2))));
		}
	shard_command_free(commands, ncommands);
	pfree(commands);
}

/* Checks the user's permissions on the nodes of a batch, and that the tables there belong to the shards' owners. */
static void
check_rights(const ShardDdlBatch *batch, const ShardCommand *commands, int ncommands)
{
	if (!batch->only_names_shards)
		check_usage(commands, ncommands);
	if (ncommands > 0)
		shard_ddl_check_owners(batch->table);
}

/* Raises an error if a job moves one of the shards that get commands. */
static void
check_no_job(const ShardDdlBatch *batch, const int *shardnos, int ncommands)
{
	const ShardDdlTable *table = batch->table;
	Oid		   *relids = palloc(sizeof(Oid) * Max(ncommands, 1));

	for (int i = 0; i < ncommands; i++)
		relids[i] = table->shards[shardnos[i]].relid;
	shard_moving_check(relids, ncommands);
	if (batch->renames)
		shard_moving_check_names(relids, ncommands);
	pfree(relids);
}

void
shard_ddl_batch_run(ShardDdlBatch *batch)
{
	int			ncommands;
	int		   *shardnos;
	ShardCommand *commands = make_commands(batch, &ncommands, &shardnos);

	if (!batch->keeps_definition)
		check_no_job(batch, shardnos, ncommands);
	if (shard_guc_follows_coordinator)
		return;
	check_rights(batch, commands, ncommands);
	shard_command_run(commands, ncommands, SHARD_COMMAND_EXCLUSIVE, false);
	shard_command_free(commands, ncommands);
}

void
shard_ddl_run_on_servers(List *servers, char *(*text) (Oid serverid, void *arg), void *arg)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(list_length(servers), 1));
	int			ncommands = 0;

	foreach_oid(serverid, servers)
	{
		commands[ncommands].serverid = serverid;
		commands[ncommands].userid = GetUserId();
		commands[ncommands++].sql = text(serverid, arg);
	}
	check_usage(commands, ncommands);
	shard_command_run(commands, ncommands, SHARD_COMMAND_EXCLUSIVE, false);
	shard_command_free(commands, ncommands);
}

void
shard_ddl_lock_shards(const ShardDdlTable *table, const char *mode, bool nowait)
{
	ShardDdlBatch *batch = shard_ddl_batch_create(table);

	shard_ddl_batch_add_all(batch, "LOCK TABLE ", psprintf(" IN %s MODE%s", mode, nowait ? " NOWAIT" : ""));
	batch->keeps_definition = true;
	batch->only_names_shards = true;
	shard_ddl_batch_run(batch);
}

void
shard_ddl_batch_rest(void *batch)
{
	shard_ddl_batch_run(batch);
}

List *
shard_ddl_batch_run_free(ShardDdlBatch *batch, ErrorData **error)
{
	int			ncommands;
	int		   *shardnos;
	ShardCommand *commands = make_commands(batch, &ncommands, &shardnos);
	List	   *done = NIL;

	*error = NULL;
	check_rights(batch, commands, ncommands);
	shard_command_run(commands, ncommands, SHARD_COMMAND_AUTOCOMMIT, true);
	for (int i = 0; i < ncommands; i++)
	{
		if (commands[i].error == NULL)
			done = lappend(done, &batch->table->shards[shardnos[i]]);
		else if (*error == NULL)
			*error = commands[i].error;
	}
	shard_command_free(commands, ncommands);
	return done;
}

/*
 * Calls take for each row of one node's answer.  The answer becomes part of commands, so a node must not answer for
 * shards of other nodes.
 */
static void
take_answer(const ShardDdlTable *table, Oid serverid, PGresult *res, ShardDdlAnswer take, void *arg)
{
	int			nfields = PQnfields(res);
	const char **fields = palloc(sizeof(char *) * Max(nfields, 1));

	for (int row = 0; row < PQntuples(res); row++)
	{
		int			shardno = nfields > 0 ? pg_strtoint32(PQgetvalue(res, row, 0)) : -1;

		if (shardno < 0 || shardno >= table->nshards || table->shards[shardno].serverid != serverid)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("a node of table \"%s\" answered for a shard that it was not asked about", table->name)));
		for (int i = 1; i < nfields; i++)
		{
			fields[i - 1] = PQgetisnull(res, row, i) ? NULL : pstrdup(PQgetvalue(res, row, i));
			if (fields[i - 1] != NULL)
				(void) pg_verifymbstr(fields[i - 1], strlen(fields[i - 1]), false);
		}
		take(table, shardno, nfields - 1, fields, arg);
	}
}

void
shard_ddl_need_fields(const ShardDdlTable *table, int nfields, const char *const *fields, int nneeded)
{
	bool		complete = nfields == nneeded;

	for (int i = 0; complete && i < nneeded; i++)
		complete = fields[i] != NULL;
	if (!complete)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node of table \"%s\" gave an unexpected answer", table->name)));
}

static void
ask(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg, ShardCommandMode mode)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * table->nshards);
	bool	   *asked = palloc0(sizeof(bool) * table->nshards);
	int			ncommands = 0;

	if (shard_guc_follows_coordinator)
		return;
	for (int i = 0; i < table->nshards; i++)
	{
		List	   *shardnos = NIL;

		for (int j = i; j < table->nshards; j++)
			if (!asked[j] && table->shards[j].serverid == table->shards[i].serverid)
			{
				shardnos = lappend_int(shardnos, j);
				asked[j] = true;
			}
		if (shardnos == NIL)
			continue;
		commands[ncommands].serverid = table->shards[i].serverid;
		commands[ncommands].userid = GetUserId();
		/* questions compare definitions with texts that this session has printed with fixed settings */
		commands[ncommands].portable_text = true;
		commands[ncommands++].sql = question(table, shardnos, arg);
	}

	shard_command_run(commands, ncommands, mode, false);
	for (int i = 0; i < ncommands; i++)
		take_answer(table, commands[i].serverid, commands[i].result, take, arg);
	shard_command_free(commands, ncommands);
}

void
shard_ddl_ask(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg)
{
	ask(table, question, take, arg, SHARD_COMMAND_WRITE);
}

void
shard_ddl_ask_free(const ShardDdlTable *table, ShardDdlQuestion question, ShardDdlAnswer take, void *arg)
{
	ask(table, question, take, arg, SHARD_COMMAND_AUTOCOMMIT);
}
