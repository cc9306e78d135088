/*
 * replica_rows.h
 *	  Copies rows of a shard from its primary to replicas.
 */
#ifndef SHARDFDW_REPLICA_ROWS_H
#define SHARDFDW_REPLICA_ROWS_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "remote/copy/copy_stream.h"

/*
 * Runs copy_to, a COPY ... TO STDOUT in text format, on the primary of shard, in this transaction.  Sends the rows to
 * ntargets servers, each of which runs copy_from in this transaction.  Rows that are still in set's buffers are sent
 * when set ends.  Returns the number of rows.  Memory: cxt must exist as long as set.
 */
extern int64 shard_replica_rows_send(const Shard *shard, Oid userid, const char *copy_to, const char *copy_from, const Oid *targets,
									int ntargets, ShardCopySet *set, MemoryContext cxt);

#endif
