/*
 * schema_lock.c
 *	  Keeps schemas from being renamed while objects are made on nodes under their names.
 *
 * ALTER SCHEMA ... RENAME finds the tables of the schema on nodes, and renames the schema there.  It cannot see
 * objects that another transaction is making with the old name.  So these statements lock schemas:
 *
 * - A statement that makes objects locks the schemas (shared), reads their names, then goes to the nodes.
 * - A statement that renames a schema locks it (exclusively), finds its tables, locks these, then goes to the nodes.
 * - A statement that makes a table locks its schema (shared), then checks whether the schema is on a node
 *   (catalog/home.h).
 * - shard_schema() and unshard_schema() lock the schema (exclusively), then find its tables.
 *
 * This is core's lock of a schema.  A transaction that has made a table in a schema holds it (shared) until its end.
 * Newer minor releases also take it at the end of a rename.  All these statements lock schemas before tables, so two
 * single statements do not deadlock.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "array_loop.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "catalog/reference.h"
#include "compat.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_table.h"
#include "ddl/now.h"
#include "ddl/schema_lock.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "own_lock.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(shardfdw_lock_schema);
PG_FUNCTION_INFO_V1(shardfdw_lock_schemas);
PG_FUNCTION_INFO_V1(shardfdw_lock_view);
PG_FUNCTION_INFO_V1(shardfdw_lock_new_objects);
PG_FUNCTION_INFO_V1(shardfdw_make_objects_on_nodes);

void
shard_schema_lock(Oid namespace, LOCKMODE lockmode)
{
	LockDatabaseObject(NamespaceRelationId, namespace, 0, lockmode);
}

void
shard_schema_unlock(Oid namespace, LOCKMODE lockmode)
{
	UnlockDatabaseObject(NamespaceRelationId, namespace, 0, lockmode);
}

/*
 * Locks, shared, the schemas that the shards or replicas of a table need: its own, and those of types, functions and so
 * on.
 */
static void
lock_needed(Oid relid)
{
	List	   *locked = NIL;
	List	   *schemas;

	/* the table may need another schema after the wait for a lock */
	while ((schemas = list_difference_oid(shard_ddl_needed_schemas(relid), locked)) != NIL)
	{
		list_sort(schemas, list_oid_cmp);
		foreach_oid(schema, schemas)
			shard_schema_lock(schema, AccessShareLock);
		locked = list_concat(locked, schemas);
	}
}

/* lock_schemas(relation regclass) -> void: for users who may lock the table. */
Datum
shardfdw_lock_schemas(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	lock_needed(relid);
	PG_RETURN_VOID();
}

/* Errors: the view does not exist, or belongs to another role. */
static void
check_view(Oid viewid)
{
	char		relkind = get_rel_relkind(viewid);

	if (relkind == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", viewid)));
	if (!shard_class_ownercheck(viewid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind), get_rel_name(viewid));
	if (relkind != RELKIND_VIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a view", get_rel_name(viewid))));
}

/* lock_view(view regclass) -> void */
Datum
shardfdw_lock_view(PG_FUNCTION_ARGS)
{
	Oid			viewid = PG_GETARG_OID(0);

	/* other sessions must not queue behind a lock that will be refused */
	check_view(viewid);
	LockRelationOid(viewid, AccessExclusiveLock);
	/* another session may have changed the owner during the wait */
	check_view(viewid);
	PG_RETURN_VOID();
}

/* One lock for all nodes, so that sessions do not wait for each other in a circle. */
void
shard_schema_lock_new_objects(void)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_NEW_OBJECTS, 0, 0);

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* lock_new_objects(nodes name[]) -> void: for users who may use the nodes. */
Datum
shardfdw_lock_new_objects(PG_FUNCTION_ARGS)
{
	ShardArrayLoop loop;
	Datum		name;
	bool		has_node = false;

	shard_array_loop_begin(&loop, PG_GETARG_ARRAYTYPE_P(0));
	while (shard_array_loop_next(&loop, &name))
	{
		(void) shard_node_by_name(DatumGetName(name), true);
		has_node = true;
	}
	if (has_node)
		shard_schema_lock_new_objects();
	PG_RETURN_VOID();
}

/*
 * make_objects_on_nodes(relation regclass, nodes name[]) -> void
 *
 * Takes the locks before it reads the catalogs.
 */
Datum
shardfdw_make_objects_on_nodes(PG_FUNCTION_ARGS)
{
	(void) DirectFunctionCall1(shardfdw_lock_schemas, PG_GETARG_DATUM(0));
	shard_now_run(psprintf("SELECT shardfdw_internal.make_objects_seen(%u, %s)", PG_GETARG_OID(0),
						   quote_literal_cstr(OidOutputFunctionCall(F_ARRAY_OUT, PG_GETARG_DATUM(1)))));
	PG_RETURN_VOID();
}

/*
 * Statements
 */

/* Is a table of the user, found without a lock, on nodes? */
static bool
lies_on_nodes(Oid relid)
{
	if (!shard_ddl_table_maybe(relid) || !shard_class_ownercheck(relid, GetUserId()))
		return false;
	if (get_rel_relkind(relid) == RELKIND_RELATION)
		return shard_reference_is(relid);
	foreach_oid(memberid, find_all_inheritors(relid, NoLock, NULL))
		if (shard_option_is_ours(memberid))
			return true;
	return false;
}

/* Locks the schema that find returns, in AccessShareLock mode. */
static void
lock_found(Oid (*find) (void *arg), void *arg)
{
	(void) shard_ddl_lock_found(find, arg, shard_schema_lock, shard_schema_unlock, AccessShareLock);
}

static Oid
first_of_search_path(void)
{
	List	   *path = fetch_search_path(false);

	return path != NIL ? linitial_oid(path) : InvalidOid;
}

/* The schema of a new table. */
static Oid
schema_of_new(void *name)
{
	RangeVar   *relation = name;
	Oid			schema = relation->schemaname ? get_namespace_oid(relation->schemaname, true) :
		relation->relpersistence == RELPERSISTENCE_TEMP ? InvalidOid : first_of_search_path();

	/* core raises the error for users without CREATE on the schema */
	return OidIsValid(schema) && shard_namespace_aclcheck(schema, GetUserId(), ACL_CREATE) == ACLCHECK_OK ? schema : InvalidOid;
}

static Oid
schema_of_name(void *name)
{
	Oid			schema = get_namespace_oid(name, true);

	return OidIsValid(schema) && shard_namespace_aclcheck(schema, GetUserId(), ACL_CREATE) == ACLCHECK_OK ? schema : InvalidOid;
}

/* The schema of a foreign table of this wrapper. */
static Oid
schema_of_shard(void *name)
{
	Oid			relid = RangeVarGetRelid((RangeVar *) name, NoLock, true);

	return OidIsValid(relid) && shard_option_is_ours(relid) && shard_class_ownercheck(relid, GetUserId()) ?
		get_rel_namespace(relid) : InvalidOid;
}

static void
lock_needed_by(RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	if (OidIsValid(relid) && lies_on_nodes(relid))
		lock_needed(relid);
}

RangeVar *
shard_schema_new_table(Node *stmt)
{
	if (IsA(stmt, ExplainStmt) && IsA(castNode(ExplainStmt, stmt)->query, Query))
		stmt = castNode(Query, castNode(ExplainStmt, stmt)->query)->utilityStmt;
	if (stmt == NULL)
		return NULL;
	if (IsA(stmt, CreateStmt))
		return castNode(CreateStmt, stmt)->relation;
	return IsA(stmt, CreateTableAsStmt) && castNode(CreateTableAsStmt, stmt)->objtype == OBJECT_TABLE ?
		castNode(CreateTableAsStmt, stmt)->into->rel : NULL;
}

/* lock_schema(schema regnamespace) -> void: exclusively, for the owner of the schema. */
Datum
shardfdw_lock_schema(PG_FUNCTION_ARGS)
{
	Oid			schema = PG_GETARG_OID(0);

	if (!shard_namespace_ownercheck(schema, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_SCHEMA, get_namespace_name(schema));
	shard_schema_lock(schema, AccessExclusiveLock);
	PG_RETURN_VOID();
}

void
shard_schema_lock_statement(Node *stmt)
{
	if (IsA(stmt, CreateForeignTableStmt))
	{
		CreateForeignTableStmt *create = castNode(CreateForeignTableStmt, stmt);
		ForeignServer *server = GetForeignServerByName(create->servername, true);

		if (server != NULL && shard_option_is_our_server(server->serverid))
			lock_found(schema_of_new, create->base.relation);
	}
	else if (IsA(stmt, AlterTableStmt))
	{
		AlterTableStmt *alter = castNode(AlterTableStmt, stmt);
		AlterTableCmd *cmd = linitial_node(AlterTableCmd, alter->cmds);

		if (cmd->subtype == AT_AttachPartition)
			lock_found(schema_of_shard, castNode(PartitionCmd, cmd->def)->name);
		else if (shard_ddl_may_need_objects(alter))
			lock_needed_by(alter->relation);
	}
	else if (IsA(stmt, IndexStmt))
		lock_needed_by(castNode(IndexStmt, stmt)->relation);
	else if (IsA(stmt, AlterObjectSchemaStmt))
	{
		AlterObjectSchemaStmt *move = castNode(AlterObjectSchemaStmt, stmt);
		Oid			relid = move->relation != NULL ? RangeVarGetRelid(move->relation, NoLock, true) : InvalidOid;

		/* also keep plain tables out of a schema whose tables are being moved to a node */
		if (OidIsValid(relid))
			lock_found(schema_of_name, move->newschema);
	}
	else if (shard_schema_new_table(stmt) != NULL)
		lock_found(schema_of_new, shard_schema_new_table(stmt));
}
