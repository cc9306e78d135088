/*
 * hash_table.h
 *	  Hash tables of this process.
 */
#ifndef SHARDFDW_HASH_TABLE_H
#define SHARDFDW_HASH_TABLE_H

#include "postgres.h"

#include "utils/hsearch.h"

/* Creates a hash table in cxt whose keys are the first keysize bytes of its entries. */
static inline HTAB *
shard_hash_table_create(const char *name, long nelements, Size keysize, Size entrysize, MemoryContext cxt)
{
	HASHCTL		ctl = {.keysize = keysize, .entrysize = entrysize, .hcxt = cxt};

	return hash_create(name, nelements, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

#endif
