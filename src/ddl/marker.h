/*
 * marker.h
 *	  Unique keys of a sharded parent, which are markers that its shards enforce.
 */
#ifndef SHARDFDW_MARKER_H
#define SHARDFDW_MARKER_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/* What a statement adds to a partitioned table. */
typedef struct ShardNewPartition
{
	Oid			parent;			/* locked as core will lock it; InvalidOid: nothing of ours is added */
	Oid			partition;		/* the table that is attached, locked; InvalidOid: a new one */
	List	   *markers;		/* of the parent (OIDs), hidden */
} ShardNewPartition;

/*
 * Hides the markers of the table to which CREATE FOREIGN TABLE or ATTACH PARTITION adds a partition
 * from core, so that core adds it.  False: there is nothing to hide, and end must not be called.
 */
extern bool shard_marker_begin(Node *stmt, ShardNewPartition *added);

/*
 * To be called when core has added the partition, in the same transaction: shows the
 * markers again, and gives the new partition its own.
 */
extern void shard_marker_end(void *added);

/*
 * Does ALTER TABLE ... ATTACH PARTITION add a foreign table of ours, or a
 * partitioned one that has such partitions and none of other wrappers?
 * Then both tables are locked as core will lock them.
 * Errors: the user does not own the tables.
 */
extern bool shard_marker_find_attached(AlterTableStmt *stmt, Oid *parent, Oid *partition);

/* Are there foreign tables among a table and its partitions, at any level, and all of them ours? */
extern bool shard_marker_has_shards(Oid relid);

#endif
