/*
 * row.h
 *	  One row as received from a node: fields of bytes, not yet values.
 *
 * Streams (remote/) fill it, decoders (tuple/) read it; nothing else is shared by these two layers.
 */
#ifndef SHARDFDW_ROW_H
#define SHARDFDW_ROW_H

#include "postgres.h"

/*
 * ncols fields; values[i] points to lens[i] bytes (network byte order in binary format; not always
 * NUL-terminated); lens[i] is -1 for NULL.  Memory: owned by the stream, valid until its next row.
 */
typedef struct ShardRow
{
	int			ncols;
	const char **values;
	int		   *lens;
} ShardRow;

#endif
