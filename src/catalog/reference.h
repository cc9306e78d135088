/*
 * reference.h
 *	  Which tables are reference tables: local tables of the coordinator of
 *	  which every node has a copy under the same name.
 */
#ifndef SHARDFDW_REFERENCE_H
#define SHARDFDW_REFERENCE_H

#include "postgres.h"

/*
 * Is relid a reference table?  A table is one by the trigger that sends its
 * writes to the nodes; nothing else says so.  Cost: relcache look-up; false
 * for every relation that has no triggers.
 */
extern bool shard_reference_is(Oid relid);

#endif
