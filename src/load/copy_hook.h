/*
 * copy_hook.h
 *	  Takes over COPY of sharded tables.
 */
#ifndef SHARDFDW_COPY_HOOK_H
#define SHARDFDW_COPY_HOOK_H

extern void shard_copy_hook_init(void);

#endif
