/*
 * remote_table.h
 *	  Whether a shard's table on its node has the column types that it has here.
 */
#ifndef SHARDFDW_REMOTE_TABLE_H
#define SHARDFDW_REMOTE_TABLE_H

#include "postgres.h"

/*
 * True when every column on the node takes the binary form of its type here.
 * If not, values have to travel as text, and the node converts them.
 * Asks the node once per session and table (for all shards of the parent on
 * that node at the same time), and remembers the answer until the foreign table
 * or a server changes.  A table that is not there counts as fitting: the
 * statement itself will say so.
 */
extern bool shard_remote_table_same_types(Oid relid, Oid serverid, Oid userid);

/*
 * The same question, strictly: every column has on the node a type of the same
 * schema, name and modifiers, so that the node reads a text as it would be read
 * here.
 */
extern bool shard_remote_table_same_declarations(Oid relid, Oid serverid, Oid userid);

/*
 * May a row that is inserted be skipped by a trigger or rule of the node, and is
 * that the node's own business?  Of tables that are defined there: adopted ones,
 * and foreign tables by themselves.  A shard of ours has to store what it is sent.
 */
extern bool shard_remote_table_may_skip_rows(Oid relid, Oid serverid, Oid userid);

#endif
