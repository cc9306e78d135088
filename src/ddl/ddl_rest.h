/*
 * ddl_rest.h
 *	  What is left to be done for a utility statement when core has run it.
 */
#ifndef SHARDFDW_DDL_REST_H
#define SHARDFDW_DDL_REST_H

#include "postgres.h"

typedef void (*ShardDdlRest) (void *arg);

typedef struct ShardDdlRestEntry
{
	ShardDdlRest run;			/* NULL: it is done */
	void	   *arg;
	MemoryContext cxt;			/* in which run is called */
	struct ShardDdlRestEntry *outer;
} ShardDdlRestEntry;

/*
 * From begin to end core runs the statement; run is called before event triggers
 * of users are, or, where none of ours fires, by finish after end.  What begins last is
 * run first.  End also when core raises, then without finish.
 */
extern void shard_ddl_rest_begin(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg);
extern void shard_ddl_rest_end(ShardDdlRestEntry *entry);
extern void shard_ddl_rest_finish(ShardDdlRestEntry *entry);

/*
 * A statement within another one, of an event trigger: what it fires does not
 * concern the outer one.  Suspend returns what resume takes.
 */
extern ShardDdlRestEntry *shard_ddl_rest_suspend(void);
extern void shard_ddl_rest_resume(ShardDdlRestEntry *outer);

#endif
