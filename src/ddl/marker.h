/*
 * marker.h
 *	  Unique keys of a sharded parent, which are markers that its shards enforce.
 */
#ifndef SHARDFDW_MARKER_H
#define SHARDFDW_MARKER_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/*
 * Takes the markers of a partitioned table out of core's sight, so that it adds
 * a foreign partition; the caller's lock on the table keeps others from seeing
 * it without.  An index that covers no partition yet becomes a marker.
 * Result: OIDs of the indexes, for shard_marker_show(); NIL when there are none,
 * or when one of them is a real index over local partitions.
 */
extern List *shard_marker_hide(Oid parent);

/* Brings them back, in the same transaction. */
extern void shard_marker_show(Oid parent, List *markers);

/*
 * Does ALTER TABLE ... ATTACH PARTITION add a foreign table of ours, or a
 * partitioned one that has such partitions and none of other wrappers?
 * Then both tables are locked as core will lock them.
 * Errors: for those who do not own the tables.
 */
extern bool shard_marker_find_attached(AlterTableStmt *stmt, Oid *parent, Oid *partition);

extern void shard_marker_init(void);	/* hooks into CREATE FOREIGN TABLE and ATTACH PARTITION */

#endif
