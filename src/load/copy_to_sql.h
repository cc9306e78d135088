/*
 * copy_to_sql.h
 *	  The statements with which shards write COPY TO, if they write the same bytes as core.
 */
#ifndef SHARDFDW_COPY_TO_SQL_H
#define SHARDFDW_COPY_TO_SQL_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/shard_map.h"
#include "commands/copy.h"
#include "deparse/shard_query.h"
#include "lib/stringinfo.h"

/*
 * An analyzed COPY TO: attnos (1-based, in output order) of a table or of a query's result, the options, and the
 * encoding of text.
 */
typedef struct ShardCopyTo
{
	const ShardMap *map;
	ShardQuery *query;			/* NULL: COPY of a table */
	TupleDesc	desc;
	Oid			userid;			/* user of the user mappings */
	List	   *attnos;
	CopyFormatOptions opts;
	int			encoding;
} ShardCopyTo;

/*
 * Returns NULL if nodes write the same bytes as core, otherwise the reason, for DEBUG1.  May query the nodes.
 * Memory: current context.
 */
extern const char *shard_copy_to_sql_obstacle(const ShardCopyTo *copy);

/*
 * COPY (SELECT ... FROM shards) TO STDOUT (options) for nshards shards of one
 * node, without a header line.
 */
extern void shard_copy_to_sql_render(const ShardCopyTo *copy, const int *shardnos, int nshards,
									 StringInfo buf);

/* The header line with its line end, in the encoding of the output. */
extern void shard_copy_to_sql_header(const ShardCopyTo *copy, StringInfo buf);

#endif
