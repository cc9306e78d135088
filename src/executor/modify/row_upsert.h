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
 * State of one shard, whose server, user and label are insert's.  Attribute numbers
 * are the shard's; returning_attnos has the ctid among them.
 * Memory: the query's.
 */
extern ShardRowUpsert *shard_row_upsert_begin(ModifyTableState *mtstate, ResultRelInfo *rinfo,
											  const ShardRowStatement *insert,
											  List *conflict_attnos, List *returning_attnos);

/* To be called before each row that is proposed. */
extern void shard_row_upsert_start(ShardRowUpsert *upsert);

/* The row has been inserted; slot has its ctid. */
extern void shard_row_upsert_inserted(ShardRowUpsert *upsert, TupleTableSlot *slot);

/*
 * Locks and reads the row that the proposed one is in conflict with.  False: that row
 * has gone, and the caller has to try the INSERT again.
 * Errors: ERRCODE_CARDINALITY_VIOLATION when this statement has written it.
 */
extern bool shard_row_upsert_lock(ShardRowUpsert *upsert, EState *estate, TupleTableSlot *proposed);

/*
 * Carries out DO UPDATE on the locked row.  Returns the new version, or NULL when a
 * condition or a trigger leaves the row as it is.
 */
extern TupleTableSlot *shard_row_upsert_update(ShardRowUpsert *upsert, EState *estate,
											   TupleTableSlot *proposed);

#endif
