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

/* One table on one node: a shard, or a replica of a reference table. */
typedef struct ShardDdlShard
{
	Oid			relid;			/* the foreign table here; of a replica: the reference table */
	Oid			serverid;
	Oid			owner;			/* the owner of relid, if ddl_send.c has to ask whether the table on the node is the owner's; or InvalidOid */
	const char *node;			/* server's name */
	const char *schema;
	const char *name;			/* the same there as here */
	const char *relation;		/* quoted, qualified */
	int			nreplicas;		/* a shard with replicas: how many, and on which servers */
	const Oid  *replicas;
	bool		is_noted;		/* it has replicas, or had them until their nodes were disabled */
	List	   *stale;			/* names of nodes that were disabled, and have a replica that has missed changes */
	bool		is_replica;		/* of the shard with the same relid */
	bool		whole_name;		/* another shard ends in the same number, or it has none, see ddl_name.c */
} ShardDdlShard;

typedef struct ShardDdlTable
{
	Oid			relid;			/* the partitioned or reference table; a shard by itself */
	const char *name;			/* for messages */
	bool		is_reference;
	int			nshards;		/* at least one; replicas of shards count, too */
	ShardDdlShard *shards;
} ShardDdlTable;

/*
 * The tables on nodes whose definitions follow relid's: its shards at any level of
 * partitioning, the replicas of a reference table, or a shard's own table.  NULL when
 * there are none, when shardfdw.enable_ddl_propagation is off, or when option
 * propagate_ddl is off for all shards' servers.  The caller holds a lock on relid.
 * Memory: current context.
 * Errors: feature_not_supported when some shards follow and others cannot.
 */
extern ShardDdlTable *shard_ddl_table(Oid relid);

/* The replicas of a table that was a reference table until now.  NULL when there are no nodes. */
extern ShardDdlTable *shard_ddl_table_reference(Oid relid);

/* The same for a foreign table, whether it is a partition or not. */
extern ShardDdlTable *shard_ddl_table_by_itself(Oid relid);

/* May relid be such a table?  Cheap, needs no lock, and is only a guess. */
extern bool shard_ddl_table_maybe(Oid relid);

/* The relation of a list of names, without its last ntail ones; InvalidOid when it does not exist.  Not locked. */
extern Oid	shard_ddl_table_named(List *names, int ntail);

/*
 * The table that a statement names, locked in lockmode, which the user must own;
 * NULL when it does not exist, or as above.
 */
extern ShardDdlTable *shard_ddl_table_owned(RangeVar *relation, LOCKMODE lockmode);

/*
 * Locks the table that find returns, and calls find again under the lock, since another
 * table may have got the name during the wait.  find only looks into the catalogs,
 * without locks; it returns InvalidOid for none.  Returns the table, or InvalidOid when
 * there is none (any more).
 */
extern Oid	shard_ddl_table_lock(Oid (*find) (void *arg), void *arg, LOCKMODE lockmode);

/* A find for the above: the table of the index that a RangeVar names, if the user owns it. */
extern Oid	shard_ddl_table_of_index(void *index);

/*
 * What is being done, if it is not done to tables whose shards have replicas: the functions above raise feature_not_supported for
 * these then.  NULL: it is done.  Returns what was set before.
 */
extern const char *shard_ddl_table_refuse_replicas(const char *what);

/* Raises the same error for a table that is not looked up by these functions, its lock held or not. */
extern void shard_ddl_table_check_replicas(Oid relid);

/* Foreign table relid, a shard that has its own name on its node: fills *shard.  False when it is none. */
extern bool shard_ddl_table_shard(Oid relid, ShardDdlShard *shard);

/* Tables, partitioned and foreign tables (OIDs) that lie in a schema. */
extern List *shard_ddl_table_of_schema(Oid namespace);

/* Sorts the tables by name: several tables have to be locked in this order, to avoid deadlocks. */
extern void shard_ddl_table_sort(ShardDdlTable *table);

/* Name that an object of a table has on one of its shards: its own for replicas of reference tables. */
extern char *shard_ddl_table_object(const ShardDdlTable *table, const ShardDdlShard *shard, const char *object);

/*
 * Scans of a sharded table hold the table open, not its shards: raises ERRCODE_OBJECT_IN_USE
 * when relid is a shard of a table that this session is reading.
 */
extern void shard_ddl_table_check_parent_unused(Oid relid, const char *command);

/*
 * For commands that lock readers out and that core runs even while a cursor of the
 * session is open: on the nodes they would wait for the session's own connections.
 * Errors: object_in_use, as core raises it for other commands.
 */
extern void shard_ddl_table_check_unused(const ShardDdlTable *table, const char *command);

/* Raises feature_not_supported: what (a command) is not possible for table. */
extern void shard_ddl_table_refuse(const ShardDdlTable *table, const char *what, const char *hint)
			__attribute__((noreturn));

#endif
