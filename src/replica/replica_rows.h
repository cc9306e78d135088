/*
 * replica_rows.h
 *	  Rows of a shard on their way from its primary to replicas.
 */
#ifndef SHARDFDW_REPLICA_ROWS_H
#define SHARDFDW_REPLICA_ROWS_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "remote/copy/copy_stream.h"

/*
 * Has the primary of shard run copy_to, a COPY ... TO STDOUT in text format, and sends what comes to ntargets servers, each of
 * which runs copy_from; all of it in this transaction.  What is still in set's buffers goes with its end.  Returns the
 * number of rows.  Memory: cxt has to last as long as set.
 */
extern int64 shard_replica_rows_send(const Shard *shard, Oid userid, const char *copy_to, const char *copy_from, const Oid *targets,
									int ntargets, ShardCopySet *set, MemoryContext cxt);

#endif
