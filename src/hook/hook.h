/*
 * hook.h
 *	  What PostgreSQL calls: hooks of utility statements and of the executor, ends of transactions, changes of catalogs.
 *	  Hooks of the planner are installed by planner/.
 */
#ifndef SHARDFDW_HOOK_H
#define SHARDFDW_HOOK_H

/* Each is to be called once, when the library is loaded. */
extern void shard_utility_hook_init(void);
extern void shard_executor_hook_init(void);
extern void shard_transaction_hook_init(void);
extern void shard_invalidation_hook_init(void);

#endif
