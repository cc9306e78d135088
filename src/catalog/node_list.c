/*
 * node_list.c
 *	  The nodes of this database, and the other coordinators of these nodes.
 */
#include "postgres.h"

#include "array_loop.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "conninfo.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "miscadmin.h"
#include "own_lock.h"
#include "own_right.h"
#include "own_schema.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(shardfdw_lock_members);
PG_FUNCTION_INFO_V1(shardfdw_lock_node_list);
PG_FUNCTION_INFO_V1(shardfdw_lock_servers);

bool
shard_node_is(Oid serverid)
{
	return serverid != shard_option_cluster_server() && shard_option_is_our_server(serverid) &&
		shard_option_server(serverid, "coordinator") == NULL;
}

bool
shard_node_is_coordinator(Oid serverid)
{
	return shard_option_is_our_server(serverid) && shard_option_server(serverid, "coordinator") != NULL;
}

static bool
has_usage(Oid serverid)
{
	return DatumGetBool(DirectFunctionCall2(has_server_privilege_id, ObjectIdGetDatum(serverid), CStringGetTextDatum("USAGE")));
}

void
shard_node_check_usage(Oid serverid)
{
	const ForeignServer *server = GetForeignServer(serverid);

	/* a dump is restored before the owners of servers have their privileges; the connection is checked in any case */
	if (superuser())
		return;
	shard_conninfo_check_owner(server);
	if (!has_usage(serverid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign server %s", server->servername),
				 errhint("A superuser can run: GRANT USAGE ON FOREIGN SERVER %s TO %s", quote_identifier(server->servername),
						 quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(((ShardNodeName *) lfirst(a))->name, ((ShardNodeName *) lfirst(b))->name);
}

/* Returns all servers of this extension, ordered by name. */
static List *
list_servers(void)
{
	ShardCatalogScan scan;
	Oid			cluster = shard_option_cluster_server();
	List	   *found = NIL;
	HeapTuple	tuple;

	shard_catalog_scan_begin(&scan, ForeignServerRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tuple);
		ShardNodeName *server;

		if (form->oid == cluster || !shard_option_is_our_server(form->oid))
			continue;
		server = palloc(sizeof(ShardNodeName));
		server->serverid = form->oid;
		server->name = pstrdup(NameStr(form->srvname));
		found = lappend(found, server);
	}
	shard_catalog_scan_end(&scan);
	list_sort(found, compare_names);
	return found;
}

/*
 * Returns the other coordinators, ordered by name. *nbefore: how many precede this one. *self: this
 * coordinator's server; NULL: it is not among them.
 */
static List *
list_coordinators(int *nbefore, const ShardNodeName **self)
{
	List	   *peers = NIL;

	*nbefore = 0;
	*self = NULL;
	foreach_ptr(ShardNodeName, server, list_servers())
	{
		const char *identity;

		if (!shard_node_is_coordinator(server->serverid))
			continue;
		identity = shard_option_server(server->serverid, "identity");
		if (identity == NULL || strcmp(identity, shard_identity_get()) != 0)
			peers = lappend(peers, server);
		else
		{
			*self = server;
			*nbefore = list_length(peers);
		}
	}
	return peers;
}

List *
shard_node_peers(int *nbefore)
{
	const ShardNodeName *self;
	List	   *peers = list_coordinators(nbefore, &self);

	return self != NULL ? peers : NIL;
}

bool
shard_node_is_member(void)
{
	const ShardNodeName *self;
	int			nbefore;

	(void) list_coordinators(&nbefore, &self);
	return self != NULL;
}

const char *
shard_node_own_name(void)
{
	const ShardNodeName *self;
	int			nbefore;

	(void) list_coordinators(&nbefore, &self);
	return self != NULL ? self->name : get_database_name(MyDatabaseId);
}

Oid
shard_node_by_name(const NameData *name, bool or_coordinator)
{
	Oid			serverid = get_foreign_server_oid(NameStr(*name), true);

	if (!OidIsValid(serverid) || !shard_option_is_our_server(serverid) || serverid == shard_option_cluster_server() ||
		(shard_node_is_coordinator(serverid) && !or_coordinator))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("node \"%s\" does not exist", NameStr(*name)),
				 errhint("The view shardfdw.nodes lists the nodes; shardfdw.add_node() adds one.")));
	shard_node_check_usage(serverid);
	return serverid;
}

void
shard_node_check_replicas(const List *names)
{
	/* superusers may name any server */
	if (superuser())
		return;
	foreach_ptr(char, name, names)
	{
		NameData	node;

		namestrcpy(&node, name);
		(void) shard_node_by_name(&node, false);
	}
}

/* lock_servers(nodes name[]) -> void */
Datum
shardfdw_lock_servers(PG_FUNCTION_ARGS)
{
	ArrayType  *names = PG_GETARG_ARRAYTYPE_P(0);
	List	   *serverids = NIL;
	ShardArrayLoop loop;
	Datum		name;

	shard_array_loop_begin(&loop, names);
	while (shard_array_loop_next(&loop, &name))
		serverids = lappend_oid(serverids, shard_node_by_name(DatumGetName(name), true));
	list_sort(serverids, list_oid_cmp);
	foreach_oid(serverid, serverids)
		LockDatabaseObject(ForeignServerRelationId, serverid, 0, AccessShareLock);
	/* a server may have been dropped during the wait */
	shard_array_loop_begin(&loop, names);
	while (shard_array_loop_next(&loop, &name))
		(void) shard_node_by_name(DatumGetName(name), true);
	PG_RETURN_VOID();
}

void
shard_node_check_any_usage(void)
{
	bool		complete;

	if (superuser())
		return;
	foreach_ptr(ShardNodeName, server, shard_node_list(&complete))
		if (has_usage(server->serverid) && shard_own_right_has(GetForeignServer(server->serverid)->owner, "add_node"))
			return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("role \"%s\" may use no node", GetUserNameFromId(GetUserId(), false)),
			 errhint("The role needs USAGE on the servers of nodes, and user mappings, which an administrator gives to it: SELECT shardfdw.add_user(%s).",
					 quote_literal_cstr(GetUserNameFromId(GetUserId(), false)))));
}

void
shard_node_check_table(Oid relid)
{
	const char *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), name);
	if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot shard table \"%s\" because it is temporary", name)));
}

/* The functions that lock the list of nodes and that only some roles may call. */
static const char *const administrators_functions[] = {
	"add_node", "add_user", "enable_node", "add_coordinator", "remove_coordinator", "clone_node_databases", "drop_node_databases", "remove_all_nodes"
};

/* Errors: insufficient_privilege if the current user may call none of these. */
static void
check_administers(void)
{
	for (int i = 0; i < lengthof(administrators_functions); i++)
		if (shard_own_right_has(GetUserId(), administrators_functions[i]))
			return;
	shard_own_right_check("add_node");
}

static void
lock_members(LOCKMODE lockmode)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_MEMBERS, 0, 0);

	(void) LockAcquire(&tag, lockmode, false, false);
	AcceptInvalidationMessages();
}

void
shard_node_hold_members(void)
{
	lock_members(ShareLock);
}

/*
 * lock_node_list(relation regclass) -> void
 *
 * relation: the table that becomes a reference table, or no longer is one.  Without it, for functions
 * of administrators.
 */
Datum
shardfdw_lock_node_list(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_NODE_LIST, 0, 0);

	if (PG_ARGISNULL(0))
		check_administers();
	else
	{
		shard_node_check_table(PG_GETARG_OID(0));
		shard_node_check_any_usage();
		foreach_ptr(ShardNodeName, server, list_servers())
			if (shard_node_is(server->serverid))
				shard_node_check_usage(server->serverid);
	}
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	PG_RETURN_VOID();
}

/*
 * lock_members() -> void: called before a coordinator is added or removed
 */
Datum
shardfdw_lock_members(PG_FUNCTION_ARGS)
{
	lock_members(ExclusiveLock);
	PG_RETURN_VOID();
}

List *
shard_node_list(bool *complete)
{
	List	   *nodes = NIL;

	*complete = true;
	foreach_ptr(ShardNodeName, server, list_servers())
	{
		if (shard_node_is_coordinator(server->serverid))
			continue;
		if (shard_conninfo_has_mapping(GetUserId(), server->serverid))
			nodes = lappend(nodes, server);
		else
			*complete = false;
	}
	return nodes;
}

List *
shard_node_list_all(bool *complete)
{
	List	   *nodes = shard_node_list(complete);
	int			nbefore;

	foreach_ptr(ShardNodeName, peer, shard_node_peers(&nbefore))
	{
		if (shard_conninfo_has_mapping(GetUserId(), peer->serverid))
			nodes = lappend(nodes, peer);
		else
			*complete = false;
	}
	return nodes;
}

List *
shard_node_list_oids(void)
{
	List	   *oids = NIL;
	bool		complete;

	foreach_ptr(ShardNodeName, node, shard_node_list(&complete))
		oids = lappend_oid(oids, node->serverid);
	return oids;
}
