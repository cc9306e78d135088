/*
 * reference_pending.h
 *	  Rows of reference tables that a statement has written, and that nodes do not have yet.
 */
#ifndef SHARDFDW_REFERENCE_PENDING_H
#define SHARDFDW_REFERENCE_PENDING_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "nodes/pg_list.h"

/*
 * The nodes have all rows that the innermost statement in progress has inserted, updated or deleted (event:
 * TRIGGER_TYPE_...) in the reference table.
 */
extern void shard_reference_pending_sent(Oid relid, int event, int64 nrows);

/* Has that statement no AFTER STATEMENT triggers, since it was not run to its end? */
extern bool shard_reference_pending_is_cut_off(Oid relid, int event);

/*
 * A statement or COPY asks for permissions (of ShardPermissions); it starts, after nbefore statements were noted; it is
 * about to be asked for rows; it finishes.
 * Errors of check: FEATURE_NOT_SUPPORTED.
 */
extern void shard_reference_pending_note(List *permissions);
extern int	shard_reference_pending_count(void);
extern void shard_reference_pending_start(QueryDesc *desc, int eflags, int nbefore);
extern void shard_reference_pending_check(const QueryDesc *desc);
extern void shard_reference_pending_finish(const QueryDesc *desc);

/* A subtransaction, level, or the transaction ends. */
extern void shard_reference_pending_end_level(int level);
extern void shard_reference_pending_end_transaction(void);

#endif
