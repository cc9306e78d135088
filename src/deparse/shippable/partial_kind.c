/*
 * partial_kind.c
 *	  Decides how nodes compute partial states of an aggregate.
 *
 * All aggregates with the same state are supported: avg(float8) as well as stddev(float8). partial_agg.c has the
 * expressions.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/partial_aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "compat.h"
#include "deparse/shippable/partial_kind.h"

/* the same function has another name from 17 on: interval_accum and interval_avg_accum in pg_proc.dat */
#define INTERVAL_ACCUM_OID 1843

bool
shard_partial_state_format(const Aggref *agg, ShardStateFormat *format)
{
	HeapTuple	tuple = shard_catalog_row(AGGFNOID, agg->aggfnoid);
	Oid			deserialfn;

	deserialfn = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggdeserialfn;
	ReleaseSysCache(tuple);
	*format = SHARD_STATE_UNKNOWN;
	return agg->aggargtypes == NIL ||
		shard_state_format(deserialfn, linitial_oid(agg->aggargtypes), format);
}

/* Can nodes of map compute the state by a partial aggregate? */
static bool
has_partial_aggregate(const ShardMap *map, const Aggref *agg)
{
	ShardStateFormat format;

	return OidIsValid(shard_partial_aggregate_get(map, agg->aggfnoid)) &&
		(agg->aggtranstype != INTERNALOID || shard_partial_state_format(agg, &format));
}

ShardPartialKind
shard_partial_agg_kind(const ShardMap *map, const Aggref *agg)
{
	HeapTuple	tuple;
	Form_pg_aggregate form;
	ShardPartialKind kind;

	/* a user-defined aggregate may have the same functions, but another initial value */
	if (agg->aggfnoid >= FirstGenbkiObjectId)
		return has_partial_aggregate(map, agg) ? SHARD_PARTIAL_AGGREGATE : SHARD_PARTIAL_NONE;

	tuple = shard_catalog_row(AGGFNOID, agg->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);

	if (!OidIsValid(form->aggcombinefn))
		kind = SHARD_PARTIAL_NONE;
	else
	{
		switch (form->aggtransfn)
		{
			case F_INT8_AVG_ACCUM:
				kind = SHARD_PARTIAL_INT8_SUM;
				break;
			case F_NUMERIC_AVG_ACCUM:
				kind = SHARD_PARTIAL_NUMERIC_SUM;
				break;
			case F_INT2_ACCUM:
			case F_INT4_ACCUM:
				kind = SHARD_PARTIAL_POLY_VARIANCE;
				break;
			case F_INT8_ACCUM:
			case F_NUMERIC_ACCUM:
				kind = SHARD_PARTIAL_NUMERIC_VARIANCE;
				break;
			case F_INT2_AVG_ACCUM:
			case F_INT4_AVG_ACCUM:
				kind = SHARD_PARTIAL_INT_AVG;
				break;
			case F_FLOAT4_ACCUM:
			case F_FLOAT8_ACCUM:
				kind = SHARD_PARTIAL_FLOAT;
				break;
			case INTERVAL_ACCUM_OID:
				kind = SHARD_INTERVAL_STATE_INTERNAL ? SHARD_PARTIAL_INTERVAL_SUM :
					SHARD_PARTIAL_INTERVAL_ARRAY;
				break;
			default:
				kind = !OidIsValid(form->aggfinalfn) && form->aggtranstype != INTERNALOID ?
					SHARD_PARTIAL_SELF : SHARD_PARTIAL_NONE;
				break;
		}
	}

	ReleaseSysCache(tuple);
	if (kind != SHARD_PARTIAL_SELF && has_partial_aggregate(map, agg))
		kind = SHARD_PARTIAL_AGGREGATE;
	return kind;
}
