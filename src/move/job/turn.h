/*
 * turn.h
 *	  Makes jobs wait for each other: only one at a time works on a node, or on a table.
 */
#ifndef SHARDFDW_TURN_H
#define SHARDFDW_TURN_H

#include "postgres.h"

#include "move/job/job.h"

/*
 * Waits until no other job works on a node (classid: ForeignServerRelationId) or a table (RelationRelationId).
 * Records in the journal which job it waits for.  Call it outside transactions.
 */
extern void shard_turn_take(const ShardJob *job, Oid classid, Oid objid);

#endif
