/*
 * reference_pending.h
 *	  Tracks rows of reference tables that a statement has written, and that nodes do not have yet.
 */
#ifndef SHARDFDW_REFERENCE_PENDING_H
#define SHARDFDW_REFERENCE_PENDING_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "nodes/pg_list.h"

/*
 * The nodes have received all rows that the innermost running statement has inserted, updated or
 * deleted (event: TRIGGER_TYPE_...) in the reference table.
 */
extern void shard_reference_pending_sent(Oid relid, int event, int64 nrows);

/* Will that statement fire no AFTER STATEMENT triggers, because it was not run to its end? */
extern bool shard_reference_pending_is_cut_off(Oid relid, int event);

/*
 * shard_reference_pending_note(): a statement or COPY requires permissions (List of ShardPermissions). start: it
 * starts; nbefore statements were recorded before. check: it is about to be asked for rows. finish: it finishes. Errors
 * of check: FEATURE_NOT_SUPPORTED.
 */
extern void shard_reference_pending_note(List *permissions);
extern int	shard_reference_pending_count(void);
extern void shard_reference_pending_start(QueryDesc *desc, int eflags, int nbefore);
extern void shard_reference_pending_check(const QueryDesc *desc);
extern void shard_reference_pending_finish(const QueryDesc *desc);

/* The subtransaction level, or the transaction, ends. */
extern void shard_reference_pending_end_level(int level);
extern void shard_reference_pending_end_transaction(void);

#endif
