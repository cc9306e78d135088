/*
 * partial_agg.c
 *	  Partial states of aggregates as plain SQL expressions.
 *
 * Core's Finalize Aggregate needs the serialized state of each aggregate (AGGSPLIT_INITIAL_SERIAL).  A stock node
 * computes it by
 *
 *	 no final function, state not internal	the aggregate itself: count, min,
 *											max, bool_and, sum(int4), ...
 *	 any other, if nodes have it			its partial aggregate
 *											(catalog/partial_aggregate.h): one
 *											transition per row instead of two or
 *											three, and floats are summed up as in
 *											core
 *
 * and, if nodes have no partial aggregate, by an expression that depends on the transition function:
 *
 *	 int2_avg_accum, int4_avg_accum			ARRAY[count(x), coalesce(sum(x), 0)]
 *	 float4_accum, float8_accum				ARRAY[count(x), coalesce(sum(x), 0),
 *												  coalesce(regr_sxx(x, x), 0)]
 *	 int8_avg_accum, numeric_avg_accum		count(x) and sum(x), from which the coordinator
 *											makes the serialized state; 1 instead
 *											of count(x) if only sum() uses the state
 *	 int2_accum, int4_accum					count(x), sum(x) and sum(x * x): bigint
 *											for integers, otherwise numeric
 *	 int8_accum, numeric_accum				the same
 *	 interval_accum (until 16)				ARRAY[coalesce(sum(x), '0'),
 *												  count(x) * '1 microsecond']
 *	 interval_avg_accum (from 17)			count(x) and sum(x)
 *
 * partial_kind.c chooses one of these.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "agg/state.h"
#include "catalog/partial_aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "datatype/timestamp.h"
#include "deparse/convert.h"
#include "deparse/partial_agg.h"
#include "deparse/select.h"
#include "deparse/shippable/partial_kind.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/* A plain aggregate over args with agg's FILTER. */
static Expr *
make_aggregate(const Aggref *agg, Oid aggfnoid, Oid resulttype, List *args)
{
	Aggref	   *result = shard_convert_aggregate(aggfnoid, resulttype, args);

	result->aggfilter = agg->aggfilter;
	return (Expr *) result;
}

static Expr *
make_count(const Aggref *agg, Expr *arg)
{
	Aggref	   *count = (Aggref *) make_aggregate(agg, F_COUNT_ANY, INT8OID, list_make1(arg));

	count->aggargtypes = list_make1_oid(ANYOID);
	return (Expr *) count;
}

static Expr *
make_array(Oid array_type, Oid element_type, List *elements)
{
	ArrayExpr  *result = makeNode(ArrayExpr);

	result->array_typeid = array_type;
	result->element_typeid = element_type;
	result->elements = elements;
	result->location = -1;
	return (Expr *) result;
}

static Expr *
make_cast(Oid funcid, Oid resulttype, Expr *arg)
{
	return (Expr *) makeFuncExpr(funcid, resulttype, list_make1(arg), InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CAST);
}

static Expr *
make_zero(Oid type)
{
	Interval   *interval;

	switch (type)
	{
		case INT8OID:
			return (Expr *) shard_convert_int8(0);
		case FLOAT8OID:
			return (Expr *) makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(0.0),
							 false, FLOAT8PASSBYVAL);
		case INTERVALOID:
			interval = palloc0(sizeof(Interval));
			return (Expr *) makeConst(INTERVALOID, -1, InvalidOid, sizeof(Interval),
							 PointerGetDatum(interval), false, false);
	}
	elog(ERROR, "unexpected type of a partial state: %u", type);
	return NULL;				/* keep compiler quiet */
}

/* ARRAY[count(x), coalesce(sum(x), 0)] */
static Expr *
int_avg_state(const Aggref *agg, Expr *arg)
{
	Oid			sum = exprType((Node *) arg) == INT2OID ? F_SUM_INT2 : F_SUM_INT4;

	return make_array(INT8ARRAYOID, INT8OID,
					  list_make2(make_count(agg, arg),
								 shard_convert_coalesce(make_aggregate(agg, sum, INT8OID, list_make1(arg)),
											   make_zero(INT8OID))));
}

/* ARRAY[count(x), coalesce(sum(x), 0), coalesce(regr_sxx(x, x), 0)], all of them float8 */
static Expr *
float_state(const Aggref *agg, Expr *arg)
{
	Expr	   *count;
	Expr	   *sum;
	Expr	   *sxx;

	if (exprType((Node *) arg) == FLOAT4OID)
		arg = make_cast(F_FLOAT8_FLOAT4, FLOAT8OID, arg);
	count = make_cast(F_FLOAT8_INT8, FLOAT8OID, make_count(agg, arg));
	sum = make_aggregate(agg, F_SUM_FLOAT8, FLOAT8OID, list_make1(arg));
	sxx = make_aggregate(agg, F_REGR_SXX, FLOAT8OID, list_make2(arg, arg));
	return make_array(FLOAT8ARRAYOID, FLOAT8OID,
					  list_make3(count,
								 shard_convert_coalesce(sum, make_zero(FLOAT8OID)),
								 shard_convert_coalesce(sxx, make_zero(FLOAT8OID))));
}

/* ARRAY[coalesce(sum(x), '0'), count(x) * '1 microsecond'], the state of interval_accum */
static Expr *
interval_array_state(const Aggref *agg, Expr *arg)
{
	Const	   *microsecond = (Const *) make_zero(INTERVALOID);
	Expr	   *count;
	Expr	   *sum;

	DatumGetIntervalP(microsecond->constvalue)->time = 1;
	count = (Expr *) makeFuncExpr(F_INTERVAL_MUL, INTERVALOID,
								  list_make2(microsecond,
											 make_cast(F_FLOAT8_INT8, FLOAT8OID,
													   make_count(agg, arg))),
								  InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	sum = make_aggregate(agg, F_SUM_INTERVAL, INTERVALOID, list_make1(arg));
	return make_array(INTERVALARRAYOID, INTERVALOID,
					  list_make2(shard_convert_coalesce(sum, make_zero(INTERVALOID)), count));
}

/* The original aggregate before it was split. */
static Expr *
whole_aggregate(const Aggref *agg)
{
	Aggref	   *whole = makeNode(Aggref);

	*whole = *agg;
	whole->aggsplit = AGGSPLIT_SIMPLE;
	whole->aggtype = agg->aggtranstype;
	return (Expr *) whole;
}

/* sum(x * x) in numeric; *sum: sum(x) in numeric. */
static Expr *
sum_of_squares(const Aggref *agg, Expr *arg, Expr **sum)
{
	Oid			type = exprType((Node *) arg);
	Oid			square = F_NUMERIC_MUL;
	Oid			sumfn = F_SUM_NUMERIC;

	switch (type)
	{
		case INT2OID:
		case INT4OID:
			/* the square of an integer fits into a bigint, and a sum of bigints is a numeric */
			arg = make_cast(type == INT2OID ? F_INT8_INT2 : F_INT8_INT4, INT8OID, arg);
			square = F_INT8MUL;
			sumfn = F_SUM_INT8;
			*sum = make_aggregate(agg, F_SUM_INT8, NUMERICOID, list_make1(arg));
			break;
		case INT8OID:
			*sum = make_aggregate(agg, F_SUM_INT8, NUMERICOID, list_make1(arg));
			arg = make_cast(F_NUMERIC_INT8, NUMERICOID, arg);
			break;
		default:
			*sum = make_aggregate(agg, F_SUM_NUMERIC, NUMERICOID, list_make1(arg));
			break;
	}
	arg = (Expr *) makeFuncExpr(square, exprType((Node *) arg), list_make2(arg, arg),
								InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	return make_aggregate(agg, sumfn, NUMERICOID, list_make1(arg));
}

/*
 * A call of the partial aggregate instead of the aggregate. agg->aggtype is already the type that core's partial
 * aggregation returns.  The partial aggregate returns the same type.
 */
static Expr *
partial_aggref(const ShardMap *map, const Aggref *agg)
{
	Aggref	   *partial = makeNode(Aggref);

	*partial = *agg;
	partial->aggfnoid = shard_partial_aggregate_get(map, agg->aggfnoid);
	partial->aggsplit = AGGSPLIT_SIMPLE;
	partial->aggcollid = type_is_collatable(agg->aggtype) ? agg->aggcollid : InvalidOid;
	return (Expr *) partial;
}

/* Adds the partial aggregate as an output.  Core's functions do not check its result, so the decoder has to. */
static void
output_partial_aggregate(ShardSelect *select, const ShardMap *map, const Aggref *agg, int target)
{
	ShardOutput *output;
	ShardStateFormat format;

	shard_select_output(select, partial_aggref(map, agg), target);
	if (agg->aggtranstype == INTERNALOID && shard_partial_state_format(agg, &format))
	{
		output = llast(select->outputs);
		output->kind = SHARD_OUTPUT_STATE;
		output->typmod = format;
		output->type = linitial_oid(agg->aggargtypes);
	}
}

static bool
is_sum(const Aggref *agg)
{
	return agg->aggfnoid == F_SUM_INT8 || agg->aggfnoid == F_SUM_NUMERIC ||
		agg->aggfnoid == F_SUM_INTERVAL;
}

void
shard_select_output_partial(ShardSelect *select, const ShardMap *map, Aggref *agg,
							bool shared, int target)
{
	ShardPartialKind kind = shard_partial_agg_kind(map, agg);
	Expr	   *arg = agg->args ? linitial_node(TargetEntry, agg->args)->expr : NULL;
	ShardOutputKind output_kind;
	Expr	   *count;
	Expr	   *sum;
	Expr	   *squares = NULL;

	switch (kind)
	{
		case SHARD_PARTIAL_SELF:
			shard_select_output(select, whole_aggregate(agg), target);
			return;
		case SHARD_PARTIAL_AGGREGATE:
			output_partial_aggregate(select, map, agg, target);
			return;
		case SHARD_PARTIAL_INT_AVG:
			shard_select_output(select, int_avg_state(agg, arg), target);
			return;
		case SHARD_PARTIAL_FLOAT:
			shard_select_output(select, float_state(agg, arg), target);
			return;
		case SHARD_PARTIAL_INTERVAL_ARRAY:
			shard_select_output(select, interval_array_state(agg, arg), target);
			return;
		case SHARD_PARTIAL_INT8_SUM:
			output_kind = SHARD_OUTPUT_INT8_SUM;
			sum = make_aggregate(agg, F_SUM_INT8, NUMERICOID, list_make1(arg));
			break;
		case SHARD_PARTIAL_NUMERIC_SUM:
			output_kind = SHARD_OUTPUT_NUMERIC_SUM;
			sum = make_aggregate(agg, F_SUM_NUMERIC, NUMERICOID, list_make1(arg));
			break;
		case SHARD_PARTIAL_INTERVAL_SUM:
			output_kind = SHARD_OUTPUT_INTERVAL_SUM;
			sum = make_aggregate(agg, F_SUM_INTERVAL, INTERVALOID, list_make1(arg));
			break;
		case SHARD_PARTIAL_POLY_VARIANCE:
			output_kind = SHARD_OUTPUT_POLY_VARIANCE;
			squares = sum_of_squares(agg, arg, &sum);
			break;
		case SHARD_PARTIAL_NUMERIC_VARIANCE:
			output_kind = SHARD_OUTPUT_NUMERIC_VARIANCE;
			squares = sum_of_squares(agg, arg, &sum);
			break;
		default:
			elog(ERROR, "aggregate %u has no partial state", agg->aggfnoid);
			return;
	}

	/*
	 * sum() uses the count only to find out whether there was a value.  The sum itself shows that (NULL).  An avg()
	 * that shares the state needs the count.
	 */
	if (!shared && is_sum(agg))
		count = (Expr *) shard_convert_int8(1);
	else
		count = make_count(agg, arg);
	shard_select_add_column(select, shard_convert_expr(select, select->level, count));
	shard_select_add_column(select, shard_convert_expr(select, select->level, sum));
	if (squares != NULL)
		shard_select_add_column(select, shard_convert_expr(select, select->level, squares));
	shard_select_add_output(select, output_kind, target, BYTEAOID, -1);
}

static bool
functions_walker(Node *node, List **functions)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, functions_walker, functions, 0);
	if (IsA(node, Aggref) && ((Aggref *) node)->aggfnoid >= FirstGenbkiObjectId)
	{
		Oid			aggfnoid = ((Aggref *) node)->aggfnoid;
		Oid			partial = shard_partial_aggregate_local(aggfnoid);

		*functions = list_append_unique_oid(*functions, aggfnoid);
		if (OidIsValid(partial))
			*functions = list_append_unique_oid(*functions, partial);
	}
	return expression_tree_walker(node, functions_walker, functions);
}

List *
shard_partial_agg_functions(Query *query)
{
	List	   *functions = NIL;

	(void) functions_walker((Node *) query, &functions);
	return functions;
}
