/*
 * relay.h
 *	  Copies the rows of a table from one node to another, and compares them.
 */
#ifndef SHARDFDW_RELAY_H
#define SHARDFDW_RELAY_H

#include "postgres.h"

#include "move/job/move.h"
#include "remote/wire/connection.h"

/* Copies table over two links, without changing the bytes.  Adds to move's progress.  Errors: errors of the nodes. */
extern void shard_relay_copy(ShardMove *move, const ShardMoveTable *table, ShardConn *from, ShardConn *into);

/*
 * Compares the rows of all tables by their number and a sum of hashes, which does not depend on their order.  Returns
 * false if they differ because from's snapshot is older than the file of a table (shard_link_is_rewritten()).  Then the
 * comparison must be repeated with another snapshot.  Errors: data_corrupted if they differ otherwise.
 */
extern bool shard_relay_verify(ShardMove *move, ShardConn *from, ShardConn *into);

#endif
