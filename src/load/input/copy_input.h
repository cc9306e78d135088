/*
 * copy_input.h
 *	  The bytes that COPY FROM reads: of a file, a program, the client, or a callback.
 */
#ifndef SHARDFDW_COPY_INPUT_H
#define SHARDFDW_COPY_INPUT_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "nodes/parsenodes.h"

typedef struct ShardCopyInput ShardCopyInput;

/*
 * Called when no bytes are there yet: does what else there is to do, and returns
 * for how many ms at most to wait for input before it wants to be called again.
 */
typedef int (*ShardCopyIdleHook) (void *arg);

/* The input that BeginCopyFrom() has opened for cstate.  Memory: current context. */
extern ShardCopyInput *shard_copy_input_create(CopyFromState cstate, ShardCopyIdleHook idle, void *arg);

/*
 * An input that lasts longer than a transaction: opens the file, starts the program
 * or asks the client for ncolumns columns, as BeginCopyFrom() does for one that does not.
 * attach: who reads from now on; cstate is told what kind of input it is.  Rights have been checked.
 * Memory: current context, whose reset closes the input.
 */
extern ShardCopyInput *shard_copy_input_open(const CopyStmt *stmt, int ncolumns);
extern void shard_copy_input_attach(ShardCopyInput *input, CopyFromState cstate, ShardCopyIdleHook idle, void *arg);

/* Closes an input that was opened so.  Errors: its program has failed. */
extern void shard_copy_input_close(ShardCopyInput *input);

/*
 * Up to max_bytes into buf; 0 at the end of the input, also when asked again.
 * Errors: as core words them (file, protocol, a COPY that the client failed).
 */
extern size_t shard_copy_input_read(ShardCopyInput *input, char *buf, size_t max_bytes);

/* How many bytes the input has, those that were read included; PG_UINT64_MAX: not known before its end. */
extern uint64 shard_copy_input_bytes(const ShardCopyInput *input);

/* Takes and drops what a client still sends, up to the end of its COPY. */
extern void shard_copy_input_drain(ShardCopyInput *input);

#endif
