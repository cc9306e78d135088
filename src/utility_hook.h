/*
 * utility_hook.h
 *	  The hook that gets all utility statements.
 */
#ifndef SHARDFDW_UTILITY_HOOK_H
#define SHARDFDW_UTILITY_HOOK_H

extern void shard_utility_hook_init(void);

#endif
