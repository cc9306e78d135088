/*
 * array_loop.h
 *	  Loops over the elements of an array that a function gets as an argument.
 *
 * Every role may execute many of these functions, with arrays of millions of elements.  So the loops can be cancelled.
 *
 *	 shard_array_loop_begin(&loop, array);
 *	 while (shard_array_loop_next(&loop, &value))
 *		 ...
 */
#ifndef SHARDFDW_ARRAY_LOOP_H
#define SHARDFDW_ARRAY_LOOP_H

#include "postgres.h"

#include "access/tupmacs.h"
#include "hash_table.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

typedef struct ShardArrayLoop
{
	Datum	   *values;
	int			nvalues;
	int			next;			/* index in values */
} ShardArrayLoop;

/* Keeps the first one of equal values of a type of fixed length. */
static inline void
shard_array_loop_remove_duplicates(ShardArrayLoop *loop, int typlen, bool typbyval)
{
	HTAB	   *seen = shard_hash_table_create("shardfdw array elements", loop->nvalues, typlen, typlen, CurrentMemoryContext);
	int			nkept = 0;

	for (int i = 0; i < loop->nvalues; i++)
	{
		char		stored[sizeof(Datum)];
		const void *key = DatumGetPointer(loop->values[i]);
		bool		found;

		CHECK_FOR_INTERRUPTS();
		if (typbyval)
		{
			store_att_byval(stored, loop->values[i], typlen);
			key = stored;
		}
		(void) hash_search(seen, key, HASH_ENTER, &found);
		if (!found)
			loop->values[nkept++] = loop->values[i];
	}
	loop->nvalues = nkept;
	hash_destroy(seen);
}

/*
 * Begins a loop over the elements of an array.  For types of fixed length, such as names and OIDs, the loop visits equal
 * elements once, where the first of them is.  Elements of other types, such as texts, are all visited.
 * Memory: current context; values point into array.
 * Errors: null_value_not_allowed for NULL elements; query_canceled.
 */
static inline void
shard_array_loop_begin(ShardArrayLoop *loop, ArrayType *array)
{
	Oid			type = ARR_ELEMTYPE(array);
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(array, type, typlen, typbyval, typalign, &loop->values, NULL, &loop->nvalues);
	loop->next = 0;
	if (typlen > 0 && loop->nvalues > 1)
		shard_array_loop_remove_duplicates(loop, typlen, typbyval);
}

/* Returns the next element, or false after the last one.  Processes interrupts. */
static inline bool
shard_array_loop_next(ShardArrayLoop *loop, Datum *value)
{
	CHECK_FOR_INTERRUPTS();
	if (loop->next >= loop->nvalues)
		return false;
	*value = loop->values[loop->next++];
	return true;
}

#endif
