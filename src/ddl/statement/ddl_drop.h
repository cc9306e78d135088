/*
 * ddl_drop.h
 *	  What a statement drops here is dropped on the nodes.
 */
#ifndef SHARDFDW_DDL_DROP_H
#define SHARDFDW_DDL_DROP_H

#include "ddl/ddl_call.h"

/* DROP of anything: tables, and what tables lose with it. */
extern bool shard_ddl_drop(ShardDdlCall *call);

/* Any other statement that may drop tables. Runs it and returns true. */
extern bool shard_ddl_drop_collected(ShardDdlCall *call);

extern void shard_ddl_drop_init(void);	/* hooks into the dropping of objects */

#endif
