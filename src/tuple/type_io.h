/*
 * type_io.h
 *	  Which types travel in binary, which as text, and what their text depends on.
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

/*
 * Element type of an array; InvalidOid: it is none.  int2vector and oidvector are not taken for
 * arrays: PostgreSQL does not read the binary form that it gives an empty one.
 */
extern Oid	shard_type_io_element(Oid type);

/* The same for sending a value to a node's column by COPY BINARY. */
extern bool shard_type_io_binary_input(Oid type);

/*
 * Is a value of this type (not a domain or array) the OID of an object, which differs
 * from server to server?  regtype, regclass...
 */
extern bool shard_type_io_names_object(Oid type);

/* What the text form of a type, or of something within it, depends on. */
#define SHARD_TEXT_STYLE	0x01	/* DateStyle, IntervalStyle, extra_float_digits */
#define SHARD_TEXT_NAMES	0x02	/* search_path */
#define SHARD_TEXT_MONEY	0x04	/* lc_monetary */
#define SHARD_TEXT_XML		0x08	/* xmloption, when it is read */
#define SHARD_TEXT_ARRAY	0x10	/* array_nulls, when it is read */
#define SHARD_TEXT_UNKNOWN	0x20	/* a type that is not built in: nobody knows */
#define SHARD_TEXT_SQL		0x40	/* of no type: how core prints names and literals */

/* Those for which a node has to write in portable settings: SHARD_SETTINGS_PORTABLE (remote/wire/connection.h). */
#define SHARD_TEXT_STYLED	(SHARD_TEXT_STYLE | SHARD_TEXT_UNKNOWN)

extern int	shard_type_io_text_settings(Oid type);

/*
 * What stands behind "::" to make a value one of type, whatever its length: qualified, and
 * bpchar for char(n), since "character" alone is character(1).  Memory: current context.
 */
extern char *shard_type_io_cast_name(Oid type);

#endif
