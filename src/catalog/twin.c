/*
 * twin.c
 *	  Finds the partial twin of an aggregate.
 *
 * A twin takes the same arguments, and has the same transition function, state
 * and initial value as its aggregate.  Its final function is the serialization
 * function when the state is internal, else it has none: so its result is what
 * Partial Aggregate would hand to Finalize Aggregate.  SQL functions make twins
 * here and on nodes (80_twin.sql).
 *
 *	 built-in aggregates	shardfdw.partial_<transition function>: aggregates that
 *							share a state share the twin
 *
 * Nothing rests on the name alone: the definitions are compared whenever a twin
 * is looked up, as system caches hold both.  Which nodes have it follows from
 * options of their servers, see ShardNode.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/twin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define TWIN_SCHEMA "shardfdw"
#define TWIN_PREFIX "partial_"

/* In lacking_twins: every twin of an internal state. */
#define LACKS_INTERNAL "internal"

/* Has twin the state of agg, and does it return just that? */
static bool
is_twin(HeapTuple agg_tuple, HeapTuple twin_tuple)
{
	Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(agg_tuple);
	Form_pg_aggregate twin = (Form_pg_aggregate) GETSTRUCT(twin_tuple);
	Datum		agg_init;
	Datum		twin_init;
	bool		agg_null;
	bool		twin_null;

	if (twin->aggkind != AGGKIND_NORMAL || twin->aggtransfn != agg->aggtransfn ||
		twin->aggtranstype != agg->aggtranstype ||
		twin->aggfinalfn != (agg->aggtranstype == INTERNALOID ? agg->aggserialfn : InvalidOid))
		return false;

	agg_init = SysCacheGetAttr(AGGFNOID, agg_tuple, Anum_pg_aggregate_agginitval, &agg_null);
	twin_init = SysCacheGetAttr(AGGFNOID, twin_tuple, Anum_pg_aggregate_agginitval, &twin_null);
	if (agg_null || twin_null)
		return agg_null == twin_null;
	return strcmp(TextDatumGetCString(agg_init), TextDatumGetCString(twin_init)) == 0;
}

/* Schema and name that the twin of an aggregate has; false when it can have none. */
static bool
twin_place(Form_pg_proc proc, Form_pg_aggregate agg, Oid *nspoid, char *name)
{
	char	   *transfn;

	if (proc->oid >= FirstGenbkiObjectId)
		return false;
	*nspoid = get_namespace_oid(TWIN_SCHEMA, true);
	transfn = get_func_name(agg->aggtransfn);
	if (!OidIsValid(*nspoid) || transfn == NULL)
		return false;
	return snprintf(name, NAMEDATALEN, TWIN_PREFIX "%s", transfn) < NAMEDATALEN;
}

/* The twin of an aggregate here. */
static Oid
find_twin(HeapTuple agg_tuple)
{
	Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(agg_tuple);
	HeapTuple	proc_tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(agg->aggfnoid));
	Form_pg_proc proc;
	HeapTuple	twin_tuple;
	Oid			nspoid;
	char		name[NAMEDATALEN];
	Oid			twin = InvalidOid;

	if (!HeapTupleIsValid(proc_tuple))
		elog(ERROR, "cache lookup failed for function %u", agg->aggfnoid);
	proc = (Form_pg_proc) GETSTRUCT(proc_tuple);
	if (twin_place(proc, agg, &nspoid, name))
		twin = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
							   PointerGetDatum(&proc->proargtypes), ObjectIdGetDatum(nspoid));
	ReleaseSysCache(proc_tuple);
	if (!OidIsValid(twin))
		return InvalidOid;

	twin_tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(twin));
	if (!HeapTupleIsValid(twin_tuple))
		return InvalidOid;		/* a function of that name */
	if (!is_twin(agg_tuple, twin_tuple))
		twin = InvalidOid;
	ReleaseSysCache(twin_tuple);
	return twin;
}

/* Does the list name the twin, by its qualified name whatever the arguments, or by the kind of its state? */
static bool
is_lacking(List *lacking, Oid twin, bool internal)
{
	char	   *name = NULL;
	ListCell   *lc;

	foreach(lc, lacking)
	{
		if (internal && strcmp(lfirst(lc), LACKS_INTERNAL) == 0)
			return true;
		if (name == NULL)
			name = quote_qualified_identifier(get_namespace_name(get_func_namespace(twin)),
											  get_func_name(twin));
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

Oid
shard_twin_get(const ShardMap *map, Oid aggfnoid)
{
	HeapTuple	tuple;
	Form_pg_aggregate agg;
	Oid			twin = InvalidOid;
	bool		internal;

	for (int i = 0; i < map->nnodes; i++)
	{
		if (!map->nodes[i].has_twins)
			return InvalidOid;
	}

	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggfnoid);
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	internal = agg->aggtranstype == INTERNALOID;
	if (OidIsValid(agg->aggcombinefn) && agg->aggkind == AGGKIND_NORMAL &&
		(!internal || OidIsValid(agg->aggserialfn)))
		twin = find_twin(tuple);
	ReleaseSysCache(tuple);

	for (int i = 0; OidIsValid(twin) && i < map->nnodes; i++)
	{
		if (is_lacking(map->nodes[i].lacking_twins, twin, internal))
			twin = InvalidOid;
	}
	return twin;
}
