/*
 * ddl_table.h
 *	  Which tables on the nodes a change of a table's definition concerns.
 */
#ifndef SHARDFDW_DDL_TABLE_H
#define SHARDFDW_DDL_TABLE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "storage/lockdefs.h"

/* One table on one node: a shard, or a copy of a reference table. */
typedef struct ShardDdlShard
{
	Oid			relid;			/* the foreign table here; of a copy: the reference table */
	Oid			serverid;
	const char *node;			/* server's name */
	const char *schema;
	const char *name;			/* the same there as here */
	const char *relation;		/* quoted, qualified */
	bool		whole_name;		/* its number does not tell it from the other shards, see ddl_name.c */
} ShardDdlShard;

typedef struct ShardDdlTable
{
	Oid			relid;			/* the partitioned or reference table; a shard by itself */
	const char *name;			/* for messages */
	bool		is_reference;
	int			nshards;		/* at least one */
	ShardDdlShard *shards;
} ShardDdlTable;

/*
 * The tables on nodes that follow relid: its shards at any level of
 * partitioning, the copies of a reference table, or the one of a shard.  NULL when there are none, when
 * shardfdw.enable_ddl_propagation is off, or when none of the shards' servers
 * propagates.  The caller holds a lock on relid.  Memory: current context.
 * Errors: feature_not_supported when some shards follow and others cannot.
 */
extern ShardDdlTable *shard_ddl_table(Oid relid);

/* The copies of a table that was a reference table until now.  NULL when there are no nodes. */
extern ShardDdlTable *shard_ddl_table_reference(Oid relid);

/* The same for a foreign table, be it a partition or not. */
extern ShardDdlTable *shard_ddl_table_by_itself(Oid relid);

/* May relid be such a table?  Cheap, needs no lock, and is only a guess. */
extern bool shard_ddl_table_maybe(Oid relid);

/*
 * The table that a statement names, locked in lockmode, which the user must own;
 * NULL when it does not exist, or as above.
 */
extern ShardDdlTable *shard_ddl_table_owned(RangeVar *relation, LOCKMODE lockmode);

/*
 * Locks the table that find returns, and finds it again under the lock, as names may be
 * given to others while it is waited for.  find must do with what it is in the catalogs,
 * without locks; InvalidOid: none.  Returns the table, InvalidOid when there is none (any more).
 */
extern Oid	shard_ddl_table_lock(Oid (*find) (void *arg), void *arg, LOCKMODE lockmode);

/* The table of an index that a statement names, if the user owns it: find for the above, of a RangeVar. */
extern Oid	shard_ddl_table_of_index(void *index);

/* Foreign table relid, a shard that has its own name on its node: fills *shard.  False when it is none. */
extern bool shard_ddl_table_shard(Oid relid, ShardDdlShard *shard);

/* Tables, partitioned and foreign tables (OIDs) that lie in a schema. */
extern List *shard_ddl_table_of_schema(Oid namespace);

/* In the order of their names: who locks several tables does so in this order. */
extern void shard_ddl_table_sort(ShardDdlTable *table);

/* Name that an object of a table has on one of its shards: its own for copies of reference tables. */
extern char *shard_ddl_table_object(const ShardDdlTable *table, const ShardDdlShard *shard, const char *object);

/*
 * For commands that lock readers out and that core runs under an open cursor: on
 * the nodes they would wait for the session's own connections.
 * Errors: object_in_use, as core raises it for other commands.
 */
extern void shard_ddl_table_check_unused(const ShardDdlTable *table, const char *command);

/* Raises feature_not_supported: what (a command) is not possible for table. */
extern void shard_ddl_table_refuse(const ShardDdlTable *table, const char *what, const char *hint)
			__attribute__((noreturn));

#endif
