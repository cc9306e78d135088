/*
 * relay.h
 *	  Copies the rows of a table from one node to the other, and compares them.
 */
#ifndef SHARDFDW_RELAY_H
#define SHARDFDW_RELAY_H

#include "postgres.h"

#include "move/job/move.h"
#include "remote/wire/connection.h"

/* Copies table over two links, the bytes as they come.  Adds to move's progress.  Errors: a node's. */
extern void shard_relay_copy(ShardMove *move, const ShardMoveTable *table, ShardConn *from, ShardConn *into);

/*
 * Compares the rows of all tables: their numbers, and a sum of their hashes, which does
 * not depend on the order.
 * Errors: ERRCODE_DATA_CORRUPTED when they differ.
 */
extern void shard_relay_verify(ShardMove *move, ShardConn *from, ShardConn *into);

#endif
