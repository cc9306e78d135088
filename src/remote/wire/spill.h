/*
 * spill.h
 *	  Records put aside to be read later: in memory up to work_mem, then in a
 *	  temporary file.
 */
#ifndef SHARDFDW_SPILL_H
#define SHARDFDW_SPILL_H

#include "postgres.h"

#include "utils/resowner.h"

typedef struct ShardSpill ShardSpill;

/* Memory: in cxt; a temporary file belongs to owner. */
extern ShardSpill *shard_spill_create(MemoryContext cxt, ResourceOwner owner);
extern void shard_spill_put(ShardSpill *spill, const char *data, uint32 len);

/* After the last put, before the first next. */
extern void shard_spill_rewind(ShardSpill *spill);

/* Next record, NULL after the last one.  Memory: valid until the next call. */
extern const char *shard_spill_next(ShardSpill *spill, uint32 *len);

/* Removes the temporary file.  Not needed in abort, where its owner does. */
extern void shard_spill_close(ShardSpill *spill);

#endif
