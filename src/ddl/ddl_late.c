/*
 * ddl_late.c
 *	  Statements that began before this session had loaded the library.
 *
 * A session loads the library at its start, or when it first calls a function of the extension.  The latter happens
 * in sessions that are older than CREATE EXTENSION, and in sessions of roles with a different
 * session_preload_libraries.  The hook has not seen a statement that is in progress at that moment:
 *
 *	  statement --> core, because there is no hook yet
 *					  --> an event trigger of ours, which loads the library: the statement is late
 *							--> the hook sees statements that this one runs
 *
 * So a statement is late if the hook has seen none of the statements in progress.
 */
#include "postgres.h"

#include "ddl/ddl_late.h"

/* Number of statements in progress that the hook has seen. */
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
