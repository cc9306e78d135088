/*
 * spill.h
 *	  Records that are stored to be read later: in memory up to work_mem, then in a temporary file.
 */
#ifndef SHARDFDW_SPILL_H
#define SHARDFDW_SPILL_H

#include "postgres.h"

#include "utils/resowner.h"

typedef struct ShardSpill ShardSpill;

/* Memory: cxt.  The temporary file belongs to owner. */
extern ShardSpill *shard_spill_create(MemoryContext cxt, ResourceOwner owner);
extern void shard_spill_put(ShardSpill *spill, const char *data, uint32 len);

/* Called after the last put and before the first next. */
extern void shard_spill_rewind(ShardSpill *spill);

/* Returns the next record, NULL after the last one.  Memory: valid until the next call. */
extern const char *shard_spill_next(ShardSpill *spill, uint32 *len);

/* Removes the temporary file.  Not needed in abort, where the resource owner does it. */
extern void shard_spill_close(ShardSpill *spill);

#endif
