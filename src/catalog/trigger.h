/*
 * trigger.h
 *	  Must triggers of a coordinator's table be fired?
 */
#ifndef SHARDFDW_TRIGGER_H
#define SHARDFDW_TRIGGER_H

#include "postgres.h"

#include "utils/reltrigger.h"

/*
 * Does a trigger fire for one of events (TRIGGER_TYPE_INSERT | ...)? rows_only: only triggers that
 * fire for each row. triggers may be NULL.
 */
extern bool shard_trigger_fires(const TriggerDesc *triggers, int events, bool rows_only);

/*
 * The same for the session's present session_replication_role: as a replica it fires fewer
 * triggers.  Not for plans, which may be used after it has changed.
 */
extern bool shard_trigger_fires_now(const TriggerDesc *triggers, int events);

#endif
