/*
 * source_modify_exec.h
 *	  The plan node of INSERT ... ON CONFLICT and MERGE over rows computed here.
 */
#ifndef SHARDFDW_EXECUTOR_SOURCE_MODIFY_H
#define SHARDFDW_EXECUTOR_SOURCE_MODIFY_H

/* Makes the node known to core, under SHARD_SOURCE_NAME. To be called once. */
extern void shard_source_register(void);

#endif
