/*
 * ddl_late.c
 *	  Statements that began before this session had loaded the library.
 *
 * A session loads the library at its start, or when it first calls a function of ours: sessions
 * that were there before CREATE EXTENSION, and those of roles with session_preload_libraries of
 * their own.  A statement that is under way at that moment has not come to the hook:
 *
 *	  statement --> core, since there is no hook yet
 *					  --> an event trigger of ours, which loads the library: the statement is late
 *							--> statements that this one runs come to the hook
 *
 * So a statement is late when none that is under way has come to the hook.
 */
#include "postgres.h"

#include "ddl/ddl_late.h"

/* Statements under way that have come to the hook. */
static int	nseen = 0;

void
shard_ddl_late_begin_seen(void)
{
	nseen++;
}

void
shard_ddl_late_end_seen(void)
{
	nseen--;
}

bool
shard_ddl_late_is(void)
{
	return nseen == 0;
}

void
shard_ddl_late_refuse(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this session had not loaded the library shardfdw when the statement began"),
			 errdetail("%s", detail),
			 errhint("Run it again: the library is loaded now. Sessions load it when they begin, unless session_preload_libraries of their role does without it.")));
}
