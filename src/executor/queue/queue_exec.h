/*
 * queue_exec.h
 *	  The plan node of statements that take rows of a table as jobs from a queue.
 */
#ifndef SHARDFDW_EXECUTOR_QUEUE_H
#define SHARDFDW_EXECUTOR_QUEUE_H

/* Registers the node with core, under SHARD_QUEUE_NAME.  Called once. */
extern void shard_queue_register(void);

#endif
