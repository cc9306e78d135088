/*
 * ddl_alter_cmd.c
 *	  Decides for each sub-command of ALTER TABLE what runs on the coordinator and what on the nodes.
 *
 * - local: run by core, for the parent and its partitions (or the reference table).
 * - markers: run by core, for the parent only.  These are keys that shards enforce.
 * - pieces: text of the nodes' ALTER TABLE, known before core runs.
 * - columns: the same, read from the catalog after core has run.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/qualified.h"
#include "compat.h"
#include "ddl/alter/ddl_alter.h"
#include "ddl/ddl_text.h"
#include "guc.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "parser/parse_type.h"
#include "tuple/type_io.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

bool
shard_alter_has_peers(void)
{
	int			nbefore;

	return !shard_guc_follows_coordinator && shard_guc_enable_coordinator_propagation && shard_node_peers(&nbefore) != NIL;
}

/* Adds a piece that is the same for all shards. */
static void
add_piece(ShardAlterState *state, char *text)
{
	shard_alter_piece(state, text, NULL, NULL);
}

static void
add_column(ShardAlterState *state, const char *name, AlterTableType subtype, const char *using_text)
{
	ShardAlterColumn *column = palloc0(sizeof(ShardAlterColumn));

	column->name = name;
	column->subtype = subtype;
	column->using_text = using_text;
	state->columns = lappend(state->columns, column);
}

/* Does the column exist, or has an earlier sub-command added it? */
static bool
column_exists(ShardAlterState *state, const char *name)
{
	foreach_ptr(ShardAlterColumn, column, state->columns)
		if (column->subtype == AT_AddColumn && strcmp(column->name, name) == 0)
			return true;
	return get_attnum(state->table->relid, name) > 0;
}

/* "ALTER COLUMN name " */
static char *
alter_column(AlterTableCmd *cmd, const char *what)
{
	return psprintf("ALTER COLUMN %s %s", quote_identifier(cmd->name), what);
}

static void
classify_add_column(ShardAlterState *state, AlterTableCmd *cmd)
{
	ColumnDef  *def = castNode(ColumnDef, cmd->def);
	List	   *kept = NIL;
	ListCell   *next = list_head(def->constraints);

	state->local = lappend(state->local, cmd);
	if (column_exists(state, def->colname))
		return;					/* core raises an error, or skips it */
	while (next != NULL)
	{
		Constraint *constraint = lfirst_node(Constraint, next);

		next = lnext(def->constraints, next);
		if (!state->table->is_reference &&
			(constraint->contype == CONSTR_PRIMARY || constraint->contype == CONSTR_UNIQUE))
		{
			next = shard_alter_take_attributes(constraint, def->constraints, next);
			constraint->keys = list_make1(makeString(def->colname));
			if (shard_alter_home_key(state, constraint))
			{
				if (constraint->contype == CONSTR_PRIMARY)
					shard_alter_key_not_null(state, constraint);
				continue;
			}
			shard_ddl_table_refuse(state->table, "ADD COLUMN with a key that does not include the shard key",
								   "Add the column first, and then a key over it and the shard key.");
		}
		if (!state->table->is_reference && constraint->contype == CONSTR_IDENTITY && !SHARD_PARTITIONED_IDENTITY)
			shard_ddl_table_refuse(state->table, "ADD COLUMN ... GENERATED AS IDENTITY",
								   "Add the column, and then a default: SET DEFAULT nextval(...).");
		if (!state->table->is_reference && constraint->contype == CONSTR_FOREIGN)
		{
			next = shard_alter_take_attributes(constraint, def->constraints, next);
			constraint->fk_attrs = list_make1(makeString(def->colname));
			shard_alter_foreign_key(state, constraint);
			continue;
		}
		kept = lappend(kept, constraint);
	}
	def->constraints = kept;
	add_column(state, def->colname, AT_AddColumn, NULL);
}

/*
 * Does a conversion depend on OIDs of objects, or on texts that sessions on nodes write under other settings than the
 * user's session?
 */
static bool
converts_own_meaning(Oid from, Oid to)
{
	return getBaseType(from) != getBaseType(to) &&
		((shard_type_io_text_settings(from) | shard_type_io_text_settings(to)) &
		 (SHARD_TEXT_NAMES | SHARD_TEXT_MONEY)) != 0;
}

/*
 * Core refuses to change the type of a foreign partition's column with USING, although there are no rows to convert.
 * So core gets the command without USING if the types allow the change without it.  The command is refused if there
 * are local partitions, whose rows core would convert.
 */
static void
classify_alter_type(ShardAlterState *state, AlterTableCmd *cmd)
{
	const char *hint = "Add a column, fill it with UPDATE, drop the old one, and rename it.";
	ColumnDef  *def = castNode(ColumnDef, cmd->def);
	AttrNumber	attno = get_attnum(state->table->relid, cmd->name);
	Oid			old_type = attno > 0 ? get_atttype(state->table->relid, attno) : InvalidOid;
	const char *using_text = NULL;
	const char *change = NULL;
	Oid			type;
	int32		typmod;
	Oid			funcid;

	if (attno > 0)
	{
		typenameTypeIdAndMod(NULL, def->typeName, &type, &typmod);
		change = psprintf("ALTER COLUMN TYPE from %s to %s", format_type_be(old_type), format_type_be(type));
		if (converts_own_meaning(old_type, type))
			shard_ddl_table_refuse(state->table, change, hint);
	}
	if (attno > 0 && def->raw_default != NULL)
	{
		using_text = shard_ddl_text_using(state->rel, state->call->query_string, def->raw_default, type);
		if (state->table->is_reference && shard_alter_has_peers() &&
			shard_ddl_text_using_varies(state->rel, state->call->query_string, def->raw_default, type))
			shard_ddl_table_refuse(state->table, "ALTER COLUMN TYPE with a USING expression that is not immutable, where there are several coordinators,",
								   hint);
		if (using_text == NULL)
			shard_ddl_table_refuse(state->table, "ALTER COLUMN TYPE with a USING expression that nodes cannot evaluate", hint);
		if (!state->table->is_reference)
		{
			if (find_coercion_pathway(type, old_type, COERCION_ASSIGNMENT, &funcid) == COERCION_PATH_NONE)
				shard_ddl_table_refuse(state->table, change, hint);
			shard_alter_check_all_shards(state, "ALTER COLUMN TYPE with USING", hint);
			def->raw_default = NULL;
		}
	}
	state->local = lappend(state->local, cmd);
	state->defaults = lappend(state->defaults, cmd->name);
	add_column(state, cmd->name, AT_AlterColumnType, using_text);
}

static void
classify_options(ShardAlterState *state, AlterTableCmd *cmd, const char *verb)
{
	bool		is_set = strcmp(verb, "SET") == 0;

	add_piece(state, psprintf("%s (%s)", verb, shard_ddl_text_options((List *) cmd->def, is_set)));
	/* core stores no storage parameters for a partitioned table */
	if (state->table->is_reference)
		state->local = lappend(state->local, cmd);
}

static void
classify_replica_identity(ShardAlterState *state, AlterTableCmd *cmd)
{
	ReplicaIdentityStmt *identity = castNode(ReplicaIdentityStmt, cmd->def);

	state->local = lappend(state->local, cmd);
	switch (identity->identity_type)
	{
		case REPLICA_IDENTITY_DEFAULT:
			add_piece(state, pstrdup("REPLICA IDENTITY DEFAULT"));
			break;
		case REPLICA_IDENTITY_FULL:
			add_piece(state, pstrdup("REPLICA IDENTITY FULL"));
			break;
		case REPLICA_IDENTITY_NOTHING:
			add_piece(state, pstrdup("REPLICA IDENTITY NOTHING"));
			break;
		default:
			/* by an index: core refuses the marker of a sharded table */
			if (state->table->is_reference)
				add_piece(state, psprintf("REPLICA IDENTITY USING INDEX %s", quote_identifier(identity->name)));
			break;
	}
}

/* Changes of one column with a separate text.  False if cmd is something else. */
static bool
classify_column(ShardAlterState *state, AlterTableCmd *cmd)
{
	switch (cmd->subtype)
	{
		case AT_SetNotNull:
			add_piece(state, alter_column(cmd, "SET NOT NULL"));
			break;
		case AT_DropNotNull:
			add_piece(state, alter_column(cmd, "DROP NOT NULL"));
			break;
		case AT_DropExpression:
			add_piece(state, alter_column(cmd, cmd->missing_ok ? "DROP EXPRESSION IF EXISTS" : "DROP EXPRESSION"));
			break;
		case AT_SetStatistics:
			/* 17 and later: DEFAULT */
			add_piece(state, alter_column(cmd, psprintf("SET STATISTICS %d",
														cmd->def ? intVal(cmd->def) : -1)));
			break;
		case AT_SetOptions:
			add_piece(state, alter_column(cmd, psprintf("SET (%s)", shard_ddl_text_options((List *) cmd->def, true))));
			break;
		case AT_ResetOptions:
			add_piece(state, alter_column(cmd, psprintf("RESET (%s)", shard_ddl_text_options((List *) cmd->def, false))));
			break;
		case AT_SetStorage:
			add_piece(state, alter_column(cmd, psprintf("SET STORAGE %s", quote_identifier(strVal(cmd->def)))));
			break;
		case AT_SetCompression:
			add_piece(state, alter_column(cmd, psprintf("SET COMPRESSION %s", quote_identifier(strVal(cmd->def)))));
			break;
		case AT_DropColumn:
			if (column_exists(state, cmd->name))
				/* IF EXISTS: an earlier sub-command may have dropped it */
				add_piece(state, psprintf("DROP COLUMN %s%s%s", cmd->missing_ok ? "IF EXISTS " : "", quote_identifier(cmd->name),
										  cmd->behavior == DROP_CASCADE ? " CASCADE" : ""));
			break;
		default:
			return false;
	}
	state->local = lappend(state->local, cmd);
	return true;
}

/*
 * SET LOGGED, SET UNLOGGED of a sharded table: applies to its shards, on the nodes and in their option on the
 * coordinator.
 */
static void
classify_persistence(ShardAlterState *state, bool unlogged)
{
	add_piece(state, unlogged ? "SET UNLOGGED" : "SET LOGGED");
	state->options = NIL;		/* nodes refuse to change it twice */
	for (int i = 0; i < state->table->nshards; i++)
	{
		Oid			relid = state->table->shards[i].relid;
		bool		has_option = shard_option_table(relid, "unlogged") != NULL;
		char	   *name = shard_qualified_relation(relid);

		if (unlogged)
			state->options = lappend(state->options, psprintf("ALTER FOREIGN TABLE %s OPTIONS (%s unlogged 'true')",
															  name, has_option ? "SET" : "ADD"));
		else if (has_option)
			state->options = lappend(state->options, psprintf("ALTER FOREIGN TABLE %s OPTIONS (DROP unlogged)", name));
	}
}

/*
 * Refuses sub-commands about table storage, except SET LOGGED and SET UNLOGGED.  For a reference table, core runs
 * them on the coordinator.
 */
static void
classify_storage(ShardAlterState *state, AlterTableCmd *cmd)
{
	if (state->table->is_reference && cmd->subtype != AT_SetUnLogged)
		state->local = lappend(state->local, cmd);
	else if (!state->table->is_reference && (cmd->subtype == AT_SetLogged || cmd->subtype == AT_SetUnLogged))
		classify_persistence(state, cmd->subtype == AT_SetUnLogged);
	else
		shard_ddl_table_refuse(state->table, cmd->subtype == AT_SetTableSpace ? "ALTER TABLE ... SET TABLESPACE" :
							   cmd->subtype == AT_SetAccessMethod ? "ALTER TABLE ... SET ACCESS METHOD" : "ALTER TABLE ... SET UNLOGGED",
							   state->table->is_reference ? NULL :
							   "Run it on the shards alone with shardfdw.run_on_shards().");
}

/* Is it only for the coordinator, which computes defaults, fires triggers and checks policies? */
static bool
is_coordinators_own(AlterTableType subtype)
{
	switch (subtype)
	{
		case AT_SetIdentity:
		case AT_EnableTrig:
		case AT_EnableAlwaysTrig:
		case AT_EnableReplicaTrig:
		case AT_DisableTrig:
		case AT_EnableTrigAll:
		case AT_DisableTrigAll:
		case AT_EnableTrigUser:
		case AT_DisableTrigUser:
		case AT_EnableRule:
		case AT_EnableAlwaysRule:
		case AT_EnableReplicaRule:
		case AT_DisableRule:
		case AT_EnableRowSecurity:
		case AT_DisableRowSecurity:
		case AT_ForceRowSecurity:
		case AT_NoForceRowSecurity:
		case AT_DropOids:
		case AT_AddInherit:
		case AT_DropInherit:
		case AT_GenericOptions:
		case AT_AlterColumnGenericOptions:
			return true;
		default:
			return false;
	}
}

void
shard_alter_classify(ShardAlterState *state, AlterTableCmd *cmd)
{
	if (classify_column(state, cmd))
		return;
	if (cmd->subtype == SHARD_AT_SET_EXPRESSION)
	{
		add_column(state, cmd->name, SHARD_AT_SET_EXPRESSION, NULL);
		state->local = lappend(state->local, cmd);
		return;
	}
	switch (cmd->subtype)
	{
		case AT_AddColumn:
			classify_add_column(state, cmd);
			return;
		case AT_AlterColumnType:
			classify_alter_type(state, cmd);
			return;
		case AT_AddConstraint:
			shard_alter_add_constraint(state, cmd);
			return;
		case AT_DropConstraint:
			shard_alter_drop_constraint(state, cmd);
			return;
		case AT_ValidateConstraint:
			shard_alter_validate_constraint(state, cmd);
			return;
		case AT_ClusterOn:
			shard_alter_cluster_on(state, cmd);
			return;
		case AT_DropCluster:
			add_piece(state, pstrdup("SET WITHOUT CLUSTER"));
			if (!state->table->is_reference)
				return;
			break;
		case AT_SetRelOptions:
			classify_options(state, cmd, "SET");
			return;
		case AT_ResetRelOptions:
			classify_options(state, cmd, "RESET");
			return;
		case AT_ReplicaIdentity:
			classify_replica_identity(state, cmd);
			return;
		case AT_ColumnDefault:
		case AT_AddIdentity:
		case AT_DropIdentity:
			state->defaults = lappend(state->defaults, cmd->name);
			break;
		case AT_ChangeOwner:
			state->new_owner = GetUserNameFromId(get_rolespec_oid(cmd->newowner, false), false);
			break;
		case AT_SetTableSpace:
		case AT_SetAccessMethod:
		case AT_SetLogged:
		case AT_SetUnLogged:
			classify_storage(state, cmd);
			return;
		default:
			if (!is_coordinators_own(cmd->subtype))
				shard_ddl_table_refuse(state->table, "this form of ALTER TABLE", NULL);
	}
	state->local = lappend(state->local, cmd);
}
