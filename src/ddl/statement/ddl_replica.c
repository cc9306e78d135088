/*
 * ddl_replica.c
 *	  Decides which statements may change tables whose shards have replicas.
 *
 * A statement is allowed if it has the same result on all placements and does not change the primary key.  Triggers
 * that record changed rows use the columns of the primary key.  All other statements are refused.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "access/xact.h"
#include "catalog/option.h"
#include "catalog/pg_foreign_table.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "ddl/statement/ddl_statement.h"
#include "foreign/foreign.h"
#include "nodes/parsenodes.h"
#include "own_schema.h"
#include "own_sql.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"

void
shard_ddl_replica_check_server(Oid serverid, const char *action)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;
	const char *name;

	if (!OidIsValid(serverid) || !shard_option_is_our_server(serverid))
		return;
	name = GetForeignServer(serverid)->servername;
	shard_catalog_scan_begin(&scan, ForeignTableRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		bool		isnull;
		Datum		options = heap_getattr(tuple, Anum_pg_foreign_table_ftoptions, RelationGetDescr(scan.rel), &isnull);

		if (isnull)
			continue;
		foreach_node(DefElem, option, untransformRelOptions(options))
		{
			if (strcmp(option->defname, "replica_nodes") != 0 && strcmp(option->defname, "stale_replica_nodes") != 0)
				continue;
			foreach_ptr(char, replica, shard_option_list(defGetString(option)))
				if (strcmp(replica, name) == 0)
					ereport(ERROR,
							(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
							 errmsg("cannot %s server \"%s\" because it has a replica of shard \"%s\"", action, name,
									get_rel_name(((Form_pg_foreign_table) GETSTRUCT(tuple))->ftrelid)),
							 errdetail("The foreign table names it in its options."),
							 errhint("Drop the table or move the replica first. Before DROP EXTENSION: "
									 "SELECT shardfdw.remove_all_nodes(drop_tables => true).")));
		}
	}
	shard_catalog_scan_end(&scan);
}

void
shard_ddl_replica_rename_server(Oid serverid, const char *newname)
{
	static const char *const tables[] = {"node_position", "left_shard"};

	shard_ddl_replica_check_server(serverid, "rename");
	/* core raises the error */
	if (!OidIsValid(serverid) || !shard_option_is_our_server(serverid) || XactReadOnly ||
		OidIsValid(get_foreign_server_oid(newname, true)))
		return;
	for (int i = 0; i < lengthof(tables); i++)
	{
		const ShardSqlParam params[] = {shard_sql_text(GetForeignServer(serverid)->servername), shard_sql_text(newname)};

		/* there may be rows of a dropped server with that name */
		(void) shard_own_sql_run(psprintf("DELETE FROM " SHARD_INTERNAL_SCHEMA ".%s WHERE server = $1", tables[i]), 1, &params[1]);
		(void) shard_own_sql_run(psprintf("UPDATE " SHARD_INTERNAL_SCHEMA ".%s SET server = $2 WHERE server = $1", tables[i]), lengthof(params), params);
	}
}

/* Is it a value that is the same on every server? */
static bool
is_constant(const Node *expr)
{
	while (IsA(expr, TypeCast))
		expr = ((const TypeCast *) expr)->arg;
	return IsA(expr, A_Const);
}

/* Do existing rows get the same value of a new column on every server? */
static bool
adds_alike(const ColumnDef *column)
{
	const char *type = column->typeName && column->typeName->names != NIL ? strVal(llast(column->typeName->names)) : "";

	if (strstr(type, "serial") != NULL)
		return false;
	foreach_ptr(const Constraint, constraint, column->constraints)
	{
		switch (constraint->contype)
		{
			case CONSTR_NULL:
			case CONSTR_NOTNULL:
			case CONSTR_CHECK:
			case CONSTR_GENERATED:
				break;
			case CONSTR_DEFAULT:
				if (!is_constant(constraint->raw_expr))
					return false;
				break;
			default:
				return false;
		}
	}
	return true;
}

static bool
is_allowed_command(const AlterTableCmd *cmd)
{
	switch (cmd->subtype)
	{
		case AT_AddColumn:
			return adds_alike(castNode(ColumnDef, cmd->def));
		case AT_AddConstraint:
			return castNode(Constraint, cmd->def)->contype == CONSTR_CHECK;
		case AT_DropColumn:
		case AT_ColumnDefault:
		case AT_SetNotNull:
		case AT_DropNotNull:
		case AT_SetStatistics:
		case AT_EnableRowSecurity:
		case AT_DisableRowSecurity:
		case AT_ForceRowSecurity:
		case AT_NoForceRowSecurity:
			return true;
		default:
			return false;
	}
}

const char *
shard_ddl_replica_refusal(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_TruncateStmt:
		case T_CommentStmt:
		case T_LockStmt:
		case T_GrantStmt:
		case T_VacuumStmt:
		case T_ConstraintsSetStmt:
		case T_CreateTrigStmt:
		case T_DropOwnedStmt:
			return NULL;
		case T_IndexStmt:
			if (castNode(IndexStmt, stmt)->primary)
				return "ALTER TABLE ... ADD PRIMARY KEY";
			return castNode(IndexStmt, stmt)->concurrent ? "CREATE INDEX CONCURRENTLY" : NULL;
		case T_DropStmt:
			return castNode(DropStmt, stmt)->concurrent ? "DROP INDEX CONCURRENTLY" : NULL;
		case T_AlterTableStmt:
			/* as in dumps: the shards are not changed */
			if (!castNode(AlterTableStmt, stmt)->relation->inh)
				return NULL;
			foreach_ptr(AlterTableCmd, cmd, castNode(AlterTableStmt, stmt)->cmds)
				if (!is_allowed_command(cmd))
					return "this form of ALTER TABLE";
			return NULL;
		default:
			return CreateCommandName(stmt);
	}
}
