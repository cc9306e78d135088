/*
 * copy_dest.h
 *	  Where COPY TO writes: a file, a program, or the client.
 */
#ifndef SHARDFDW_COPY_DEST_H
#define SHARDFDW_COPY_DEST_H

#include "postgres.h"

#include "nodes/parsenodes.h"

typedef struct ShardCopyDest ShardCopyDest;

/*
 * Opens what stmt names and begins to report progress for relid.  Memory: in the
 * current context, whose reset forgets the program's pipe.
 * Errors: core's of COPY TO for files and programs.
 */
extern ShardCopyDest *shard_copy_dest_open(const CopyStmt *stmt, Oid relid);

/* True for the client: each row has to be a write of its own, which becomes a message. */
extern bool shard_copy_dest_is_client(const ShardCopyDest *dest);

/* Tells the client, if it is one, that ncolumns columns will come. */
extern void shard_copy_dest_begin(ShardCopyDest *dest, bool binary, int ncolumns);

/*
 * Writes len bytes, waiting while the other side does not take them, and reports nrows
 * more rows as done.  shard_copy_dest_prefix: puts bytes before the next write, in one
 * message with it.
 * Errors: core's; answers interrupts.
 */
extern void shard_copy_dest_write(ShardCopyDest *dest, const char *data, int len, uint64 nrows);
extern void shard_copy_dest_prefix(ShardCopyDest *dest, const char *data, int len);

/* Ends it: what is buffered is written, the file closed, the program waited for.  Errors: core's. */
extern void shard_copy_dest_close(ShardCopyDest *dest);

#endif
