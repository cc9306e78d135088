/*
 * copy_dest.h
 *	  Destination of COPY TO: a file, a program, or the client.
 */
#ifndef SHARDFDW_COPY_DEST_H
#define SHARDFDW_COPY_DEST_H

#include "postgres.h"

#include "nodes/parsenodes.h"

typedef struct ShardCopyDest ShardCopyDest;

/*
 * Opens the destination of stmt and starts progress reporting for relid.  Memory: current context, whose reset
 * releases the program's pipe.  Errors: those of core's COPY TO for files and programs.
 */
extern ShardCopyDest *shard_copy_dest_open(const CopyStmt *stmt, Oid relid);

/* True for the client: each row has to be a separate write, which becomes a message. */
extern bool shard_copy_dest_is_client(const ShardCopyDest *dest);

/* If the destination is the client, tells it the number of columns. */
extern void shard_copy_dest_begin(ShardCopyDest *dest, bool binary, int ncolumns);

/*
 * Writes len bytes, waits until the destination accepts them, and adds nrows to the progress. shard_copy_dest_prefix:
 * puts bytes before the next write, in the same message.  Errors: core's.  Answers interrupts.
 */
extern void shard_copy_dest_write(ShardCopyDest *dest, const char *data, int len, uint64 nrows);
extern void shard_copy_dest_prefix(ShardCopyDest *dest, const char *data, int len);

/* Writes buffered data, closes the file, and waits for the program.  Errors: core's. */
extern void shard_copy_dest_close(ShardCopyDest *dest);

#endif
