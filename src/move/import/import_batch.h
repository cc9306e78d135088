/*
 * import_batch.h
 *	  Changes of the source of an import: what comes of many of them, by key, and its way to the shards.
 */
#ifndef SHARDFDW_IMPORT_BATCH_H
#define SHARDFDW_IMPORT_BATCH_H

#include "postgres.h"

#include "move/import/import_table.h"
#include "move/job/change.h"

typedef struct ShardImportBatch ShardImportBatch;

/* Memory: of cxt, for all there will be. */
extern ShardImportBatch *shard_import_batch_create(MemoryContext cxt, const ShardImportTable *table);

/*
 * Each takes note of a change, after those that were noted before it.  Rows have the values of the table's columns, in
 * their order.  Errors: ERRCODE_DATA_CORRUPTED when it does not go together with those.
 */
extern void shard_import_batch_insert(ShardImportBatch *batch, const ShardChangeRow *row);
extern void shard_import_batch_update(ShardImportBatch *batch, const ShardChangeRow *old_row, const ShardChangeRow *new_row);
extern void shard_import_batch_delete(ShardImportBatch *batch, const ShardChangeRow *row);
extern void shard_import_batch_truncate(ShardImportBatch *batch);

/* How many changes there are, and the memory that they take in bytes. */
extern int64 shard_import_batch_count(const ShardImportBatch *batch);
extern Size shard_import_batch_bytes(const ShardImportBatch *batch);

/*
 * Makes the changes in the tables of batches, in the current transaction.  No table refers to one that comes behind it.
 * Errors: ERRCODE_DATA_CORRUPTED when a row that is changed or deleted is not there exactly once; the nodes'.
 */
extern void shard_import_batches_write(const List *batches);

/* Forgets the changes. */
extern void shard_import_batch_reset(ShardImportBatch *batch);

#endif
