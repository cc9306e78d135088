/*
 * encode.h
 *	  Encodes a tuple slot as a COPY row, or as text parameters.
 */
#ifndef SHARDFDW_ENCODE_H
#define SHARDFDW_ENCODE_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"

typedef struct ShardEncoder ShardEncoder;

/* Creates an encoder for columns attnos (natts 1-based attribute numbers of desc).  Memory: current context. */
extern ShardEncoder *shard_encode_create(TupleDesc desc, const AttrNumber *attnos, int natts);

/* The same for an IntList of columns.  NIL: NULL. */
extern ShardEncoder *shard_encode_create_list(TupleDesc desc, const List *attnos);

/* Are rows COPY BINARY (every column has a portable binary form)?  Otherwise COPY text. */
extern bool shard_encode_is_binary(const ShardEncoder *encoder);

/* Makes rows COPY text, for a table whose columns have other types on its node.  Called before the first row. */
extern void shard_encode_use_text(ShardEncoder *encoder);

/* Appends one row: binary without the file's header and trailer, or a text line that ends with '\n'. */
extern void shard_encode_row(ShardEncoder *encoder, TupleTableSlot *slot, StringInfo buf);

/*
 * Both functions read the slot's columns, and convert values in the current context, which the
 * caller resets for each row.
 */

/* Text forms of the columns as query parameters (NULL for NULL); memory in the current context. */
extern void shard_encode_params(ShardEncoder *encoder, TupleTableSlot *slot, const char **params);

/* Appends len bytes of a value, in the database's encoding, as a field of COPY text with this delimiter. */
extern void shard_encode_copy_text(StringInfo buf, const char *data, Size len, char delim);

#endif
