/*
 * reference_pending.h
 *	  Rows of reference tables that a statement has written, and that nodes do not have yet.
 */
#ifndef SHARDFDW_REFERENCE_PENDING_H
#define SHARDFDW_REFERENCE_PENDING_H

#include "postgres.h"

/*
 * The nodes have all rows that the innermost statement in progress has inserted, updated or deleted (event:
 * TRIGGER_TYPE_...) in the reference table.
 */
extern void shard_reference_pending_sent(Oid relid, int event, int64 nrows);

/* Has that statement no AFTER STATEMENT triggers, since it was not run to its end? */
extern bool shard_reference_pending_is_cut_off(Oid relid, int event);

/* To be called once, when the library is loaded. */
extern void shard_reference_pending_init(void);

#endif
