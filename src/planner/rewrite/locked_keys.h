/*
 * locked_keys.h
 *	  UPDATE and DELETE of rows whose keys come from a locking SELECT or from a list of values.
 */
#ifndef SHARDFDW_LOCKED_KEYS_H
#define SHARDFDW_LOCKED_KEYS_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* Rewrites such statements in query and its WITH queries. */
extern void shard_locked_keys(Query *query);

#endif
