/*
 * writing_statement.h
 *	  Hooks of the executor: a statement that writes or locks rows reads primaries only.
 */
#ifndef SHARDFDW_WRITING_STATEMENT_H
#define SHARDFDW_WRITING_STATEMENT_H

extern void shard_writing_statement_init(void);

#endif
