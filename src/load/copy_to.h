/*
 * copy_to.h
 *	  COPY sharded TO: shards write the format in parallel, the coordinator
 *	  forwards their bytes.
 */
#ifndef SHARDFDW_COPY_TO_H
#define SHARDFDW_COPY_TO_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "parser/parse_node.h"

/*
 * Runs COPY relation TO on a sharded table (checked by the caller, as the right to
 * write the file or start the program was).  Returns rows written.
 * Errors: as core's COPY TO for a table (rights, file, options, row security
 * makes it a query), and those of nodes.
 */
extern uint64 shard_copy_to(ParseState *pstate, const CopyStmt *stmt, int stmt_location, int stmt_len);

#endif
