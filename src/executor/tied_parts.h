/*
 * tied_parts.h
 *	  Actions of foreign keys between tables that parts, or functions, of a statement change.
 */
#ifndef SHARDFDW_TIED_PARTS_H
#define SHARDFDW_TIED_PARTS_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/* Returns one shard of each sharded table among shards, since all shards of a table have the same foreign keys. */
extern List *shard_tied_parts_samples(const List *shards);

/* May an UPDATE change columns to which it assigns nothing? */
extern bool shard_tied_parts_updates_others(Relation rel);

/* What a part of a statement does to rows of a table. */
typedef struct ShardTiedChange
{
	Oid			shard;			/* one of the table's shards, or a reference table */
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

/*
 * Raises if a command after the statement began, one of its functions or triggers, has written to relid, which has a
 * shard on the node, or has changed rows to which a foreign key with an action leads from there.  For statements that
 * the node runs as a whole: it would see these rows.  userid: of the connections.
 */
extern void shard_tied_parts_check_unwritten(const EState *estate, Oid relid, Oid serverid, Oid userid);

#endif
