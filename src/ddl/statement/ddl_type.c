/*
 * ddl_type.c
 *	  ALTER TYPE and ALTER DOMAIN of types that tables need on their nodes.
 *
 *	  statement --> tables that need the type --none--> core
 *		  |
 *		core changes the coordinator's type
 *		  |
 *		a command with qualified names --> each node of these tables, in the same transaction
 *
 * Commands are made from names and literals of the parse tree.  Expressions and types of attributes are printed from
 * the catalogs, after core has changed the type.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "compat.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_text.h"
#include "ddl/schema_lock.h"
#include "ddl/statement/ddl_statement.h"
#include "deparse/print_settings.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* pg_constraint.contype of NOT NULL of a domain.  It has a row since version 17. */
#define DOMAIN_NOT_NULL 'n'

typedef struct AlterType
{
	Node	   *stmt;			/* a copy */
	Oid			type;
	const char *name;			/* qualified, before the change */
	List	   *servers;		/* OIDs of the nodes */
	List	   *constraints;	/* OIDs of the domain's constraints before the change */
	bool		drops_not_null; /* the dropped constraint is NOT NULL */
} AlterType;

static Oid
named_type(Node *names)
{
	return LookupTypeNameOid(NULL, makeTypeNameFromNameList(castNode(List, names)), true);
}

static Oid
composite_type(RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_COMPOSITE_TYPE ? get_rel_type_id(relid) : InvalidOid;
}

/* The type that a statement changes; InvalidOid for other statements. */
static Oid
altered_type(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_AlterEnumStmt:
			return named_type((Node *) castNode(AlterEnumStmt, stmt)->typeName);
		case T_AlterDomainStmt:
			return named_type((Node *) castNode(AlterDomainStmt, stmt)->typeName);
		case T_AlterTableStmt:
			return castNode(AlterTableStmt, stmt)->objtype == OBJECT_TYPE ?
				composite_type(castNode(AlterTableStmt, stmt)->relation) : InvalidOid;
		case T_AlterObjectSchemaStmt:
			switch (castNode(AlterObjectSchemaStmt, stmt)->objectType)
			{
				case OBJECT_TYPE:
				case OBJECT_DOMAIN:
					return named_type(castNode(AlterObjectSchemaStmt, stmt)->object);
				default:
					return InvalidOid;
			}
		case T_RenameStmt:
			switch (castNode(RenameStmt, stmt)->renameType)
			{
				case OBJECT_TYPE:
				case OBJECT_DOMAIN:
				case OBJECT_DOMCONSTRAINT:
					return named_type(castNode(RenameStmt, stmt)->object);
				case OBJECT_ATTRIBUTE:
					return composite_type(castNode(RenameStmt, stmt)->relation);
				default:
					return InvalidOid;
			}
		default:
			return InvalidOid;
	}
}

/* The nodes of tables. */
static List *
nodes_of(List *relids)
{
	List	   *servers = NIL;

	foreach_oid(relid, relids)
	{
		ShardDdlTable *table = shard_ddl_table(relid);

		if (table != NULL)
			servers = list_concat_unique_oid(servers, shard_ddl_table_servers(table));
	}
	return servers;
}

/* List of the constraints of a domain.  *type: type of the constraint with that name. */
static List *
domain_constraints(Oid domain, const char *name, char *type)
{
	List	   *constraints = NIL;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, ConstraintRelationId, ConstraintTypidIndexId, Anum_pg_constraint_contypid, domain);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

		constraints = lappend_oid(constraints, form->oid);
		if (name != NULL && strcmp(NameStr(form->conname), name) == 0)
			*type = form->contype;
	}
	shard_catalog_scan_end(&scan);
	return constraints;
}

static char *
enum_command(const AlterType *alter, const AlterEnumStmt *stmt)
{
	if (stmt->oldVal != NULL)
		return psprintf("ALTER TYPE %s RENAME VALUE %s TO %s", alter->name,
						quote_literal_cstr(stmt->oldVal), quote_literal_cstr(stmt->newVal));
	return psprintf("ALTER TYPE %s ADD VALUE %s%s%s%s", alter->name, stmt->skipIfNewValExists ? "IF NOT EXISTS " : "",
					quote_literal_cstr(stmt->newVal),
					stmt->newValNeighbor == NULL ? "" : stmt->newValIsAfter ? " AFTER " : " BEFORE ",
					stmt->newValNeighbor == NULL ? "" : quote_literal_cstr(stmt->newValNeighbor));
}

/* The new constraints of a domain. */
static char *
new_domain_constraints(const AlterType *alter)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_oid(constraint, list_difference_oid(domain_constraints(alter->type, NULL, NULL), alter->constraints))
	{
		bool		is_not_null = DatumGetChar(shard_catalog_value(CONSTROID, constraint, Anum_pg_constraint_contype)) == DOMAIN_NOT_NULL;

		appendStringInfo(&text, "%s%s", text.len > 0 ? "; " : "", is_not_null ?
						 psprintf("ALTER DOMAIN %s SET NOT NULL", alter->name) : pg_get_constraintdef_command(constraint));
	}
	return text.len > 0 ? text.data : NULL;
}

static char *
domain_command(const AlterType *alter, const AlterDomainStmt *stmt)
{
	const char *cascade = stmt->behavior == DROP_CASCADE ? " CASCADE" : "";

	switch ((char) stmt->subtype)
	{
		case 'N':
			return psprintf("ALTER DOMAIN %s DROP NOT NULL", alter->name);
		case 'O':
			return psprintf("ALTER DOMAIN %s SET NOT NULL", alter->name);
		case 'C':
			return new_domain_constraints(alter);
		case 'X':
			if (alter->drops_not_null)
				return psprintf("ALTER DOMAIN %s DROP NOT NULL", alter->name);
			return psprintf("ALTER DOMAIN %s DROP CONSTRAINT %s%s%s", alter->name, stmt->missing_ok ? "IF EXISTS " : "",
							quote_identifier(stmt->name), cascade);
		case 'V':
			return psprintf("ALTER DOMAIN %s VALIDATE CONSTRAINT %s", alter->name, quote_identifier(stmt->name));
		default:
			/* the coordinator computes defaults */
			return NULL;
	}
}

/* "type COLLATE ..." of an attribute, from the current catalog. */
static char *
attribute_text(Oid type, const char *name)
{
	Oid			relid = get_typ_typrelid(type);
	Oid			atttype;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(relid, get_attnum(relid, name), &atttype, &typmod, &collation);
	return psprintf("%s%s", shard_ddl_text_type(atttype, typmod), shard_ddl_text_collation(atttype, collation));
}

static char *
attributes_command(const AlterType *alter, const AlterTableStmt *stmt)
{
	StringInfoData text;

	initStringInfo(&text);
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		const char *name = cmd->subtype == AT_AddColumn ? castNode(ColumnDef, cmd->def)->colname : cmd->name;

		if (cmd->subtype != AT_AddColumn && cmd->subtype != AT_DropColumn && cmd->subtype != AT_AlterColumnType)
			continue;			/* the owner; nodes have their own */
		appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : psprintf("ALTER TYPE %s ", alter->name),
						 cmd->subtype == AT_AddColumn ? "ADD ATTRIBUTE " : cmd->subtype == AT_AlterColumnType ? "ALTER ATTRIBUTE " :
						 cmd->missing_ok ? "DROP ATTRIBUTE IF EXISTS " : "DROP ATTRIBUTE ");
		appendStringInfo(&text, "%s%s%s%s", quote_identifier(name), cmd->subtype == AT_AlterColumnType ? " TYPE " : " ",
						 cmd->subtype == AT_DropColumn ? "" : attribute_text(alter->type, name),
						 cmd->behavior == DROP_CASCADE ? " CASCADE" : "");
	}
	return text.len > 0 ? text.data : NULL;
}

static char *
rename_command(const AlterType *alter, const RenameStmt *stmt)
{
	switch (stmt->renameType)
	{
		case OBJECT_ATTRIBUTE:
			return psprintf("ALTER TYPE %s RENAME ATTRIBUTE %s TO %s%s", alter->name, quote_identifier(stmt->subname),
							quote_identifier(stmt->newname), stmt->behavior == DROP_CASCADE ? " CASCADE" : "");
		case OBJECT_DOMCONSTRAINT:
			return psprintf("ALTER DOMAIN %s RENAME CONSTRAINT %s TO %s", alter->name,
							quote_identifier(stmt->subname), quote_identifier(stmt->newname));
		default:
			return psprintf("ALTER TYPE %s RENAME TO %s", alter->name, quote_identifier(stmt->newname));
	}
}

static char *
schema_command(const AlterType *alter, const AlterObjectSchemaStmt *stmt)
{
	const char *schema = quote_identifier(stmt->newschema);
	char	   *make = psprintf("BEGIN IF pg_catalog.to_regnamespace(%s) IS NULL THEN %s; END IF; END",
								quote_literal_cstr(schema), shard_ddl_schema_command(stmt->newschema));

	return psprintf("DO %s; ALTER TYPE %s SET SCHEMA %s", quote_literal_cstr(make), alter->name, schema);
}

static char *
command_text(const AlterType *alter)
{
	switch (nodeTag(alter->stmt))
	{
		case T_AlterEnumStmt:
			return enum_command(alter, (AlterEnumStmt *) alter->stmt);
		case T_AlterDomainStmt:
			return domain_command(alter, (AlterDomainStmt *) alter->stmt);
		case T_AlterTableStmt:
			return attributes_command(alter, (AlterTableStmt *) alter->stmt);
		case T_RenameStmt:
			return rename_command(alter, (RenameStmt *) alter->stmt);
		default:
			return schema_command(alter, castNode(AlterObjectSchemaStmt, alter->stmt));
	}
}

/* The same command for each node. */
static char *
command_for(Oid serverid, void *sql)
{
	return sql;
}

/* Changes the nodes. */
static void
alter_rest(void *arg)
{
	const AlterType *alter = arg;
	int			nestlevel = shard_print_settings_begin();
	char	   *sql = command_text(alter);

	shard_print_settings_end(nestlevel);
	if (sql == NULL || shard_guc_follows_coordinator)
		return;
	shard_schema_lock_new_objects();
	shard_ddl_run_on_servers(alter->servers, command_for, sql);
}

bool
shard_ddl_alter_type(ShardDdlCall *call)
{
	AlterType	alter = {.type = altered_type(call->pstmt->utilityStmt)};
	char		contype = '\0';

	if (!OidIsValid(alter.type))
		return false;
	alter.servers = nodes_of(shard_ddl_tables_of_type(alter.type));
	if (alter.servers == NIL)
		return false;
	PreventCommandIfReadOnly("ALTER TYPE");
	alter.stmt = copyObject(call->pstmt->utilityStmt);
	alter.name = format_type_extended(alter.type, -1, FORMAT_TYPE_FORCE_QUALIFY);
	if (IsA(alter.stmt, AlterDomainStmt))
		alter.constraints = domain_constraints(alter.type, castNode(AlterDomainStmt, alter.stmt)->name, &contype);
	alter.drops_not_null = contype == DOMAIN_NOT_NULL;
	shard_ddl_run_core_then(call, NULL, alter_rest, &alter);
	return true;
}
