/*
 * fdw_executor.h
 *	  Entry points of the executor: FDW callbacks.
 */
#ifndef SHARDFDW_FDW_EXECUTOR_H
#define SHARDFDW_FDW_EXECUTOR_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "commands/vacuum.h"
#include "compat.h"

/* scan.c */
extern void shardBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *shardIterateForeignScan(ForeignScanState *node);
extern void shardReScanForeignScan(ForeignScanState *node);
extern void shardEndForeignScan(ForeignScanState *node);
extern bool shardRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot);

/* async.c */
extern void shardForeignAsyncRequest(AsyncRequest *areq);
extern void shardForeignAsyncConfigureWait(AsyncRequest *areq);
extern void shardForeignAsyncNotify(AsyncRequest *areq);

/* explain.c */
extern void shardExplainForeignScan(ForeignScanState *node, ExplainState *es);
extern void shardExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
									  List *fdw_private, int subplan_index, ExplainState *es);
extern void shardExplainDirectModify(ForeignScanState *node, ExplainState *es);

/* modify.c */
extern void shardBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
									List *fdw_private, int subplan_index, int eflags);
extern TupleTableSlot *shardExecForeignInsert(EState *estate, ResultRelInfo *rinfo,
											  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern TupleTableSlot **shardExecForeignBatchInsert(EState *estate, ResultRelInfo *rinfo,
													TupleTableSlot **slots, TupleTableSlot **planSlots,
													int *numSlots);
extern int	shardGetForeignModifyBatchSize(ResultRelInfo *rinfo);
extern TupleTableSlot *shardExecForeignUpdate(EState *estate, ResultRelInfo *rinfo,
											  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern TupleTableSlot *shardExecForeignDelete(EState *estate, ResultRelInfo *rinfo,
											  TupleTableSlot *slot, TupleTableSlot *planSlot);
extern void shardEndForeignModify(EState *estate, ResultRelInfo *rinfo);
extern void shardBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo);
extern void shardEndForeignInsert(EState *estate, ResultRelInfo *rinfo);
extern int	shardIsForeignRelUpdatable(Relation rel);
struct ShardModifyPlan;
extern bool shard_modify_by_copy(const struct ShardModifyPlan *plan, const ResultRelInfo *rinfo);
extern void shardExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs);

/* row_lock.c */
extern void shardRefetchForeignRow(EState *estate, ExecRowMark *mark, Datum rowid, TupleTableSlot *slot, bool *updated);

/* direct_modify.c */
extern void shardBeginDirectModify(ForeignScanState *node, int eflags);
extern TupleTableSlot *shardIterateDirectModify(ForeignScanState *node);
extern void shardEndDirectModify(ForeignScanState *node);

/* analyze.c */
extern bool shardAnalyzeForeignTable(Relation relation, AcquireSampleRowsFunc *func,
									 BlockNumber *totalpages);

#endif
