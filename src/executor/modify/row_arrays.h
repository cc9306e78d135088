/*
 * row_arrays.h
 *	  Rows as text of arrays, one array per column, for use as parameters of a statement.
 */
#ifndef SHARDFDW_ROW_ARRAYS_H
#define SHARDFDW_ROW_ARRAYS_H

#include "postgres.h"

typedef struct ShardRowArrays ShardRowArrays;

/* Memory: current context. label: name of the shard, for messages. */
extern ShardRowArrays *shard_row_arrays_create(int ncolumns, const char *label);

/* Adds a row: text forms, NULL for NULL.  Raises if the arrays become too long for one statement. */
extern void shard_row_arrays_add(ShardRowArrays *arrays, const char *const *values);

/* Completes the arrays, and stores their texts in values. */
extern void shard_row_arrays_finish(ShardRowArrays *arrays, const char **values);

#endif
