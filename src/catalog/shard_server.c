/*
 * shard_server.c
 *	  Changes the server of a shard in the catalog, and records who has chosen it.
 *
 * If a user who is not a superuser has chosen the table on the node, the foreign table depends on
 * the extension in pg_depend.  Users cannot remove that.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/shard_server.h"
#include "catalog_scan.h"
#include "commands/extension.h"
#include "flush_commit.h"
#include "miscadmin.h"
#include "own_schema.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

static bool
is_noted(Oid relid)
{
	Oid			extension = get_extension_oid(SHARD_EXTENSION, true);
	ScanKeyData keys[2];
	ShardCatalogScan scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	shard_catalog_scan_begin_keys(&scan, DependRelationId, DependDependerIndexId, NULL, 2, keys);
	while (!found && HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_depend d = (Form_pg_depend) GETSTRUCT(tuple);

		found = d->refclassid == ExtensionRelationId && d->refobjid == extension && d->objsubid == 0;
	}
	shard_catalog_scan_end(&scan);
	return found;
}

void
shard_server_note_chooser(Oid relid)
{
	ObjectAddress table = {RelationRelationId, relid, 0};
	ObjectAddress extension = {ExtensionRelationId, get_extension_oid(SHARD_EXTENSION, false), 0};

	if (superuser())
		(void) deleteDependencyRecordsForClass(RelationRelationId, relid, ExtensionRelationId, DEPENDENCY_NORMAL);
	else if (!is_noted(relid))
		recordDependencyOn(&table, &extension, DEPENDENCY_NORMAL);
}

Oid
shard_server_owner_to_check(Oid relid)
{
	Oid			owner = DatumGetObjectId(shard_catalog_value(RELOID, relid, Anum_pg_class_relowner));

	return OidIsValid(owner) && owner != GetUserId() && !superuser_arg(owner) && is_noted(relid) ? owner : InvalidOid;
}

void
shard_server_set(Oid relid, Oid parent, Oid source, Oid target)
{
	Relation	rel = table_open(ForeignTableRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	/* sessions that see the change write to the other node, which commits by itself */
	shard_flush_commit_force();
	PushActiveSnapshot(GetTransactionSnapshot());
	((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver = target;
	CatalogTupleUpdate(rel, &tuple->t_self, tuple);
	if (changeDependencyFor(RelationRelationId, relid, ForeignServerRelationId, source, target) != 1)
		elog(ERROR, "unexpected dependencies of foreign table %u", relid);
	if (!superuser())
		shard_server_note_chooser(relid);
	PopActiveSnapshot();
	heap_freetuple(tuple);
	table_close(rel, RowExclusiveLock);
	CacheInvalidateRelcacheByRelid(relid);
	CacheInvalidateRelcacheByRelid(parent);
}
