/*
 * tied_parts.h
 *	  Actions of foreign keys between tables that two parts of a statement change.
 */
#ifndef SHARDFDW_TIED_PARTS_H
#define SHARDFDW_TIED_PARTS_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The sharded table of a shard.  A foreign table by itself is its own. */
extern Oid	shard_tied_parts_table(Oid shard);

/* What a part of a statement does to rows of a table. */
typedef struct ShardTiedChange
{
	Oid			shard;			/* one of the table's shards */
	Oid			userid;			/* of the connection */
	bool		deletes;
	bool		updates;
	List	   *columns;		/* names of the columns that it updates; NIL: unknown */
} ShardTiedChange;

/*
 * May the change make foreign keys delete or update rows of tables, a list of OIDs of shards? Also
 * through further tables.  Asks the node of the shard, which alone has the foreign keys.
 */
extern bool shard_tied_parts_reach(const ShardTiedChange *change, const List *tables);

#endif
