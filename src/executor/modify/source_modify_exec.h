/*
 * source_modify_exec.h
 *	  The plan node of INSERT ...  ON CONFLICT and MERGE with rows computed on the coordinator.
 */
#ifndef SHARDFDW_EXECUTOR_SOURCE_MODIFY_H
#define SHARDFDW_EXECUTOR_SOURCE_MODIFY_H

/* Registers the node with core, under SHARD_SOURCE_NAME.  Called once. */
extern void shard_source_register(void);

#endif
