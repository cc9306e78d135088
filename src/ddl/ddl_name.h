/*
 * ddl_name.h
 *	  Names of objects that must differ from shard to shard.
 */
#ifndef SHARDFDW_DDL_NAME_H
#define SHARDFDW_DDL_NAME_H

#include "postgres.h"

/*
 * Name on a shard of an object (index, unique constraint, extended statistics) of its parent: the object's name and
 * the shard's suffix, truncated to fit. whole: the suffix is the whole name of the shard.  Memory: current context.
 */
extern char *shard_ddl_name(const char *object, const char *shard, bool whole);

/* Suffix of a shard's name: "_" and the digits at its end, or NULL if there is none. */
extern const char *shard_ddl_name_suffix(const char *shard);

#endif
