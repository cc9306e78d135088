/*
 * schema_age.c
 *	  Checks for CREATE EXTENSION whether other sessions see the privileges of a schema.
 *
 * The script of the extension checks the privileges on a schema that already exists.  If this transaction has changed
 * these privileges, other sessions see the old ones until the transaction commits.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_namespace.h"
#include "catalog_scan.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(shardfdw_schema_age);

/* schema_age(schema oid) -> text: 'new': this transaction has made it, 'changed': it has changed it, 'old': neither */
Datum
shardfdw_schema_age(PG_FUNCTION_ARGS)
{
	ScanKeyData key;
	ShardCatalogScan scan;
	HeapTuple	tuple;
	bool		is_old = false;
	bool		is_written = false;

	ScanKeyInit(&key, Anum_pg_namespace_oid, BTEqualStrategyNumber, F_OIDEQ, PG_GETARG_DATUM(0));
	shard_catalog_scan_begin_keys(&scan, NamespaceRelationId, NamespaceOidIndexId, SnapshotAny, 1, &key);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		bool		by_this = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));

		is_written |= by_this;
		is_old |= !by_this;
	}
	shard_catalog_scan_end(&scan);
	PG_RETURN_TEXT_P(cstring_to_text(!is_old ? "new" : is_written ? "changed" : "old"));
}
