/*
 * reference_send.h
 *	  Sends changes of a reference table to all of its replicas in parallel.
 */
#ifndef SHARDFDW_REFERENCE_SEND_H
#define SHARDFDW_REFERENCE_SEND_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

/*
 * All functions act on the nodes' replicas of rel as the current user, in this transaction, and
 * return when all nodes have finished. old_rows and new_rows contain rows of rel in the order in
 * which they were changed.  The n-th row of one belongs to the n-th row of the other.  Their
 * present read pointers do not move.  Errors: those of nodes; a replica lacks a row (55000).
 */
extern void shard_reference_send_insert(Relation rel, Tuplestorestate *new_rows);
extern void shard_reference_send_update(Relation rel, Tuplestorestate *old_rows, Tuplestorestate *new_rows);
extern void shard_reference_send_delete(Relation rel, Tuplestorestate *old_rows);
extern void shard_reference_send_truncate(Relation rel);

/* Maximum number of rows, and of bytes of values, in a chunk of UPDATE or DELETE. */
#define SHARD_REFERENCE_CHUNK_ROWS 10000
#define SHARD_REFERENCE_CHUNK_BYTES (1024 * 1024)

/* Creates a read pointer at the first row, and selects it. */
extern void shard_reference_send_rewind(Tuplestorestate *rows);

/*
 * Copies all rows of rel to new, empty replicas on some nodes (OIDs of servers).
 * The caller holds a lock that keeps writers out.  Returns the number of rows.
 */
extern uint64 shard_reference_send_table(Relation rel, List *nodes);

#endif
