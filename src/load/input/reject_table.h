/*
 * reject_table.h
 *	  Rows into the table that REJECT_TABLE names.
 */
#ifndef SHARDFDW_REJECT_TABLE_H
#define SHARDFDW_REJECT_TABLE_H

#include "postgres.h"

#include "load/input/reject.h"
#include "utils/relcache.h"

typedef struct ShardRejectTable ShardRejectTable;

/*
 * Finds and locks the table, and checks that it takes what will be inserted:
 * columns load, line (bigint), "column", shard, sqlstate, message, raw (text),
 * or of types that these are assigned to.  load: the load's number; 0: it gets a new one.
 * Memory: in cxt.  Errors: no such table, or column; INSERT not allowed; it is
 * parent itself.
 */
extern ShardRejectTable *shard_reject_table_open(MemoryContext cxt, const char *name, Relation parent, int64 load);

/* Encoding of the lines; before the first one. */
extern void shard_reject_table_set_encoding(ShardRejectTable *table, int source_encoding);

/* Adds a row; inserts, by SPI, when many have come together. */
extern void shard_reject_table_add(ShardRejectTable *table, const ShardReject *reject);

/* The load's number: what stands in column load. */
extern int64 shard_reject_table_load(const ShardRejectTable *table);

/* Inserts the rest. */
extern void shard_reject_table_finish(ShardRejectTable *table);

#endif
