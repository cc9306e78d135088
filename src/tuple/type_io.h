/*
 * type_io.h
 *	  Decides which types are sent in binary format and which as text, and which settings their text depends on.
 */
#ifndef SHARDFDW_TYPE_IO_H
#define SHARDFDW_TYPE_IO_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * May a value of type be received from a node in binary format?  True if the form is the same in 15
 * to 19, contains no OIDs of user objects, and is read without conversion from the client's
 * encoding (core's receive functions for text do convert).  Otherwise column::text is requested
 * from the node.
 */
extern bool shard_type_io_binary_output(Oid type);

/*
 * Returns the element type of an array; InvalidOid: not an array. int2vector and oidvector do not
 * count as arrays, because PostgreSQL cannot read the binary form that it writes for an empty one.
 */
extern Oid	shard_type_io_element(Oid type);

/* The same for sending a value to a node's column by COPY BINARY. */
extern bool shard_type_io_binary_input(Oid type);

/*
 * Is a value of this type (not a domain or array) the OID of an object, which differs between
 * servers?  For example regtype and regclass.
 */
extern bool shard_type_io_names_object(Oid type);

/* The settings on which the text form of a type, or of a part of it, depends. */
#define SHARD_TEXT_STYLE	0x01	/* DateStyle, IntervalStyle, extra_float_digits */
#define SHARD_TEXT_NAMES	0x02	/* search_path */
#define SHARD_TEXT_MONEY	0x04	/* lc_monetary */
#define SHARD_TEXT_XML		0x08	/* xmloption, when reading */
#define SHARD_TEXT_ARRAY	0x10	/* array_nulls, when reading */
#define SHARD_TEXT_UNKNOWN	0x20	/* a type that is not built in, so unknown */
#define SHARD_TEXT_SQL		0x40	/* of no type: how core prints names and literals */

/* Those for which a node must write with portable settings: SHARD_SETTINGS_PORTABLE (remote/wire/connection.h). */
#define SHARD_TEXT_STYLED	(SHARD_TEXT_STYLE | SHARD_TEXT_UNKNOWN)

extern int	shard_type_io_text_settings(Oid type);

/*
 * Returns the text that follows "::" in a cast to type, for any length: qualified, and bpchar for
 * char(n), since "character" alone means character(1).  Memory: current context.
 */
extern char *shard_type_io_cast_name(Oid type);

/*
 * Returns a comment with the OIDs of types, after a blank, for a text with parameters of these types.  A node that has
 * prepared a statement keeps the types of its parameters, even if a column gets another type, or a type is dropped and
 * another one gets its name.  So the text must be different then.  A cast to a built-in type also makes it different.
 */
extern char *shard_type_io_comment(List *types);

#endif
