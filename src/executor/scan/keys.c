/*
 * keys.c
 *	  Sets of keys that key joins pass to the scans below them.
 *
 * A set belongs to one execution (EState), and is identified by the execution and the number of its
 * parameter.  The sets of all executions of the session are in one list, which rarely has more than
 * two.
 *
 * Values are the same if their bytes are the same.  Two equal values with different bytes (numeric
 * 1.0 and 1.00) are both kept.  This only costs some memory.
 */
#include "postgres.h"

#include "executor/scan/keys.h"
#include "plan/statement_entry.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Slots of an empty set.  Always a power of two. */
#define INITIAL_SLOTS	256

struct ShardKeys
{
	ShardStatementEntry entry;	/* in all_keys; the key is the number of the parameter */
	Oid			type;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	MemoryContext cxt;			/* contains everything below */
	int			nvalues;
	int			nslots;			/* at least twice the number of values */
	Datum	   *values;			/* nslots / 2 */
	uint32	   *hashes;			/* of the values */
	int		   *slots;			/* index of a value plus 1, or 0 */
	ArrayType  *array;			/* NULL until requested */
};

static slist_head all_keys = SLIST_STATIC_INIT(all_keys);

/* Allocates nslots empty slots. */
static void
make_slots(ShardKeys *keys, int nslots)
{
	keys->nslots = nslots;
	keys->slots = MemoryContextAllocExtended(keys->cxt, sizeof(int) * (Size) nslots,
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void
make_empty(ShardKeys *keys)
{
	keys->nvalues = 0;
	keys->array = NULL;
	make_slots(keys, INITIAL_SLOTS);
	keys->values = MemoryContextAlloc(keys->cxt, sizeof(Datum) * INITIAL_SLOTS / 2);
	keys->hashes = MemoryContextAlloc(keys->cxt, sizeof(uint32) * INITIAL_SLOTS / 2);
}

ShardKeys *
shard_keys_create(EState *estate, int paramid, Oid type)
{
	ShardKeys  *keys = shard_statement_entry_add(&all_keys, estate, Int32GetDatum(paramid), sizeof(ShardKeys));

	keys->type = type;
	get_typlenbyvalalign(type, &keys->typlen, &keys->typbyval, &keys->typalign);
	keys->cxt = AllocSetContextCreate(estate->es_query_cxt, "shard keys", ALLOCSET_DEFAULT_SIZES);
	make_empty(keys);
	return keys;
}

/* Returns the first free slot for hash. */
static int
free_slot(const ShardKeys *keys, uint32 hash)
{
	int			slot = hash & (keys->nslots - 1);

	while (keys->slots[slot] != 0)
		slot = (slot + 1) & (keys->nslots - 1);
	return slot;
}

static void
grow(ShardKeys *keys)
{
	int			nslots = keys->nslots * 2;

	pfree(keys->slots);
	make_slots(keys, nslots);
	keys->values = repalloc_huge(keys->values, sizeof(Datum) * (Size) nslots / 2);
	keys->hashes = repalloc_huge(keys->hashes, sizeof(uint32) * (Size) nslots / 2);
	for (int i = 0; i < keys->nvalues; i++)
		keys->slots[free_slot(keys, keys->hashes[i])] = i + 1;
}

void
shard_keys_add(ShardKeys *keys, Datum value, uint32 hash)
{
	int			slot = hash & (keys->nslots - 1);
	MemoryContext oldcxt;

	for (; keys->slots[slot] != 0; slot = (slot + 1) & (keys->nslots - 1))
	{
		int			i = keys->slots[slot] - 1;

		if (keys->hashes[i] == hash &&
			datum_image_eq(keys->values[i], value, keys->typbyval, keys->typlen))
			return;
	}
	if (keys->nvalues >= keys->nslots / 2)
	{
		grow(keys);
		slot = free_slot(keys, hash);
	}

	Assert(keys->array == NULL);
	oldcxt = MemoryContextSwitchTo(keys->cxt);
	keys->values[keys->nvalues] = datumCopy(value, keys->typbyval, keys->typlen);
	MemoryContextSwitchTo(oldcxt);
	keys->hashes[keys->nvalues] = hash;
	keys->slots[slot] = ++keys->nvalues;
}

int
shard_keys_count(const ShardKeys *keys)
{
	return keys->nvalues;
}

void
shard_keys_clear(ShardKeys *keys)
{
	MemoryContextReset(keys->cxt);
	make_empty(keys);
}

Size
shard_keys_memory(const ShardKeys *keys)
{
	return MemoryContextMemAllocated(keys->cxt, false);
}

static ShardKeys *
find_keys(const EState *estate, int paramid)
{
	ShardKeys  *keys = shard_statement_entry_find(&all_keys, estate, Int32GetDatum(paramid));

	if (keys == NULL)
		elog(ERROR, "no key join gives a value to parameter %d", paramid);
	return keys;
}

Datum
shard_keys_get(EState *estate, int paramid)
{
	ShardKeys  *keys = find_keys(estate, paramid);

	if (keys->array == NULL)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(keys->cxt);

		keys->array = construct_array(keys->values, keys->nvalues, keys->type,
									  keys->typlen, keys->typbyval, keys->typalign);
		MemoryContextSwitchTo(oldcxt);
	}
	return PointerGetDatum(keys->array);
}

int
shard_keys_param_count(EState *estate, int paramid)
{
	return find_keys(estate, paramid)->nvalues;
}
