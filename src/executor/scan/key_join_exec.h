/*
 * key_join_exec.h
 *	  The plan node of key joins.
 */
#ifndef SHARDFDW_EXECUTOR_KEY_JOIN_H
#define SHARDFDW_EXECUTOR_KEY_JOIN_H

/* Registers the node with core, under SHARD_KEY_JOIN_NAME.  Called once. */
extern void shard_key_join_register(void);

#endif
