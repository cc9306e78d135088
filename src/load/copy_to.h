/*
 * copy_to.h
 *	  COPY TO of sharded tables: shards write the format in parallel, and the coordinator forwards their bytes.
 */
#ifndef SHARDFDW_COPY_TO_H
#define SHARDFDW_COPY_TO_H

#include "postgres.h"

#include "deparse/shard_query.h"
#include "nodes/parsenodes.h"
#include "parser/parse_node.h"

/*
 * Runs COPY relation TO for a sharded table.  The caller has checked that the table is sharded, and the permission
 * for the file or program.  Returns the number of written rows.  Errors: those of core's COPY TO for a table
 * (permissions, file, options), and those of nodes.  With row security, it becomes a query.
 */
extern uint64 shard_copy_to(ParseState *pstate, const CopyStmt *stmt, int stmt_location, int stmt_len);

/*
 * The same for COPY (query) TO.  *nrows: number of written rows.  False: nothing was written, and core must run it.
 * Its result is not a concatenation of the results of the shards, or core might write other bytes.
 */
extern bool shard_copy_to_query(ParseState *pstate, const CopyStmt *stmt, int stmt_location,
								int stmt_len, uint64 *nrows);

/* Registers the function that finds the remote query of a plan (executor/shard_query_exec.h). */
extern void shard_copy_to_init(ShardQueryOf function);

#endif
