/*
 * key_split.c
 *	  Sends to each shard only the keys that the shard can have.
 *
 *	   shard key = ANY (array)
 *					 array --values--> shard of each --> an array per shard
 *
 * Otherwise each node would receive, parse and look up all keys for each of its shards.  The array is a parameter that
 * occurs once in the query, in a condition that all rows of the scan must satisfy.  The condition uses the equality by
 * which rows are distributed.  So a value can match rows of one shard only.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/route.h"
#include "compat.h"
#include "executor/scan/key_split.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* With fewer values splitting costs more than it saves, so they are sent to all shards. */
#define MIN_KEYS	16

/* Returns the number of the parameter with which clause compares the shard key of relid; 0: none. */
static int
compared_param(Node *clause, Oid relid)
{
	ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) clause;
	Param	   *param;
	Oid			left;
	Oid			right;

	if (!IsA(op, ScalarArrayOpExpr) || !op->useOr)
		return 0;
	param = lsecond(op->args);
	if (!IsA(param, Param) || param->paramkind != PARAM_EXTERN)
		return 0;

	/* values are routed without conversion, so both sides must have the key's type */
	op_input_types(op->opno, &left, &right);
	if (left != right || !IsBinaryCoercible(get_element_type(param->paramtype), left) ||
		!(op_mergejoinable(op->opno, left) || op_hashjoinable(op->opno, left)) ||
		!shard_route_key_matches(relid, 0, linitial(op->args), op->opno, op->inputcollid))
		return 0;
	return param->paramid;
}

static int
count_places(const ShardTemplate *template, int paramno)
{
	int			count = 0;

	foreach_ptr(Node, part, template)
		count += IsA(part, Integer) && intVal(part) == paramno;
	return count;
}

ShardKeySplit *
shard_key_split_create(const ShardScanPlan *plan)
{
	Oid			relid = linitial_oid(plan->relids);

	if (OidIsValid(plan->prune_parent))
		return NULL;			/* a single shard */
	foreach_ptr(Node, qual, plan->prune_quals)
	{
		int			paramno;

		/* in a table with two levels, a key may be in shards of all partitions */
		if (!IsA(qual, ScalarArrayOpExpr) || shard_route_nkeys(relid) != 1 || shard_map_get(relid) == NULL)
			continue;
		paramno = compared_param(qual, relid);
		if (paramno > 0 &&
			count_places(plan->template, paramno) + count_places(plan->shard_template, paramno) == 1)
		{
			ShardKeySplit *split = palloc(sizeof(ShardKeySplit));

			split->paramno = paramno;
			return split;
		}
	}
	return NULL;
}

/*
 * Returns the shardno of each value; -1 if no shard has it, or it is NULL.  Returns NULL if the
 * shards have changed since map.
 */
static int *
find_shards(const ShardMap *map, const Datum *values, const bool *nulls, int nvalues)
{
	Relation	parent = table_open(map->relid, NoLock);
	PartitionDesc partdesc;
	int		   *shardnos = NULL;

	if (shard_route_pin(parent, &partdesc) == map)
	{
		shardnos = palloc(sizeof(int) * nvalues);
		for (int i = 0; i < nvalues; i++)
			shardnos[i] = nulls[i] ? -1 : shard_route_key(parent, partdesc, &values[i], &nulls[i]);
	}
	table_close(parent, NoLock);
	return shardnos;
}

/* Creates the arrays, and their texts in texts_cxt. */
static const char **
make_texts(ShardParams *params, int paramno, const ShardMap *map, ArrayType *array,
		   MemoryContext texts_cxt)
{
	Oid			type = ARR_ELEMTYPE(array);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *values;
	bool	   *nulls;
	int			nvalues;
	int		   *shardnos;
	int		   *starts;			/* where each shard's values begin in sorted, and where its next value goes */
	Datum	   *sorted;
	const char **texts;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign, &values, &nulls, &nvalues);
	shardnos = find_shards(map, values, nulls, nvalues);
	if (shardnos == NULL)
		return NULL;

	starts = palloc0(sizeof(int) * (map->nshards + 1));
	for (int i = 0; i < nvalues; i++)
		if (shardnos[i] >= 0)
			starts[shardnos[i] + 1]++;
	for (int i = 0; i < map->nshards; i++)
		starts[i + 1] += starts[i];
	sorted = palloc(sizeof(Datum) * nvalues);
	for (int i = 0; i < nvalues; i++)
		if (shardnos[i] >= 0)
			sorted[starts[shardnos[i]]++] = values[i];

	texts = MemoryContextAllocZero(texts_cxt, sizeof(char *) * map->nshards);
	for (int i = 0; i < map->nshards; i++)
	{
		int			start = i == 0 ? 0 : starts[i - 1];
		ArrayType  *part;
		MemoryContext oldcxt;

		if (starts[i] == start)
			continue;
		part = construct_array(&sorted[start], starts[i] - start, type, typlen, typbyval, typalign);
		oldcxt = MemoryContextSwitchTo(texts_cxt);
		texts[i] = shard_param_text(params, paramno, PointerGetDatum(part));
		MemoryContextSwitchTo(oldcxt);
		pfree(part);
	}
	return texts;
}

const char *const *
shard_key_split_run(const ShardKeySplit *split, const ShardMap *map, ShardParams *params,
					ExprContext *econtext, Bitmapset **live)
{
	MemoryContext cxt = CurrentMemoryContext;
	MemoryContext work_cxt;
	bool		isnull;
	Datum		value = shard_param_value(params, split->paramno, econtext, &isnull);
	ArrayType  *array;
	const char **texts;

	if (isnull || bms_membership(*live) != BMS_MULTIPLE)
		return NULL;
	work_cxt = AllocSetContextCreate(cxt, "shard key split", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(work_cxt);
	array = DatumGetArrayTypeP(value);
	texts = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) < MIN_KEYS ? NULL :
		make_texts(params, split->paramno, map, array, cxt);
	MemoryContextSwitchTo(cxt);
	MemoryContextDelete(work_cxt);

	if (texts != NULL)
	{
		Bitmapset  *left = NULL;
		int			shardno = -1;

		while ((shardno = bms_next_member(*live, shardno)) >= 0)
			if (texts[shardno] != NULL)
				left = bms_add_member(left, shardno);
		*live = left;
	}
	return texts;
}
