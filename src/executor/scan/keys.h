/*
 * keys.h
 *	  Sets of keys that a key join hands to the scans below it, as the values of
 *	  parameters from SHARD_KEYS_PARAM on.
 */
#ifndef SHARDFDW_KEYS_H
#define SHARDFDW_KEYS_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct ShardKeys ShardKeys;

/*
 * The set behind parameter paramid of this execution, empty; to be made before
 * the nodes that refer to it are initialised.  Memory: the query's, which also
 * ends it.
 */
extern ShardKeys *shard_keys_create(EState *estate, int paramid, Oid type);

/*
 * Adds a value unless it is in the set; hash: of the value, by any function
 * under which equal images have equal hashes.
 */
extern void shard_keys_add(ShardKeys *keys, Datum value, uint32 hash);

/* Number of values. */
extern int	shard_keys_count(const ShardKeys *keys);

extern void shard_keys_clear(ShardKeys *keys);

/* Bytes in use. */
extern Size shard_keys_memory(const ShardKeys *keys);

/*
 * The values as an array of the set's type.  Memory: the set's, until it is
 * cleared.
 * Errors: no key join of this execution has the parameter.
 */
extern Datum shard_keys_get(EState *estate, int paramid);

/* Number of values behind paramid. */
extern int	shard_keys_param_count(EState *estate, int paramid);

#endif
