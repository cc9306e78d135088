/*
 * shared_memory.h
 *	  Shared memory of the library.
 */
#ifndef SHARDFDW_SHARED_MEMORY_H
#define SHARDFDW_SHARED_MEMORY_H

#include "postgres.h"

#include "storage/lwlock.h"

typedef struct ShardSharedArea
{
	const char *name;			/* of the area and of its lock's tranche; static */
	Size		size;			/* in bytes */
	Size		size_of_backend;	/* in bytes, for each of MaxBackends */
	void	  **address;		/* set in each process */
	void		(*init) (LWLock *lock); /* called once, with *address set and the area zeroed; NULL: the area needs no lock */
} ShardSharedArea;

/*
 * Requests an area and its lock. *address stays NULL if the library is not preloaded.  To be called
 * while the library is loaded; area is kept.
 */
extern void shard_shared_memory_request(const ShardSharedArea *area);

#endif
