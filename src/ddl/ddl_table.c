/*
 * ddl_table.c
 *	  Finds the tables on nodes that follow a change of a table's definition.
 *
 * For a sharded table these are its shards, at any level of partitioning.  For a reference table these are its
 * replicas.  A shard takes part under two conditions: its table and columns have the same names on its node, and option
 * propagate_ddl of its server is not off.  Then the foreign table and the table on the node are changed together.
 * Any other foreign table of this wrapper refers to a table that is defined elsewhere, as with postgres_fdw.  Its
 * definition changes on the coordinator only.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/reference.h"
#include "catalog/shard_map.h"
#include "catalog/shard_server.h"
#include "catalog_scan.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "replica/replica.h"
#include "ddl/ddl_name.h"
#include "ddl/ddl_table.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "node_position.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

typedef enum ShardSide
{
	SIDE_OTHER,					/* not a foreign table of this wrapper */
	SIDE_HERE,					/* its definition is changed on the coordinator only */
	SIDE_BOTH
} ShardSide;

/* See shard_ddl_table_refuse_replicas(). */
static const char *refused_replicas = NULL;

const char *
shard_ddl_table_refuse_replicas(const char *what)
{
	const char *before = refused_replicas;

	refused_replicas = what;
	return before;
}

/*
 * Fills the fields about replicas of a shard.  Raises an error if the current statement is refused for shards that have
 * replicas.
 */
static void
fill_replicas(ShardDdlShard *shard, const ForeignTable *table)
{
	List	   *names = NIL;
	Oid		   *replicas;

	shard->is_noted = false;
	shard->stale = NIL;
	shard->nreplicas = 0;
	foreach_node(DefElem, option, table->options)
	{
		if (strcmp(option->defname, "replica_nodes") == 0)
			names = shard_option_list(defGetString(option));
		else if (strcmp(option->defname, "stale_replica_nodes") == 0)
			shard->stale = shard_option_list(defGetString(option));
		shard->is_noted |= strcmp(option->defname, "replica_nodes") == 0 || strcmp(option->defname, "stale_replica_nodes") == 0;
	}
	if (shard->is_noted && refused_replicas != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s is not supported for table \"%s\", whose shards have replicas", refused_replicas,
						get_rel_name(shard_map_top(shard->relid)))));
	replicas = palloc(sizeof(Oid) * Max(list_length(names), 1));
	foreach_ptr(char, name, names)
		replicas[shard->nreplicas++] = get_foreign_server_oid(name, false);
	shard->replicas = replicas;
}

static void
fill_shard(ShardDdlShard *shard, Oid relid, Oid serverid)
{
	memset(shard, 0, sizeof(*shard));
	shard->relid = relid;
	shard->serverid = serverid;
	shard->node = GetForeignServer(serverid)->servername;
	shard->schema = get_namespace_name(get_rel_namespace(relid));
	shard->name = get_rel_name(relid);
	shard->relation = quote_qualified_identifier(shard->schema, shard->name);
	shard->owner = shard_server_owner_to_check(relid);
}

/* Do the table and its columns have the same names on the node?  The foreign table is locked. */
static bool
has_own_names(Relation rel, const ForeignTable *table)
{
	Oid			relid = RelationGetRelid(rel);

	foreach_node(DefElem, option, table->options)
	{
		const char *own = strcmp(option->defname, "schema_name") == 0 ?
			get_namespace_name(get_rel_namespace(relid)) :
			strcmp(option->defname, "table_name") == 0 ? get_rel_name(relid) : NULL;

		if (own != NULL && strcmp(own, defGetString(option)) != 0)
			return false;
	}
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (!att->attisdropped &&
			strcmp(shard_option_column_name(relid, att->attnum), NameStr(att->attname)) != 0)
			return false;
	}
	return true;
}

/* Fills *shard if the definition is changed on both sides. */
static ShardSide
side_of(Oid relid, ShardDdlShard *shard)
{
	ShardSide	side = SIDE_HERE;
	ForeignTable *table;
	Relation	rel;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE || !shard_option_is_ours(relid))
		return SIDE_OTHER;
	/* the table may be unlocked, and dropped since it was found */
	rel = try_table_open(relid, AccessShareLock);
	if (rel == NULL)
		return SIDE_OTHER;
	table = GetForeignTable(relid);
	if (shard_option_definition_follows(table->serverid) && has_own_names(rel, table))
	{
		side = SIDE_BOTH;
		fill_shard(shard, relid, table->serverid);
		fill_replicas(shard, table);
	}
	table_close(rel, AccessShareLock);
	return side;
}

bool
shard_ddl_table_shard(Oid relid, ShardDdlShard *shard)
{
	return side_of(relid, shard) == SIDE_BOTH;
}

static int
compare_shards(const void *a, const void *b)
{
	const ShardDdlShard *left = a;
	const ShardDdlShard *right = b;
	int			by_name = strcmp(left->name, right->name);

	return by_name != 0 ? by_name : strcmp(left->schema, right->schema);
}

void
shard_ddl_table_sort(ShardDdlTable *table)
{
	qsort(table->shards, table->nshards, sizeof(ShardDdlShard), compare_shards);
}

static int
compare_suffixes(const void *a, const void *b)
{
	return strcmp(shard_ddl_name_suffix((*(ShardDdlShard *const *) a)->name),
				  shard_ddl_name_suffix((*(ShardDdlShard *const *) b)->name));
}

/* Marks the shards whose names end in the same number as the name of another shard. */
static void
note_whole_names(ShardDdlTable *table)
{
	ShardDdlShard **numbered = palloc(sizeof(ShardDdlShard *) * table->nshards);
	int			nnumbered = 0;

	for (int i = 0; i < table->nshards; i++)
		if (shard_ddl_name_suffix(table->shards[i].name) != NULL)
			numbered[nnumbered++] = &table->shards[i];
	qsort(numbered, nnumbered, sizeof(ShardDdlShard *), compare_suffixes);
	for (int i = 1; i < nnumbered; i++)
		if (compare_suffixes(&numbered[i - 1], &numbered[i]) == 0 &&
			strcmp(numbered[i - 1]->name, numbered[i]->name) != 0)
			numbered[i - 1]->whole_name = numbered[i]->whole_name = true;
	pfree(numbered);
}

void
shard_ddl_table_check_replicas(Oid relid)
{
	if (refused_replicas == NULL || !shard_ddl_table_maybe(relid))
		return;
	foreach_oid(memberid, find_all_inheritors(relid, NoLock, NULL))
	{
		ShardDdlShard shard = {memberid};

		if (get_rel_relkind(memberid) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(memberid))
			fill_replicas(&shard, GetForeignTable(memberid));
	}
}

/* Appends the replicas of the shards to the array. */
static void
add_replicas(ShardDdlTable *table)
{
	int			nshards = table->nshards;
	int			nreplicas = 0;
	bool		is_noted = false;

	for (int i = 0; i < nshards; i++)
	{
		nreplicas += table->shards[i].nreplicas;
		is_noted |= table->shards[i].is_noted;
	}
	if (!is_noted)
		return;
	/* apply earlier changes first, while the replicas still have the same definition */
	(void) shard_replica_apply();
	shard_replica_note_sent();
	table->shards = repalloc(table->shards, sizeof(ShardDdlShard) * (nshards + nreplicas));
	for (int i = 0; i < nshards; i++)
	{
		for (int j = 0; j < table->shards[i].nreplicas; j++)
		{
			ShardDdlShard *copy = &table->shards[table->nshards++];

			*copy = table->shards[i];
			copy->serverid = table->shards[i].replicas[j];
			copy->node = GetForeignServer(copy->serverid)->servername;
			copy->nreplicas = 0;
		}
	}
}

static ShardDdlTable *
make_table(Oid relid, int maxshards, bool is_reference)
{
	ShardDdlTable *table = palloc0(sizeof(ShardDdlTable));

	table->relid = relid;
	table->name = get_rel_name(relid);
	table->is_reference = is_reference;
	table->shards = palloc0(sizeof(ShardDdlShard) * maxshards);
	return table;
}

ShardDdlTable *
shard_ddl_table_reference(Oid relid)
{
	List	   *nodes = shard_reference_nodes();
	ShardDdlTable *table;

	if (nodes == NIL)
		return NULL;
	shard_node_position_note_references();
	table = make_table(relid, list_length(nodes), true);
	foreach_oid(serverid, nodes)
		fill_shard(&table->shards[table->nshards++], relid, serverid);
	return table;
}

ShardDdlTable *
shard_ddl_table_by_itself(Oid relid)
{
	ShardDdlTable *table = make_table(relid, 1, false);

	table->nshards = 1;
	if (!shard_guc_enable_ddl_propagation || !shard_ddl_table_shard(relid, &table->shards[0]))
		return NULL;
	add_replicas(table);
	return table;
}

ShardDdlTable *
shard_ddl_table_remote(Oid relid)
{
	List	   *children = find_all_inheritors(relid, NoLock, NULL);
	ShardDdlTable *table = make_table(relid, list_length(children), false);

	foreach_oid(childid, children)
	{
		ShardDdlShard *shard = &table->shards[table->nshards];

		if (get_rel_relkind(childid) != RELKIND_FOREIGN_TABLE || !shard_option_is_ours(childid))
			continue;
		fill_shard(shard, childid, GetForeignServerIdByRelId(childid));
		shard->relation = shard_map_get(childid)->shards[0].relation;
		table->nshards++;
	}
	return table->nshards > 0 ? table : NULL;
}

bool
shard_ddl_table_maybe(Oid relid)
{
	char		relkind;

	if (!shard_guc_enable_ddl_propagation || relid < FirstNormalObjectId ||
		!OidIsValid(shard_option_cluster_server()))
		return false;
	relkind = get_rel_relkind(relid);
	return relkind == RELKIND_PARTITIONED_TABLE || relkind == RELKIND_RELATION ||
		(relkind == RELKIND_FOREIGN_TABLE && get_rel_relispartition(relid));
}

ShardDdlTable *
shard_ddl_table(Oid relid)
{
	ShardDdlTable *table;
	List	   *children;
	Oid			here = InvalidOid;

	if (!shard_ddl_table_maybe(relid))
		return NULL;
	switch (get_rel_relkind(relid))
	{
		case RELKIND_RELATION:
			return shard_reference_is(relid) ? shard_ddl_table_reference(relid) : NULL;
		case RELKIND_FOREIGN_TABLE:
			return shard_ddl_table_by_itself(relid);
		default:
			break;
	}

	children = find_all_inheritors(relid, NoLock, NULL);
	table = make_table(relid, list_length(children), false);
	foreach_oid(childid, children)
	{
		ShardSide	side = side_of(childid, &table->shards[table->nshards]);

		if (side == SIDE_HERE)
			here = childid;
		else if (side == SIDE_BOTH)
			table->nshards++;
	}
	if (table->nshards == 0)
		return NULL;
	if (OidIsValid(here))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change the definition of table \"%s\"", table->name),
				 errdetail("Shard \"%s\" has other names on its node, or its server's option propagate_ddl is off, but other shards follow the table.",
						   get_rel_name(here)),
				 errhint("Set propagate_ddl to off for all of its servers, and change the shards with shardfdw.run_on_shards().")));
	add_replicas(table);
	shard_ddl_table_sort(table);
	note_whole_names(table);
	return table;
}

Oid
shard_ddl_table_named(List *names, int ntail)
{
	List	   *kept = list_truncate(list_copy(names), list_length(names) - ntail);

	if (kept == NIL || list_length(kept) > 3)
		return InvalidOid;
	return RangeVarGetRelid(makeRangeVarFromNameList(kept), NoLock, true);
}

ShardDdlTable *
shard_ddl_table_owned(RangeVar *relation, LOCKMODE lockmode)
{
	Oid			relid = RangeVarGetRelid(relation, NoLock, true);

	/* core locks other tables by its own rules */
	if (!shard_ddl_table_maybe(relid))
		return NULL;
	if (get_rel_relkind(relid) == RELKIND_RELATION && !shard_reference_is(relid) &&
		!shard_class_ownercheck(relid, GetUserId()))
		return NULL;

	/* plain tables too: one may become a reference table during the wait for the lock */
	relid = RangeVarGetRelidExtended(relation, lockmode, RVR_MISSING_OK, RangeVarCallbackOwnsRelation, NULL);
	return shard_ddl_table(relid);
}

List *
shard_ddl_table_of_schema(Oid namespace)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;
	List	   *tables = NIL;

	shard_catalog_scan_begin_oid(&scan, RelationRelationId, InvalidOid, Anum_pg_class_relnamespace, namespace);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relkind == RELKIND_PARTITIONED_TABLE || form->relkind == RELKIND_RELATION ||
			form->relkind == RELKIND_FOREIGN_TABLE)
			tables = lappend_oid(tables, form->oid);
	}
	shard_catalog_scan_end(&scan);
	return tables;
}

Oid
shard_ddl_lock_found(Oid (*find) (void *arg), void *arg, void (*lock) (Oid oid, LOCKMODE lockmode),
					 void (*unlock) (Oid oid, LOCKMODE lockmode), LOCKMODE lockmode)
{
	Oid			oid = find(arg);

	while (OidIsValid(oid))
	{
		Oid			again;

		lock(oid, lockmode);
		again = find(arg);
		if (again == oid)
			break;
		unlock(oid, lockmode);
		oid = again;
	}
	return oid;
}

Oid
shard_ddl_table_lock(Oid (*find) (void *arg), void *arg, LOCKMODE lockmode)
{
	return shard_ddl_lock_found(find, arg, LockRelationOid, UnlockRelationOid, lockmode);
}

Oid
shard_ddl_table_of_index(void *index)
{
	Oid			indexid = RangeVarGetRelid((RangeVar *) index, NoLock, true);
	Oid			relid = OidIsValid(indexid) ? IndexGetRelation(indexid, true) : InvalidOid;

	/* core refuses users who do not own it */
	return shard_ddl_table_maybe(relid) && shard_class_ownercheck(relid, GetUserId()) ? relid : InvalidOid;
}

void
shard_ddl_table_check_unused(const ShardDdlTable *table, const char *command)
{
	for (int i = -1; i < table->nshards; i++)
	{
		Relation	rel;

		if (i >= 0 && table->is_reference)
			break;
		rel = relation_open(i < 0 ? table->relid : table->shards[i].relid, AccessShareLock);
		CheckTableNotInUse(rel, command);
		relation_close(rel, NoLock);
	}
}

void
shard_ddl_table_check_parent_unused(Oid relid, const char *command)
{
	if (!shard_ddl_table_maybe(relid) || get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return;
	/* the query may name any level */
	for (Oid parent = relid; get_rel_relispartition(parent);)
	{
		Relation	rel;

		parent = get_partition_parent(parent, true);
		rel = relation_open(parent, AccessShareLock);
		/* this function holds one reference */
		if (rel->rd_refcnt > 1)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot %s \"%s\" because it is being used by active queries in this session",
							command, get_rel_name(relid))));
		relation_close(rel, NoLock);
	}
}

List *
shard_ddl_table_servers(const ShardDdlTable *table)
{
	List	   *servers = NIL;

	for (int i = 0; i < table->nshards; i++)
		servers = list_append_unique_oid(servers, table->shards[i].serverid);
	return servers;
}

char *
shard_ddl_table_object(const ShardDdlTable *table, const ShardDdlShard *shard, const char *object)
{
	if (table->is_reference)
		return pstrdup(object);
	return shard_ddl_name(object, shard->name, shard->whole_name);
}

void
shard_ddl_table_refuse(const ShardDdlTable *table, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported for %s table \"%s\"", what,
					table->is_reference ? "reference" : "sharded", table->name),
			 hint ? errhint("%s", hint) : 0));
}
