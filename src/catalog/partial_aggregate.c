/*
 * partial_aggregate.c
 *	  Finds the partial aggregate of an aggregate.
 *
 * A partial aggregate has the same arguments as its aggregate, and the same transition function,
 * state and initial value.  If the state is internal, its final function is the serialization
 * function; otherwise it has none.  So its result is what Partial Aggregate would pass to Finalize
 * Aggregate.  SQL functions create it here and on nodes (80_partial_aggregate.sql).
 *
 *	 built-in aggregates	shardfdw_internal.partial_<transition function>: aggregates
 *							with the same state have the same one
 *	 others					shardfdw_partial_<aggregate> in the aggregate's own
 *							schema, if its owner may create there; nodes that have
 *							it have a copy of the aggregate, too
 *	 partial aggregates		themselves: a node that is a coordinator of other nodes
 *	 of built-in ones		combines what these return
 *
 * The name alone is not trusted: each look-up compares the definitions, which are in the system
 * caches.  Options of the servers say which nodes have it, see ShardNode.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/partial_aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "common/hashfn.h"
#include "compat.h"
#include "mb/pg_wchar.h"
#include "own_schema.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define PARTIAL_PREFIX "partial_"

/* for aggregates that are not built in */
#define OTHER_PREFIX "shardfdw_partial_"

/* In missing_partial_aggregates: all partial aggregates with an internal state. */
#define MISSING_INTERNAL "internal"

/* Has partial the same state as agg, and returns it? */
static bool
is_partial(HeapTuple agg_tuple, HeapTuple partial_tuple)
{
	Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(agg_tuple);
	Form_pg_aggregate partial = (Form_pg_aggregate) GETSTRUCT(partial_tuple);
	Datum		agg_init;
	Datum		partial_init;
	bool		agg_null;
	bool		partial_null;

	if (partial->aggkind != AGGKIND_NORMAL || partial->aggtransfn != agg->aggtransfn ||
		partial->aggtranstype != agg->aggtranstype ||
		partial->aggfinalfn != (agg->aggtranstype == INTERNALOID ? agg->aggserialfn : InvalidOid))
		return false;

	agg_init = SysCacheGetAttr(AGGFNOID, agg_tuple, Anum_pg_aggregate_agginitval, &agg_null);
	partial_init = SysCacheGetAttr(AGGFNOID, partial_tuple, Anum_pg_aggregate_agginitval, &partial_null);
	if (agg_null || partial_null)
		return agg_null == partial_null;
	return strcmp(TextDatumGetCString(agg_init), TextDatumGetCString(partial_init)) == 0;
}

static bool
is_partial_oid(HeapTuple agg_tuple, Oid partial)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(partial));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;			/* a function with that name */
	result = is_partial(agg_tuple, tuple);
	ReleaseSysCache(tuple);
	return result;
}

bool
shard_partial_aggregate_matches(Oid aggfnoid, Oid partial)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = is_partial_oid(tuple, partial);
	ReleaseSysCache(tuple);
	return result;
}

char *
shard_partial_aggregate_name(const char *aggregate)
{
	const int	room = NAMEDATALEN - 1 - strlen(OTHER_PREFIX);
	int			len = strlen(aggregate);

	if (len <= room)
		return psprintf(OTHER_PREFIX "%s", aggregate);

	/* the hash distinguishes names with the same beginning */
	return psprintf(OTHER_PREFIX "%.*s_%08x", pg_mbcliplen(aggregate, len, room - 9), aggregate,
					hash_bytes((const unsigned char *) aggregate, len));
}

/* Sets schema and name of an aggregate's partial aggregate.  False if it cannot have one. */
static bool
partial_place(Form_pg_proc proc, Form_pg_aggregate agg, Oid *nspoid, char **name)
{
	char	   *transfn;

	*nspoid = get_namespace_oid(SHARD_INTERNAL_SCHEMA, true);
	if (proc->oid >= FirstGenbkiObjectId)
	{
		/*
		 * a coordinator above this one uses a partial aggregate of a built-in one, whose partial
		 * aggregate is itself
		 */
		if (proc->pronamespace == *nspoid &&
			strncmp(NameStr(proc->proname), PARTIAL_PREFIX, strlen(PARTIAL_PREFIX)) == 0)
		{
			*name = pstrdup(NameStr(proc->proname));
			return true;
		}
		*nspoid = proc->pronamespace;
		*name = shard_partial_aggregate_name(NameStr(proc->proname));
		return true;
	}
	transfn = get_func_name(agg->aggtransfn);
	if (!OidIsValid(*nspoid) || transfn == NULL)
		return false;
	*name = psprintf(PARTIAL_PREFIX "%s", transfn);
	return strlen(*name) < NAMEDATALEN;
}

/* Returns the coordinator's partial aggregate of an aggregate. */
static Oid
find_partial(HeapTuple agg_tuple)
{
	Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(agg_tuple);
	HeapTuple	proc_tuple = shard_catalog_row(PROCOID, agg->aggfnoid);
	Form_pg_proc proc;
	Oid			nspoid;
	char	   *name;
	Oid			partial = InvalidOid;

	proc = (Form_pg_proc) GETSTRUCT(proc_tuple);
	if (partial_place(proc, agg, &nspoid, &name))
		partial = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
							   PointerGetDatum(&proc->proargtypes), ObjectIdGetDatum(nspoid));
	ReleaseSysCache(proc_tuple);
	return OidIsValid(partial) && is_partial_oid(agg_tuple, partial) ? partial : InvalidOid;
}

/*
 * Does the list contain it, by its qualified name (for any arguments) or by the kind of its state?
 * A partial aggregate with an internal state of core's own functions also counts as missing if that
 * of the built-in aggregates with the same state is missing.
 */
static bool
is_missing(List *missing, Oid partial, Oid transfn, bool internal)
{
	char	   *name;
	char	   *builtin;
	ListCell   *lc;

	if (missing == NIL)
		return false;
	name = quote_qualified_identifier(get_namespace_name(get_func_namespace(partial)),
									  get_func_name(partial));
	builtin = quote_qualified_identifier(SHARD_INTERNAL_SCHEMA, psprintf(PARTIAL_PREFIX "%s", get_func_name(transfn)));
	foreach(lc, missing)
	{
		if (strcmp(lfirst(lc), name) == 0 ||
			(internal && (strcmp(lfirst(lc), MISSING_INTERNAL) == 0 ||
						  strcmp(lfirst(lc), builtin) == 0)))
			return true;
	}
	return false;
}

/*
 * Returns the coordinator's partial aggregate of an aggregate, its transition function, and whether
 * its state is internal.  InvalidOid: none.
 */
static Oid
get_local_partial(Oid aggfnoid, Oid *transfn, bool *internal)
{
	HeapTuple	tuple = shard_catalog_row(AGGFNOID, aggfnoid);
	Form_pg_aggregate agg;
	Oid			partial = InvalidOid;

	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	*transfn = agg->aggtransfn;
	*internal = agg->aggtranstype == INTERNALOID;
	if (OidIsValid(agg->aggcombinefn) && agg->aggkind == AGGKIND_NORMAL &&
		(!*internal || OidIsValid(agg->aggserialfn)))
		partial = find_partial(tuple);
	ReleaseSysCache(tuple);
	return partial;
}

Oid
shard_partial_aggregate_local(Oid aggfnoid)
{
	Oid			transfn;
	bool		internal;

	return get_local_partial(aggfnoid, &transfn, &internal);
}

Oid
shard_partial_aggregate_get(const ShardMap *map, Oid aggfnoid)
{
	Oid			partial;
	Oid			transfn;
	bool		internal;

	for (int i = 0; i < map->nnodes; i++)
	{
		if (!map->nodes[i].has_partial_aggregates)
			return InvalidOid;
	}
	partial = get_local_partial(aggfnoid, &transfn, &internal);
	for (int i = 0; OidIsValid(partial) && i < map->nnodes; i++)
	{
		if (is_missing(map->nodes[i].missing_partial_aggregates, partial, transfn, internal))
			partial = InvalidOid;
	}
	return partial;
}

/* ------------------------------------------------------------------------
 * All nodes
 * ------------------------------------------------------------------------ */

static bool all_nodes_valid = false;
static bool all_nodes_have_partials;	/* there are nodes, and all of them have partial aggregates */
static List *all_nodes_missing; /* of char *, in CacheMemoryContext: those that any node lacks */

void
shard_partial_aggregate_invalidate(void)
{
	all_nodes_valid = false;
}

/* Reads the options of all servers of this extension. */
static void
read_all_nodes(void)
{
	ShardCatalogScan scan;
	bool		have_partials = true;
	List	   *missing = NIL;
	int			nnodes = 0;
	HeapTuple	tuple;
	MemoryContext oldcxt;

	shard_catalog_scan_begin(&scan, ForeignServerRelationId);
	/* the look-ups below can invalidate it again */
	all_nodes_valid = true;
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Oid			serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;

		if (!shard_node_is(serverid))
			continue;
		nnodes++;
		have_partials = have_partials && shard_option_server_bool(serverid, "partial_aggregates", false);
		missing = list_concat(missing, shard_option_server_list(serverid, "missing_partial_aggregates"));
	}
	shard_catalog_scan_end(&scan);

	list_free_deep(all_nodes_missing);
	all_nodes_missing = NIL;
	all_nodes_have_partials = nnodes > 0 && have_partials;
	oldcxt = MemoryContextSwitchTo(CacheMemoryContext);
	foreach_ptr(char, name, missing)
		all_nodes_missing = lappend(all_nodes_missing, pstrdup(name));
	MemoryContextSwitchTo(oldcxt);
}

/* May all roles execute it? */
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
shard_partial_aggregate_everywhere(Oid aggfnoid)
{
	Oid			transfn;
	bool		internal;
	Oid			partial;

	if (!all_nodes_valid)
		read_all_nodes();
	if (!all_nodes_have_partials)
		return false;
	partial = get_local_partial(aggfnoid, &transfn, &internal);
	return OidIsValid(partial) && !is_missing(all_nodes_missing, partial, transfn, internal) &&
		is_public(aggfnoid);
}
