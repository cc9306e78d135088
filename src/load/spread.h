/*
 * spread.h
 *	  Over how many connections per node a load may write to its shards.
 */
#ifndef SHARDFDW_SPREAD_H
#define SHARDFDW_SPREAD_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "tcop/dest.h"
#include "tcop/utility.h"

/*
 * For a COPY FROM of nbytes (PG_UINT64_MAX: many) into the table of map, run by
 * ProcessUtility with context and dest, over connections of userid: how many, at least 1.
 * To be called before the load's first row has been sent, for shard_copy_set_spread().
 *
 * 1 (for all nodes) unless
 *	- the load is all its transaction does: isolation below REPEATABLE READ, no
 *	  transaction block, function, or extended protocol, where other statements
 *	  may follow; no trigger on the coordinator that would see a part of its rows.  The
 *	  caller has to judge functions that the load calls for each row: if they read or
 *	  write tables, the load must not be spread;
 *	- on every node the shards are different tables (no views, no foreign
 *	  tables) without triggers (but those of shards with copies) and rules for what is done to them, and without
 *	  foreign keys from one to another of them.  merges: not only COPY, but UPDATE and
 *	  DELETE too;
 *	- every node answers.
 * No more than nbytes make worth while, than shardfdw.max_connections_per_node, and
 * than have idle cores on each node's machine (option `cores`), which loads at the same
 * time share.  Less where a node has few max_prepared_transactions (each connection
 * needs one) or few free connections.
 *
 * Connections then share the shards: the rows of one shard must all go over the same
 * connection, since they can wait for each other.
 *
 * Asks all nodes at the same time, over connections that the load uses afterwards.
 * That takes a round trip, and longer when a node is down: it is not worth it for a
 * small input.
 * Errors: only what interrupts raise.
 */
extern int	shard_spread_connections(const ShardMap *map, Oid userid,
									 ProcessUtilityContext context, CommandDest dest,
									 bool merges, uint64 nbytes);

#endif
