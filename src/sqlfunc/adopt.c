/*
 * adopt.c
 *	  C part of adopt_postgres_fdw() and release_postgres_fdw(): ensures that no transaction uses a wrapper when
 *	  its handler changes.
 *
 * A transaction that has used a foreign table has connections of the old wrapper.  With another handler it would read
 * over a second connection, and miss what it has written.  A transaction that uses a foreign table, or a partitioned
 * table above it, holds a lock on the table until it ends.  So this file locks all of these tables exclusively.
 *
 * Core invalidates cached plans when pg_foreign_data_wrapper changes.  But the relation cache keeps the wrapper's
 * callbacks for each open table, and does not look them up again unless the table changes.  So the relation cache
 * entries of the tables are invalidated.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog_scan.h"
#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "own_schema.h"
#include "remote/pool/pool.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(shardfdw_lock_wrapper);
PG_FUNCTION_INFO_V1(shardfdw_in_remote_transaction);
PG_FUNCTION_INFO_V1(shardfdw_is_alone);

/* The wrapper of a server; InvalidOid if the server has been dropped. */
static Oid
wrapper_of(Oid serverid)
{
	return DatumGetObjectId(shard_catalog_value(FOREIGNSERVEROID, serverid, Anum_pg_foreign_server_srvfdw));
}

/* Adds the foreign tables of a wrapper to *tables, and the tables of which they are partitions to *parents. */
static void
collect_tables(Oid wrapper, List **tables, List **parents)
{
	ShardCatalogScan scan;
	HeapTuple	tuple;

	shard_catalog_scan_begin(&scan, ForeignTableRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (wrapper_of(form->ftserver) == wrapper)
			*tables = lappend_oid(*tables, form->ftrelid);
	}
	shard_catalog_scan_end(&scan);

	for (int i = 0; i < list_length(*tables); i++)
	{
		Oid			relid = list_nth_oid(*tables, i);

		if (get_rel_relispartition(relid))
			*parents = list_concat_unique_oid(*parents, get_partition_ancestors(relid));
	}
}

/* Locks relations in the order of their OIDs, and invalidates their cache entries in all sessions. */
static void
lock_tables(List *relids)
{
	list_sort(relids, list_oid_cmp);
	foreach_oid(relid, relids)
	{
		LockRelationOid(relid, AccessExclusiveLock);
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
			CacheInvalidateRelcacheByRelid(relid);
	}
}

/*
 * SQL function lock_wrapper(wrapper oid) -> void: locks the wrapper's foreign tables, after the partitioned tables
 * above them, until the end of the transaction.
 */
Datum
shardfdw_lock_wrapper(PG_FUNCTION_ARGS)
{
	Oid			wrapper = PG_GETARG_OID(0);
	List	   *locked = NIL;

	/*
	 * other sessions may create foreign tables while this one waits for a lock, so repeat until there are no new ones
	 */
	for (;;)
	{
		List	   *tables = NIL;
		List	   *parents = NIL;

		CHECK_FOR_INTERRUPTS();
		collect_tables(wrapper, &tables, &parents);
		parents = list_difference_oid(parents, locked);
		tables = list_difference_oid(tables, locked);
		if (parents == NIL && tables == NIL)
			break;
		lock_tables(parents);
		lock_tables(tables);
		locked = list_concat(list_concat(locked, parents), tables);
		AcceptInvalidationMessages();
	}
	PG_RETURN_VOID();
}

static void
note_transaction(ShardConn *conn, void *arg)
{
	if (shard_connection_in_xact(conn))
		*(bool *) arg = true;
}

/* SQL function in_remote_transaction() -> boolean: has this transaction an open transaction on some node? */
Datum
shardfdw_in_remote_transaction(PG_FUNCTION_ARGS)
{
	bool		found = false;

	shard_pool_each(note_transaction, &found);
	PG_RETURN_BOOL(found);
}

static bool
is_call_of_extension(const Node *expr)
{
	return expr != NULL && IsA(expr, FuncExpr) &&
		get_func_namespace(((const FuncExpr *) expr)->funcid) == get_namespace_oid(SHARD_SCHEMA, true);
}

/* Does the query only call a function of the extension: SELECT f(...), or SELECT * FROM f(...)? */
static bool
is_single_call(const PlannedStmt *stmt)
{
	const Plan *plan = stmt->planTree;

	if (stmt->commandType != CMD_SELECT || stmt->hasModifyingCTE || stmt->subplans != NIL || plan->qual != NIL || plan->lefttree != NULL)
		return false;
	if (IsA(plan, Result))
		return ((const Result *) plan)->resconstantqual == NULL && list_length(plan->targetlist) == 1 &&
			is_call_of_extension((Node *) linitial_node(TargetEntry, plan->targetlist)->expr);
	if (!IsA(plan, FunctionScan) || list_length(((const FunctionScan *) plan)->functions) != 1)
		return false;
	foreach_node(TargetEntry, entry, plan->targetlist)
		if (!IsA(entry->expr, Var))
			return false;
	return is_call_of_extension(linitial_node(RangeTblFunction, ((const FunctionScan *) plan)->functions)->funcexpr);
}

/*
 * SQL function is_alone() -> boolean: is the call of the extension's function all that the transaction does?  Else its
 * caller may fail later, and must then undo what the function does.
 */
Datum
shardfdw_is_alone(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!IsTransactionBlock() && !IsSubTransaction() && ActivePortal != NULL && list_length(ActivePortal->stmts) == 1 &&
				   is_single_call(linitial_node(PlannedStmt, ActivePortal->stmts)));
}
