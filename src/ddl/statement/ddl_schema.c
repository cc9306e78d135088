/*
 * ddl_schema.c
 *	  ALTER SCHEMA ... RENAME of schemas that have tables on nodes.
 *
 *	  the schema is locked against statements that make objects in it on nodes
 *		  |
 *	  tables that use the schema on a node are locked, on both sides
 *		  |
 *	  nodes that have such tables: their schema of that name is renamed
 *		  |
 *	  core renames the coordinator's schema
 *		  |
 *	  foreign tables that would now name another schema get option schema_name
 *
 * A shard is in the same schema on both sides.  So if two schemas swap their names, the schemas on the nodes must do
 * so too.  Foreign tables whose names do not follow still refer to the same table.
 *
 * The nodes come first, since an event trigger of the statement may use the renamed schema on the nodes.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/indexing.h"
#include "catalog/moving.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "ddl/ddl_send.h"
#include "ddl/now.h"
#include "ddl/schema_lock.h"
#include "ddl/statement/ddl_statement.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "identity.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "own_right.h"
#include "own_schema.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* The extension gives this comment to schemas that it makes on nodes. */
#define SCHEMA_MARK "Made by shardfdw for a schema of the coordinator."

PG_FUNCTION_INFO_V1(shardfdw_schema_command);

/* Tables that a rename affects */

/* Sharded and reference tables of any schema that need types or functions of this schema on their nodes. */
static List *
tables_that_need(const char *schema)
{
	return shard_now_oids(psprintf("SELECT r::pg_catalog.oid FROM shardfdw_internal.tables_that_need(%s) r", quote_literal_cstr(schema)));
}

/*
 * Does a table have the same name on its node?  The caller has no lock.  Returns false if the table no longer exists.
 */
static bool
follows(Oid relid)
{
	ShardDdlShard part;

	switch (get_rel_relkind(relid))
	{
		case RELKIND_FOREIGN_TABLE:
			/* a single foreign table refers to a table that is defined elsewhere */
			return get_rel_relispartition(relid) && shard_ddl_table_shard(relid, &part);
		case RELKIND_RELATION:
			return shard_reference_is(relid);
		default:
			return false;
	}
}

/* List of the tables that the rename affects: tables of the schema, and tables that need objects of it. */
static List *
find_tables(Oid namespace, const char *schema)
{
	List	   *tables = NIL;

	foreach_oid(relid, shard_ddl_table_of_schema(namespace))
		if (follows(relid))
			tables = lappend_oid(tables, relid);
	foreach_oid(relid, tables_that_need(schema))
		foreach_oid(memberid, find_all_inheritors(relid, NoLock, NULL))
			if (follows(memberid))
				tables = list_append_unique_oid(tables, memberid);
	return tables;
}

/*
 * Locks the tables, since plans contain their names in remote queries.  A session with such a plan either waits for
 * the lock and plans again, or makes this session wait.  Otherwise, when two schemas swap their names, it would read
 * the other table on the node.
 */
static List *
find_and_lock_tables(Oid namespace, const char *schema)
{
	List	   *locked = NIL;

	for (;;)
	{
		List	   *tables = find_tables(namespace, schema);
		List	   *new = NIL;

		foreach_oid(relid, tables)
			new = list_append_unique_oid(new, shard_map_top(relid));
		new = list_difference_oid(new, locked);
		if (new == NIL)
			return tables;
		list_sort(new, list_oid_cmp);
		foreach_oid(top, new)
		{
			LockRelationOid(top, AccessExclusiveLock);
			if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(top)))
				(void) find_all_inheritors(top, AccessExclusiveLock, NULL);
		}
		locked = list_concat(locked, new);
	}
}

/* The shards and replicas (list of ShardDdlShard) of tables.  The tables are locked. */
static List *
parts_of(List *tables)
{
	List	   *parts = NIL;

	foreach_oid(relid, tables)
	{
		ShardDdlTable *table = get_rel_relkind(relid) == RELKIND_RELATION ?
			shard_ddl_table_reference(relid) : NULL;
		ShardDdlShard *part;

		for (int i = 0; table != NULL && i < table->nshards; i++)
			parts = lappend(parts, &table->shards[i]);
		part = palloc0(sizeof(ShardDdlShard));
		if (shard_ddl_table_shard(relid, part))
			parts = lappend(parts, part);
	}
	return parts;
}

static void
check_unused(List *tables)
{
	List	   *done = NIL;

	foreach_oid(relid, tables)
	{
		Oid			top = shard_map_top(relid);

		if (list_member_oid(done, top))
			continue;
		done = lappend_oid(done, top);
		foreach_oid(memberid, find_all_inheritors(top, NoLock, NULL))
		{
			Relation	rel = relation_open(memberid, NoLock);

			CheckTableNotInUse(rel, "ALTER SCHEMA");
			relation_close(rel, NoLock);
		}
	}
}

/* Schemas on nodes */

char *
shard_ddl_schema_command(const char *name)
{
	const char *quoted = quote_identifier(name);

	/* other functions find the comment after IS, at the end */
	return psprintf("CREATE SCHEMA %s; %s; COMMENT ON SCHEMA %s IS %s", quoted, shard_own_right_revoke("SCHEMA", quoted), quoted, quote_literal_cstr(SCHEMA_MARK));
}

/* schema_command(name) -> text */
Datum
shardfdw_schema_command(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(shard_ddl_schema_command(NameStr(*PG_GETARG_NAME(0)))));
}

typedef struct RenameSchema
{
	const char *schema;
	const char *newname;
	List	   *parts;			/* of ShardDdlShard: the tables that use the schema on nodes */
} RenameSchema;

/*
 * The command for one node.  It is an error if the node has a schema of the new name.  An empty schema that the
 * extension has made is dropped first.
 */
static char *
rename_text(Oid serverid, void *arg)
{
	const RenameSchema *rename = arg;
	const char *schema = rename->schema;
	const char *newname = rename->newname;
	StringInfoData body;
	StringInfoData names;
	StringInfoData literals;

	initStringInfo(&names);
	initStringInfo(&literals);
	foreach_ptr(ShardDdlShard, part, rename->parts)
	{
		if (part->serverid != serverid)
			continue;
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", part->relation);
		appendStringInfo(&literals, "%s%s", literals.len > 0 ? ", " : "", quote_literal_cstr(part->relation));
	}
	initStringInfo(&body);
	/* tables of other roles stay as they are */
	appendStringInfo(&body, "DECLARE t text; BEGIN FOR t IN SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c WHERE c.oid IN (SELECT x::pg_catalog.regclass FROM "
					 "pg_catalog.unnest(ARRAY[%s]) x) AND pg_catalog.pg_has_role(c.relowner, 'USAGE') LOOP "
					 "EXECUTE pg_catalog.format('COMMENT ON TYPE %%s IS %%L', t, %s); END LOOP; ",
					 literals.data, quote_literal_cstr(shard_identity_named_by()));
	appendStringInfo(&body, "IF pg_catalog.to_regnamespace(%s) IS NOT NULL THEN ",
					 quote_literal_cstr(quote_identifier(newname)));
	appendStringInfo(&body, "IF pg_catalog.obj_description(pg_catalog.to_regnamespace(%s), 'pg_namespace') IS DISTINCT FROM %s THEN "
					 "RAISE EXCEPTION USING ERRCODE = 'duplicate_schema', MESSAGE = %s, DETAIL = %s, HINT = %s; END IF; ",
					 quote_literal_cstr(quote_identifier(newname)), quote_literal_cstr(SCHEMA_MARK),
					 quote_literal_cstr(psprintf("schema \"%s\" already exists", newname)),
					 quote_literal_cstr("It was not made by this extension, so it is not dropped, even if it is empty."),
					 quote_literal_cstr("Drop or rename it there."));
	appendStringInfo(&body, "BEGIN DROP SCHEMA %s; EXCEPTION WHEN dependent_objects_still_exist THEN "
					 "RAISE EXCEPTION USING ERRCODE = 'duplicate_schema', MESSAGE = %s, DETAIL = SQLERRM, HINT = %s; END; END IF; ",
					 quote_identifier(newname),
					 quote_literal_cstr(psprintf("schema \"%s\" already exists", newname)),
					 quote_literal_cstr("Drop or rename it there."));
	appendStringInfo(&body, "ALTER SCHEMA %s RENAME TO %s; END", quote_identifier(schema), quote_identifier(newname));
	return psprintf("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE; DO %s", names.data, quote_literal_cstr(body.data));
}

static int
compare_parts(const ListCell *a, const ListCell *b)
{
	const ShardDdlShard *left = lfirst(a);
	const ShardDdlShard *right = lfirst(b);
	int			by_name = strcmp(left->name, right->name);

	return by_name != 0 ? by_name : strcmp(left->schema, right->schema);
}

/* Renames the schema on the nodes that have any of parts.  Returns the list of their servers. */
static List *
rename_on_nodes(List *parts, const char *schema, const char *newname)
{
	RenameSchema rename = {schema, newname, parts};
	ShardDdlTable table = {.nshards = list_length(parts), .shards = palloc(sizeof(ShardDdlShard) * Max(list_length(parts), 1))};
	List	   *nodes = NIL;

	foreach_ptr(ShardDdlShard, part, parts)
	{
		table.shards[foreach_current_index(part)] = *part;
		nodes = list_append_unique_oid(nodes, part->serverid);
	}
	if (nodes == NIL || shard_guc_follows_coordinator)
		return nodes;
	/* as in ddl_table.c: several tables are always locked in this order */
	list_sort(parts, compare_parts);
	shard_ddl_check_owners(&table);
	shard_ddl_run_on_servers(nodes, rename_text, &rename);
	return nodes;
}

/* Foreign tables with option schema_name */

/*
 * The value of option schema_name with which a foreign table still refers to the same table on its node.  NULL if the
 * option need not change.
 */
static const char *
new_schema_name(Form_pg_foreign_table form, Oid namespace, const char *schema, const char *newname, List *nodes,
				DefElemAction *action)
{
	bool		renamed = list_member_oid(nodes, form->ftserver);

	foreach_node(DefElem, option, GetForeignTable(form->ftrelid)->options)
	{
		if (strcmp(option->defname, "schema_name") != 0)
			continue;
		*action = DEFELEM_SET;
		return renamed && strcmp(defGetString(option), schema) == 0 ? newname : NULL;
	}
	*action = DEFELEM_ADD;
	return !renamed && get_rel_namespace(form->ftrelid) == namespace ? schema : NULL;
}

/*
 * Sets the option directly in the catalog, without a check of the table's owner.  For the user only the schema's name
 * changes.
 */
static void
set_schema_name(Relation catalog, HeapTuple tuple, const char *value, DefElemAction action)
{
	Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);
	DefElem    *option = makeDefElem("schema_name", (Node *) makeString(pstrdup(value)), -1);
	Datum		values[Natts_pg_foreign_table] = {0};
	bool		nulls[Natts_pg_foreign_table] = {false};
	bool		replaces[Natts_pg_foreign_table] = {false};
	bool		isnull;
	Datum		options = heap_getattr(tuple, Anum_pg_foreign_table_ftoptions, RelationGetDescr(catalog), &isnull);
	ForeignDataWrapper *wrapper = GetForeignDataWrapper(GetForeignServer(form->ftserver)->fdwid);

	option->defaction = action;
	values[Anum_pg_foreign_table_ftoptions - 1] =
		transformGenericOptions(ForeignTableRelationId, isnull ? PointerGetDatum(NULL) : options,
								list_make1(option), wrapper->fdwvalidator);
	replaces[Anum_pg_foreign_table_ftoptions - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	CacheInvalidateRelcacheByRelid(form->ftrelid);
	heap_freetuple(tuple);
}

static void
keep_foreign_tables(Oid namespace, const char *schema, const char *newname, List *nodes)
{
	Relation	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	TableScanDesc scan = table_beginscan_catalog(catalog, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);
		DefElemAction action;
		const char *value;

		if (!shard_option_is_our_server(form->ftserver))
			continue;
		value = new_schema_name(form, namespace, schema, newname, nodes, &action);
		if (value != NULL)
			set_schema_name(catalog, tuple, value, action);
	}
	table_endscan(scan);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * The schema that a statement renames.  InvalidOid if only core must handle it.  Raises core's errors, since the
 * schema with the new name may be gone when core checks.  Core would then rename the schema without the nodes.
 */
static Oid
schema_to_rename(void *arg)
{
	const RenameStmt *stmt = arg;
	Oid			namespace;

	if (!OidIsValid(shard_option_cluster_server()) || IsReservedName(stmt->newname))
		return InvalidOid;
	namespace = get_namespace_oid(stmt->subname, false);
	if (!shard_namespace_ownercheck(namespace, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_SCHEMA, stmt->subname);
	if (shard_database_aclcheck(MyDatabaseId, GetUserId(), ACL_CREATE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_DATABASE, get_database_name(MyDatabaseId));
	if (OidIsValid(get_namespace_oid(stmt->newname, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_SCHEMA),
				 errmsg("schema \"%s\" already exists", stmt->newname)));
	return namespace;
}

/* Would a rename of the schema change nodes or foreign tables? */
static bool
concerns_nodes(Oid namespace, const char *schema)
{
	/* foreign tables that do not follow get another schema_name */
	foreach_oid(relid, shard_ddl_table_of_schema(namespace))
		if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(relid))
			return true;
	return find_tables(namespace, schema) != NIL;
}

/* Raises an error if a job moves one of parts, since jobs find tables by name. */
static void
check_no_job(const List *parts)
{
	Oid		   *relids = palloc(sizeof(Oid) * Max(list_length(parts), 1));
	const ListCell *lc;

	foreach(lc, parts)
		relids[foreach_current_index(lc)] = ((const ShardDdlShard *) lfirst(lc))->relid;
	shard_moving_check(relids, list_length(parts));
	shard_moving_check_names(relids, list_length(parts));
	pfree(relids);
}

bool
shard_ddl_rename_schema(ShardDdlCall *call)
{
	RenameStmt *stmt = castNode(RenameStmt, call->pstmt->utilityStmt);

	/* locked against statements that make objects in it on nodes */
	Oid			namespace = shard_ddl_lock_found(schema_to_rename, stmt, shard_schema_lock, shard_schema_unlock, AccessExclusiveLock);
	List	   *tables;
	List	   *parts;
	List	   *nodes;

	if (!OidIsValid(namespace) || (call->is_late && !concerns_nodes(namespace, stmt->subname)))
		return false;
	shard_ddl_refuse_late(call);
	PreventCommandIfReadOnly("ALTER SCHEMA");
	tables = find_and_lock_tables(namespace, stmt->subname);
	check_unused(tables);
	parts = parts_of(tables);
	check_no_job(parts);
	shard_ddl_rest_first();
	nodes = rename_on_nodes(parts, stmt->subname, stmt->newname);
	shard_ddl_run_core(call);
	keep_foreign_tables(namespace, stmt->subname, stmt->newname, nodes);
	return true;
}

void
shard_ddl_check_own_schema(Node *stmt)
{
	RenameStmt *rename;

	if (!IsA(stmt, RenameStmt))
		return;
	rename = castNode(RenameStmt, stmt);
	if (rename->renameType == OBJECT_SCHEMA &&
		(strcmp(rename->subname, SHARD_SCHEMA) == 0 || strcmp(rename->subname, SHARD_INTERNAL_SCHEMA) == 0) &&
		OidIsValid(get_extension_oid(SHARD_EXTENSION, true)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot rename schema \"%s\" because extension \"%s\" needs it under this name", rename->subname, SHARD_EXTENSION)));
}
