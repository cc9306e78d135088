/*
 * ddl_rest.c
 *	  Does the nodes' part of a utility statement after core has run it.
 *
 * Core fires event triggers before it returns to the hook that has called it.  When event triggers of users run, the
 * change must be complete, also on the nodes.  So an event trigger of the extension, which is the first by its name,
 * does the rest:
 *
 *	  hook: begin --> core: change --> event trigger of ours: the rest
 *									   event triggers of users
 *			end	  <--
 *			finish: the rest, if it has not been done
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/event_trigger.h"
#include "ddl/ddl_rest.h"
#include "fmgr.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(shardfdw_change_nodes);

/* The entries of the innermost statement, the last one first. */
static ShardDdlRestEntry *entries = NULL;

/* Called before its rest; NULL: nothing. */
static ShardDdlRest run_first = NULL;
static void *first_arg = NULL;

void
shard_ddl_rest_begin(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg)
{
	entry->run = run;
	entry->arg = arg;
	entry->cxt = CurrentMemoryContext;
	entry->is_late = false;
	entry->outer = entries;
	entries = entry;
}

void
shard_ddl_rest_begin_late(ShardDdlRestEntry *entry, ShardDdlRest run, void *arg, MemoryContext cxt)
{
	shard_ddl_rest_begin(entry, run, arg);
	entry->cxt = cxt;
	entry->is_late = true;
}

void
shard_ddl_rest_end(ShardDdlRestEntry *entry)
{
	entries = entry->outer;
}

void *
shard_ddl_rest_arg(ShardDdlRest run)
{
	for (ShardDdlRestEntry *entry = entries; entry != NULL; entry = entry->outer)
	{
		if (entry->run == run)
			return entry->arg;
	}
	return NULL;
}

void
shard_ddl_rest_first(void)
{
	if (run_first != NULL)
		run_first(first_arg);
}

void
shard_ddl_rest_finish(ShardDdlRestEntry *entry)
{
	ShardDdlRest run = entry->run;
	MemoryContext oldcxt;

	if (run == NULL)
		return;
	entry->run = NULL;
	CommandCounterIncrement();
	oldcxt = MemoryContextSwitchTo(entry->cxt);
	shard_ddl_rest_first();
	run(entry->arg);
	MemoryContextSwitchTo(oldcxt);
}

ShardDdlRestOuter
shard_ddl_rest_suspend(ShardDdlRest first, void *arg)
{
	ShardDdlRestOuter outer = {entries, run_first, first_arg};

	entries = NULL;
	run_first = first;
	first_arg = arg;
	return outer;
}

void
shard_ddl_rest_resume(ShardDdlRestOuter outer)
{
	entries = outer.entries;
	run_first = outer.first;
	first_arg = outer.arg;
}

/* The event trigger, for sql_drop and ddl_command_end. */
Datum
shardfdw_change_nodes(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called by an event trigger", "shardfdw_internal.change_nodes()")));
	for (ShardDdlRestEntry *entry = entries; entry != NULL; entry = entry->outer)
		shard_ddl_rest_finish(entry);
	/* sql_drop comes before ddl_command_end */
	if (entries != NULL && entries->is_late && strcmp(((EventTriggerData *) fcinfo->context)->event, "ddl_command_end") == 0)
		MemoryContextDelete(entries->cxt);
	PG_RETURN_NULL();
}
