/*
 * ddl_redirect.c
 *	  Checks who may choose the table of a node that a table of the coordinator stands for.
 *
 * Many roles may share a user mapping, and the role on the node may be able to read tables of all of them.  CREATE
 * FOREIGN TABLE needs USAGE on the server.  USAGE is also needed for every change after which an existing foreign
 * table stands for another table of its node, or of another node:
 *
 *	 ALTER ... OPTIONS (schema_name, table_name, replica_nodes, stale_replica_nodes)
 *	 RENAME and SET SCHEMA of the foreign table, RENAME of its schema
 *
 * The catalog records who has chosen the table (catalog/shard_server.h).
 *
 * A reference table stands for the tables with its name on all nodes.  Its triggers make it a reference table.  So
 * CREATE TRIGGER with their function needs USAGE on all nodes, and a new name needs it, too.  On the nodes, no other
 * user's table may have the name.  Only the owner of the table can create a trigger with a function of the extension.
 * Such a trigger causes the extension to change or empty the table.
 *
 * Core calls object_access_hook while the object is locked, before the change is visible: the system caches have the
 * old row, and SnapshotSelf shows the new one.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/node_list.h"
#include "catalog/objectaccess.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_trigger.h"
#include "catalog/reference.h"
#include "catalog/shard_server.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "compat.h"
#include "ddl/alter/ddl_redirect.h"
#include "ddl/ddl_send.h"
#include "ddl/ddl_table.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "open_table.h"
#include "own_schema.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(shardfdw_check_shard_owners);

/* The table, and the servers, that a table represents. */
typedef struct Place
{
	char	   *schema;
	char	   *name;
	List	   *replicas;			/* list of char *: servers of a foreign table */
} Place;

static object_access_hook_type prev_object_access = NULL;

/* The row of oid in a catalog after the change; NULL: there is none.  Memory: current context. */
static HeapTuple
new_row(Oid catalog, Oid index, AttrNumber key_attno, Oid oid)
{
	ScanKeyData key;
	ShardCatalogScan scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, key_attno, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	shard_catalog_scan_begin_keys(&scan, catalog, index, SnapshotSelf, 1, &key);
	tuple = shard_catalog_scan_next(&scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	shard_catalog_scan_end(&scan);
	return tuple;
}

/* Reads the place from options. */
static void
read_options(Place *place, List *options)
{
	foreach_node(DefElem, option, options)
	{
		if (strcmp(option->defname, "schema_name") == 0)
			place->schema = defGetString(option);
		else if (strcmp(option->defname, "table_name") == 0)
			place->name = defGetString(option);
		else if (strcmp(option->defname, "replica_nodes") == 0 || strcmp(option->defname, "stale_replica_nodes") == 0)
			place->replicas = list_concat(place->replicas, shard_option_list(defGetString(option)));
	}
}

/* The place of a table before the change. options: of a foreign table. */
static Place
old_place(Oid relid, List *options)
{
	Place		place = {get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), NIL};

	read_options(&place, options);
	return place;
}

/* The place of a table after the change. */
static Place
new_place(Oid relid)
{
	HeapTuple	table = new_row(ForeignTableRelationId, ForeignTableRelidIndexId, Anum_pg_foreign_table_ftrelid, relid);
	HeapTuple	class = new_row(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid);
	Place		place = {NULL, NULL, NIL};

	if (HeapTupleIsValid(class))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(class);
		bool		isnull = true;
		Datum		options = 0;

		place.schema = get_namespace_name(form->relnamespace);
		place.name = pstrdup(NameStr(form->relname));
		if (HeapTupleIsValid(table))
			options = SysCacheGetAttr(FOREIGNTABLEREL, table, Anum_pg_foreign_table_ftoptions, &isnull);
		if (!isnull)
			read_options(&place, untransformRelOptions(options));
	}
	return place;
}

static bool
has_moved(const Place *before, const Place *after)
{
	return after->schema == NULL || strcmp(before->schema, after->schema) != 0 || strcmp(before->name, after->name) != 0;
}

/* Checks the privileges for a change of a foreign table. */
static void
check_foreign_table(Oid relid)
{
	const ForeignTable *table = GetForeignTable(relid);
	Place		before = old_place(relid, table->options);
	Place		after = new_place(relid);

	if (has_moved(&before, &after))
	{
		shard_node_check_usage(table->serverid);
		shard_node_check_replicas(after.replicas);
		shard_server_note_chooser(relid);
	}
	foreach_ptr(char, replica, after.replicas)
	{
		bool		is_new = true;
		Oid			serverid;

		foreach_ptr(char, old, before.replicas)
			is_new &= strcmp(replica, old) != 0;
		if (!is_new)
			continue;
		serverid = get_foreign_server_oid(replica, false);
		/* the validator has checked the privileges */
		if (serverid != table->serverid && !superuser())
			shard_server_note_chooser(relid);
	}
}

/*
 * Checks the privileges for a place of reference table relid: USAGE on all nodes, and no table with that name there
 * that belongs to another user.  Tables that this transaction has created there are not visible, but belong to the
 * current user.
 */
static void
check_all_nodes(Oid relid, const char *schema, const char *name)
{
	List	   *nodes = superuser() ? NIL : shard_reference_nodes();
	ShardDdlTable table = {.relid = relid, .is_reference = true, .shards = palloc0(sizeof(ShardDdlShard) * (list_length(nodes) + 1))};

	foreach_oid(serverid, nodes)
	{
		ShardDdlShard *copy = &table.shards[table.nshards++];

		shard_node_check_usage(serverid);
		copy->serverid = serverid;
		copy->owner = GetUserId();
		copy->schema = schema;
		copy->name = name;
	}
	shard_ddl_check_owners(&table);
	pfree(table.shards);
}

/* Checks the privileges for a change of a table that is a reference table, or can become one again. */
static void
check_reference_table(Oid relid)
{
	Place		before = old_place(relid, NIL);
	Place		after = new_place(relid);

	if (has_moved(&before, &after))
		check_all_nodes(relid, after.schema, after.name);
}

/*
 * Checks the privileges for a new name of a schema.  For tables without the option, it is the schema's name on the
 * node.
 */
static void
check_schema(Oid namespace)
{
	HeapTuple	tuple = new_row(NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid, namespace);
	const char *old_name = get_namespace_name(namespace);
	const char *new_name = HeapTupleIsValid(tuple) ? NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname) : NULL;

	if (old_name == NULL || new_name == NULL || strcmp(new_name, old_name) == 0)
		return;
	foreach_oid(relid, shard_ddl_table_of_schema(namespace))
	{
		Place		place = {NULL, NULL, NIL};

		if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(relid))
		{
			const ForeignTable *table = GetForeignTable(relid);

			read_options(&place, table->options);
			if (place.schema != NULL)
				continue;
			shard_node_check_usage(table->serverid);
			shard_node_check_replicas(place.replicas);
			if (!superuser())
				shard_server_note_chooser(relid);
		}
		else if (shard_reference_has_trigger(relid))
			check_all_nodes(relid, new_name, get_rel_name(relid));
	}
}

/* Checks the privileges for a new trigger. */
static void
check_trigger(Oid trigger)
{
	HeapTuple	tuple = new_row(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger);
	Form_pg_trigger form = HeapTupleIsValid(tuple) ? (Form_pg_trigger) GETSTRUCT(tuple) : NULL;

	if (form == NULL || strcmp(get_namespace_name(get_func_namespace(form->tgfoid)), SHARD_INTERNAL_SCHEMA) != 0)
		return;
	if (!shard_class_ownercheck(form->tgrelid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(form->tgrelid));
	if (shard_reference_is_trigger(form->tgfoid))
		check_all_nodes(form->tgrelid, get_namespace_name(get_rel_namespace(form->tgrelid)), get_rel_name(form->tgrelid));
}

static void
check_relation(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind == RELKIND_FOREIGN_TABLE && shard_option_is_ours(relid))
		check_foreign_table(relid);
	else if (relkind == RELKIND_RELATION && !superuser() && shard_reference_has_trigger(relid))
		check_reference_table(relid);
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subid, void *arg)
{
	if (access == OAT_POST_ALTER && subid == 0)
	{
		if (class == ForeignTableRelationId || class == RelationRelationId)
			check_relation(object);
		else if (class == NamespaceRelationId)
			check_schema(object);
	}
	else if (access == OAT_POST_CREATE && class == TriggerRelationId && !superuser())
		check_trigger(object);
	if (prev_object_access)
		prev_object_access(access, class, object, subid, arg);
}

/* Commands of other users on such tables */

/*
 * Adds the tables that foreign table relid represents.  node: only on that node; NULL: on all its nodes except those of
 * stale replicas, which may be down.
 */
static void
add_places(ShardDdlTable *table, Oid relid, const char *only)
{
	const ForeignTable *foreign = GetForeignTable(relid);
	Place		place = old_place(relid, foreign->options);
	const char *replicas = shard_option_table(relid, "replica_nodes");
	const char *stale = only != NULL ? shard_option_table(relid, "stale_replica_nodes") : NULL;
	List	   *names = list_make1(GetForeignServer(foreign->serverid)->servername);
	List	   *servers = NIL;

	names = list_concat(names, replicas != NULL ? shard_option_list(replicas) : NIL);
	names = list_concat(names, stale != NULL ? shard_option_list(stale) : NIL);
	foreach_ptr(char, server, names)
	{
		if (only == NULL || strcmp(server, only) == 0)
			servers = list_append_unique_oid(servers, get_foreign_server_oid(server, false));
	}
	table->shards = repalloc(table->shards, sizeof(ShardDdlShard) * (table->nshards + list_length(servers)));
	foreach_oid(serverid, servers)
	{
		ShardDdlShard *shard = &table->shards[table->nshards++];

		memset(shard, 0, sizeof(*shard));
		shard->relid = relid;
		shard->serverid = serverid;
		shard->schema = place.schema;
		shard->name = place.name;
		shard->owner = shard_server_owner_to_check(relid);
	}
}

bool
shard_ddl_redirect_check_owned(Oid roleid)
{
	ShardDdlTable table = {.shards = palloc(sizeof(ShardDdlShard))};
	ShardCatalogScan scan;
	HeapTuple	tuple;

	if (!has_privs_of_role(GetUserId(), roleid))
		return false;
	shard_catalog_scan_begin_oid(&scan, RelationRelationId, InvalidOid, Anum_pg_class_relowner, roleid);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relkind == RELKIND_FOREIGN_TABLE && form->relispartition && shard_option_is_ours(form->oid))
			add_places(&table, form->oid, NULL);
	}
	shard_catalog_scan_end(&scan);
	shard_ddl_check_owners(&table);
	return true;
}

/* check_shard_owners(relation regclass, node name) -> void */
Datum
shardfdw_check_shard_owners(PG_FUNCTION_ARGS)
{
	ShardDdlTable table = {.relid = PG_GETARG_OID(0), .shards = palloc(sizeof(ShardDdlShard))};

	table_close(shard_open_table(table.relid, AccessShareLock), AccessShareLock);
	foreach_oid(relid, find_all_inheritors(table.relid, NoLock, NULL))
	{
		if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE || !shard_option_is_ours(relid) || !OidIsValid(shard_server_owner_to_check(relid)))
			continue;
		if (!shard_class_ownercheck(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
		add_places(&table, relid, PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1)));
	}
	shard_ddl_check_owners(&table);
	PG_RETURN_VOID();
}

void
shard_ddl_redirect_init(void)
{
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
}
