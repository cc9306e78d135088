/*
 * ddl_drop.c
 *	  Drops objects on the nodes when a statement drops them on the coordinator.
 *
 * Core calls object_access_hook for each object before it drops it.  This works for all statements (DROP TABLE, DROP
 * SCHEMA ... CASCADE, DROP OWNED, DROP TYPE ... CASCADE):
 *
 *	 object_access_hook --> Collector --statement done--> commands for the nodes
 *
 * A shard is dropped on its node if its parent is dropped, or if a statement drops all objects of a schema or role.
 * DROP FOREIGN TABLE of a shard leaves its table on the node, as DETACH PARTITION does.  A statement that drops the
 * server leaves the table, too.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/moving.h"
#include "catalog/objectaccess.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/reference.h"
#include "catalog_scan.h"
#include "compat.h"
#include "replica/replica.h"
#include "replica/replica_sql.h"
#include "ddl/alter/ddl_redirect.h"
#include "ddl/ddl_extension.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_late.h"
#include "ddl/ddl_send.h"
#include "ddl/statement/ddl_drop.h"
#include "ddl/statement/ddl_statement.h"
#include "guc.h"
#include "miscadmin.h"
#include "node_position.h"
#include "own_schema.h"
#include "own_sql.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* A dropped foreign table. */
typedef struct DroppedShard
{
	ShardDdlShard shard;
	Oid			parent;
} DroppedShard;

/* A dropped part of a table. */
typedef struct DroppedPart
{
	ObjectType	kind;			/* OBJECT_INDEX, OBJECT_TABCONSTRAINT, OBJECT_STATISTIC_EXT, OBJECT_COLUMN */
	const char *name;
	ShardDdlTable *table;
	ShardDdlIndex *index;		/* of OBJECT_INDEX, or of a constraint that has an index */
} DroppedPart;

typedef struct Collector
{
	MemoryContext cxt;
	bool		cascade;
	bool		empties;		/* drops all objects of a schema or role: also drop shards on nodes without their parents */
	List	   *shards;			/* of DroppedShard */
	List	   *references;		/* OIDs of reference tables, which lose that property when their triggers are dropped */
	List	   *replicas;			/* of ShardDdlTable: dropped reference tables */
	List	   *tables;			/* OIDs of dropped tables */
	List	   *parts;			/* of DroppedPart */
	List	   *checked;		/* OIDs of roles whose foreign tables were checked before */
	bool		extension;		/* this extension is dropped */
	bool		is_late;		/* the statement did not go through the ProcessUtility hook */
} Collector;

static object_access_hook_type prev_object_access = NULL;

/*
 * Collecting
 */

static void
add_part(Collector *collector, Oid relid, ObjectType kind, const char *name, Oid index)
{
	/* partitions lose what their parent loses, so collect only the parent's */
	ShardDdlTable *table = get_rel_relispartition(relid) ? NULL : shard_ddl_table(relid);
	DroppedPart *part;

	if (table == NULL || name == NULL)
		return;
	part = palloc0(sizeof(DroppedPart));
	part->kind = kind;
	part->name = pstrdup(name);
	part->table = table;
	if (OidIsValid(index))
		part->index = shard_ddl_index_describe(index);
	collector->parts = lappend(collector->parts, part);
}

static void
collect_relation(Collector *collector, Oid relid)
{
	char		relkind = get_rel_relkind(relid);
	DroppedShard *dropped;
	Oid			constraint;

	switch (relkind)
	{
		case RELKIND_FOREIGN_TABLE:
			if (!get_rel_relispartition(relid))
				return;
			dropped = palloc0(sizeof(DroppedShard));
			if (!shard_ddl_table_shard(relid, &dropped->shard))
				return;
			/* core checks the shard, but a scan keeps only its parent open */
			shard_ddl_table_check_parent_unused(relid, "DROP TABLE");
			dropped->parent = get_partition_parent(relid, true);
			collector->shards = lappend(collector->shards, dropped);
			return;
		case RELKIND_PARTITIONED_TABLE:
			collector->tables = lappend_oid(collector->tables, relid);
			return;
		case RELKIND_RELATION:
			if (list_member_oid(collector->references, relid) || shard_reference_is(relid))
			{
				ShardDdlTable *table = shard_ddl_table_reference(relid);

				if (table != NULL)
					collector->replicas = lappend(collector->replicas, table);
				collector->tables = lappend_oid(collector->tables, relid);
			}
			return;
		case RELKIND_INDEX:
		case RELKIND_PARTITIONED_INDEX:
			constraint = get_index_constraint(relid);
			add_part(collector, IndexGetRelation(relid, false), OidIsValid(constraint) ? OBJECT_TABCONSTRAINT : OBJECT_INDEX,
					 get_rel_name(relid), relid);
			return;
		default:
			return;
	}
}

static void
collect_trigger(Collector *collector, Oid trigger)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin_oid(&scan, TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

		if (shard_reference_is_trigger(form->tgfoid))
			collector->references = list_append_unique_oid(collector->references, form->tgrelid);
	}
	shard_catalog_scan_end(&scan);
}

static void
collect_constraint(Collector *collector, Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

		if (form->contype == CONSTRAINT_CHECK && OidIsValid(form->conrelid))
			add_part(collector, form->conrelid, OBJECT_TABCONSTRAINT, NameStr(form->conname), InvalidOid);
		ReleaseSysCache(tuple);
	}
}

static void
collect_statistics(Collector *collector, Oid statistics)
{
	HeapTuple	tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(statistics));

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_statistic_ext form = (Form_pg_statistic_ext) GETSTRUCT(tuple);

		add_part(collector, form->stxrelid, OBJECT_STATISTIC_EXT, NameStr(form->stxname), InvalidOid);
		ReleaseSysCache(tuple);
	}
}

static void
collect_extension(Collector *collector)
{
	/* the extension's functions, which would have to clean up, are dropped with it */
	if (collector->is_late)
		shard_ddl_late_refuse("It would have dropped the extension, and left the library among those that sessions of this database load.");
	collector->extension = true;
}

static void drop_on_nodes(void *arg);

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subid, void *arg)
{
	Collector  *collector = access == OAT_DROP ? shard_ddl_rest_arg(drop_on_nodes) : NULL;

	if (access == OAT_DROP && class == ForeignServerRelationId)
	{
		shard_ddl_replica_check_server(object, "drop");
		if (shard_option_is_our_server(object))
			shard_moving_check_server(object);
	}
	if (collector != NULL && shard_guc_enable_ddl_propagation)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(collector->cxt);

		if (class == RelationRelationId && subid == 0)
			collect_relation(collector, object);
		else if (class == RelationRelationId)
			add_part(collector, object, OBJECT_COLUMN, get_attname(object, subid, true), InvalidOid);
		else if (class == TriggerRelationId)
			collect_trigger(collector, object);
		else if (class == ConstraintRelationId)
			collect_constraint(collector, object);
		else if (class == StatisticExtRelationId)
			collect_statistics(collector, object);
		else if (class == ExtensionRelationId && shard_ddl_extension_is_ours(object))
			collect_extension(collector);
		MemoryContextSwitchTo(oldcxt);
	}
	if (prev_object_access)
		prev_object_access(access, class, object, subid, arg);
}

/*
 * Dropping on the nodes
 */

/* Adds a shard and its replicas. */
static void
add_placements(ShardDdlTable *all, const ShardDdlShard *shard)
{
	all->shards[all->nshards++] = *shard;
	for (int i = 0; i < shard->nreplicas; i++)
	{
		ShardDdlShard *copy = &all->shards[all->nshards++];

		*copy = *shard;
		copy->serverid = shard->replicas[i];
		copy->nreplicas = 0;
	}
}

/* Records that the stale replicas of a shard stay on their nodes, since these nodes are disabled. */
static void
note_left(const ShardDdlShard *shard)
{
	foreach_ptr(char, node, shard->stale)
	{
		const ShardSqlParam params[] = {shard_sql_text(node), shard_sql_text(shard->schema), shard_sql_text(shard->name)};

		(void) shard_own_sql_run("INSERT INTO " SHARD_INTERNAL_SCHEMA ".left_shard VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", lengthof(params), params);
	}
}

/* Is a shard whose parent stays dropped on its node?  Not if its server is dropped too. */
static bool
is_emptied(const Collector *dropped, const DroppedShard *shard)
{
	return dropped->empties && SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(shard->shard.serverid));
}

/* Sends one DROP TABLE per node, since its tables may depend on each other. */
static void
drop_tables(Collector *dropped, const char *cascade)
{
	ShardDdlTable all = {InvalidOid, "", false, 0, NULL};
	int			nmax = list_length(dropped->shards);
	ShardDdlBatch *batch;
	bool	   *done;
	Oid		   *alone = palloc(sizeof(Oid) * Max(nmax, 1));
	int			nalone = 0;

	foreach_ptr(ShardDdlTable, table, dropped->replicas)
		nmax += table->nshards;
	foreach_ptr(DroppedShard, shard, dropped->shards)
		nmax += shard->shard.nreplicas;
	all.shards = palloc0(sizeof(ShardDdlShard) * Max(nmax, 1));
	foreach_ptr(DroppedShard, shard, dropped->shards)
	{
		if (list_member_oid(dropped->checked, shard->shard.owner))
			shard->shard.owner = InvalidOid;
		if (list_member_oid(dropped->tables, shard->parent) || is_emptied(dropped, shard))
		{
			add_placements(&all, &shard->shard);
			note_left(&shard->shard);
		}
		else if (shard->shard.is_noted)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot drop shard %s alone because it has replicas", shard->shard.relation)));
		if (!list_member_oid(dropped->tables, shard->parent))
			alone[nalone++] = shard->shard.relid;
	}
	shard_moving_check(alone, nalone);
	if (dropped->replicas != NIL)
		shard_node_position_note_dropped();
	foreach_ptr(ShardDdlTable, table, dropped->replicas)
	{
		for (int i = 0; i < table->nshards; i++)
			all.shards[all.nshards++] = table->shards[i];
	}
	if (all.nshards == 0)
		return;
	shard_ddl_table_sort(&all);

	batch = shard_ddl_batch_create(&all);
	batch->only_names_shards = true;
	done = palloc0(sizeof(bool) * all.nshards);
	for (int i = 0; i < all.nshards; i++)
	{
		StringInfoData names;

		if (done[i])
			continue;
		initStringInfo(&names);
		for (int j = i; j < all.nshards; j++)
			if (!done[j] && all.shards[j].serverid == all.shards[i].serverid)
			{
				appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", all.shards[j].relation);
				done[j] = true;
			}
		/* a table that does not exist is not an error */
		shard_ddl_batch_add(batch, i, "DROP TABLE IF EXISTS %s%s", names.data, cascade);
		for (int j = i; j < all.nshards; j++)
			if (all.shards[j].is_noted && all.shards[j].serverid == all.shards[i].serverid)
			{
				const char *notes = shard_replica_notes(all.shards[j].schema, all.shards[j].name);

				shard_ddl_batch_add(batch, i, "DROP TABLE IF EXISTS %s; DROP FUNCTION IF EXISTS %s()", notes, notes);
			}
	}
	shard_ddl_batch_run(batch);
}

static void
drop_part(DroppedPart *part, const char *cascade)
{
	const ShardDdlTable *table = part->table;
	ShardDdlBatch *batch = shard_ddl_batch_create(table);
	char	  **names = part->index ? shard_ddl_find_index_described(table, part->index, true) :
		part->kind == OBJECT_STATISTIC_EXT ? shard_ddl_find_statistics(table, part->name) : NULL;

	batch->only_names_shards = true;
	/* core checks this for the index of a table, but not of a partitioned table */
	if (part->kind == OBJECT_INDEX)
		shard_ddl_table_check_unused(table, "DROP INDEX");
	for (int i = 0; i < table->nshards; i++)
	{
		const ShardDdlShard *shard = &table->shards[i];
		const char *name = names ? names[i] : part->name;

		if (name == NULL)
			continue;
		switch (part->kind)
		{
			case OBJECT_INDEX:
				shard_ddl_batch_add(batch, i, "DROP INDEX IF EXISTS %s%s",
									quote_qualified_identifier(shard->schema, name), cascade);
				break;
			case OBJECT_STATISTIC_EXT:
				shard_ddl_batch_add(batch, i, "DROP STATISTICS IF EXISTS %s",
									quote_qualified_identifier(shard->schema, name));
				break;
			case OBJECT_COLUMN:
				shard_ddl_batch_add(batch, i, "ALTER TABLE %s DROP COLUMN IF EXISTS %s%s",
									shard->relation, quote_identifier(name), cascade);
				break;
			default:
				shard_ddl_batch_add(batch, i, "ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s%s",
									shard->relation, quote_identifier(name), cascade);
				break;
		}
	}
	shard_ddl_batch_run(batch);
}

static void
drop_on_nodes(void *arg)
{
	Collector  *dropped = arg;
	const char *cascade = dropped->cascade ? " CASCADE" : "";

	foreach_ptr(DroppedPart, part, dropped->parts)
	{
		if (!list_member_oid(dropped->tables, part->table->relid))
			drop_part(part, cascade);
	}
	drop_tables(dropped, cascade);
	if (dropped->extension)
		shard_ddl_extension_forget_library();
}

/* A collector that outlives the function that makes it. */
typedef struct LateDrop
{
	Collector	collector;
	ShardDdlRestEntry rest;
	MemoryContextCallback end;
} LateDrop;

static void
end_late(void *arg)
{
	shard_ddl_rest_end(&((LateDrop *) arg)->rest);
}

/* Collects what is dropped by a statement that core already runs. */
static void
collect_late(const Collector *collector)
{
	/* an error of the statement ends the (sub)transaction and frees the memory */
	MemoryContext cxt = AllocSetContextCreate(CurTransactionContext, "shardfdw late drop", ALLOCSET_DEFAULT_SIZES);
	LateDrop   *late = MemoryContextAllocZero(cxt, sizeof(LateDrop));
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);

	late->collector = *collector;
	late->collector.cxt = cxt;
	late->collector.checked = list_copy(collector->checked);
	late->collector.is_late = true;
	MemoryContextSwitchTo(oldcxt);
	shard_ddl_rest_begin_late(&late->rest, drop_on_nodes, &late->collector, cxt);
	late->end.func = end_late;
	late->end.arg = late;
	MemoryContextRegisterResetCallback(cxt, &late->end);
}

/* checked: OIDs of roles */
static void
run_collected(ShardDdlCall *call, bool cascade, bool empties, List *checked)
{
	Collector	mine = {CurrentMemoryContext, .cascade = cascade, .empties = empties, .checked = checked};

	/* the tables that record changes of shards with replicas are dropped too, and must be empty */
	(void) shard_replica_apply();
	if (call->is_late)
		collect_late(&mine);
	else
		shard_ddl_run_core_then(call, NULL, drop_on_nodes, &mine);
}

bool
shard_ddl_drop_collected(ShardDdlCall *call)
{
	DropOwnedStmt *stmt = castNode(DropOwnedStmt, call->pstmt->utilityStmt);
	List	   *checked = NIL;

	foreach_node(RoleSpec, role, stmt->roles)
	{
		Oid			roleid = get_rolespec_oid(role, true);

		if (OidIsValid(roleid) && shard_ddl_redirect_check_owned(roleid))
			checked = lappend_oid(checked, roleid);
	}
	run_collected(call, stmt->behavior == DROP_CASCADE, true, checked);
	return true;
}

bool
shard_ddl_drop(ShardDdlCall *call)
{
	DropStmt   *stmt = castNode(DropStmt, call->pstmt->utilityStmt);

	if (stmt->concurrent)
		return shard_ddl_drop_index_concurrently(call);
	run_collected(call, stmt->behavior == DROP_CASCADE, stmt->removeType == OBJECT_SCHEMA, NIL);
	return true;
}

void
shard_ddl_drop_init(void)
{
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
}
