/*
 * statement_exec.h
 *	  The plan node of statements that nodes run as a whole.
 */
#ifndef SHARDFDW_EXECUTOR_STATEMENT_H
#define SHARDFDW_EXECUTOR_STATEMENT_H

/* Registers the node with core, under SHARD_STATEMENT_NAME.  Called once. */
extern void shard_statement_register(void);

#endif
