/*
 * take_exec.h
 *	  The plan node of statements that take rows of a table as jobs from a queue.
 */
#ifndef SHARDFDW_EXECUTOR_TAKE_H
#define SHARDFDW_EXECUTOR_TAKE_H

/* Registers the node with core, under SHARD_TAKE_NAME.  Called once. */
extern void shard_take_register(void);

#endif
