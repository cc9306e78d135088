/*
 * shard_text.h
 *	  Texts of a statement for single shards.
 */
#ifndef SHARDFDW_SHARD_TEXT_H
#define SHARDFDW_SHARD_TEXT_H

#include "postgres.h"

#include "deparse/whole_query.h"
#include "nodes/parsenodes.h"
#include "plan/plan_private.h"

/*
 * For an UPDATE or DELETE that each of shardnos (IntList) of its target is to run, and that compares the shard key,
 * the columns attnos, with many constants: sets the plan's shards, those that can have such rows, shard_texts and
 * shard_params, and text's params.  false: nothing is set, and all run the same text.
 */
extern bool shard_text_make(Query *query, List *attnos, const Bitmapset *shardnos, ShardWholeQuery *text, ShardStatementPlan *plan);

#endif
