/*
 * copy_to_sql.h
 *	  The statements with which shards write COPY TO, if they write what core would.
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
 * COPY TO as analysed: attnos (1-based, in the order of output) of a table or of a
 * query's result, the options, and the encoding of text.
 */
typedef struct ShardCopyTo
{
	const ShardMap *map;
	ShardQuery *query;			/* NULL: of a table */
	TupleDesc	desc;
	Oid			userid;			/* whose user mappings are used */
	List	   *attnos;
	CopyFormatOptions opts;
	int			encoding;
} ShardCopyTo;

/*
 * Why the nodes' bytes might be others than core's would be, for DEBUG1; NULL:
 * they are the same.  May ask the nodes.  Memory: current context.
 */
extern const char *shard_copy_to_sql_obstacle(const ShardCopyTo *copy);

/*
 * COPY (SELECT ... FROM shards) TO STDOUT (options) for nshards shards of one
 * node, without a header line.
 */
extern void shard_copy_to_sql_render(const ShardCopyTo *copy, const int *shardnos, int nshards,
									 StringInfo buf);

/* The header line, in the encoding of the output, with its end. */
extern void shard_copy_to_sql_header(const ShardCopyTo *copy, StringInfo buf);

#endif
