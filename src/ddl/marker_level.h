/*
 * marker_level.h
 *	  Unique keys of a parent at all levels of its partitions.
 */
#ifndef SHARDFDW_MARKER_LEVEL_H
#define SHARDFDW_MARKER_LEVEL_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Makes the unique indexes and keys of a table on its partitions, at all levels.  Partitioned tables get a marker,
 * local tables the real index.  An equal index of the partition is attached.  Partitions that have the index are not
 * changed.  Errors: errors of core, for example unique_violation; invalid_table_definition if a partition has another
 * primary key.
 */
extern void shard_marker_level_all(Oid relid);

/* The same for one partition of parent and the tables below it. */
extern void shard_marker_level_partition(Oid parent, Oid partition);

/* List of the indexes of a table.  Memory: current context. */
extern List *shard_marker_level_of(Oid relid);

/* List of all indexes of a partitioned table and of the partitioned tables below it. */
extern List *shard_marker_level_indexes(Oid relid);

/*
 * Does before contain index, or the index to which it is now attached? before: indexes that the parent of the shard had
 * before the statement.  If so, the shard has the index already.
 */
extern bool shard_marker_level_had(Oid shard, Oid index, const List *before);

#endif
