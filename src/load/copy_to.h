/*
 * copy_to.h
 *	  COPY sharded TO: shards write the format in parallel, the coordinator
 *	  forwards their bytes.
 */
#ifndef SHARDFDW_COPY_TO_H
#define SHARDFDW_COPY_TO_H

#include "postgres.h"

#include "deparse/shard_query.h"
#include "nodes/parsenodes.h"
#include "parser/parse_node.h"

/*
 * Runs COPY relation TO on a sharded table (checked by the caller, as the right to
 * write the file or start the program was).  Returns rows written.
 * Errors: as core's COPY TO for a table (rights, file, options, row security
 * makes it a query), and those of nodes.
 */
extern uint64 shard_copy_to(ParseState *pstate, const CopyStmt *stmt, int stmt_location, int stmt_len);

/*
 * The same for COPY (query) TO; *nrows: rows written.  False: nothing was written,
 * and core has to run it, since its result is not that of one shard after the other
 * or core might write it in another way.
 */
extern bool shard_copy_to_query(ParseState *pstate, const CopyStmt *stmt, int stmt_location,
								int stmt_len, uint64 *nrows);

/* Registers the function that finds out what a query asks of shards (executor/shard_query_exec.h). */
extern void shard_copy_to_init(ShardQueryOf function);

#endif
