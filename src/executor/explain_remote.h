/*
 * explain_remote.h
 *	  The nodes' side of EXPLAIN.
 */
#ifndef SHARDFDW_EXPLAIN_REMOTE_H
#define SHARDFDW_EXPLAIN_REMOTE_H

#include "postgres.h"

#include "compat.h"
#include "nodes/execnodes.h"

/*
 * Adds to es what nodes do for the scan, of which these are the shards, when
 * shardfdw.explain_remote and VERBOSE ask for it.  Ends what the scan still runs:
 * to be called last.
 */
extern void shard_explain_remote(ForeignScanState *node, const Bitmapset *shards, ExplainState *es);

#endif
