/*
 * marker.c
 *	  Adds foreign partitions to a table that has unique keys.
 *
 * Core has no unique index over foreign partitions.  A parent can still have a separate unique index (ON ONLY),
 * called a marker here.  The marker is not valid, so core does not use it.  But clients see the keys, ON CONFLICT ON
 * CONSTRAINT finds its columns, and GROUP BY on the primary key works.  The indexes of the shards enforce uniqueness.
 *
 *	  CREATE FOREIGN TABLE ... PARTITION OF parent
 *	  ALTER TABLE parent ATTACH PARTITION foreign table, or one that has such partitions
 *		-> markers hidden (indislive = false) -> core -> markers shown
 *		-> the keys of all levels below (marker_level.c)
 *
 * Core refuses both commands for a parent that has a unique index.  Dropping and recreating the markers would also
 * drop comments, and views that group by the key.  So indislive of the markers is cleared, which hides them from
 * core.  Other sessions never see that, since the flag is set again in the same transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog_scan.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "ddl/marker.h"
#include "ddl/marker_level.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

/* Changes indislive in one row of pg_index.  Does nothing if an event trigger has dropped the index. */
static void
set_marker(Relation catalog, Oid indexid, bool live)
{
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index form;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_index) GETSTRUCT(tuple);
	form->indislive = live;
	form->indisvalid = false;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
}

/* Marks the parent indexes of an index, at all levels, as not valid, since an index below them is not valid. */
static void
set_upper_markers(Relation catalog, Oid indexid)
{
	List	   *upper = get_rel_relispartition(indexid) ? get_partition_ancestors(indexid) : NIL;

	foreach_oid(upperid, upper)
	{
		set_marker(catalog, upperid, true);
		CacheInvalidateRelcacheByRelid(IndexGetRelation(upperid, false));
	}
}

static void
set_markers(Oid parent, List *markers, bool live)
{
	Relation	catalog;

	if (markers == NIL)
		return;
	catalog = table_open(IndexRelationId, RowExclusiveLock);
	foreach_oid(marker, markers)
	{
		set_marker(catalog, marker, live);
		if (live)
			set_upper_markers(catalog, marker);
	}
	table_close(catalog, RowExclusiveLock);
	/* the relation cache keeps the list of indexes with the table */
	CacheInvalidateRelcacheByRelid(parent);
	CommandCounterIncrement();
}

/* Does a foreign key reference the table?  A foreign key needs a real index. */
static bool
is_referenced(Oid parent)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;
	bool		found = false;

	/* a sequential scan, since confrelid has no index; new shards of tables with unique keys are rare */
	shard_catalog_scan_begin_oid(&scan, ConstraintRelationId, InvalidOid, Anum_pg_constraint_confrelid, parent);
	while (!found && HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
		found = ((Form_pg_constraint) GETSTRUCT(tuple))->contype == CONSTRAINT_FOREIGN;
	shard_catalog_scan_end(&scan);
	return found;
}

/* The same for a table or one of its partition ancestors. */
static bool
is_referenced_above(Oid parent)
{
	List	   *upper = get_rel_relispartition(parent) ? get_partition_ancestors(parent) : NIL;

	foreach_oid(upperid, upper)
		if (is_referenced(upperid))
			return true;
	return is_referenced(parent);
}

/*
 * Hides the markers of a partitioned table from core.  The caller's lock on the table keeps other sessions from
 * seeing the table without markers.  A real index becomes a marker, and its local partitions keep their indexes.
 * Returns the list of indexes, or NIL if there are none or a foreign key needs one of them.
 */
static List *
hide_markers(Oid parent)
{
	Relation	rel = table_open(parent, NoLock);
	List	   *indexes = RelationGetIndexList(rel);
	List	   *markers = NIL;

	foreach_oid(index, indexes)
	{
		if (DatumGetBool(shard_catalog_value(INDEXRELID, index, Anum_pg_index_indisunique)))
			markers = lappend_oid(markers, index);
	}
	table_close(rel, NoLock);

	if (markers == NIL || is_referenced_above(parent))
		return NIL;
	set_markers(parent, markers, false);
	return markers;
}

/* Looks up the parent and locks it in one step, since another table may get the name during the wait for the lock. */
static Oid
lock_parent(RangeVar *parent, LOCKMODE lockmode)
{
	Oid			relid = RangeVarGetRelid(parent, NoLock, true);

	/* core raises the error if it is not a partitioned table */
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return InvalidOid;
	relid = RangeVarGetRelidExtended(parent, lockmode, RVR_MISSING_OK, RangeVarCallbackOwnsRelation, NULL);
	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? relid : InvalidOid;
}

/* Has a table foreign tables of this wrapper (or of other ones) among its partitions, at any level? */
static bool
has_foreign_tables(Oid relid, bool ours)
{
	foreach_oid(child, find_all_inheritors(relid, NoLock, NULL))
	{
		if (get_rel_relkind(child) == RELKIND_FOREIGN_TABLE && shard_option_is_ours(child) == ours)
			return true;
	}
	return false;
}

bool
shard_marker_has_shards(Oid relid)
{
	return has_foreign_tables(relid, true);
}

bool
shard_marker_find_attached(AlterTableStmt *stmt, Oid *parent, Oid *partition)
{
	AlterTableCmd *cmd = linitial_node(AlterTableCmd, stmt->cmds);
	RangeVar   *name;
	char		relkind;

	if (cmd->subtype != AT_AttachPartition)
		return false;
	name = castNode(PartitionCmd, cmd->def)->name;
	*partition = RangeVarGetRelid(name, NoLock, true);
	relkind = OidIsValid(*partition) ? get_rel_relkind(*partition) : '\0';
	if (relkind != RELKIND_FOREIGN_TABLE && relkind != RELKIND_PARTITIONED_TABLE)
		return false;
	*parent = lock_parent(stmt->relation, ShareUpdateExclusiveLock);
	if (!OidIsValid(*parent))
		return false;
	*partition = RangeVarGetRelidExtended(name, AccessExclusiveLock, RVR_MISSING_OK, RangeVarCallbackOwnsRelation, NULL);
	if (!OidIsValid(*partition))
		return false;
	relkind = get_rel_relkind(*partition);
	return relkind == RELKIND_FOREIGN_TABLE ? shard_option_is_ours(*partition) :
		relkind == RELKIND_PARTITIONED_TABLE && shard_marker_has_shards(*partition);
}

static ShardNewPartition
find_new_partition(Node *stmt)
{
	ShardNewPartition added = {InvalidOid};

	if (IsA(stmt, CreateForeignTableStmt))
	{
		CreateForeignTableStmt *create = castNode(CreateForeignTableStmt, stmt);
		ForeignServer *server = GetForeignServerByName(create->servername, true);

		if (create->base.partbound != NULL && server != NULL && shard_option_is_our_server(server->serverid))
			added.parent = lock_parent(linitial_node(RangeVar, create->base.inhRelations), AccessExclusiveLock);
	}
	else if (IsA(stmt, AlterTableStmt))
	{
		ShardNewPartition attached = {InvalidOid};

		/* for foreign tables of other wrappers, keys are core's */
		if (shard_marker_find_attached(castNode(AlterTableStmt, stmt), &attached.parent, &attached.partition) &&
			!has_foreign_tables(attached.partition, false))
			added = attached;
	}
	return added;
}

bool
shard_marker_begin(Node *stmt, ShardNewPartition *added)
{
	*added = find_new_partition(stmt);
	if (OidIsValid(added->parent))
		added->markers = hide_markers(added->parent);
	return added->markers != NIL;
}

void
shard_marker_end(void *arg)
{
	ShardNewPartition *added = arg;

	set_markers(added->parent, added->markers, true);
	if (OidIsValid(added->partition))
		shard_marker_level_partition(added->parent, added->partition);
}
