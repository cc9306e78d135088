/*
 * copy_context.c
 *	  Settings of a load for the streams that core's CopyFrom() opens for it.
 */
#include "postgres.h"

#include "remote/copy/copy_context.h"

static const ShardCopyContext *current = NULL;

const ShardCopyContext *
shard_copy_context_set(const ShardCopyContext *context)
{
	const ShardCopyContext *before = current;

	current = context;
	return before;
}

const ShardCopyContext *
shard_copy_context_get(const void *cstate)
{
	return current && current->cstate == cstate ? current : NULL;
}
