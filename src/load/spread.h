/*
 * spread.h
 *	  Decides over how many connections per node a load may write to its shards.
 */
#ifndef SHARDFDW_SPREAD_H
#define SHARDFDW_SPREAD_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "tcop/dest.h"
#include "tcop/utility.h"

/*
 * Returns the number of connections, at least 1, for a COPY FROM of nbytes (PG_UINT64_MAX: many) into the table of
 * map, run by ProcessUtility with context and dest, over connections of userid.  Call it before the load's first row
 * is sent; the result is for shard_copy_set_spread().
 *
 * The result is 1 (for all nodes) unless
 *
 * - the load is all that its transaction does: isolation below REPEATABLE READ, no transaction block, function, or
 *   extended protocol, where other statements may follow;
 * - no trigger on the coordinator would see a part of its rows;
 * - on every node the shards are different tables (no views, no foreign tables);
 * - these have no triggers (except those of shards with replicas) and no rules for the commands of the load (merges:
 *   also UPDATE and DELETE), and no foreign keys between them;
 * - every node answers.
 *
 * The caller has to check functions that the load calls for each row.  If they read or write tables, the load must
 * use one connection.
 *
 * The number is limited by nbytes, by shardfdw.max_connections_per_node, and by the idle cores of each node's machine
 * (option `cores`), which concurrent loads share.  It is lower if a node has few max_prepared_transactions (each
 * connection needs one) or few free connections.
 *
 * The connections then share the shards.  All rows of one shard must use the same connection, because they can wait
 * for each other.
 *
 * Queries all nodes in parallel, over connections that the load uses afterwards.  That takes a round trip, and longer
 * if a node is down, so it does not pay for a small input.  Errors: only those of interrupts.
 */
extern int	shard_spread_connections(const ShardMap *map, Oid userid,
									 ProcessUtilityContext context, CommandDest dest,
									 bool merges, uint64 nbytes);

#endif
