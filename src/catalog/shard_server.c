/*
 * shard_server.c
 *	  Changes where the catalog says that a shard is.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/shard_server.h"
#include "flush_commit.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

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
	PopActiveSnapshot();
	heap_freetuple(tuple);
	table_close(rel, RowExclusiveLock);
	CacheInvalidateRelcacheByRelid(relid);
	CacheInvalidateRelcacheByRelid(parent);
}
