/*
 * remote_table.h
 *	  Tests whether a shard's table on its node has the column types of the coordinator's table.
 */
#ifndef SHARDFDW_REMOTE_TABLE_H
#define SHARDFDW_REMOTE_TABLE_H

#include "postgres.h"

/*
 * True if every column on the node accepts the binary form of the coordinator's type.  If not, values have to be sent
 * as text, and the node converts them.
 *
 * Queries the node once per session and table, for all shards of the parent on that node.  Caches the answer until
 * the foreign table or a server changes.  A missing table counts as matching: the statement itself will raise the
 * error.
 */
extern bool shard_remote_table_same_types(Oid relid, Oid serverid, Oid userid);

/*
 * The strict version: every column on the node has a type with the same schema, name and modifiers, so that the node
 * reads a text as the coordinator would.
 */
extern bool shard_remote_table_same_declarations(Oid relid, Oid serverid, Oid userid);

/*
 * May a trigger or rule of the node skip inserted rows?  Only tables that are defined on the node may: adopted
 * shards, and single foreign tables.  A shard that this extension has made has to store all rows.
 */
extern bool shard_remote_table_may_skip_rows(Oid relid, Oid serverid, Oid userid);

/* relid has changed, or (InvalidOid) any relation, server or name of a type. */
extern void shard_remote_table_invalidate(Oid relid);

#endif
