/*
 * balance.c
 *	  Plans which shards move to which nodes, so that the nodes are used evenly.
 *
 * The use of a node is the cost of its shards, divided by its capacity.  First, nodes without capacity are emptied.
 * Their most expensive shards go first, each to the node with the lowest use after the move.  Then shards move from
 * the node with the highest use to the node with the lowest use.  Each step chooses the shard after whose move the
 * higher use of both nodes is lowest, and only if that lowers it.  So no move makes the balance worse.  No shard
 * moves twice, so the plan ends.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(shardfdw_balance);

typedef struct BalanceItem
{
	double		cost;
	int			node;			/* 0-based */
	bool		movable;
	int			next;			/* next movable item of the same node before any move; -1: none */
} BalanceItem;

typedef struct BalanceNode
{
	double		cost;			/* of its items */
	double		capacity;		/* 0: it must be emptied */
	int			first;			/* the first of its movable items; -1: none */
} BalanceNode;

typedef struct Balance
{
	int			nitems;
	BalanceItem *items;
	int			nnodes;
	BalanceNode *nodes;
	double		mean;			/* the use if all nodes were used evenly */
	ReturnSetInfo *rsinfo;
} Balance;

/* Elements of an array.  NULL elements are an error. */
static Datum *
elements(ArrayType *array, Oid type, int *n)
{
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;

	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("costs, places and capacities must not be null")));
	get_typlenbyvalalign(type, &len, &byval, &align);
	deconstruct_array(array, type, len, byval, align, &values, NULL, n);
	return values;
}

static void
read_nodes(Balance *balance, ArrayType *capacities)
{
	Datum	   *values = elements(capacities, FLOAT8OID, &balance->nnodes);

	balance->nodes = palloc0(sizeof(BalanceNode) * Max(balance->nnodes, 1));
	for (int i = 0; i < balance->nnodes; i++)
	{
		balance->nodes[i].capacity = DatumGetFloat8(values[i]);
		balance->nodes[i].first = -1;
		if (isnan(balance->nodes[i].capacity) || isinf(balance->nodes[i].capacity))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("capacity %d is out of range", i + 1)));
	}
}

static void
read_items(Balance *balance, ArrayType *costs, ArrayType *places, ArrayType *movable)
{
	int			nplaces;
	int			nmovable;
	Datum	   *cost_values = elements(costs, FLOAT8OID, &balance->nitems);
	Datum	   *place_values = elements(places, INT4OID, &nplaces);
	Datum	   *movable_values = elements(movable, BOOLOID, &nmovable);

	if (nplaces != balance->nitems || nmovable != balance->nitems)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("costs, places and movable must have as many elements as each other")));
	balance->items = palloc(sizeof(BalanceItem) * Max(balance->nitems, 1));
	for (int i = 0; i < balance->nitems; i++)
	{
		BalanceItem *item = &balance->items[i];

		item->cost = DatumGetFloat8(cost_values[i]);
		item->node = DatumGetInt32(place_values[i]) - 1;
		item->movable = DatumGetBool(movable_values[i]);
		if (item->node < 0 || item->node >= balance->nnodes || !(item->cost >= 0) || isinf(item->cost))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("place or cost %d is out of range", i + 1)));
		balance->nodes[item->node].cost += item->cost;
		item->next = -1;
		if (item->movable)
		{
			item->next = balance->nodes[item->node].first;
			balance->nodes[item->node].first = i;
		}
	}
}

static double
use_with(const BalanceNode *node, double more)
{
	return (node->cost + more) / node->capacity;
}

/* The highest use, as a multiple of the mean. */
static double
imbalance(const Balance *balance)
{
	double		highest = 0;

	for (int i = 0; i < balance->nnodes; i++)
	{
		if (balance->nodes[i].capacity > 0)
			highest = Max(highest, use_with(&balance->nodes[i], 0));
	}
	return balance->mean > 0 ? highest / balance->mean : 1;
}

static void
move_item(Balance *balance, int i, int target)
{
	BalanceItem *item = &balance->items[i];
	Datum		values[5];
	bool		isnull[5] = {false};

	values[0] = Int32GetDatum(i + 1);
	values[1] = Int32GetDatum(item->node + 1);
	values[2] = Int32GetDatum(target + 1);
	values[3] = Float8GetDatum(imbalance(balance));
	balance->nodes[item->node].cost -= item->cost;
	balance->nodes[target].cost += item->cost;
	item->node = target;
	item->movable = false;
	values[4] = Float8GetDatum(imbalance(balance));
	tuplestore_putvalues(balance->rsinfo->setResult, balance->rsinfo->setDesc, values, isnull);
}

/* The node with the lowest use after an item of this cost is added. -1: no node has capacity. */
static int
least_used(const Balance *balance, double cost)
{
	int			least = -1;

	for (int i = 0; i < balance->nnodes; i++)
	{
		if (balance->nodes[i].capacity > 0 &&
			(least < 0 || use_with(&balance->nodes[i], cost) < use_with(&balance->nodes[least], cost)))
			least = i;
	}
	return least;
}

static void
empty_nodes(Balance *balance)
{
	for (;;)
	{
		int			dearest = -1;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < balance->nitems; i++)
		{
			const BalanceItem *item = &balance->items[i];

			if (item->movable && balance->nodes[item->node].capacity <= 0 &&
				(dearest < 0 || item->cost > balance->items[dearest].cost))
				dearest = i;
		}
		if (dearest < 0)
			return;
		move_item(balance, dearest, least_used(balance, balance->items[dearest].cost));
	}
}

/* The item whose move from source to target is best. -1: no item improves the balance. */
static int
best_item(const Balance *balance, int source, int target)
{
	double		before = use_with(&balance->nodes[source], 0);
	/* ignore rounding errors */
	double		lowest = before * (1 - 1e-9);
	int			best = -1;

	/* items that were moved here are not moved again */
	for (int i = balance->nodes[source].first; i >= 0; i = balance->items[i].next)
	{
		const BalanceItem *item = &balance->items[i];
		double		after;

		if (!item->movable || item->cost <= 0)
			continue;
		after = Max(use_with(&balance->nodes[source], -item->cost), use_with(&balance->nodes[target], item->cost));
		if (after < lowest || (after == lowest && best >= 0 && i < best))
		{
			lowest = after;
			best = i;
		}
	}
	return best;
}

static int
compare_use(const void *a, const void *b, void *arg)
{
	const Balance *balance = arg;
	double		left = use_with(&balance->nodes[*(const int *) a], 0);
	double		right = use_with(&balance->nodes[*(const int *) b], 0);

	if (left != right)
		return left > right ? -1 : 1;
	return *(const int *) a - *(const int *) b;
}

/* Makes one move.  Returns false if no move is needed or possible. */
static bool
move_one(Balance *balance, double threshold)
{
	int		   *order = palloc(sizeof(int) * balance->nnodes);
	int			n = 0;
	bool		moved = false;

	for (int i = 0; i < balance->nnodes; i++)
	{
		if (balance->nodes[i].capacity > 0)
			order[n++] = i;
	}
	qsort_arg(order, n, sizeof(int), compare_use, balance);
	for (int s = 0; s < n && !moved; s++)
	{
		bool		source_is_high = use_with(&balance->nodes[order[s]], 0) > balance->mean * (1 + threshold);

		for (int t = n - 1; t > s && !moved; t--)
		{
			bool		target_is_low = use_with(&balance->nodes[order[t]], 0) < balance->mean * (1 - threshold);
			int			item = source_is_high || target_is_low ? best_item(balance, order[s], order[t]) : -1;

			CHECK_FOR_INTERRUPTS();
			if (item >= 0)
				move_item(balance, item, order[t]);
			moved = item >= 0;
		}
	}
	pfree(order);
	return moved;
}

/*
 * balance(costs float8[], places integer[], movable boolean[], capacities float8[], threshold float8)
 *	 -> table (item integer, source integer, target integer, before float8, after float8)
 */
Datum
shardfdw_balance(PG_FUNCTION_ARGS)
{
	Balance		balance = {0};
	double		threshold = PG_GETARG_FLOAT8(4);
	double		capacity = 0;
	double		cost = 0;

	balance.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	read_nodes(&balance, PG_GETARG_ARRAYTYPE_P(3));
	read_items(&balance, PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_ARRAYTYPE_P(1), PG_GETARG_ARRAYTYPE_P(2));
	for (int i = 0; i < balance.nnodes; i++)
		capacity += Max(balance.nodes[i].capacity, 0);
	for (int i = 0; i < balance.nitems; i++)
	{
		const BalanceItem *item = &balance.items[i];

		/* ignore items that stay on nodes without capacity */
		if (item->movable || balance.nodes[item->node].capacity > 0)
			cost += item->cost;
	}
	if (capacity <= 0)
		return (Datum) 0;
	balance.mean = cost / capacity;
	empty_nodes(&balance);
	while (move_one(&balance, threshold))
		CHECK_FOR_INTERRUPTS();
	return (Datum) 0;
}
