/*
 * wait_event.c
 *	  Names of wait events.
 *
 * Majors before 17 have no names for extensions: there, all waits are "Extension".
 */
#include "postgres.h"

#include "compat.h"
#include "utils/wait_event.h"
#include "wait_event.h"

static const char *const event_names[] = {
	[SHARD_WAIT_NODE] = "ShardfdwNode",
	[SHARD_WAIT_CONNECT] = "ShardfdwConnect",
	[SHARD_WAIT_TRANSACTION] = "ShardfdwTransaction",
	[SHARD_WAIT_COPY_NODE] = "ShardfdwCopyNode",
	[SHARD_WAIT_COPY_CLIENT] = "ShardfdwCopyClient",
	[SHARD_WAIT_COPY_FILE] = "ShardfdwCopyFile",
	[SHARD_WAIT_SLOT] = "ShardfdwSlot",
	[SHARD_WAIT_PAUSE] = "ShardfdwPause",
	[SHARD_WAIT_JOB] = "ShardfdwJob",
	[SHARD_WAIT_RECOVERY] = "ShardfdwRecovery",
};

static uint32 event_numbers[lengthof(event_names)]; /* 0: not known yet */
static bool asked = false;

uint32
shard_wait_event(ShardWaitEvent event)
{
	/* Asks only once.  If the server has no names left, one statement fails.  After that no names are shown. */
	if (!asked)
	{
		asked = true;
		for (int i = 0; i < lengthof(event_names); i++)
			event_numbers[i] = shard_wait_event_new(event_names[i]);
	}
	return shard_wait_event_noerror(event);
}

uint32
shard_wait_event_noerror(ShardWaitEvent event)
{
	return event_numbers[event] != 0 ? event_numbers[event] : PG_WAIT_EXTENSION;
}
