/*
 * ddl_drop.h
 *	  Drops objects on the nodes when a statement drops them on the coordinator.
 */
#ifndef SHARDFDW_DDL_DROP_H
#define SHARDFDW_DDL_DROP_H

#include "ddl/ddl_call.h"

/* DROP of any object: drops tables, and the parts of tables that are dropped with it. */
extern bool shard_ddl_drop(ShardDdlCall *call);

/* Any other statement that may drop tables.  Runs it and returns true. */
extern bool shard_ddl_drop_collected(ShardDdlCall *call);

extern void shard_ddl_drop_init(void);	/* installs object_access_hook */

#endif
