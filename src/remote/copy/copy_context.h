/*
 * copy_context.h
 *	  What a load wants of the streams that core's CopyFrom() opens for it.
 *
 * A load that goes through core's parser (load/copy_load.c) calls CopyFrom(),
 * and that calls the FDW's insert functions, which open the streams.  This is
 * how the one tells the other, past core.
 */
#ifndef SHARDFDW_COPY_CONTEXT_H
#define SHARDFDW_COPY_CONTEXT_H

#include "postgres.h"

#include "remote/copy/copy_stream.h"

typedef struct ShardCopyContext
{
	const void *cstate;			/* CopyFromState of that CopyFrom() */

	/* for shard_copy_set_guard(); refuse is NULL: no guard */
	bool		on_error;
	ShardCopyRefuseHook refuse;
	void	   *arg;

	/* the line of the input that the row at hand was made of */
	const char *(*source) (void *arg, size_t *nbytes);

	/* for shard_copy_target_set_staging(); NULL: none */
	const ShardCopyStaging *(*staging) (void *arg, Oid shard_relid, const char *copy_sql);

	/* a target was opened, for the load to follow; all rows are stored, and the targets go */
	void		(*opened) (void *arg, ShardCopyTarget *target);
	void		(*closing) (void *arg);
} ShardCopyContext;

/* The context of the load that is running; NULL: none.  Returns the one before. */
extern const ShardCopyContext *shard_copy_context_set(const ShardCopyContext *context);

/* The context of the CopyFrom() of cstate, NULL when it has none. */
extern const ShardCopyContext *shard_copy_context_get(const void *cstate);

#endif
