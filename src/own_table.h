/*
 * own_table.h
 *	  Reads and writes the extension's own tables without SQL.  Rights, row security, read-only
 *	  transactions and the snapshot of the transaction do not apply.
 *
 *	 open [ key ... begin, next ... (set, update | delete), end ] [ clear, set ..., insert ] close
 *
 * Columns count from 1.
 */
#ifndef SHARDFDW_OWN_TABLE_H
#define SHARDFDW_OWN_TABLE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/htup.h"
#include "access/skey.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#define SHARD_OWN_MAX_COLUMNS 32
#define SHARD_OWN_MAX_KEYS 2

typedef struct ShardOwnTable
{
	const char *name;
	Relation	rel;
	LOCKMODE	lockmode;
	int			nkeys;
	ScanKeyData keys[SHARD_OWN_MAX_KEYS];
	Snapshot	snapshot;		/* of the scan */
	SysScanDesc scan;
	Relation	index;			/* index of an ordered scan, or NULL */
	HeapTuple	tuple;			/* the row of next(), valid until the following call; NULL: none */
	Datum		values[SHARD_OWN_MAX_COLUMNS + 1];	/* columns of that row, and what set() has changed */
	bool		nulls[SHARD_OWN_MAX_COLUMNS + 1];
	bool		is_set[SHARD_OWN_MAX_COLUMNS + 1];
} ShardOwnTable;

/*
 * Returns the OID of a table, index or sequence of schema shardfdw_internal.  If it does not exist:
 * InvalidOid, or an error.
 */
extern Oid	shard_own_relation(const char *name, bool missing_ok);

/*
 * Opens a table. try_open returns false instead of waiting for a lock or raising an error.  A table
 * that is opened for writing stays locked until the transaction ends, as in PostgreSQL's commands.
 */
extern void shard_own_table_open(ShardOwnTable *table, const char *name, LOCKMODE lockmode);
extern bool shard_own_table_try_open(ShardOwnTable *table, const char *name, LOCKMODE lockmode);
extern void shard_own_table_close(ShardOwnTable *table);

/* Adds a condition on a column of the primary key to the next scan; compare is the operator's function. */
extern void shard_own_table_key(ShardOwnTable *table, AttrNumber column, StrategyNumber strategy, RegProcedure compare, Datum value);

/*
 * Begins a scan by the primary key if conditions were added, otherwise of all rows. begin_ordered:
 * in the order of the primary key. snapshot NULL: what has committed by now.  SnapshotSelf: the
 * same, but checked for each row, so a row that is updated during the scan can be missed.
 * SnapshotAny: every version that has committed.
 */
extern void shard_own_table_begin(ShardOwnTable *table, Snapshot snapshot);
extern void shard_own_table_begin_ordered(ShardOwnTable *table, Snapshot snapshot);
extern bool shard_own_table_next(ShardOwnTable *table);
extern void shard_own_table_end(ShardOwnTable *table);

/* Returns a column of the row as a string in the current context; NULL if it is null. */
extern char *shard_own_table_text(const ShardOwnTable *table, AttrNumber column);
extern char *shard_own_table_name(const ShardOwnTable *table, AttrNumber column);

/*
 * shard_own_table_clear() sets all columns to null.  The second function adds a new row.  The third one writes the
 * columns that were set into the row of next().  The last one prevents other transactions from changing that row; it
 * returns false if another transaction has locked or changed it.
 */
extern void shard_own_table_clear(ShardOwnTable *table);
extern void shard_own_table_insert(ShardOwnTable *table);
extern bool shard_own_table_lock(ShardOwnTable *table);
extern void shard_own_table_update(ShardOwnTable *table);
extern void shard_own_table_delete(ShardOwnTable *table);

static inline void
shard_own_table_set(ShardOwnTable *table, AttrNumber column, Datum value)
{
	table->values[column] = value;
	table->nulls[column] = false;
	table->is_set[column] = true;
}

static inline void
shard_own_table_set_null(ShardOwnTable *table, AttrNumber column)
{
	table->nulls[column] = table->is_set[column] = true;
}

#endif
