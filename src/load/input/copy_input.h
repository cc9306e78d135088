/*
 * copy_input.h
 *	  Reads the input of COPY FROM: a file, a program, the client, or a callback.
 */
#ifndef SHARDFDW_COPY_INPUT_H
#define SHARDFDW_COPY_INPUT_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "nodes/parsenodes.h"

typedef struct ShardCopyInput ShardCopyInput;

/*
 * Called if no input is available: does other work, and returns the maximum time in ms to wait for input before the
 * next call.
 */
typedef int (*ShardCopyIdleHook) (void *arg);

/* The input that BeginCopyFrom() has opened for cstate.  Memory: current context. */
extern ShardCopyInput *shard_copy_input_create(CopyFromState cstate, ShardCopyIdleHook idle, void *arg);

/*
 * An input that lasts longer than a transaction. open: opens the file, starts the program or asks the client for
 * ncolumns columns, as BeginCopyFrom() does.  The caller has checked permissions.  Memory: current context, whose
 * reset closes the input. attach: sets the reader; cstate gets the type of the input.
 */
extern ShardCopyInput *shard_copy_input_open(const CopyStmt *stmt, int ncolumns);
extern void shard_copy_input_attach(ShardCopyInput *input, CopyFromState cstate, ShardCopyIdleHook idle, void *arg);

/* Closes such an input.  Errors: its program has failed. */
extern void shard_copy_input_close(ShardCopyInput *input);

/*
 * Reads up to max_bytes into buf.  Returns 0 at the end of the input, also if called again.  Errors: core's (file,
 * protocol, CopyFail of the client).
 */
extern size_t shard_copy_input_read(ShardCopyInput *input, char *buf, size_t max_bytes);

/* Total size of the input, including the bytes that were read; PG_UINT64_MAX: unknown before the end. */
extern uint64 shard_copy_input_bytes(const ShardCopyInput *input);

/* Discards the remaining data of a client, up to the end of its COPY. */
extern void shard_copy_input_drain(ShardCopyInput *input);

#endif
