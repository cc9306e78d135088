/*
 * explain_remote.h
 *	  EXPLAIN output that needs nodes.
 */
#ifndef SHARDFDW_EXPLAIN_REMOTE_H
#define SHARDFDW_EXPLAIN_REMOTE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/execnodes.h"

/*
 * If shardfdw.explain_remote and VERBOSE are on, adds to es what nodes do for the scan. shards:
 * those of the scan.  Ends the scan's queries, so it must be called last.
 */
extern void shard_explain_remote(ForeignScanState *node, const Bitmapset *shards, ExplainState *es);

/*
 * The same for a statement that a node runs as a whole, on one shard. generic: statement contains
 * parameters without values; otherwise it contains the values. run: the node may run it.
 */
extern void shard_explain_remote_statement(const Shard *shard, Oid userid, const char *statement,
										   bool run, bool generic, ExplainState *es);

#endif
