/*
 * reference.h
 *	  Which tables are reference tables: local tables of the coordinator of
 *	  which every node has a replica under the same name.
 */
#ifndef SHARDFDW_REFERENCE_H
#define SHARDFDW_REFERENCE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* C symbol of the trigger function that sends writes, see reference/reference_trigger.c. */
#define SHARD_REFERENCE_TRIGGER "shardfdw_send_reference_write"

/*
 * Is relid a reference table?  It is one if it has the trigger that sends its writes to the nodes.  Only the table's
 * owner can create such a trigger, and needs USAGE on all nodes for that (ddl/alter/ddl_redirect.c).  Cost: relcache
 * look-up; false for every relation without triggers.
 */
extern bool shard_reference_is(Oid relid);

/* Does relid, the OID of any relation, have a trigger that sends writes, enabled or not?  Cost: relcache look-up. */
extern bool shard_reference_has_trigger(Oid relid);

/* Is it the function of the triggers that send writes? */
extern bool shard_reference_is_trigger(Oid funcid);

/* Servers that have replicas of the reference tables: the cluster's nodes, in order of their OIDs. Memory: current context. */
extern List *shard_reference_nodes(void);

/* relid has changed, or InvalidOid: any relation. */
extern void shard_reference_invalidate(Oid relid);

#endif
