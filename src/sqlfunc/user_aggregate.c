/*
 * user_aggregate.c
 *	  C functions for the SQL functions that distribute user-defined aggregates: names of partial aggregates, and
 *	  their dependencies.
 *
 * A partial aggregate depends on its aggregate (DEPENDENCY_AUTO).  So it is dropped with the aggregate, and can be
 * found under any name.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/partial_aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_proc.h"
#include "catalog_scan.h"
#include "compat.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

PG_FUNCTION_INFO_V1(shardfdw_partial_aggregate_name);
PG_FUNCTION_INFO_V1(shardfdw_attach_partial_aggregate);
PG_FUNCTION_INFO_V1(shardfdw_copy_aggregate);
PG_FUNCTION_INFO_V1(shardfdw_undistribute_aggregate);

/* partial_aggregate_name(aggregate name) -> name */
Datum
shardfdw_partial_aggregate_name(PG_FUNCTION_ARGS)
{
	Name		result = palloc0(NAMEDATALEN);

	namestrcpy(result, shard_partial_aggregate_name(NameStr(*PG_GETARG_NAME(0))));
	PG_RETURN_NAME(result);
}

/* The owner of an aggregate, or InvalidOid if it does not exist. */
static Oid
aggregate_owner(Oid aggfnoid)
{
	return DatumGetObjectId(shard_catalog_value(PROCOID, aggfnoid, Anum_pg_proc_proowner));
}

/*
 * attach_partial_aggregate(aggregate regprocedure, partial_aggregate regprocedure) -> void
 *
 * Makes the partial aggregate depend on its aggregate, so that both are dropped together.  Replaces the dependency
 * that earlier calls have recorded.  Both must have one owner: nodes get the functions of an aggregate that has a
 * partial aggregate, and a role must not decide this for the aggregate of another role.
 */
Datum
shardfdw_attach_partial_aggregate(PG_FUNCTION_ARGS)
{
	ObjectAddress aggregate = {ProcedureRelationId, PG_GETARG_OID(0), 0};
	ObjectAddress partial = {ProcedureRelationId, PG_GETARG_OID(1), 0};

	if (!shard_function_ownercheck(aggregate.objectId, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_AGGREGATE, get_func_name(aggregate.objectId));
	if (!shard_function_ownercheck(partial.objectId, GetUserId()) ||
		aggregate_owner(partial.objectId) != aggregate_owner(aggregate.objectId))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_AGGREGATE, get_func_name(partial.objectId));
	if (!shard_partial_aggregate_matches(aggregate.objectId, partial.objectId))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is not the partial aggregate of %s",
						format_procedure(partial.objectId), format_procedure(aggregate.objectId))));
	(void) deleteDependencyRecordsForSpecific(ProcedureRelationId, partial.objectId, DEPENDENCY_AUTO,
											  ProcedureRelationId, aggregate.objectId);
	recordDependencyOn(&partial, &aggregate, DEPENDENCY_AUTO);
	PG_RETURN_VOID();
}

/*
 * copy_aggregate(aggregate regprocedure, nodes name[], mode text) -> text
 *
 * Copies an aggregate with the rights and the user mappings of its owner.  A superuser must not make a function of
 * another role on a node: there the function would belong to a superuser, and other roles trust such functions.
 */
Datum
shardfdw_copy_aggregate(PG_FUNCTION_ARGS)
{
	Oid			owner = aggregate_owner(PG_GETARG_OID(0));
	MemoryContext cxt = CurrentMemoryContext;
	ShardOwnSql own;
	ShardSqlParam params[] = {
		{REGPROCEDUREOID, PG_GETARG_DATUM(0), false},
		{NAMEARRAYOID, PG_GETARG_DATUM(1), false},
		{TEXTOID, PG_GETARG_DATUM(2), false}
	};
	Datum		result;
	bool		isnull;

	if (!OidIsValid(owner) || !has_privs_of_role(GetUserId(), owner))
		PG_RETURN_TEXT_P(cstring_to_text("it belongs to another role"));

	shard_own_sql_begin(&own, SHARD_OWN_SQL_CALLER, InvalidSnapshot);
	if (!(superuser() && superuser_arg(owner)))
		SetUserIdAndSecContext(owner, own.sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	(void) shard_own_sql_execute("SELECT shardfdw_internal.copy_aggregate_as_owner($1, $2, $3)", SPI_OK_SELECT,
								 lengthof(params), params);
	result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (!isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		result = PointerGetDatum(PG_DETOAST_DATUM_COPY(result));
		MemoryContextSwitchTo(old);
	}
	shard_own_sql_end(&own);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

/* May the user redefine the function, or move it to another schema? */
static bool
owns_function(Oid funcid)
{
	return OidIsValid(funcid) &&
		(shard_function_ownercheck(funcid, GetUserId()) ||
		 shard_namespace_ownercheck(get_func_namespace(funcid), GetUserId()));
}

/* The same for the aggregate, or one of its functions. */
static bool
owns_aggregate(Oid aggfnoid)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	Form_pg_aggregate agg;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	result = owns_function(aggfnoid) || owns_function(agg->aggtransfn) ||
		owns_function(agg->aggfinalfn) || owns_function(agg->aggcombinefn) ||
		owns_function(agg->aggserialfn) || owns_function(agg->aggdeserialfn);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * undistribute_aggregate(aggregate regprocedure) -> integer
 *
 * Drops the partial aggregates of an aggregate, independent of their owners: they belong to a definition that the
 * user has changed.
 */
Datum
shardfdw_undistribute_aggregate(PG_FUNCTION_ARGS)
{
	Oid			aggfnoid = PG_GETARG_OID(0);
	ObjectAddresses *partials = new_object_addresses();
	int			npartials = 0;
	ScanKeyData keys[2];
	ShardCatalogScan scan;
	HeapTuple	tuple;

	if (!SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(aggfnoid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", aggfnoid)));
	if (!SearchSysCacheExists1(AGGFNOID, ObjectIdGetDatum(aggfnoid)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not an aggregate", format_procedure(aggfnoid))));
	if (!owns_aggregate(aggfnoid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_AGGREGATE, get_func_name(aggfnoid));

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ProcedureRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(aggfnoid));
	shard_catalog_scan_begin_keys(&scan, DependRelationId, DependReferenceIndexId, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);

		if (depend->deptype == DEPENDENCY_AUTO && depend->classid == ProcedureRelationId &&
			SearchSysCacheExists1(AGGFNOID, ObjectIdGetDatum(depend->objid)))
		{
			ObjectAddress partial = {ProcedureRelationId, depend->objid, 0};

			add_exact_object_address(&partial, partials);
			npartials++;
		}
	}
	shard_catalog_scan_end(&scan);

	performMultipleDeletions(partials, DROP_RESTRICT, 0);
	free_object_addresses(partials);
	CommandCounterIncrement();
	PG_RETURN_INT32(npartials);
}
