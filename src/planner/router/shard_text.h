/*
 * shard_text.h
 *	  Makes a separate, shorter text of a statement for each shard.
 */
#ifndef SHARDFDW_SHARD_TEXT_H
#define SHARDFDW_SHARD_TEXT_H

#include "postgres.h"

#include "deparse/whole_query.h"
#include "nodes/parsenodes.h"
#include "plan/plan_private.h"

/*
 * For an UPDATE or DELETE that runs on the shards shardnos of its target and compares the shard key (columns attnos)
 * with many constants.  Sets the plan's shards to those that can have such rows, and sets shard_texts, shard_params,
 * and the params of text.  Returns false, and sets nothing, if all shards run the same text.
 */
extern bool shard_text_make(Query *query, List *attnos, const Bitmapset *shardnos, ShardWholeQuery *text, ShardStatementPlan *plan);

#endif
