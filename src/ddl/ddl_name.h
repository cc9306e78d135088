/*
 * ddl_name.h
 *	  Names of objects that must differ from shard to shard.
 */
#ifndef SHARDFDW_DDL_NAME_H
#define SHARDFDW_DDL_NAME_H

#include "postgres.h"

/*
 * Name on a shard of an object (index, unique constraint, extended statistics)
 * of its parent: the object's and the shard's suffix, cut to fit.  whole: the
 * whole name of the shard is the suffix.  Memory: current context.
 */
extern char *shard_ddl_name(const char *object, const char *shard, bool whole);

/* Suffix of a shard's name: "_" and the digits at its end, or NULL when it has none. */
extern const char *shard_ddl_name_suffix(const char *shard);

#endif
