/*
 * replica_sql.h
 *	  Makes the commands that send changes of a shard to its replicas.
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
	 * Query for the primary if few keys are noted.  It returns one row for each key, with these columns:
	 * - how often the key is noted as new, minus how often it is noted as old
	 * - true if the row of the key exists, or else NULL
	 * - true if that row is short
	 * - the columns of the key
	 * - the row, if it is short: the columns that INSERT sets
	 *
	 * Each row is looked up by its key.  The node's planner cannot estimate how few keys there are, and would scan a small shard.
	 */
	const char *few;

	/*
	 * Query for the primary.  It returns one row for each CHUNK_KEYS keys that this transaction has changed, with these columns:
	 * - number of keys whose row exists now
	 * - number of keys whose row existed before
	 * - number of keys for which this is not known, always 0
	 * - the keys whose row existed before: an array for each column of the key, NULL for none
	 */
	const char *keys;
	const char *rows;			/* COPY of the rows with these keys that exist now */
	const char *all;			/* COPY of all rows */

	/* for a replica */
	const char *delete;			/* the rows of keys: parameters are arrays, one for each column of the key */
	const char *insert;			/* COPY */

	/* For a replica, if few rows are to be changed: pieces of statements, between which literals are inserted. */
	const char *delete_head;
	const char **key_types;		/* qualified, of each column of the key */
	const char *delete_tail;
	const char *insert_head;

	const char *schema;			/* quoted schema of the tables with the notes */
} ShardReplicaSql;

/* Is a column part of the primary key of a sharded table? */
extern bool shard_replica_is_key(Oid relid, const char *column);

/*
 * Returns the quoted, qualified name of the table with the notes of a shard, on each of its nodes.  The function of the
 * shard's triggers has the same name.
 */
extern char *shard_replica_notes(const char *schema, const char *shard_name);

/*
 * Query for the primary: whether its user may read all columns of shard, read those of the primary key, insert into all
 * columns, and delete rows.  The columns of its row are in this order.  Memory: current context.
 */
extern char *shard_replica_rights_query(const ShardMap *map, const Shard *shard);

/* Texts for shard shardno of a table.  Memory: current context.  Errors: the table has no primary key. */
extern void shard_replica_sql(const ShardMap *map, int shardno, ShardReplicaSql *sql);

#endif
