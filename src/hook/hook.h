/*
 * hook.h
 *	  Installs the functions that PostgreSQL calls: for utility statements, the executor, ends of transactions and changes
 *	  of catalogs.  planner/ installs the hooks of the planner.
 */
#ifndef SHARDFDW_HOOK_H
#define SHARDFDW_HOOK_H

/* Each is to be called once, when the library is loaded. */
extern void shard_utility_hook_init(void);
extern void shard_executor_hook_init(void);
extern void shard_transaction_hook_init(void);
extern void shard_invalidation_hook_init(void);

#endif
