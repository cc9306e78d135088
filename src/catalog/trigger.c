/*
 * trigger.c
 *	  Must triggers of a coordinator's table be fired?
 *
 * Core checks deferrable unique constraints of a sharded table with a trigger at the end of the
 * transaction.  The shards have their own constraints with such triggers, so the coordinator's
 * trigger is ignored.
 */
#include "postgres.h"

#include "catalog/pg_trigger.h"
#include "catalog/trigger.h"
#include "commands/trigger.h"
#include "utils/fmgroids.h"

static bool
fires(const Trigger *trigger, int events, bool rows_only)
{
	return trigger->tgfoid != F_UNIQUE_KEY_RECHECK && (trigger->tgtype & events) != 0 &&
		(TRIGGER_FOR_ROW(trigger->tgtype) || !rows_only);
}

bool
shard_trigger_fires(const TriggerDesc *triggers, int events, bool rows_only)
{
	if (triggers == NULL)
		return false;
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		if (fires(&triggers->triggers[i], events, rows_only))
			return true;
	}
	return false;
}

bool
shard_trigger_fires_now(const TriggerDesc *triggers, int events)
{
	bool		replica = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;

	for (int i = 0; triggers && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (fires(trigger, events, false) && !(replica && trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN))
			return true;
	}
	return false;
}
