/*
 * catalog_scan.h
 *	  Reads rows of a system catalog.
 *
 *	 begin, begin_oid or begin_keys; next ...; end
 */
#ifndef SHARDFDW_CATALOG_SCAN_H
#define SHARDFDW_CATALOG_SCAN_H

#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

typedef struct ShardCatalogScan
{
	Relation	rel;
	SysScanDesc scan;
} ShardCatalogScan;

/* Scans the rows that match keys. index InvalidOid: sequential scan. snapshot NULL: what has committed by now. */
static inline void
shard_catalog_scan_begin_keys(ShardCatalogScan *scan, Oid catalog, Oid index, Snapshot snapshot, int nkeys, ScanKeyData *keys)
{
	scan->rel = table_open(catalog, AccessShareLock);
	scan->scan = systable_beginscan(scan->rel, index, OidIsValid(index), snapshot, nkeys, keys);
}

/* Scans the rows in which a column has this OID. */
static inline void
shard_catalog_scan_begin_oid(ShardCatalogScan *scan, Oid catalog, Oid index, AttrNumber column, Oid value)
{
	ScanKeyData key;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value));
	shard_catalog_scan_begin_keys(scan, catalog, index, NULL, 1, &key);
}

/* Scans all rows. */
static inline void
shard_catalog_scan_begin(ShardCatalogScan *scan, Oid catalog)
{
	shard_catalog_scan_begin_keys(scan, catalog, InvalidOid, NULL, 0, NULL);
}

/* Returns the next row, valid until the following call; NULL: no more rows. */
static inline HeapTuple
shard_catalog_scan_next(ShardCatalogScan *scan)
{
	return systable_getnext(scan->scan);
}

static inline void
shard_catalog_scan_end(ShardCatalogScan *scan)
{
	systable_endscan(scan->scan);
	table_close(scan->rel, AccessShareLock);
}

/*
 * Returns the row of an object from a system cache (PROCOID, ...), to be released.  Raises an
 * internal error if it does not exist.
 */
#define shard_catalog_row(cache, oid) shard_catalog_row_of(cache, oid, #cache)

static inline HeapTuple
shard_catalog_row_of(int cache, Oid oid, const char *cache_name)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(oid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for object %u in %s", oid, cache_name);
	return tuple;
}

/*
 * Returns the value of a column, of a type that is passed by value, in the row of an object from a system cache.  0 if
 * there is no such row, or the value is null.
 */
static inline Datum
shard_catalog_value(int cache, Oid oid, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(oid));
	Datum		value = (Datum) 0;
	bool		isnull;

	if (HeapTupleIsValid(tuple))
	{
		value = SysCacheGetAttr(cache, tuple, column, &isnull);
		ReleaseSysCache(tuple);
	}
	return value;
}

#endif
