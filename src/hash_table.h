/*
 * hash_table.h
 *	  Hash tables in the memory of this process.
 */
#ifndef SHARDFDW_HASH_TABLE_H
#define SHARDFDW_HASH_TABLE_H

#include "postgres.h"

#include "utils/hsearch.h"

/* Creates a hash table in cxt.  The key is the first keysize bytes of an entry. */
static inline HTAB *
shard_hash_table_create(const char *name, long nelements, Size keysize, Size entrysize, MemoryContext cxt)
{
	HASHCTL		ctl = {.keysize = keysize, .entrysize = entrysize, .hcxt = cxt};

	return hash_create(name, nelements, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

#endif
