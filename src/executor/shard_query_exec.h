/*
 * shard_query_exec.h
 *	  Recognizes queries that consist of a single shard scan, see deparse/shard_query.h.
 */
#ifndef SHARDFDW_EXECUTOR_SHARD_QUERY_H
#define SHARDFDW_EXECUTOR_SHARD_QUERY_H

#include "postgres.h"

#include "deparse/shard_query.h"

/* A ShardQueryOf.  Memory: current context. */
extern ShardQuery *shard_query_of(QueryDesc *desc);

#endif
