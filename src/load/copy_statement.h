/*
 * copy_statement.h
 *	  Takes over COPY of sharded tables.
 */
#ifndef SHARDFDW_COPY_STATEMENT_H
#define SHARDFDW_COPY_STATEMENT_H

#include "postgres.h"

#include "tcop/utility.h"

/*
 * Runs COPY of a sharded table, or of a query over some; the arguments are those of
 * ProcessUtility_hook.  False: nothing was done, core has to run it.
 */
extern bool shard_copy_statement_run(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
									 ProcessUtilityContext context, QueryEnvironment *query_env,
									 DestReceiver *dest, QueryCompletion *qc);

#endif
