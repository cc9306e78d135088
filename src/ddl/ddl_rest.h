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
	ShardDdlRest run;			/* NULL: done */
	void	   *arg;
	MemoryContext cxt;			/* in which run is called */
	bool		is_late;		/* cxt is deleted at the statement's last event */
	struct ShardDdlRestEntry *outer;
} ShardDdlRestEntry;

/*
 * Core runs the statement between begin and end. run is called before event triggers of users.  If our event trigger
 * does not fire, finish calls run after end.  The entry that begins last is run first.  After an error of core, end
 * has to be called, too, but not finish.
 */
extern void shard_ddl_rest_begin(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg);
extern void shard_ddl_rest_end(ShardDdlRestEntry *entry);
extern void shard_ddl_rest_finish(ShardDdlRestEntry *entry);

/*
 * The same for a statement that the hook has not seen: entry is in cxt, which is deleted when the statement ends.  A
 * callback of cxt has to call end.
 */
extern void shard_ddl_rest_begin_late(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg, MemoryContext cxt);

/* The argument with which the innermost statement will call run; NULL: it will not, or has done so. */
extern void *shard_ddl_rest_arg(ShardDdlRest run);

typedef struct ShardDdlRestOuter
{
	ShardDdlRestEntry *entries;
	ShardDdlRest first;
	void	   *arg;
} ShardDdlRestOuter;

/*
 * For a statement that an event trigger runs within another one.  Event triggers of the inner statement must not run
 * the rest of the outer statement.
 *
 * - shard_ddl_rest_suspend() returns the argument for shard_ddl_rest_resume().
 * - first is called with arg before each rest of the inner statement.
 */
extern ShardDdlRestOuter shard_ddl_rest_suspend(ShardDdlRest first, void *arg);
extern void shard_ddl_rest_resume(ShardDdlRestOuter outer);

/*
 * Calls first, for a statement whose nodes' part comes before core's part: when everything is locked on the
 * coordinator.
 */
extern void shard_ddl_rest_first(void);

#endif
