/*
 * utility_hook.h
 *	  Takes over statements that change the definitions of sharded and reference tables.
 */
#ifndef SHARDFDW_UTILITY_HOOK_H
#define SHARDFDW_UTILITY_HOOK_H

extern void shard_utility_hook_init(void);

#endif
