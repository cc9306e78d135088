/*
 * copy_load.h
 *	  COPY FROM into a sharded table.
 */
#ifndef SHARDFDW_COPY_LOAD_H
#define SHARDFDW_COPY_LOAD_H

#include "postgres.h"

#include "commands/copy.h"
#include "load/input/copy_option.h"
#include "load/resume.h"
#include "nodes/parsenodes.h"
#include "parser/parse_node.h"
#include "tcop/utility.h"
#include "utils/relcache.h"

/*
 * Runs COPY parent FROM, whose rights have been checked.  where: its condition,
 * transformed, or NULL; resume: what it is a part of, or NULL; feed: gives the input, NULL: stmt says where
 * that is; context, dest: of ProcessUtility.
 * Returns the rows that were loaded.  Errors: as core's COPY FROM gives them.
 */
extern uint64 shard_copy_load(ParseState *pstate, const CopyStmt *stmt, Relation parent,
							  Node *where, const ShardCopyOptions *options, ShardResume *resume, copy_data_source_cb feed,
							  ProcessUtilityContext context, CommandDest dest);

#endif
