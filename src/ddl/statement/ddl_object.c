/*
 * ddl_object.c
 *	  SET SCHEMA, COMMENT, LOCK TABLE, TRUNCATE, CREATE TRIGGER, SET CONSTRAINTS and publications of tables that have
 *	  tables on nodes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog_scan.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "ddl/ddl_cascade.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_send.h"
#include "ddl/schema_lock.h"
#include "ddl/statement/ddl_statement.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "own_schema.h"
#include "own_sql.h"
#include "remote/run/constraints.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

/*
 * A parent moves without its shards, which stay in their schema on both sides.  Replicas of a reference table move with
 * the table, and the table on the node moves with its shard.
 */
bool
shard_ddl_set_schema(ShardDdlCall *call)
{
	AlterObjectSchemaStmt *stmt = castNode(AlterObjectSchemaStmt, call->pstmt->utilityStmt);
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	const char *schema = quote_identifier(stmt->newschema);

	if (stmt->objectType != OBJECT_TABLE && stmt->objectType != OBJECT_FOREIGN_TABLE)
		return false;
	table = shard_ddl_table_owned(stmt->relation, AccessExclusiveLock);
	if (table == NULL || (!table->is_reference && get_rel_relkind(table->relid) != RELKIND_FOREIGN_TABLE))
		return false;

	shard_schema_lock_new_objects();
	shard_ddl_make_schema(table, stmt->newschema);
	batch = shard_ddl_batch_create(table);
	batch->renames = true;
	shard_ddl_batch_add_named_by(batch);
	for (int i = 0; i < table->nshards; i++)
		shard_ddl_batch_add(batch, i, "ALTER TABLE %s SET SCHEMA %s", table->shards[i].relation, schema);
	shard_ddl_run_core_then(call, NULL, shard_ddl_batch_rest, batch);
	return true;
}

/* The names by which a statement names a table. */
typedef struct TableNames
{
	List	   *names;
	int			ntail;			/* names at the end that are not part of the table's name */
} TableNames;

static Oid
owned_by_names(void *arg)
{
	TableNames *names = arg;
	Oid			relid = shard_ddl_table_named(names->names, names->ntail);

	return shard_ddl_table_maybe(relid) && shard_class_ownercheck(relid, GetUserId()) ? relid : InvalidOid;
}

/* The table of these names, without the last ntail names, locked, if the user owns it.  Core refuses other users. */
static ShardDdlTable *
own_table(List *names, int ntail)
{
	TableNames	arg = {names, ntail};
	Oid			relid = shard_ddl_table_lock(owned_by_names, &arg, ShareUpdateExclusiveLock);

	return OidIsValid(relid) ? shard_ddl_table(relid) : NULL;
}

static void
comment_index(ShardDdlBatch *batch, Oid index, const char *kind, const char *comment)
{
	const ShardDdlTable *table = batch->table;
	char	  **names = shard_ddl_find_index(table, index);

	for (int i = 0; i < table->nshards; i++)
		if (strcmp(kind, "INDEX") == 0)
			shard_ddl_batch_add(batch, i, "COMMENT ON INDEX %s IS %s",
								quote_qualified_identifier(table->shards[i].schema, names[i]), comment);
		else
			shard_ddl_batch_add(batch, i, "COMMENT ON CONSTRAINT %s ON %s IS %s",
								quote_identifier(names[i]), table->shards[i].relation, comment);
}

/* COMMENT ON CONSTRAINT: object is the list of the table's names and the constraint's name. */
static ShardDdlBatch *
comment_constraint(List *object, const char *comment)
{
	const char *name = strVal(llast(object));
	ShardDdlTable *table = own_table(object, 1);
	Form_pg_constraint form = table != NULL ? shard_ddl_constraint(table->relid, name) : NULL;
	ShardDdlBatch *batch;

	if (form == NULL)
		return NULL;
	batch = shard_ddl_batch_create(table);
	if (form->contype == CONSTRAINT_CHECK)
		for (int i = 0; i < table->nshards; i++)
			shard_ddl_batch_add(batch, i, "COMMENT ON CONSTRAINT %s ON %s IS %s",
								quote_identifier(name), table->shards[i].relation, comment);
	else if (OidIsValid(form->conindid) && form->contype != CONSTRAINT_FOREIGN &&
			 !(table->is_reference && (form->condeferrable || form->contype == CONSTRAINT_EXCLUSION)))
		comment_index(batch, form->conindid, "CONSTRAINT", comment);
	return batch;
}

bool
shard_ddl_comment(ShardDdlCall *call)
{
	CommentStmt *stmt = castNode(CommentStmt, call->pstmt->utilityStmt);
	const char *comment = stmt->comment ? quote_literal_cstr(stmt->comment) : "NULL";
	ShardDdlTable *table;
	ShardDdlBatch *batch = NULL;
	RangeVar   *name;
	Oid			relid;

	switch (stmt->objtype)
	{
		case OBJECT_TABLE:
		case OBJECT_FOREIGN_TABLE:
			table = own_table((List *) stmt->object, 0);
			if (table == NULL)
				return false;
			batch = shard_ddl_batch_create(table);
			shard_ddl_batch_add_all(batch, "COMMENT ON TABLE ", psprintf(" IS %s", comment));
			break;
		case OBJECT_COLUMN:
			table = own_table((List *) stmt->object, 1);
			if (table == NULL)
				return false;
			batch = shard_ddl_batch_create(table);
			shard_ddl_batch_add_all(batch, "COMMENT ON COLUMN ",
									psprintf(".%s IS %s", quote_identifier(strVal(llast((List *) stmt->object))), comment));
			break;
		case OBJECT_TABCONSTRAINT:
			batch = comment_constraint((List *) stmt->object, comment);
			break;
		case OBJECT_INDEX:
			name = makeRangeVarFromNameList((List *) stmt->object);
			relid = shard_ddl_table_lock(shard_ddl_table_of_index, name, ShareUpdateExclusiveLock);
			table = OidIsValid(relid) ? shard_ddl_table(relid) : NULL;
			if (table == NULL)
				return false;
			batch = shard_ddl_batch_create(table);
			comment_index(batch, RangeVarGetRelid(name, NoLock, false), "INDEX", comment);
			break;
		default:
			break;
	}
	if (batch == NULL)
		return false;
	shard_ddl_run_core_then(call, NULL, shard_ddl_batch_rest, batch);
	return true;
}

/*
 * Locks on the nodes keep out clients that work there directly.  Locks for reading are not sent, since they are not
 * needed, and pg_dump must not depend on nodes.
 */
bool
shard_ddl_lock(ShardDdlCall *call)
{
	static const char *const modes[] = {
		NULL, "ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE",
		"SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"
	};
	LockStmt   *stmt = castNode(LockStmt, call->pstmt->utilityStmt);

	if (stmt->mode < RowExclusiveLock || stmt->mode >= lengthof(modes))
		return false;
	shard_ddl_run_core(call);
	foreach_node(RangeVar, relation, stmt->relations)
	{
		ShardDdlTable *table = shard_ddl_table(RangeVarGetRelid(relation, NoLock, true));

		if (table == NULL || (!relation->inh && !table->is_reference))
			continue;
		if (stmt->mode == AccessExclusiveLock)
			shard_ddl_table_check_unused(table, "LOCK TABLE");
		shard_ddl_lock_shards(table, modes[stmt->mode], stmt->nowait);
	}
	return true;
}

/*
 * TRUNCATE of a shard by its name: a statement on the sharded table locks the table here, and not its shards.  It must
 * wait here.  If it waited on the node, its snapshot there would be older than the rows that follow TRUNCATE.
 */
static void
lock_parents(const List *relations)
{
	foreach_node(RangeVar, relation, relations)
	{
		Oid			relid = RangeVarGetRelid(relation, NoLock, true);

		if (OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE && get_rel_relispartition(relid) &&
			shard_ddl_table_maybe(get_partition_parent(relid, true)) && pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE) == ACLCHECK_OK)
			LockRelationOid(get_partition_parent(relid, true), AccessExclusiveLock);
	}
}

/*
 * The wrapper runs TRUNCATE on the nodes.  This function adds tables to the statement that reference the truncated
 * tables through foreign keys unknown to core.
 */
bool
shard_ddl_truncate(ShardDdlCall *call)
{
	TruncateStmt *stmt = castNode(TruncateStmt, call->pstmt->utilityStmt);
	List	   *added;
	int			nbefore;

	foreach_node(RangeVar, relation, stmt->relations)
		shard_ddl_table_check_parent_unused(RangeVarGetRelid(relation, NoLock, true), "TRUNCATE");
	lock_parents(stmt->relations);
	added = stmt->behavior == DROP_CASCADE ? shard_ddl_cascade(stmt->relations) : NIL;
	if (added == NIL)
		return false;
	/* shard_peer_locks_before() has locked only the named tables on other coordinators, and the nodes come after */
	if (shard_node_peers(&nbefore) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("TRUNCATE cannot cascade to table \"%s\" because there are several coordinators", linitial_node(RangeVar, added)->relname),
				 errhint("Name all tables in the statement.")));
	stmt = copyObject(stmt);
	stmt->relations = list_concat(stmt->relations, added);
	shard_ddl_run_core_with(call, (Node *) stmt, false);
	return true;
}

/*
 * The coordinator fires triggers.  Refuses triggers that core would make on a parent but that foreign partitions
 * cannot have, since they would fail when fired.
 */
bool
shard_ddl_create_trigger(ShardDdlCall *call)
{
	CreateTrigStmt *stmt = castNode(CreateTrigStmt, call->pstmt->utilityStmt);
	ShardDdlTable *table;

	if (!stmt->isconstraint && stmt->transitionRels == NIL)
		return false;
	table = shard_ddl_table_owned(stmt->relation, ShareRowExclusiveLock);
	if (table == NULL || table->is_reference)
		return false;
	if (stmt->isconstraint)
		shard_ddl_table_refuse(table, "a constraint trigger", NULL);
	shard_ddl_table_refuse(table, "a trigger with transition tables", NULL);
}

/* ---------- SET CONSTRAINTS ---------- */

/*
 * Foreign keys of sharded tables exist only on the nodes, with the same name on all shards.  Names that core does not
 * know are looked up there.  Keys that core knows, of the sharded table itself, have other names on the shards.  By
 * name, these are set on the coordinator only.
 */

/* Does the coordinator have a constraint of that name? */
static bool
is_here(Oid namespace, const char *name)
{
	ScanKeyData keys[2];
	ShardCatalogScan scan;
	bool		found;

	ScanKeyInit(&keys[0], Anum_pg_constraint_conname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(name));
	ScanKeyInit(&keys[1], Anum_pg_constraint_connamespace, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(namespace));
	shard_catalog_scan_begin_keys(&scan, ConstraintRelationId, ConstraintNameNspIndexId, NULL, lengthof(keys), keys);
	found = HeapTupleIsValid(shard_catalog_scan_next(&scan));
	shard_catalog_scan_end(&scan);
	return found;
}

/*
 * The schema in which nodes have the constraint.  NULL if core must handle the name.  As in core, the first schema of
 * the search path counts that has a constraint of that name, on the coordinator or on nodes.
 */
static char *
find_schema(const List *nodes, const RangeVar *constraint, bool deferred)
{
	List	   *namespaces;

	/* core raises the error for another database */
	if (constraint->catalogname && strcmp(constraint->catalogname, get_database_name(MyDatabaseId)) != 0)
		return NULL;
	if (constraint->schemaname)
	{
		Oid			namespace = get_namespace_oid(constraint->schemaname, true);

		namespaces = OidIsValid(namespace) ? list_make1_oid(namespace) : NIL;
	}
	else
		namespaces = fetch_search_path(true);
	foreach_oid(namespace, namespaces)
	{
		char	   *schema;

		if (is_here(namespace, constraint->relname))
			return NULL;
		if (isTempNamespace(namespace) || IsCatalogNamespace(namespace))
			continue;
		schema = get_namespace_name(namespace);
		switch (schema ? shard_constraints_find_key(nodes, schema, constraint->relname) : SHARD_CONSTRAINT_NONE)
		{
			case SHARD_CONSTRAINT_NONE:
				break;
			case SHARD_CONSTRAINT_IMMEDIATE:
				if (deferred)
					ereport(ERROR,
							(errcode(ERRCODE_WRONG_OBJECT_TYPE),
							 errmsg("constraint \"%s\" is not deferrable", constraint->relname)));
				return schema;
			case SHARD_CONSTRAINT_DEFERRABLE:
				return schema;
		}
	}
	return NULL;
}

/* A constraint that only nodes have. */
typedef struct RemoteConstraint
{
	char	   *schema;
	const char *name;
} RemoteConstraint;

static void
set_remote(const List *constraints, bool deferred)
{
	foreach_ptr(const RemoteConstraint, constraint, constraints)
		shard_constraints_set_key(constraint->schema, constraint->name, deferred);
}

bool
shard_ddl_set_constraints(ShardDdlCall *call)
{
	ConstraintsSetStmt *stmt = castNode(ConstraintsSetStmt, call->pstmt->utilityStmt);
	ConstraintsSetStmt *rest;
	List	   *remote = NIL;
	List	   *nodes;

	if (stmt->constraints == NIL)
	{
		shard_ddl_run_core(call);
		shard_constraints_set_all(stmt->deferred);
		return true;
	}
	nodes = shard_node_list_oids();
	if (nodes == NIL)
		return false;
	rest = copyObject(stmt);
	rest->constraints = NIL;
	foreach_node(RangeVar, name, stmt->constraints)
	{
		char	   *schema = find_schema(nodes, name, stmt->deferred);

		if (schema)
		{
			RemoteConstraint *constraint = palloc(sizeof(RemoteConstraint));

			constraint->schema = schema;
			constraint->name = name->relname;
			remote = lappend(remote, constraint);
		}
		else
			rest->constraints = lappend(rest->constraints, copyObject(name));
	}
	if (remote == NIL)
		return false;
	/* without names it would be ALL */
	if (rest->constraints != NIL)
		shard_ddl_run_core_with(call, (Node *) rest, false);
	else
		WarnNoTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "SET CONSTRAINTS");
	set_remote(remote, stmt->deferred);
	return true;
}

/* ---- publications ---- */

/* Some sharded tables of a publication.  This server writes no WAL of their rows. */
#define UNSENT_SQL \
	"SELECT string_agg(x.name, ', ' ORDER BY x.name COLLATE \"C\") FROM (" \
	"SELECT DISTINCT coalesce(pg_partition_root(t.relid), t.relid)::regclass::text AS name" \
	" FROM (SELECT relid FROM pg_get_publication_tables(%1$s) UNION" \
	" SELECT f.ftrelid FROM pg_publication p, pg_foreign_table f WHERE p.pubname = %1$s AND p.puballtables) t" \
	" WHERE EXISTS (SELECT FROM pg_partition_tree(t.relid) p JOIN pg_foreign_table f ON f.ftrelid = p.relid" \
	" JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw" \
	" WHERE w.fdwhandler = to_regproc('" SHARD_INTERNAL_SCHEMA ".shardfdw_handler')) ORDER BY 1 LIMIT 10) x"

bool
shard_ddl_publication(ShardDdlCall *call)
{
	Node	   *stmt = call->pstmt->utilityStmt;
	const char *name = IsA(stmt, CreatePublicationStmt) ? ((CreatePublicationStmt *) stmt)->pubname :
		castNode(AlterPublicationStmt, stmt)->pubname;
	const char *tables;

	if (!OidIsValid(shard_option_cluster_server()))
		return false;
	shard_ddl_run_core(call);
	CommandCounterIncrement();
	tables = shard_own_sql_value(psprintf(UNSENT_SQL, quote_literal_cstr(name)), GetLatestSnapshot());
	if (tables != NULL)
		ereport(WARNING,
				(errmsg("publication \"%s\" does not publish changes of sharded tables", name),
				 errdetail("Sharded tables: %s.", tables),
				 errhint("Create publications of the shards on their nodes.")));
	return true;
}
