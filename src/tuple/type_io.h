/*
 * type_io.h
 *	  Which types travel in binary, which as text; the functions for it.
 */
#ifndef SHARDFDW_TYPE_IO_H
#define SHARDFDW_TYPE_IO_H

#include "postgres.h"

/*
 * True when a value of type may come from a node in binary: the form is the
 * same on 15 to 19, holds no OIDs of user objects, and reading it does not
 * convert from the client's encoding (core's receive functions for text do).
 * Otherwise the node is asked for column::text.
 */
extern bool shard_type_io_binary_output(Oid type);

/* The same for sending a value to a node's column by COPY BINARY. */
extern bool shard_type_io_binary_input(Oid type);

#endif
