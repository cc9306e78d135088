/*
 * remote_table.h
 *	  Whether a shard's table on its node has the column types of the coordinator's.
 */
#ifndef SHARDFDW_REMOTE_TABLE_H
#define SHARDFDW_REMOTE_TABLE_H

#include "postgres.h"

/*
 * True when every column on the node takes the binary form of the coordinator's type.
 * If not, values have to travel as text, and the node converts them.
 * Asks the node once per session and table (for all shards of the parent on
 * that node at the same time), and remembers the answer until the foreign table
 * or a server changes.  A table that is not there counts as fitting: the
 * statement itself will say so.
 */
extern bool shard_remote_table_same_types(Oid relid, Oid serverid, Oid userid);

/*
 * The same question, strictly: every column has on the node a type of the same
 * schema, name and modifiers, so that the node reads a text as the coordinator would.
 */
extern bool shard_remote_table_same_declarations(Oid relid, Oid serverid, Oid userid);

/*
 * May a trigger or rule of the node skip rows that are inserted?  Only for tables that
 * are defined on the node: adopted shards, and foreign tables by themselves.  A shard
 * that this extension has made has to store all rows that it is sent.
 */
extern bool shard_remote_table_may_skip_rows(Oid relid, Oid serverid, Oid userid);

/* relid, or names of types, or (InvalidOid) any relation or server has changed. */
extern void shard_remote_table_invalidate(Oid relid);

#endif
