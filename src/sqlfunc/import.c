/*
 * import.c
 *	  IMPORT FOREIGN SCHEMA: makes CREATE FOREIGN TABLE commands for tables of a node.
 *
 *	  the node's catalogs -> one row per column, in order -> commands
 *
 * The options are those of postgres_fdw: import_collate, import_generated and import_not_null (on by default),
 * import_default (off).  Partitions are imported only if LIMIT TO names them, because their rows are part of their
 * parents.  Core applies LIMIT TO and EXCEPT itself.  The query for the node has them, too, so that it returns fewer
 * tables.
 *
 * The node returns types and expressions as qualified text, because its search_path is pg_catalog.  Names are quoted
 * on the coordinator, because keywords differ between major versions.  Each table and column gets its name on the
 * node as an option, so that it can be renamed on the coordinator.
 */
#include "postgres.h"

#include "catalog/pg_attribute.h"
#include "commands/defrem.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "remote/run/command.h"
#include "remote/wire/answer.h"
#include "sqlfunc/definition.h"
#include "sqlfunc/import.h"
#include "utils/builtins.h"

/* Columns of the node's answer. */
enum ImportColumn
{
	IMPORT_TABLE,
	IMPORT_NAME,				/* NULL: the table has no columns */
	IMPORT_TYPE,
	IMPORT_NOT_NULL,			/* "t" or "f" */
	IMPORT_EXPRESSION,			/* default or generation expression, or NULL */
	IMPORT_GENERATED,			/* attgenerated */
	IMPORT_COLLATION_SCHEMA,	/* NULL: not collatable */
	IMPORT_COLLATION
};

typedef struct ImportOptions
{
	bool		collate;
	bool		defaults;
	bool		generated;
	bool		not_null;
} ImportOptions;

static ImportOptions
parse_options(List *options)
{
	ImportOptions result = {true, false, true, true};

	foreach_node(DefElem, elem, options)
	{
		if (strcmp(elem->defname, "import_collate") == 0)
			result.collate = defGetBoolean(elem);
		else if (strcmp(elem->defname, "import_default") == 0)
			result.defaults = defGetBoolean(elem);
		else if (strcmp(elem->defname, "import_generated") == 0)
			result.generated = defGetBoolean(elem);
		else if (strcmp(elem->defname, "import_not_null") == 0)
			result.not_null = defGetBoolean(elem);
		else
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\"", elem->defname),
					 errhint("Valid options are import_collate, import_default, import_generated and import_not_null.")));
	}
	return result;
}

/* Queries the node.  Memory: current context.  Errors: those of the node. */
static PGresult *
ask_node(Oid serverid, const char *sql)
{
	ShardCommand command = {.serverid = serverid, .userid = GetUserId(), .sql = sql, .portable_text = true,
		.max_bytes = SHARD_ANSWER_MANY_BYTES};

	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);
	return command.result;
}

static void
check_schema(Oid serverid, const char *schema)
{
	PGresult   *result = ask_node(serverid,
								  psprintf("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s",
										   quote_literal_cstr(schema)));

	if (PQntuples(result) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_SCHEMA_NOT_FOUND),
				 errmsg("schema \"%s\" is not present on foreign server \"%s\"",
						schema, GetForeignServer(serverid)->servername)));
}

/* The query for the columns of all selected tables, with the columns of ImportColumn. */
static char *
build_question(const ImportForeignSchemaStmt *stmt)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SELECT c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,"
					 " pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attgenerated, cn.nspname, co.collname"
					 " FROM pg_catalog.pg_class c"
					 " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
					 " LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
					 " LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
					 " LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation"
					 " LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace"
					 " WHERE c.relkind IN ('r', 'v', 'f', 'm', 'p') AND n.nspname = %s",
					 quote_literal_cstr(stmt->remote_schema));

	if (stmt->list_type != FDW_IMPORT_SCHEMA_LIMIT_TO)
		appendStringInfoString(&sql, " AND NOT c.relispartition");
	if (stmt->list_type != FDW_IMPORT_SCHEMA_ALL)
	{
		appendStringInfo(&sql, " AND c.relname %s (",
						 stmt->list_type == FDW_IMPORT_SCHEMA_EXCEPT ? "NOT IN" : "IN");
		foreach_node(RangeVar, name, stmt->table_list)
			appendStringInfo(&sql, "%s%s", foreach_current_index(name) == 0 ? "" : ", ",
							 quote_literal_cstr(name->relname));
		appendStringInfoChar(&sql, ')');
	}
	appendStringInfoString(&sql, " ORDER BY c.relname, c.oid, a.attnum");
	return sql.data;
}

/* Value of a row; NULL for an SQL NULL. */
static const char *
get_value(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

/* The same for values that are never null in a node's catalogs: raises an error for NULL. */
static const char *
need_value(const PGresult *result, int row, int column)
{
	if (PQgetisnull(result, row, column))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("unexpected data from the node: a definition lacks something")));
	return PQgetvalue(result, row, column);
}

static void
append_column(StringInfo buf, const PGresult *result, int row, const ImportOptions *options)
{
	const char *name = get_value(result, row, IMPORT_NAME);
	const char *expression = get_value(result, row, IMPORT_EXPRESSION);
	const char *generated = need_value(result, row, IMPORT_GENERATED);
	const char *collation = get_value(result, row, IMPORT_COLLATION);

	appendStringInfo(buf, "%s %s OPTIONS (column_name %s)", quote_identifier(name),
					 need_value(result, row, IMPORT_TYPE), quote_literal_cstr(name));
	if (options->collate && collation != NULL)
		appendStringInfo(buf, " COLLATE %s",
						 quote_qualified_identifier(need_value(result, row, IMPORT_COLLATION_SCHEMA),
													collation));
	if (expression != NULL && generated[0] == '\0' && options->defaults)
		appendStringInfo(buf, " DEFAULT %s", expression);

	/* the node computes a virtual column (18) whenever it is read, so on the coordinator it is an ordinary column */
	if (expression != NULL && generated[0] == ATTRIBUTE_GENERATED_STORED && options->generated)
		appendStringInfo(buf, " GENERATED ALWAYS AS (%s) STORED", expression);
	if (options->not_null && strcmp(need_value(result, row, IMPORT_NOT_NULL), "t") == 0)
		appendStringInfoString(buf, " NOT NULL");
}

/*
 * Raises an error unless the command creates one table with ncolumns columns that have no more than the options allow.
 * Types and expressions of the node are not quoted.  A default would run on the coordinator with the rights of the role
 * that inserts.  Core checks that generation expressions are immutable.
 */
static void
check_command(const char *command, const char *table, int ncolumns, const ImportOptions *options)
{
	CreateForeignTableStmt *create = (CreateForeignTableStmt *) shard_definition_statement(command);
	bool		is_table = create != NULL && IsA(create, CreateForeignTableStmt) && create->base.inhRelations == NIL &&
		list_length(create->base.tableElts) == ncolumns;

	if (is_table)
	{
		foreach_ptr(Node, element, create->base.tableElts)
		{
			List	   *constraints = IsA(element, ColumnDef) ? castNode(ColumnDef, element)->constraints : NIL;

			is_table = is_table && IsA(element, ColumnDef);
			foreach_node(Constraint, constraint, constraints)
			{
				is_table = is_table &&
					((constraint->contype == CONSTR_NOTNULL && options->not_null) ||
					 (constraint->contype == CONSTR_DEFAULT && options->defaults) ||
					 (constraint->contype == CONSTR_GENERATED && options->generated));
			}
		}
	}
	if (!is_table)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that is no definition of table \"%s\"", table),
				 errdetail("The command would be: %s", command)));
}

/* The command for the table whose first column is in *row.  Moves *row past the table's last column. */
static char *
make_command(const ImportForeignSchemaStmt *stmt, const PGresult *result, int *row,
			 const ImportOptions *options)
{
	const char *table = need_value(result, *row, IMPORT_TABLE);
	int			ncolumns = 0;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "CREATE FOREIGN TABLE %s (", quote_identifier(table));
	do
	{
		if (get_value(result, *row, IMPORT_NAME) == NULL)
			continue;
		appendStringInfo(&buf, "%s\n  ", ncolumns++ > 0 ? "," : "");
		append_column(&buf, result, *row, options);
	} while (++*row < PQntuples(result) &&
			 strcmp(need_value(result, *row, IMPORT_TABLE), table) == 0);
	appendStringInfo(&buf, "\n) SERVER %s OPTIONS (schema_name %s, table_name %s)",
					 quote_identifier(stmt->server_name),
					 quote_literal_cstr(stmt->remote_schema), quote_literal_cstr(table));
	check_command(buf.data, table, ncolumns, options);
	return buf.data;
}

List *
shardImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverid)
{
	ImportOptions options = parse_options(stmt->options);
	List	   *commands = NIL;
	PGresult   *result;
	int			row = 0;

	check_schema(serverid, stmt->remote_schema);
	result = ask_node(serverid, build_question(stmt));
	while (row < PQntuples(result))
	{
		CHECK_FOR_INTERRUPTS();
		commands = lappend(commands, make_command(stmt, result, &row, &options));
	}
	return commands;
}
