/*
 * writing_statement.h
 *	  While a statement that writes, or locks rows, is run, all that its functions and triggers read
 *	  is read from primaries.
 */
#ifndef SHARDFDW_WRITING_STATEMENT_H
#define SHARDFDW_WRITING_STATEMENT_H

extern void shard_writing_statement_init(void);	/* hooks of the executor */

#endif
