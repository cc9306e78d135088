/*
 * import_target.h
 *	  A table that gets changes of a table elsewhere, whose columns may have another order.
 */
#ifndef SHARDFDW_IMPORT_TARGET_H
#define SHARDFDW_IMPORT_TARGET_H

#include "postgres.h"

#include "move/import/import_batch.h"
#include "move/import/import_table.h"
#include "move/job/change.h"
#include "remote/wire/connection.h"

typedef struct ShardImportTarget
{
	const ShardImportTable *table;
	ShardImportBatch *batch;
	int			nsent;			/* columns of a received row; 0: unknown */
	int		   *places;			/* positions of the table's columns in it, 0-based */
} ShardImportTarget;

/* Memory: cxt. */
extern void shard_import_target_init(ShardImportTarget *target, MemoryContext cxt, const ShardImportTable *table);

/*
 * Handles a RELATION message, which comes before the first change and again after changes of the definition.  Returns
 * false if the columns are not those of the table.
 */
extern bool shard_import_target_relation(ShardImportTarget *target, const ShardChange *change);

/* Adds a change of a row to the batch. source: for errors. */
extern void shard_import_target_row(ShardImportTarget *target, ShardConn *source, ShardChange *change);

#endif
