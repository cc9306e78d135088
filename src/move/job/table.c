/*
 * table.c
 *	  The tables of a move: their description by the source, and the commands that recreate them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catch.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "move/job/table.h"
#include "nodes/value.h"
#include "own_schema.h"
#include "own_sql.h"
#include "postmaster/interrupt.h"
#include "remote/run/command.h"
#include "remote/xact/twophase.h"
#include "service/background_worker.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* What shard_move_commit() restores. */
static ShardOwnSql own;

void
shard_move_begin(Oid userid)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	StartTransactionCommand();
	/* code of other users must not get superuser rights, or leave objects or settings in this session */
	shard_own_sql_become(&own, userid);
}

void
shard_move_limit_locks(int timeout_ms)
{
	(void) set_config_option("lock_timeout", psprintf("%d", timeout_ms), PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

void
shard_move_commit(void)
{
	shard_own_sql_return(&own);
	CommitTransactionCommand();
}

bool
shard_move_commit_confirmed(void)
{
	uint64		nleft = shard_twophase_count_left();

	shard_move_commit();
	return shard_twophase_count_left() == nleft;
}

void
shard_move_commit_on_nodes(const ShardJob *job)
{
	if (!shard_move_commit_confirmed())
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("a node did not confirm a commit of job " INT64_FORMAT, job->id),
				 errhint("Start again when the node answers.")));
}

bool
shard_move_is_lock_timeout(int code)
{
	return code == ERRCODE_LOCK_NOT_AVAILABLE || code == ERRCODE_T_R_DEADLOCK_DETECTED;
}

/* A step in a transaction. */
typedef struct Step
{
	Oid			userid;
	void		(*step) (void *arg);
	void	   *arg;
} Step;

static void
run_step(void *arg)
{
	const Step *step = arg;

	shard_move_begin(step->userid);
	step->step(step->arg);
}

bool
shard_move_try_step(Oid userid, bool (*passes) (int code), void (*step) (void *arg), void *arg)
{
	Step		begun = {userid, step, arg};

	return shard_catch_transaction(run_step, &begun, passes, false) == NULL;
}

void
shard_move_call(const char *sql)
{
	(void) shard_own_sql_rows(sql, InvalidSnapshot);
}

char *
shard_move_value(const char *sql)
{
	char	   *value = shard_own_sql_value(sql, InvalidSnapshot);

	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("an object that the job works on has been dropped")));
	return value;
}

/* Commands that take long for large tables.  A timeout of the role on the node must not apply to them. */
#define NO_TIMEOUT_SQL "SET LOCAL statement_timeout = 0; "

void
shard_move_run(const ShardMove *move, Oid serverid, const char *sql)
{
	ShardCommand command = {.serverid = serverid, .userid = move->job.userid,
		.sql = psprintf(NO_TIMEOUT_SQL "%s", sql)};

	shard_command_run(&command, 1, SHARD_COMMAND_AUTOCOMMIT, false);
	shard_command_free(&command, 1);
}

bool
shard_move_try(const ShardMove *move, Oid serverid, const char *sql)
{
	ShardCommand command = {.serverid = serverid, .userid = move->job.userid,
		.sql = psprintf(NO_TIMEOUT_SQL "%s", sql)};
	bool		done;

	shard_command_run(&command, 1, SHARD_COMMAND_AUTOCOMMIT, true);
	done = command.error == NULL;
	if (!done && !shard_move_is_lock_timeout(command.error->sqlerrcode))
		ThrowErrorData(command.error);
	shard_command_free(&command, 1);
	return done;
}

char *
shard_move_array(const ShardMove *move)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "'{");
	for (int i = 0; i < move->nshards; i++)
		appendStringInfo(&buf, "%s%u", i > 0 ? "," : "", move->shards[i]);
	appendStringInfoString(&buf, "}'::pg_catalog.regclass[]");
	return buf.data;
}

void
shard_move_set_target(ShardMove *move, Oid serverid)
{
	ForeignServer *server = GetForeignServerExtended(serverid, FSV_MISSING_OK);

	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the node to which shards are moved has been removed")));
	move->target = serverid;
	move->target_name = MemoryContextStrdup(move->job.cxt, server->servername);
}

void
shard_move_find_tables(ShardMove *move)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(move->job.cxt);
	List	   *rows = shard_own_sql_rows(psprintf("SELECT m.relation::pg_catalog.oid, m.parent::pg_catalog.oid, m.server, m.name, m.remote_name, m.remote_schema, m.remote_table, "
												SHARD_INTERNAL_SCHEMA ".job_schema(" INT64_FORMAT "), " SHARD_INTERNAL_SCHEMA ".job_schema(" INT64_FORMAT ", m.schema_number), m.staging FROM " SHARD_INTERNAL_SCHEMA ".job_tables(%s) m",
												move->job.id, move->job.id, shard_move_array(move)), InvalidSnapshot);

	move->ntables = 0;
	move->tables = palloc0(sizeof(ShardMoveTable) * Max(list_length(rows), 1));
	foreach_ptr(ShardSqlField, row, rows)
	{
		ShardMoveTable *table = &move->tables[move->ntables++];

		table->relid = atooid(row[0]);
		table->parent = atooid(row[1]);
		move->source = atooid(row[2]);
		table->name = row[3];
		table->remote_name = row[4];
		table->remote_schema = row[5];
		table->remote_table = row[6];
		move->schema = row[7];
		table->staging_schema = row[8];
		table->staging = quote_qualified_identifier(table->staging_schema, row[9]);
	}
	MemoryContextSwitchTo(oldcxt);
	if (move->ntables == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation %u is not a shard", move->shards[0])));
	move->source_name = MemoryContextStrdup(move->job.cxt, GetForeignServer(move->source)->servername);
	shard_move_set_target(move, move->target);
}

List *
shard_move_schemas(const ShardMove *move)
{
	List	   *schemas = NIL;

	for (int i = 0; i < move->ntables; i++)
	{
		String	   *schema = makeString(unconstify(char *, move->tables[i].staging_schema));

		if (!list_member(schemas, schema))
			schemas = lappend(schemas, schema);
	}
	return schemas;
}

char *
shard_move_drop_schemas(const ShardMove *move)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoString(&buf, "DROP SCHEMA IF EXISTS ");
	foreach_node(String, schema, shard_move_schemas(move))
		appendStringInfo(&buf, "%s%s", foreach_current_index(schema) > 0 ? ", " : "", strVal(schema));
	appendStringInfoString(&buf, " CASCADE");
	return buf.data;
}

/* ---------- parts ---------- */

static void
ask_parts(ShardMove *move)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(move->job.cxt);

	foreach_ptr(ShardSqlField, row, shard_own_sql_rows(psprintf("SELECT p.relation::pg_catalog.oid, p.part, p.command FROM " SHARD_INTERNAL_SCHEMA ".moving_parts(%s, " INT64_FORMAT ", %d, %s) p",
													  shard_move_array(move), move->job.id, move->npieces, quote_literal_cstr(move->job.plan)), InvalidSnapshot))
	{
		ShardMovePart *part = palloc(sizeof(ShardMovePart));

		part->part = row[1];
		part->text = row[2];
		for (int i = 0; i < move->ntables; i++)
		{
			if (move->tables[i].relid == atooid(row[0]))
				move->tables[i].parts = lappend(move->tables[i].parts, part);
		}
	}
	MemoryContextSwitchTo(oldcxt);
}

const char *
shard_move_fact(const ShardMoveTable *table, const char *name)
{
	foreach_ptr(const ShardMovePart, part, table->parts)
	{
		if (strncmp(part->part, "fact_", 5) == 0 && strcmp(part->part + 5, name) == 0)
			return part->text;
	}
	elog(ERROR, "the source did not return \"%s\" of %s", name, table->remote_name);
}

char *
shard_move_commands(const ShardMoveTable *table, const char *name)
{
	StringInfoData buf;

	initStringInfo(&buf);
	foreach_ptr(const ShardMovePart, part, table->parts)
	{
		if (strcmp(part->part, name) == 0)
			appendStringInfo(&buf, "%s%s", buf.len > 0 ? "; " : "", part->text);
	}
	return buf.len > 0 ? buf.data : NULL;
}

void
shard_move_read_parts(ShardMove *move)
{
	for (int i = 0; i < move->ntables; i++)
		move->tables[i].parts = NIL;
	ask_parts(move);
	for (int i = 0; i < move->ntables; i++)
	{
		ShardMoveTable *table = &move->tables[i];

		foreach_ptr(const ShardMovePart, part, table->parts)
		{
			if (strcmp(part->part, "problem") == 0)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("shard %s cannot be %s: it %s", table->name, SHARD_MOVE_DONE(move), part->text)));
		}
	}
	for (int i = 0; i < move->ntables; i++)
	{
		ShardMoveTable *table = &move->tables[i];

		table->columns = shard_move_fact(table, "columns");
		table->binary = strcmp(shard_move_fact(table, "binary"), "t") == 0;
		table->identified = strcmp(shard_move_fact(table, "identified"), "t") == 0;
		table->identity = shard_move_fact(table, "identity")[0];
	}
}

/*
 * The parts of a table's description, without facts that may change and settings that the move itself may have
 * changed.
 */
static List *
lasting_parts(const List *parts)
{
	List	   *lasting = NIL;
	const ListCell *lc;

	foreach(lc, parts)
	{
		const ShardMovePart *part = lfirst(lc);

		if (strstr(part->text, " REPLICA IDENTITY ") == NULL &&
			(strncmp(part->part, "fact_", 5) != 0 || strcmp(part->part, "fact_columns") == 0 || strcmp(part->part, "fact_oid") == 0))
			lasting = lappend(lasting, lfirst(lc));
	}
	return lasting;
}

static bool
same_parts(const List *left, const List *right)
{
	left = lasting_parts(left);
	right = lasting_parts(right);
	if (list_length(left) != list_length(right))
		return false;
	for (int i = 0; i < list_length(left); i++)
	{
		const ShardMovePart *l = list_nth(left, i);
		const ShardMovePart *r = list_nth(right, i);

		if (strcmp(l->part, r->part) != 0 || strcmp(l->text, r->text) != 0)
			return false;
	}
	return true;
}

void
shard_move_check_unchanged(const ShardMove *move)
{
	ShardMove	now = *move;

	now.job.cxt = CurrentMemoryContext;
	now.tables = palloc0(sizeof(ShardMoveTable) * move->ntables);
	memcpy(now.tables, move->tables, sizeof(ShardMoveTable) * move->ntables);
	for (int i = 0; i < now.ntables; i++)
		now.tables[i].parts = NIL;
	ask_parts(&now);
	for (int i = 0; i < now.ntables; i++)
	{
		if (!same_parts(move->tables[i].parts, now.tables[i].parts))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the definition of shard %s has changed while it was %s", move->tables[i].name, SHARD_MOVE_DONE(move)),
					 errhint("Start it again.")));
	}
}
