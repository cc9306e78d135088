/*
 * ddl_table.h
 *	  Finds the tables on nodes that follow a change of a table's definition.
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
	Oid			relid;			/* the foreign table on the coordinator; for a replica: the reference table */
	Oid			serverid;
	Oid			owner;			/* owner of relid, if it must also own the table on the node (see ddl_send.c); else InvalidOid */
	const char *node;			/* name of the server */
	const char *schema;
	const char *name;			/* the same on node and coordinator */
	const char *relation;		/* quoted, qualified */
	int			nreplicas;		/* number and servers of the shard's replicas */
	const Oid  *replicas;
	bool		is_noted;		/* the shard has replicas, or had replicas until their nodes were disabled */
	List	   *stale;			/* names of disabled nodes that have a replica which has missed changes */
	bool		whole_name;		/* keep the whole name: the name has no number at its end, or another shard has the
								 * same number (see ddl_name.c) */
} ShardDdlShard;

typedef struct ShardDdlTable
{
	Oid			relid;			/* the partitioned or reference table, or a single foreign table */
	const char *name;			/* for messages */
	bool		is_reference;
	int			nshards;		/* at least one; includes replicas of shards */
	ShardDdlShard *shards;
} ShardDdlTable;

/*
 * Returns the tables on nodes whose definitions follow relid: its shards at any level of partitioning, the replicas of
 * a reference table, or the table of a single shard.  NULL if there are none, if shardfdw.enable_ddl_propagation is
 * off, or if option propagate_ddl is off for the servers of all shards.  The caller holds a lock on relid.  Memory:
 * current context.  Errors: feature_not_supported if some shards follow and others cannot.
 */
extern ShardDdlTable *shard_ddl_table(Oid relid);

/* The replicas of a table that was a reference table until now.  NULL if there are no nodes. */
extern ShardDdlTable *shard_ddl_table_reference(Oid relid);

/* The same for a foreign table, as partition or single foreign table. */
extern ShardDdlTable *shard_ddl_table_by_itself(Oid relid);

/*
 * All tables on nodes for which foreign tables below relid stand, with the names that they have there, for questions
 * only.  NULL: none.
 */
extern ShardDdlTable *shard_ddl_table_remote(Oid relid);

/* OIDs of the servers on which the tables are. */
extern List *shard_ddl_table_servers(const ShardDdlTable *table);

/* May relid be such a table?  Cheap, needs no lock, and is only a guess. */
extern bool shard_ddl_table_maybe(Oid relid);

/*
 * Looks up the relation that a list of names means, without the last ntail names.  InvalidOid if it does not exist.
 * Does not lock it.
 */
extern Oid	shard_ddl_table_named(List *names, int ntail);

/*
 * The table that a statement names, locked in lockmode.  The user must own it.  NULL if it does not exist, or as
 * above.
 */
extern ShardDdlTable *shard_ddl_table_owned(RangeVar *relation, LOCKMODE lockmode);

/*
 * Locks the object that find returns.  Calls find again under the lock, since another object may get the name during
 * the wait. find reads only the catalogs, takes no locks, and returns InvalidOid if there is no object.  Returns the
 * object, or InvalidOid if there is none.
 */
extern Oid	shard_ddl_lock_found(Oid (*find) (void *arg), void *arg, void (*lock) (Oid oid, LOCKMODE lockmode),
								 void (*unlock) (Oid oid, LOCKMODE lockmode), LOCKMODE lockmode);

/* The same for a table. */
extern Oid	shard_ddl_table_lock(Oid (*find) (void *arg), void *arg, LOCKMODE lockmode);

/* A find function for shard_ddl_table_lock(): the table of the index that a RangeVar names, if the user owns it. */
extern Oid	shard_ddl_table_of_index(void *index);

/*
 * Sets the operation that is refused for tables whose shards have replicas; NULL: none.  The functions above then raise
 * feature_not_supported for such tables.  Returns the old setting.
 */
extern const char *shard_ddl_table_refuse_replicas(const char *what);

/* Raises the same error for a table that these functions do not look up.  The caller may hold a lock on it or not. */
extern void shard_ddl_table_check_replicas(Oid relid);

/* Fills *shard if foreign table relid is a shard with the same name on its node.  Returns false otherwise. */
extern bool shard_ddl_table_shard(Oid relid, ShardDdlShard *shard);

/* List of the tables, partitioned tables and foreign tables in a schema. */
extern List *shard_ddl_table_of_schema(Oid namespace);

/* Sorts the tables by name.  Several tables must be locked in this order, to avoid deadlocks. */
extern void shard_ddl_table_sort(ShardDdlTable *table);

/* Name of a table's object on one of the shards.  Replicas of reference tables use the same name. */
extern char *shard_ddl_table_object(const ShardDdlTable *table, const ShardDdlShard *shard, const char *object);

/*
 * Raises object_in_use if relid is a shard of a table that this session reads.  A scan of a sharded table keeps the
 * table open, but not its shards.
 */
extern void shard_ddl_table_check_parent_unused(Oid relid, const char *command);

/*
 * Raises object_in_use, as core does for other commands, if this session uses the table.  For commands that lock out
 * readers and that core runs while a cursor of the session is open.  On the nodes these commands would wait for the
 * session's own connections.
 */
extern void shard_ddl_table_check_unused(const ShardDdlTable *table, const char *command);

/* Raises feature_not_supported: what (a command) is not possible for table. */
extern void shard_ddl_table_refuse(const ShardDdlTable *table, const char *what, const char *hint)
			__attribute__((noreturn));

#endif
