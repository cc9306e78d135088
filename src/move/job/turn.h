/*
 * turn.h
 *	  Jobs wait for each other: one at a time works on a node, or on a table.
 */
#ifndef SHARDFDW_TURN_H
#define SHARDFDW_TURN_H

#include "postgres.h"

/*
 * Waits until no other job works on a node (classid: ForeignServerRelationId) or a table (RelationRelationId), and says in
 * the journal for which job it waits.  To be called in a transaction that shard_move_begin(userid) has begun, and that has
 * done nothing yet: it may be committed, and another one begun.
 */
extern void shard_turn_take(int64 id, Oid userid, Oid classid, Oid objid);

#endif
