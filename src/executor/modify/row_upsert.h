/*
 * row_upsert.h
 *	  ON CONFLICT DO UPDATE of rows that are inserted one by one.
 */
#ifndef SHARDFDW_ROW_UPSERT_H
#define SHARDFDW_ROW_UPSERT_H

#include "postgres.h"

#include "executor/modify/row_statement.h"
#include "nodes/execnodes.h"

typedef struct ShardRowUpsert ShardRowUpsert;

/*
 * Creates the state of one shard, whose server, user and label are insert's.  Attribute numbers are
 * the shard's. returning_attnos contains the ctid.  Memory: the query's.
 */
extern ShardRowUpsert *shard_row_upsert_begin(ModifyTableState *mtstate, ResultRelInfo *rinfo,
											  const ShardRowStatement *insert,
											  List *conflict_attnos, List *returning_attnos);

/* Called before each proposed row. */
extern void shard_row_upsert_start(ShardRowUpsert *upsert);

/* The row was inserted. slot has its ctid. */
extern void shard_row_upsert_inserted(ShardRowUpsert *upsert, TupleTableSlot *slot);

/*
 * Locks and reads the row with which the proposed one conflicts.  False: that row is gone, and the
 * caller must try the INSERT again.  Errors: ERRCODE_CARDINALITY_VIOLATION if this statement has
 * written it.
 */
extern bool shard_row_upsert_lock(ShardRowUpsert *upsert, EState *estate, TupleTableSlot *proposed);

/*
 * Executes DO UPDATE on the locked row.  Returns the new version, or NULL if a condition or a
 * trigger leaves the row unchanged.
 */
extern TupleTableSlot *shard_row_upsert_update(ShardRowUpsert *upsert, EState *estate,
											   TupleTableSlot *proposed);

#endif
