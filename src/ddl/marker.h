/*
 * marker.h
 *	  Unique keys of a sharded parent, called markers, which its shards enforce.
 */
#ifndef SHARDFDW_MARKER_H
#define SHARDFDW_MARKER_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/* A partition that a statement adds to a table. */
typedef struct ShardNewPartition
{
	Oid			parent;			/* locked as core will lock it; InvalidOid: the statement adds no partition of this
								 * wrapper */
	Oid			partition;		/* the attached table, locked; InvalidOid: a new table */
	List	   *markers;		/* indexes of the parent that are hidden */
} ShardNewPartition;

/*
 * Hides markers from core, so that core adds a partition by CREATE FOREIGN TABLE or ATTACH PARTITION.  Returns false
 * if there is nothing to hide.  Then shard_marker_end() must not be called.
 */
extern bool shard_marker_begin(Node *stmt, ShardNewPartition *added);

/*
 * Call it in the same transaction, after core has added the partition.  Shows the markers again, and makes the keys
 * of the new partition.
 */
extern void shard_marker_end(void *added);

/*
 * Does ALTER TABLE ... ATTACH PARTITION add a foreign table of this wrapper, or a partitioned table that has such
 * partitions?  Then both tables are locked as core will lock them.  Errors: the user does
 * not own the tables.
 */
extern bool shard_marker_find_attached(AlterTableStmt *stmt, Oid *parent, Oid *partition);

/* Has a table foreign tables of this wrapper among its partitions, at any level? */
extern bool shard_marker_has_shards(Oid relid);

#endif
