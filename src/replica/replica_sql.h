/*
 * replica_sql.h
 *	  The commands by which changes of a shard get to its replicas.
 */
#ifndef SHARDFDW_REPLICA_SQL_H
#define SHARDFDW_REPLICA_SQL_H

#include "postgres.h"

#include "catalog/shard_map.h"

typedef struct ShardReplicaSql
{
	int			nkeys;			/* columns of the primary key */
	int			ncolumns;		/* columns that INSERT sets */

	/*
	 * Of the primary, where few keys are noted: one row for each of them, of
	 *	 times that it is noted as new, less those as old
	 *	 true if its row is there now, else NULL
	 *	 true if that is short
	 *	 the columns of the key
	 *	 the row, if it is short: the columns that INSERT sets
	 * Each row is looked up by its key: the node's planner, which does not know how few they are, would read all of a small shard.
	 */
	const char *few;

	/*
	 * Of the primary: one row for each so many keys of rows that this transaction has changed, of
	 *	 number of keys whose row is there now
	 *	 number of keys whose row was there before
	 *	 number of keys of which it cannot be told, always 0
	 *	 the keys whose row was there before: an array for each column of the key, NULL for none
	 */
	const char *keys;
	const char *rows;			/* COPY of the rows with these keys that are there now */
	const char *all;			/* COPY of all rows */
	const char *forget;			/* deletes the notes of these keys */

	/* of a replica */
	const char *delete;			/* the rows of keys: parameters are arrays, one for each column of the key */
	const char *insert;			/* COPY */

	/* of a replica, where few rows are to be changed: statements are made of these, and literals between them */
	const char *delete_head;
	const char **key_types;		/* qualified, of each column of the key */
	const char *delete_tail;
	const char *insert_head;

	const char *schema;			/* quoted, in which the notes are */
} ShardReplicaSql;

/* Is a column part of the primary key of a sharded table? */
extern bool shard_replica_is_key(Oid relid, const char *column);

/* The quoted, qualified name of the notes of a shard on each of its nodes; the function of its triggers has the same name. */
extern char *shard_replica_notes(const char *schema, const char *shard_name);

/* Texts for shard shardno of a table.  Memory: current context.  Errors: the table has no primary key. */
extern void shard_replica_sql(const ShardMap *map, int shardno, ShardReplicaSql *sql);

#endif
