/*
 * row.h
 *	  One row as it came from a node: fields of bytes, not yet values.
 *
 * Streams (remote/) fill it, decoders (tuple/) read it; it is the only thing
 * that these two layers share.
 */
#ifndef SHARDFDW_ROW_H
#define SHARDFDW_ROW_H

#include "postgres.h"

/*
 * ncols fields; values[i] points to lens[i] bytes (network byte order when
 * binary, NUL-terminated only when the fetcher happens to do so); lens[i] is
 * -1 for NULL.  Memory: owned by the stream, valid until its next row.
 */
typedef struct ShardRow
{
	int			ncols;
	const char **values;
	int		   *lens;
} ShardRow;

#endif
