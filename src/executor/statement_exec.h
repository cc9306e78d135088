/*
 * statement_exec.h
 *	  The plan node of statements that nodes run as they stand.
 */
#ifndef SHARDFDW_EXECUTOR_STATEMENT_H
#define SHARDFDW_EXECUTOR_STATEMENT_H

/* Makes the node known to core, under SHARD_STATEMENT_NAME. To be called once. */
extern void shard_statement_register(void);

#endif
