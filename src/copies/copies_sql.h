/*
 * copies_sql.h
 *	  The commands by which changes of a shard get to its copies.
 */
#ifndef SHARDFDW_COPIES_SQL_H
#define SHARDFDW_COPIES_SQL_H

#include "postgres.h"

#include "catalog/shard_map.h"

typedef struct ShardCopiesSql
{
	int			nkeys;			/* columns of the primary key */

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

	/* of a copy */
	const char *delete;			/* the rows of keys: parameters are arrays, one for each column of the key */
	const char *insert;			/* COPY */

	const char *schema;			/* quoted, in which the notes are */
} ShardCopiesSql;

/* Is a column part of the primary key of a sharded table? */
extern bool shard_copies_is_key(Oid relid, const char *column);

/* The quoted, qualified name of the notes of a shard on each of its nodes; the function of its triggers has the same name. */
extern char *shard_copies_notes(const char *schema, const char *shard_name);

/* Texts for shard shardno of a table.  Memory: current context.  Errors: the table has no primary key. */
extern void shard_copies_sql(const ShardMap *map, int shardno, ShardCopiesSql *sql);

#endif
