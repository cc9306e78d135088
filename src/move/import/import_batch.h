/*
 * import_batch.h
 *	  Collects changes of the source of an import by key, and writes their result to the shards.
 */
#ifndef SHARDFDW_IMPORT_BATCH_H
#define SHARDFDW_IMPORT_BATCH_H

#include "postgres.h"

#include "move/import/import_table.h"
#include "move/job/change.h"

typedef struct ShardImportBatch ShardImportBatch;

/* Memory: cxt, for all later data too. */
extern ShardImportBatch *shard_import_batch_create(MemoryContext cxt, const ShardImportTable *table);

/*
 * Each function adds a change after the earlier ones.  Rows have values for the columns of the table, in their order.
 * Errors: data_corrupted if a change contradicts earlier ones.
 */
extern void shard_import_batch_insert(ShardImportBatch *batch, const ShardChangeRow *row);
extern void shard_import_batch_update(ShardImportBatch *batch, const ShardChangeRow *old_row, const ShardChangeRow *new_row);
extern void shard_import_batch_delete(ShardImportBatch *batch, const ShardChangeRow *row);
extern void shard_import_batch_truncate(ShardImportBatch *batch);

/* The number of changes, and the memory that they use in bytes. */
extern int64 shard_import_batch_count(const ShardImportBatch *batch);
extern Size shard_import_batch_bytes(const ShardImportBatch *batch);

/*
 * Writes the changes to the tables of batches, in the current transaction.  Tables may reference only tables before
 * them.  Errors: data_corrupted if a changed or deleted row does not exist exactly once; errors of the nodes.
 */
extern void shard_import_batches_write(const List *batches);

/* Removes the changes. */
extern void shard_import_batch_reset(ShardImportBatch *batch);

#endif
