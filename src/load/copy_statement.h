/*
 * copy_statement.h
 *	  Runs COPY of sharded tables.
 */
#ifndef SHARDFDW_COPY_STATEMENT_H
#define SHARDFDW_COPY_STATEMENT_H

#include "postgres.h"

#include "commands/copy.h"
#include "tcop/utility.h"

/*
 * Runs COPY of a sharded table, or of a query over such tables.  The arguments are those of ProcessUtility_hook.
 * False: nothing was done, core has to run it.
 */
extern bool shard_copy_statement_run(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
									 ProcessUtilityContext context, QueryEnvironment *query_env,
									 DestReceiver *dest, QueryCompletion *qc);

/*
 * Loads lines of COPY's text format into columns (list of String) of a sharded table, with the rights of the current
 * user. feed returns the lines.
 *
 * alone: the load is the whole transaction, so it may write over several connections to a node.  Returns the number
 * of loaded rows.  Errors: those of COPY FROM.
 */
extern uint64 shard_copy_statement_load(Oid relid, List *columns, copy_data_source_cb feed, bool alone);

/* The same for a table that is not sharded, by core. */
extern uint64 shard_copy_statement_load_local(Oid relid, List *columns, copy_data_source_cb feed);

#endif
