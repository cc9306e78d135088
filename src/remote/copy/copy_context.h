/*
 * copy_context.h
 *	  Settings of a load for the streams that core's CopyFrom() opens for it.
 *
 * A load in parsed mode (load/load_parsed.c) calls CopyFrom().  CopyFrom() calls the FDW's insert
 * functions, which open the streams.  This struct passes the load's settings to them, since core
 * does not.
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

	/* the input line from which the current row was made */
	const char *(*source) (void *arg, size_t *nbytes);

	/* for shard_copy_target_set_staging(); NULL: none */
	const ShardCopyStaging *(*staging) (void *arg, Oid shard_relid, const char *copy_sql);

	/* for shard_copy_target_set_frame(); NULL: none */
	const ShardCopyFrame *(*frame) (void *arg, Oid shard_relid);

	/* opened: a target was opened. closing: all rows are stored, and the targets are about to be freed */
	void		(*opened) (void *arg, ShardCopyTarget *target);
	void		(*closing) (void *arg);
} ShardCopyContext;

/* Sets the context of the running load; NULL: none.  Returns the previous one. */
extern const ShardCopyContext *shard_copy_context_set(const ShardCopyContext *context);

/* Returns the context of the CopyFrom() of cstate; NULL: none. */
extern const ShardCopyContext *shard_copy_context_get(const void *cstate);

#endif
