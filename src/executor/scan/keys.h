/*
 * keys.h
 *	  Sets of keys that a key join passes to the scans below it, as values of the parameters from
 *	  SHARD_KEYS_PARAM on.
 */
#ifndef SHARDFDW_KEYS_H
#define SHARDFDW_KEYS_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardKeys ShardKeys;

/*
 * Creates the empty set of parameter paramid of this execution.  Must be called before the nodes
 * that refer to it are initialized.  Memory: the query's, which also frees it.
 */
extern ShardKeys *shard_keys_create(EState *estate, int paramid, Oid type);

/*
 * Adds a value, unless it is in the set. hash: of the value, by any function that gives equal bytes
 * equal hashes.
 */
extern void shard_keys_add(ShardKeys *keys, Datum value, uint32 hash);

/* Number of values. */
extern int	shard_keys_count(const ShardKeys *keys);

extern void shard_keys_clear(ShardKeys *keys);

/* Bytes in use. */
extern Size shard_keys_memory(const ShardKeys *keys);

/*
 * Returns the values as an array of the set's type.  Memory: the set's, until it is cleared.
 * Errors: no key join of this execution has the parameter.
 */
extern Datum shard_keys_get(EState *estate, int paramid);

/* Number of values of parameter paramid. */
extern int	shard_keys_param_count(EState *estate, int paramid);

#endif
