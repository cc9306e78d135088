/*
 * partial_aggregate.c
 *	  Finds the partial twin of an aggregate.
 *
 * A twin takes the same arguments, and has the same transition function, state
 * and initial value as its aggregate.  Its final function is the serialization
 * function when the state is internal, else it has none: so its result is what
 * Partial Aggregate would hand to Finalize Aggregate.  SQL functions make twins
 * here and on nodes (80_partial_aggregate.sql).
 *
 *	 built-in aggregates	shardfdw_internal.partial_<transition function>: aggregates that
 *							share a state share the twin
 *	 others					shardfdw_partial_<aggregate> in the aggregate's own
 *							schema, where its owner may create; nodes that have
 *							it have a copy of the aggregate, too
 *	 built-in twins			themselves: where a node is a coordinator of other ones,
 *							it combines what these return
 *
 * Nothing rests on the name alone: the definitions are compared whenever a twin
 * is looked up, as system caches hold both.  Which nodes have it follows from
 * options of their servers, see ShardNode.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/partial_aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "compat.h"
#include "mb/pg_wchar.h"
#include "own_schema.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define TWIN_PREFIX "partial_"

/* of aggregates that are not built in */
#define OTHER_PREFIX "shardfdw_partial_"

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

static bool
is_twin_oid(HeapTuple agg_tuple, Oid twin)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(twin));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;			/* a function of that name */
	result = is_twin(agg_tuple, tuple);
	ReleaseSysCache(tuple);
	return result;
}

bool
shard_twin_matches(Oid aggfnoid, Oid twin)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = is_twin_oid(tuple, twin);
	ReleaseSysCache(tuple);
	return result;
}

char *
shard_twin_name(const char *aggregate)
{
	const int	room = NAMEDATALEN - 1 - strlen(OTHER_PREFIX);
	int			len = strlen(aggregate);

	if (len <= room)
		return psprintf(OTHER_PREFIX "%s", aggregate);

	/* a part of its hash tells apart what begins alike */
	return psprintf(OTHER_PREFIX "%.*s_%08x", pg_mbcliplen(aggregate, len, room - 9), aggregate,
					hash_bytes((const unsigned char *) aggregate, len));
}

/* Schema and name that the twin of an aggregate has; false when it can have none. */
static bool
twin_place(Form_pg_proc proc, Form_pg_aggregate agg, Oid *nspoid, char **name)
{
	char	   *transfn;

	*nspoid = get_namespace_oid(SHARD_INTERNAL_SCHEMA, true);
	if (proc->oid >= FirstGenbkiObjectId)
	{
		/* a built-in twin is asked for by a coordinator above this one: its state is that of its own twin */
		if (proc->pronamespace == *nspoid &&
			strncmp(NameStr(proc->proname), TWIN_PREFIX, strlen(TWIN_PREFIX)) == 0)
		{
			*name = pstrdup(NameStr(proc->proname));
			return true;
		}
		*nspoid = proc->pronamespace;
		*name = shard_twin_name(NameStr(proc->proname));
		return true;
	}
	transfn = get_func_name(agg->aggtransfn);
	if (!OidIsValid(*nspoid) || transfn == NULL)
		return false;
	*name = psprintf(TWIN_PREFIX "%s", transfn);
	return strlen(*name) < NAMEDATALEN;
}

/* The twin of an aggregate here. */
static Oid
find_twin(HeapTuple agg_tuple)
{
	Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(agg_tuple);
	HeapTuple	proc_tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(agg->aggfnoid));
	Form_pg_proc proc;
	Oid			nspoid;
	char	   *name;
	Oid			twin = InvalidOid;

	if (!HeapTupleIsValid(proc_tuple))
		elog(ERROR, "cache lookup failed for function %u", agg->aggfnoid);
	proc = (Form_pg_proc) GETSTRUCT(proc_tuple);
	if (twin_place(proc, agg, &nspoid, &name))
		twin = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
							   PointerGetDatum(&proc->proargtypes), ObjectIdGetDatum(nspoid));
	ReleaseSysCache(proc_tuple);
	return OidIsValid(twin) && is_twin_oid(agg_tuple, twin) ? twin : InvalidOid;
}

/*
 * Does the list name the twin, by its qualified name whatever the arguments, or
 * by the kind of its state?  An internal state of core's own functions is in
 * doubt, too, where the built-in twin of the same state is missing.
 */
static bool
is_lacking(List *lacking, Oid twin, Oid transfn, bool internal)
{
	char	   *name;
	char	   *builtin;
	ListCell   *lc;

	if (lacking == NIL)
		return false;
	name = quote_qualified_identifier(get_namespace_name(get_func_namespace(twin)),
									  get_func_name(twin));
	builtin = quote_qualified_identifier(SHARD_INTERNAL_SCHEMA, psprintf(TWIN_PREFIX "%s", get_func_name(transfn)));
	foreach(lc, lacking)
	{
		if (strcmp(lfirst(lc), name) == 0 ||
			(internal && (strcmp(lfirst(lc), LACKS_INTERNAL) == 0 ||
						  strcmp(lfirst(lc), builtin) == 0)))
			return true;
	}
	return false;
}

/*
 * The twin of an aggregate here; *transfn and *internal tell of its state.
 * InvalidOid when there is none.
 */
static Oid
get_local_twin(Oid aggfnoid, Oid *transfn, bool *internal)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	Form_pg_aggregate agg;
	Oid			twin = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggfnoid);
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	*transfn = agg->aggtransfn;
	*internal = agg->aggtranstype == INTERNALOID;
	if (OidIsValid(agg->aggcombinefn) && agg->aggkind == AGGKIND_NORMAL &&
		(!*internal || OidIsValid(agg->aggserialfn)))
		twin = find_twin(tuple);
	ReleaseSysCache(tuple);
	return twin;
}

Oid
shard_twin_local(Oid aggfnoid)
{
	Oid			transfn;
	bool		internal;

	return get_local_twin(aggfnoid, &transfn, &internal);
}

Oid
shard_twin_get(const ShardMap *map, Oid aggfnoid)
{
	Oid			twin;
	Oid			transfn;
	bool		internal;

	for (int i = 0; i < map->nnodes; i++)
	{
		if (!map->nodes[i].has_twins)
			return InvalidOid;
	}
	twin = get_local_twin(aggfnoid, &transfn, &internal);
	for (int i = 0; OidIsValid(twin) && i < map->nnodes; i++)
	{
		if (is_lacking(map->nodes[i].lacking_twins, twin, transfn, internal))
			twin = InvalidOid;
	}
	return twin;
}

/* ------------------------------------------------------------------------
 * All nodes
 * ------------------------------------------------------------------------ */

static bool all_nodes_valid = false;
static bool all_nodes_have_twins;	/* there are nodes, and each has twins */
static List *all_nodes_lacking; /* of char *, in CacheMemoryContext: what any of them lacks */

static void
invalidate_all_nodes(Datum arg, SysCacheIdentifier cacheid, uint32 hashvalue)
{
	all_nodes_valid = false;
}

/* Reads the options of all servers of ours. */
static void
read_all_nodes(void)
{
	Relation	rel = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	Oid			cluster = shard_option_cluster_server();
	bool		have_twins = true;
	List	   *lacking = NIL;
	int			nnodes = 0;
	HeapTuple	tuple;
	MemoryContext oldcxt;
	ListCell   *lc;

	/* look-ups below can invalidate it again */
	all_nodes_valid = true;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;

		if (serverid == cluster || !shard_option_is_our_server(serverid))
			continue;
		nnodes++;
		have_twins = have_twins && shard_option_server_bool(serverid, "partial_twins", false);
		lacking = list_concat(lacking, shard_option_server_list(serverid, "lacking_twins"));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	list_free_deep(all_nodes_lacking);
	all_nodes_lacking = NIL;
	all_nodes_have_twins = nnodes > 0 && have_twins;
	oldcxt = MemoryContextSwitchTo(CacheMemoryContext);
	foreach(lc, lacking)
		all_nodes_lacking = lappend(all_nodes_lacking, pstrdup(lfirst(lc)));
	MemoryContextSwitchTo(oldcxt);
}

/* Has nobody been denied the right to execute it? */
static bool
is_public(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	bool		isnull = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	(void) SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proacl, &isnull);
	ReleaseSysCache(tuple);
	return isnull;
}

bool
shard_twin_everywhere(Oid aggfnoid)
{
	Oid			transfn;
	bool		internal;
	Oid			twin;

	if (!all_nodes_valid)
		read_all_nodes();
	if (!all_nodes_have_twins)
		return false;
	twin = get_local_twin(aggfnoid, &transfn, &internal);
	return OidIsValid(twin) && !is_lacking(all_nodes_lacking, twin, transfn, internal) &&
		is_public(aggfnoid);
}

void
shard_twin_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, invalidate_all_nodes, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, invalidate_all_nodes, (Datum) 0);
}
