/*
 * row_arrays.h
 *	  Rows as text of arrays, one for each column: parameters of a statement.
 */
#ifndef SHARDFDW_ROW_ARRAYS_H
#define SHARDFDW_ROW_ARRAYS_H

#include "postgres.h"

typedef struct ShardRowArrays ShardRowArrays;

/* Memory: in the current context. label: whose rows they are, for messages. */
extern ShardRowArrays *shard_row_arrays_create(int ncolumns, const char *label);

/* One more row: text forms, NULL for NULL.  Raises when they become too long for one statement. */
extern void shard_row_arrays_add(ShardRowArrays *arrays, const char *const *values);

/* Ends them; their texts go to values. */
extern void shard_row_arrays_finish(ShardRowArrays *arrays, const char **values);

#endif
