/*
 * marker_level.h
 *	  Unique keys of a parent at all levels of its partitions.
 */
#ifndef SHARDFDW_MARKER_LEVEL_H
#define SHARDFDW_MARKER_LEVEL_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Gives the partitions of a table, at all levels, the unique indexes and keys that
 * the table has: partitioned ones get a marker, local ones the real index.  An equal
 * index of the partition is taken over.  Partitions that have it already are not changed.
 * Errors: those of core, unique_violation for example; invalid_table_definition when there is another
 * primary key.
 */
extern void shard_marker_level_all(Oid relid);

/* The same for one partition of parent, and what is below it. */
extern void shard_marker_level_partition(Oid parent, Oid partition);

/* The indexes (OIDs) of a table.  Memory: current context. */
extern List *shard_marker_level_of(Oid relid);

/* All indexes (OIDs) of a partitioned table and of the partitioned tables below it. */
extern List *shard_marker_level_indexes(Oid relid);

/*
 * Is one of the indexes in before, which the shard's parent had already, index itself or
 * now a part of it?  Then the shard has it, too.
 */
extern bool shard_marker_level_had(Oid shard, Oid index, const List *before);

#endif
