/*
 * ddl_drop.h
 *	  Drops on the nodes what a statement drops on the coordinator.
 */
#ifndef SHARDFDW_DDL_DROP_H
#define SHARDFDW_DDL_DROP_H

#include "ddl/ddl_call.h"

/* DROP of any object: drops tables, and parts of tables that go with it. */
extern bool shard_ddl_drop(ShardDdlCall *call);

/* Any other statement that may drop tables. Runs it and returns true. */
extern bool shard_ddl_drop_collected(ShardDdlCall *call);

/*
 * What a statement drops that has not come to the hook: to be called before core runs it.
 * Errors, later: object_not_in_prerequisite_state when the extension is dropped.
 */
extern void shard_ddl_drop_begin_late(bool cascade, bool empties);

extern void shard_ddl_drop_init(void);	/* hooks into the dropping of objects */

#endif
