/*
 * copy_input.h
 *	  The bytes that COPY FROM reads: of a file, a program, or the client.
 */
#ifndef SHARDFDW_COPY_INPUT_H
#define SHARDFDW_COPY_INPUT_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"

typedef struct ShardCopyInput ShardCopyInput;

/*
 * Called with the descriptor to be waited for when no bytes are there yet; waits
 * until some are, or for a while, and answers interrupts.
 */
typedef void (*ShardCopyIdleHook) (void *arg, int fd);

/* The input that BeginCopyFrom() has opened for cstate.  Memory: current context. */
extern ShardCopyInput *shard_copy_input_create(CopyFromState cstate, ShardCopyIdleHook idle, void *arg);

/*
 * Up to max_bytes into buf; 0 at the end of the input, also when asked again.
 * Errors: as core words them (file, protocol, a COPY that the client failed).
 */
extern size_t shard_copy_input_read(ShardCopyInput *input, char *buf, size_t max_bytes);

/* Takes and drops what a client still sends, up to the end of its COPY. */
extern void shard_copy_input_drain(ShardCopyInput *input);

#endif
