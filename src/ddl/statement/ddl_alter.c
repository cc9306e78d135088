/*
 * ddl_alter.c
 *	  ALTER TABLE of a table that has tables on nodes.
 *
 *	  sub-commands --classify--> core: parent and partitions, then the parent's keys
 *								 nodes: one ALTER TABLE per shard, then what follows it
 *
 * ALTER TABLE ONLY of a sharded table is left to core and changes only the parent; pg_dump writes such statements.
 * Defaults that foreign keys of the shards use (SET DEFAULT) are an exception.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/moving.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/qualified.h"
#include "catalog/reference.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "compat.h"
#include "replica/replica_sql.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/alter/ddl_key_default.h"
#include "ddl/alter/ddl_refer.h"
#include "ddl/ddl_here.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_text.h"
#include "ddl/marker_level.h"
#include "ddl/statement/ddl_statement.h"
#include "deparse/print_settings.h"
#include "executor/spi.h"
#include "guc.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "tcop/cmdtag.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

/* Is it a statement that core handles alone: for another kind of relation, or to remove a partition? */
static bool
is_cores(const AlterTableStmt *stmt)
{
	if (stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_FOREIGN_TABLE)
		return true;
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		AlterTableType subtype = cmd->subtype;

		if (subtype == AT_DetachPartition || subtype == AT_DetachPartitionFinalize)
			return true;
	}
	return false;
}

/* Triggers of shards with replicas use the columns of the primary key. */
static void
check_key_stays(ShardAlterState *state)
{
	bool		has_replicas = false;

	for (int i = 0; i < state->table->nshards; i++)
		has_replicas |= state->table->shards[i].is_noted;
	foreach_ptr(const AlterTableCmd, cmd, has_replicas ? state->stmt->cmds : NIL)
	{
		if (cmd->subtype == AT_DropColumn && shard_replica_is_key(state->table->relid, cmd->name))
			shard_ddl_table_refuse(state->table, "DROP COLUMN of the primary key, where shards have replicas,", NULL);
	}
}

static void
classify_all(ShardAlterState *state)
{
	state->rel = table_open(state->table->relid, NoLock);
	shard_alter_note_constraints(state);
	foreach_node(AlterTableCmd, cmd, state->stmt->cmds)
		shard_alter_classify(state, cmd);
	table_close(state->rel, NoLock);
	state->rel = NULL;
}

/* The USING of a new type may read a column that the same statement drops, but DROP is a step before. */
static void
check_using(const ShardDdlTable *table, const AlterTableStmt *stmt)
{
	bool		uses = false;
	bool		drops = false;

	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		AlterTableType subtype = cmd->subtype;

		uses = uses || (subtype == AT_AlterColumnType && castNode(ColumnDef, cmd->def)->raw_default != NULL);
		drops = drops || subtype == AT_DropColumn;
	}
	if (uses && drops)
		shard_ddl_table_refuse(table, "ALTER COLUMN TYPE with USING together with DROP COLUMN", "Use two statements.");
}

/* The statement with these sub-commands. only: for the table without its partitions. */
static Node *
statement_of(ShardAlterState *state, List *cmds, bool only)
{
	AlterTableStmt *stmt = copyObject(state->stmt);

	stmt->cmds = copyObject(cmds);
	if (only)
		stmt->relation->inh = false;
	return (Node *) stmt;
}

/* Changes the coordinator after core's statement: recreates dropped markers and makes new ones, at all levels. */
static void
run_markers(ShardAlterState *state)
{
	shard_ddl_run_here(state->keys);
	if (state->local != NIL && state->markers != NIL)
		shard_ddl_run_core_with(state->call, statement_of(state, state->markers, true), true);
	CommandCounterIncrement();
	if (state->markers != NIL || state->keys != NIL)
		shard_marker_level_all(state->table->relid);
}

/*
 * Computes the values of new columns for existing rows.  Call it before shard_print_settings_begin(), since defaults
 * are evaluated with the user's settings.
 */
static void
compute_defaults(ShardAlterState *state, Relation rel)
{
	foreach_ptr(ShardAlterColumn, column, state->columns)
	{
		AttrNumber	attno = column->subtype == AT_AddColumn ? get_attnum(state->table->relid, column->name) : InvalidAttrNumber;

		if (attno <= 0)
			continue;
		if (state->table->is_reference && shard_ddl_text_default_varies(rel, attno) && shard_alter_has_peers())
			shard_ddl_table_refuse(state->table, "ADD COLUMN with a default that is not immutable, where there are several coordinators,",
								   "Add the column without a default, fill it with UPDATE, and set the default then.");
		column->value = shard_ddl_text_default(rel, attno, &column->is_per_row);
		if (column->is_per_row)
		{
			column->value = shard_fill_default(state, rel, attno);
			column->is_per_row = column->value == NULL;
		}
	}
}

/*
 * Sends ADD COLUMN with the value for existing rows, or with an expression that the node computes.  Columns whose
 * values the coordinator must compute row by row are added to *per_row.
 */
static void
send_new_column(ShardAlterState *state, Relation rel, AttrNumber attno, const ShardAlterColumn *column, List **per_row)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

	shard_alter_piece(state, psprintf("ADD COLUMN %s", shard_ddl_text_column(rel, attno, column->value, att->attnotnull && !column->is_per_row)),
					  NULL, NULL);
	if (att->attstorage != get_typstorage(att->atttypid))
		shard_alter_piece(state, psprintf("ALTER COLUMN %s SET STORAGE %s", quote_identifier(NameStr(att->attname)),
										  shard_ddl_text_storage(att->attstorage)), NULL, NULL);
	if (column->value)
		state->drop_defaults = lappend(state->drop_defaults, pstrdup(NameStr(att->attname)));
	if (column->is_per_row)
		*per_row = lappend_int(*per_row, attno);
}

/* Sends the columns as they are in the catalog now. */
static void
send_columns(ShardAlterState *state, Relation rel, List **per_row)
{
	foreach_ptr(ShardAlterColumn, column, state->columns)
	{
		AttrNumber	attno = get_attnum(state->table->relid, column->name);
		Form_pg_attribute att;

		if (attno <= 0)
			continue;			/* an event trigger has renamed or dropped it */
		att = TupleDescAttr(RelationGetDescr(rel), attno - 1);
		if (column->subtype == AT_AddColumn)
			send_new_column(state, rel, attno, column, per_row);
		else if (column->subtype == AT_AlterColumnType)
			shard_alter_piece(state, psprintf("ALTER COLUMN %s TYPE %s%s%s%s", quote_identifier(column->name),
											  shard_ddl_text_type(att->atttypid, att->atttypmod),
											  shard_ddl_text_collation(att->atttypid, att->attcollation),
											  column->using_text ? " USING " : "",
											  column->using_text ? column->using_text : ""), NULL, NULL);
		else
			shard_alter_piece(state, psprintf("ALTER COLUMN %s SET EXPRESSION AS (%s)", quote_identifier(column->name),
											  shard_ddl_text_generation(rel, attno)), NULL, NULL);
	}
}

/* Are there user triggers that UPDATE would fire? */
static bool
has_update_triggers(Relation rel)
{
	/* use a copy, since looking up functions may make core rebuild rel's cache entry */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (!trigger->tgisinternal && TRIGGER_FOR_UPDATE(trigger->tgtype) &&
			!shard_reference_is_trigger(trigger->tgfoid))
			return true;
	}
	return false;
}

/*
 * Fills new columns of existing rows by an UPDATE, with values computed row by row, as core would do.  Raises an
 * error for a reference table: core has already computed its values, and the replicas cannot get the same ones.  Raises
 * an error at REPEATABLE READ: the UPDATE would miss rows added since the snapshot, which core's rewriting of a table
 * finds.
 */
static void
fill_columns(ShardAlterState *state, Relation rel, List *per_row)
{
	const char *name = shard_qualified_relation(RelationGetRelid(rel));
	ShardOwnSql own;
	StringInfoData sql;
	bool		is_empty;

	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ADD COLUMN with a default that is computed row by row needs transaction isolation level READ COMMITTED"),
				 errdetail("Table \"%s\" may have rows that this transaction does not see.", state->table->name),
				 errhint("Begin the transaction with BEGIN ISOLATION LEVEL READ COMMITTED.")));
	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, InvalidSnapshot);
	is_empty = shard_own_sql_execute(psprintf("SELECT FROM %s LIMIT 1", name), SPI_OK_SELECT, 0, NULL) == 0;
	if (!is_empty)
	{
		if (state->table->is_reference || has_update_triggers(rel))
			shard_ddl_table_refuse(state->table, state->table->is_reference ? "ADD COLUMN with a default that is computed row by row" :
								   "ADD COLUMN with a default that is computed row by row, where UPDATE fires triggers,",
								   "Add the column without a default, fill it with UPDATE, and set the default then.");
		initStringInfo(&sql);
		appendStringInfo(&sql, "UPDATE %s SET ", name);
		foreach_int(attno, per_row)
		{
			const char *column = quote_identifier(get_attname(RelationGetRelid(rel), attno, false));

			appendStringInfo(&sql, "%s%s = DEFAULT", foreach_current_index(attno) > 0 ? ", " : "", column);
		}
		(void) shard_own_sql_execute(sql.data, SPI_OK_UPDATE, 0, NULL);
	}
	shard_own_sql_end(&own);
}

/* Changes the owner of partitions on the coordinator, and of tables on nodes that have the role. */
static void
send_owner(ShardAlterState *state, ShardDdlBatch *batch)
{
	const char *owner = state->new_owner;

	if (!state->table->is_reference)
		foreach_oid(memberid, find_all_inheritors(state->table->relid, AccessExclusiveLock, NULL))
			if (memberid != state->table->relid)
				ATExecChangeOwner(memberid, get_role_oid(owner, false), true, AccessExclusiveLock);
	for (int i = 0; i < state->table->nshards; i++)
		shard_ddl_batch_add(batch, i, "DO %s", quote_literal_cstr(
			psprintf("BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %s) THEN ALTER TABLE %s OWNER TO %s; END IF; END",
					 quote_literal_cstr(owner), state->table->shards[i].relation, quote_identifier(owner))));
}

/*
 * Sends changed defaults to shards whose foreign keys use them.  Foreign keys use the defaults of the parent, so
 * defaults of a partition are not sent.
 */
static void
send_key_defaults(ShardAlterState *state)
{
	List	   *attnos = NIL;

	if (state->table->is_reference || get_rel_relispartition(state->table->relid))
		return;
	foreach_ptr(char, column, state->defaults)
	{
		AttrNumber	attno = get_attnum(state->table->relid, column);

		if (attno > 0)
			attnos = lappend_int(attnos, attno);
	}
	if (attnos != NIL || state->sets_defaults)
		shard_key_default_set(state->table, state->sets_defaults ? NIL : attnos);
}

/* Changes the nodes. */
static void
run_on_nodes(ShardAlterState *state)
{
	ShardDdlBatch *batch = shard_ddl_batch_create(state->table);
	Relation	rel = table_open(state->table->relid, NoLock);
	int			nestlevel;
	List	   *per_row = NIL;

	compute_defaults(state, rel);
	nestlevel = shard_print_settings_begin();
	foreach_ptr(char, index, state->drop_indexes)
		for (int i = 0; i < state->table->nshards; i++)
			shard_ddl_batch_add(batch, i, "DROP INDEX IF EXISTS %s", quote_qualified_identifier(state->table->shards[i].schema, index));
	send_columns(state, rel, &per_row);
	shard_alter_new_constraints(state, batch);
	shard_fill_before(state, batch);
	shard_alter_send_pieces(state, batch);
	/* the coordinator computes defaults, so shards have none */
	foreach_ptr(char, column, state->drop_defaults)
		shard_ddl_batch_add_all(batch, "ALTER TABLE ", psprintf(" ALTER COLUMN %s DROP DEFAULT", quote_identifier(column)));
	shard_fill_after(state, batch);
	if (state->new_owner)
		send_owner(state, batch);
	shard_print_settings_end(nestlevel);
	shard_ddl_batch_run(batch);
	send_key_defaults(state);

	if (per_row != NIL && !shard_guc_follows_coordinator)
	{
		fill_columns(state, rel, per_row);
		foreach_int(attno, per_row)
			if (TupleDescAttr(RelationGetDescr(rel), attno - 1)->attnotnull)
				shard_ddl_batch_add_all(batch, "ALTER TABLE ",
										psprintf(" ALTER COLUMN %s SET NOT NULL",
												 quote_identifier(get_attname(RelationGetRelid(rel), attno, false))));
		shard_ddl_batch_run(batch);
	}
	table_close(rel, NoLock);
}

/*
 * Makes the triggers that send a reference table's writes fire always, whatever DISABLE TRIGGER ALL or ENABLE TRIGGER
 * ALL (pg_restore --disable-triggers) did.  Otherwise the replicas would miss rows.
 */
static void
keep_own_triggers(ShardAlterState *state)
{
	Relation	rel = table_open(state->table->relid, NoLock);
	TriggerDesc *triggers = rel->trigdesc;
	char	   *relation = shard_qualified_relation(RelationGetRelid(rel));
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (shard_reference_is_trigger(triggers->triggers[i].tgfoid) &&
			triggers->triggers[i].tgenabled != TRIGGER_FIRES_ALWAYS)
			appendStringInfo(&text, "%s ENABLE ALWAYS TRIGGER %s", text.len > 0 ? "," : "",
							 quote_identifier(triggers->triggers[i].tgname));
	table_close(rel, NoLock);
	if (text.len > 0)
		shard_ddl_run_here(list_make1(psprintf("ALTER TABLE %s%s", relation, text.data)));
}

static void run_steps(ShardAlterState *state);

/* The work after core's statement, and the later steps. */
static void
alter_rest(void *arg)
{
	ShardAlterState *state = arg;

	run_markers(state);
	if (state->table->is_reference)
		keep_own_triggers(state);
	shard_ddl_run_here(state->options);
	if (shard_ddl_may_need_objects(state->stmt))
		shard_ddl_make_objects(state->table, false);
	run_on_nodes(state);
	run_steps(state);
}

/* Runs a step, and then the later ones. */
static void
run_step(ShardAlterState *state)
{
	Node	   *stmt;
	bool		is_later = state->is_later;

	check_key_stays(state);
	shard_alter_unqualify(state);
	classify_all(state);
	if (!state->table->is_reference)
	{
		state->indexes = shard_marker_level_indexes(state->table->relid);
		state->keys = shard_alter_put_keys_aside(state);
	}
	if (state->local == NIL && state->markers == NIL)
	{
		shard_ddl_rest_first();
		alter_rest(state);
		return;
	}
	state->is_later = true;
	stmt = state->local != NIL ? statement_of(state, state->local, false) : statement_of(state, state->markers, true);
	if (!is_later)
		shard_ddl_run_core_then(state->call, stmt, alter_rest, state);
	else
	{
		shard_ddl_run_core_with(state->call, stmt, true);
		CommandCounterIncrement();
		alter_rest(state);
	}
}

/* Runs the steps after state's. */
static void
run_steps(ShardAlterState *state)
{
	ShardAlterState *next;

	if (state->later == NIL)
		return;
	next = palloc0(sizeof(ShardAlterState));
	next->call = state->call;
	next->table = state->table;
	next->only_at_home = state->only_at_home;
	next->is_later = state->is_later;
	next->stmt = copyObject(state->stmt);
	next->stmt->cmds = linitial(state->later);
	next->later = list_copy_tail(state->later, 1);
	run_step(next);
}

/*
 * The work after core's ALTER TABLE ONLY: foreign keys of the shards use the defaults of the parent. pg_dump writes
 * defaults of serial columns like this.  Nodes cannot have these defaults, and restoring a dump does not need them
 * there.
 */
static void
alter_only_rest(void *arg)
{
	ShardAlterState *state = arg;
	Relation	rel = table_open(state->table->relid, NoLock);
	List	   *columns = NIL;

	foreach_ptr(char, column, state->defaults)
	{
		AttrNumber	attno = get_attnum(state->table->relid, column);

		if (attno > 0 && shard_key_default_is_possible(rel, attno))
			columns = lappend(columns, column);
	}
	table_close(rel, NoLock);
	state->defaults = columns;
	send_key_defaults(state);
}

/* Handles ALTER TABLE ONLY of a sharded table.  Returns false if only core must run it. */
static bool
alter_only(ShardDdlCall *call, ShardAlterState *state, AlterTableStmt *stmt)
{
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
		if (cmd->subtype == AT_ColumnDefault)
			state->defaults = lappend(state->defaults, cmd->name);
	if (state->defaults == NIL || get_rel_relkind(state->table->relid) != RELKIND_PARTITIONED_TABLE)
		return false;
	shard_ddl_run_core_then(call, (Node *) copyObject(stmt), alter_only_rest, state);
	return true;
}

/* Only functions of the extension change where replicas are.  A dump sets the options when it makes the foreign table. */
static void
check_options(const AlterTableStmt *stmt)
{
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		ListCell   *option;

		if (cmd->subtype != AT_GenericOptions)
			continue;
		foreach(option, (List *) cmd->def)
		{
			const char *name = lfirst_node(DefElem, option)->defname;

			if (strcmp(name, "replica_nodes") == 0 || strcmp(name, "stale_replica_nodes") == 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("option \"%s\" of foreign table \"%s\" cannot be changed by itself", name, stmt->relation->relname),
						 errhint("It is changed by shardfdw.shard_table(), shardfdw.disable_node(), shardfdw.enable_node() and shardfdw.move_replica().")));
		}
	}
}

/* A shard stays a partition while a job moves it.  A job that starts at the same time checks this itself. */
static void
check_detached(const AlterTableCmd *cmd)
{
	Oid			relid;

	if (cmd->subtype != AT_DetachPartition)
		return;
	relid = RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);
	if (OidIsValid(relid))
		shard_moving_check(&relid, 1);
}

bool
shard_ddl_alter_table(ShardDdlCall *call)
{
	AlterTableStmt *stmt = castNode(AlterTableStmt, call->pstmt->utilityStmt);
	ShardAlterState state = {0};
	bool		only = !stmt->relation->inh;

	shard_ddl_table_check_replicas(RangeVarGetRelid(stmt->relation, NoLock, true));
	check_options(stmt);
	if (linitial_node(AlterTableCmd, stmt->cmds)->subtype == AT_AttachPartition)
		return shard_ddl_attach(call);
	check_detached(linitial_node(AlterTableCmd, stmt->cmds));
	if (is_cores(stmt))
		return shard_ddl_detach(call);
	state.table = shard_ddl_table_owned(stmt->relation, AlterTableGetLockLevel(stmt->cmds));
	if (state.table == NULL || state.table->is_reference)
		shard_ddl_check_new_keys(stmt);
	/* pg_dump writes ONLY for plain tables; for a table at home ONLY includes the shard */
	state.only_at_home = only && state.table != NULL && shard_alter_is_at_home(state.table->relid);
	if (state.table == NULL)
		return false;
	if (only && !state.table->is_reference && !state.only_at_home)
		return alter_only(call, &state, stmt);
	PreventCommandIfReadOnly("ALTER TABLE");

	state.call = call;
	state.stmt = copyObject(stmt);
	state.stmt->relation->inh |= state.only_at_home;
	check_using(state.table, stmt);
	state.later = shard_alter_steps(state.stmt->cmds);
	run_steps(&state);
	if (call->qc)
		SetQueryCompletion(call->qc, CMDTAG_ALTER_TABLE, 0);
	return true;
}
