/*
 * remote_table.h
 *	  What a shard's table on its node is like, as far as writing to it depends
 *	  on that.
 */
#ifndef SHARDFDW_REMOTE_TABLE_H
#define SHARDFDW_REMOTE_TABLE_H

#include "postgres.h"

typedef struct ShardRemoteTable
{
	Oid			relid;			/* hash key: the foreign table */

	/*
	 * Every column takes the binary form of its type here.  If not, values
	 * have to travel as text, and the node converts them.
	 */
	bool		same_types;

	/* An ordinary table without inheritance children: ctid alone identifies a row. */
	bool		plain;
} ShardRemoteTable;

/*
 * Asks the node once per session and table (for all shards of the parent on
 * that node at the same time) and remembers the answer until the foreign table
 * or a server changes.  A table that is not there counts as fitting: the
 * statement itself will say so.
 * Memory: the answer is valid until the next call.
 */
extern const ShardRemoteTable *shard_remote_table_get(Oid relid, Oid serverid, Oid userid);

#endif
