/*
 * trigger.h
 *	  Whether triggers of a coordinator's table have to be fired.
 */
#ifndef SHARDFDW_TRIGGER_H
#define SHARDFDW_TRIGGER_H

#include "postgres.h"

#include "utils/reltrigger.h"

/*
 * Does a trigger fire for one of events (TRIGGER_TYPE_INSERT | ...)?  rows_only:
 * one that fires for each row.  triggers may be NULL.
 */
extern bool shard_trigger_fires(const TriggerDesc *triggers, int events, bool rows_only);

/* The same in the session as it is: one that plays a replica fires fewer.  Not for plans, which may outlast that. */
extern bool shard_trigger_fires_now(const TriggerDesc *triggers, int events);

#endif
