/*
 * integer.h
 *	  The three integer types, and values of one as those of another.
 */
#ifndef SHARDFDW_INTEGER_H
#define SHARDFDW_INTEGER_H

#include "postgres.h"

/* smallint, integer or bigint?  Domains over them are none. */
extern bool shard_integer_is_type(Oid type);

/* Makes a value of one integer type one of another; false when that has no such number. */
extern bool shard_integer_convert(Datum *value, Oid from, Oid to);

#endif
