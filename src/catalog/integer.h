/*
 * integer.h
 *	  The three integer types, and conversion of values between them.
 */
#ifndef SHARDFDW_INTEGER_H
#define SHARDFDW_INTEGER_H

#include "postgres.h"

/* smallint, integer or bigint?  False for domains over these. */
extern bool shard_integer_is_type(Oid type);

/* Converts a value from one integer type to another.  False if the other type cannot represent it. */
extern bool shard_integer_convert(Datum *value, Oid from, Oid to);

#endif
