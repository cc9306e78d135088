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
 * Runs COPY parent FROM after the caller has checked permissions.  Returns the number of loaded rows.
 *
 * - where: the transformed condition, or NULL
 * - resume: the load with RESUME that this load is a part of, or NULL
 * - feed: callback for the input; NULL: stmt says where the input is
 * - context, dest: arguments of ProcessUtility
 *
 * Errors: the same as core's COPY FROM.
 */
extern uint64 shard_copy_load(ParseState *pstate, const CopyStmt *stmt, Relation parent,
							  Node *where, const ShardCopyOptions *options, ShardResume *resume, copy_data_source_cb feed,
							  ProcessUtilityContext context, CommandDest dest);

#endif
