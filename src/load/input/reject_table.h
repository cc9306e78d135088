/*
 * reject_table.h
 *	  Inserts rows into the table of REJECT_TABLE.
 */
#ifndef SHARDFDW_REJECT_TABLE_H
#define SHARDFDW_REJECT_TABLE_H

#include "postgres.h"

#include "load/input/reject.h"
#include "utils/relcache.h"

typedef struct ShardRejectTable ShardRejectTable;

/*
 * Opens and locks the table, and checks its columns: load, line (bigint), column_name, shard, sqlstate, message, raw
 * (text).  Other types are allowed if these can be assigned to them. load: the load number; 0: assign a new one.
 * Memory: in cxt.  Errors: no such table or column; no INSERT privilege; the table is parent.
 */
extern ShardRejectTable *shard_reject_table_open(MemoryContext cxt, const char *name, Relation parent, int64 load);

/* Sets the encoding of the lines.  Call it before the first line. */
extern void shard_reject_table_set_encoding(ShardRejectTable *table, int source_encoding);

/* Adds a row.  Inserts a batch by SPI when it is full. */
extern void shard_reject_table_add(ShardRejectTable *table, const ShardReject *reject);

/* The load number: the value of column load. */
extern int64 shard_reject_table_load(const ShardRejectTable *table);

/* Inserts the remaining rows. */
extern void shard_reject_table_finish(ShardRejectTable *table);

#endif
