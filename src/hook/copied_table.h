/*
 * copied_table.h
 *	  Refuses tables whose rows are copies that the statement's snapshot does not show.
 *
 * A conversion copies the rows of a table: to shards (shard_table()), from shards (unshard_table()) or to replicas
 * (create_reference_table()).  A snapshot from before the conversion does not show the copies.  With it, a statement would
 * find the table empty, or find old rows.  So each conversion notes the table (shardfdw_internal.note_copied_table).  A
 * statement whose snapshot does not show the note cannot use the table, nor tables above it.
 */
#ifndef SHARDFDW_COPIED_TABLE_H
#define SHARDFDW_COPIED_TABLE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Checks the tables of a statement.  They are given by its permissions (List of ShardPermissions), or by names (List of
 * RangeVar) that are locked already.  Errors: ERRCODE_T_R_SERIALIZATION_FAILURE if the rows of a table, or of one of
 * its partitions or inheritance children, were copied after the snapshot.  The snapshot is that of the transaction at
 * REPEATABLE READ and above, otherwise the active one.
 */
extern void shard_copied_table_check(List *permissions);
extern void shard_copied_table_check_names(List *names);

/* Relation relid (0: any) has changed. */
extern void shard_copied_table_invalidate(Oid relid);

#endif
