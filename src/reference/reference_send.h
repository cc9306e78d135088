/*
 * reference_send.h
 *	  Changes of a reference table, sent to all of its replicas at once.
 */
#ifndef SHARDFDW_REFERENCE_SEND_H
#define SHARDFDW_REFERENCE_SEND_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

/*
 * All act on the nodes' replicas of rel as the current user, in this transaction,
 * and return when all nodes have done it.  old_rows and new_rows hold rows of
 * rel, in the order in which they were changed, the n-th of one belonging to
 * the n-th of the other; their present read pointers do not move.
 * Errors: those of nodes; a replica that lacks a row is one (55000).
 */
extern void shard_reference_send_insert(Relation rel, Tuplestorestate *new_rows);
extern void shard_reference_send_update(Relation rel, Tuplestorestate *old_rows, Tuplestorestate *new_rows);
extern void shard_reference_send_delete(Relation rel, Tuplestorestate *old_rows);
extern void shard_reference_send_truncate(Relation rel);

/* A chunk of UPDATE or DELETE ends with that many rows, or bytes of values. */
#define SHARD_REFERENCE_CHUNK_ROWS 10000
#define SHARD_REFERENCE_CHUNK_BYTES (1024 * 1024)

/* Makes a read pointer at the first row and selects it. */
extern void shard_reference_send_rewind(Tuplestorestate *rows);

/*
 * Copies all rows of rel to new, empty replicas on some nodes (OIDs of servers).
 * The caller holds a lock that keeps writers out.  Returns the number of rows.
 */
extern uint64 shard_reference_send_table(Relation rel, List *nodes);

#endif
