/*
 * ddl_rest.h
 *	  Does the nodes' part of a utility statement after core has run it.
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
	bool		is_late;		/* cxt goes with the statement's last event */
	struct ShardDdlRestEntry *outer;
} ShardDdlRestEntry;

/*
 * Core runs the statement between begin and end.  run is called before event triggers
 * of users; if our event trigger does not fire, finish calls it after end.  The entry
 * that begins last is run first.  end has to be called also when core raises, then
 * without finish.
 */
extern void shard_ddl_rest_begin(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg);
extern void shard_ddl_rest_end(ShardDdlRestEntry *entry);
extern void shard_ddl_rest_finish(ShardDdlRestEntry *entry);

/*
 * The same for a statement that has not come to the hook: entry lies in cxt, which is
 * deleted when the statement ends.  A callback of cxt has to call end.
 */
extern void shard_ddl_rest_begin_late(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg, MemoryContext cxt);

typedef struct ShardDdlRestOuter
{
	ShardDdlRestEntry *entries;
	ShardDdlRest first;
	void	   *arg;
} ShardDdlRestOuter;

/*
 * For a statement that an event trigger runs within another one: event triggers that
 * the inner statement fires must not run the outer one's rest.  suspend returns what
 * resume takes; first is called with arg before each rest of the inner one.
 */
extern ShardDdlRestOuter shard_ddl_rest_suspend(ShardDdlRest first, void *arg);
extern void shard_ddl_rest_resume(ShardDdlRestOuter outer);

/* The call of first, for a statement whose nodes' part comes before core's: when all is locked here. */
extern void shard_ddl_rest_first(void);

#endif
