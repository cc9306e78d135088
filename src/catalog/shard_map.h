/*
 * shard_map.h
 *	  Which shards a sharded table has: a cache over partition bounds and
 *	  foreign-table options.
 */
#ifndef SHARDFDW_SHARD_MAP_H
#define SHARDFDW_SHARD_MAP_H

#include "postgres.h"

#include "access/attnum.h"
#include "access/transam.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"

/* A node that holds shards of one table. */
typedef struct ShardNode
{
	Oid			serverid;
	const char *name;			/* server's name */
	int			cores;			/* server option `cores`; 0 = not known */
	const char *host;
	int			hostno;			/* the first node with the same host, itself maybe */
	int			nhosted;		/* nodes of this table with the same host, which share the cores */
	int			nshards;		/* shards of this table there */
	bool		has_partial_aggregates; /* server option `partial_aggregates`: add_node made partial aggregates there */
	List	   *extensions;		/* of char *: server option `extensions`, whose objects are the same there */
	const char *default_collation;	/* server option of this name, see collation.c; NULL = not known */
	List	   *missing_partial_aggregates;	/* of char *: qualified names, server option `missing_partial_aggregates` */
} ShardNode;

/* One shard: an ordinary table on one node, a foreign table here. */
typedef struct Shard
{
	Oid			relid;			/* the foreign table on the coordinator */
	int			nodeno;			/* 0-based, into ShardMap.nodes */
	Oid			serverid;
	TransactionId placed_by;	/* has written its row of pg_foreign_table */
	const char *name;			/* schema-qualified, quoted name on the coordinator, for messages */
	const char *relation;		/* qualified, quoted name on the node */

	/*
	 * The FROM item of a remote query that replaces the parent: the same as relation,
	 * or, where columns have other names on the node,
	 * "(SELECT remote AS local, ... FROM relation)".  An alias always follows.
	 */
	const char *from_item;

	/* The node notes what is changed: the shard has replicas, or had them until their nodes were disabled. */
	bool		is_noted;

	/* Servers that have the same rows, in the order of option `replica_nodes`: what is written goes there, too. */
	int			nreplicas;
	const Oid  *replicas;
} Shard;

/* The partition key by which the partitions of a table of two levels are sharded: by hash, over plain columns. */
typedef struct ShardLevelKey
{
	int			natts;
	AttrNumber *attnos;			/* of the table; partitions may have other ones */
	Oid		   *types;
	int32	   *typmods;
	Oid		   *typcollations;	/* of the columns */
	Oid		   *opfamilies;
	Oid		   *opcintypes;
	Oid		   *collations;
} ShardLevelKey;

/* A partition of a table of two levels, itself a sharded table: a month, say. */
typedef struct ShardPart
{
	Oid			relid;
	int			first;			/* shardno of its first shard */
	int			nshards;
	const int  *bounds;			/* modulus and remainder of each shard */
	int			like;			/* partno of the first partition with the same bounds, its own maybe */
} ShardPart;

/*
 * A sharded table.  shards[] is in the order of the parent's PartitionDesc, so
 * that the index core's pruning returns is the index here (shardno).  For a
 * foreign table by itself: one shard, that table.
 *
 * Of a table of two levels, shards[] has the shards of all of its partitions, one
 * partition after the other, both levels in the order of their PartitionDesc.
 */
typedef struct ShardMap
{
	Oid			relid;
	int			nparts;			/* 0: one level */
	ShardPart  *parts;			/* in the order of the table's PartitionDesc: partno is 0-based */
	const ShardLevelKey *part_key;	/* NULL: one level */
	bool		parts_ordered;	/* by one column, which is never NULL in them: they are in its order, and none has what is in another */
	uint64		serial;			/* changes with each new map of this session */
	bool		renames;		/* columns of some shard have other names on its node */
	bool		read_only;		/* option `updatable` of some shard, or of its server, is false */
	bool		has_triggers;	/* some shard has triggers here */
	bool		foreign_definition; /* some shard's table is defined on its node alone, maybe in another way */
	bool		has_replicas;		/* some shard is_noted */
	bool		takes_all;		/* one shard, a partition that takes every key */
	Oid			home;			/* takes_all: the schema, if all of its tables are on one node (home.h); else InvalidOid */
	TransactionId newest_place; /* the youngest placed_by of all shards; invalid: all are frozen */
	int			nshards;
	Shard	   *shards;
	int			nnodes;
	ShardNode  *nodes;
} ShardMap;

/*
 * The map of a partitioned table all of whose partitions are foreign tables of
 * ours (at least one), or of one such foreign table; NULL for anything else.
 * Memory: cached; stays valid until the end of the transaction even when
 * invalidated meanwhile.  Cost: one hash look-up when cached.
 * Errors: the library does not fit the extension (version.h).
 */
extern const ShardMap *shard_map_get(Oid relid);

/*
 * The same, and the map of a table of two levels: partitioned by range, all of its
 * partitions by hash with the same key, and all of theirs are shards.
 *
 * Callers hold a lock on the table, not on its partitions; those are locked for a moment
 * while the map is built.  wait: for as long as it takes; otherwise NULL when a partition's lock
 * is not free, since who does not read that partition must not wait for it.  Who uses a
 * partition's shards locks it, and asks again.
 */
extern const ShardMap *shard_map_get_levels(Oid relid, bool wait);

/*
 * Shards can move while statements run.  A move waits for locks of those who write, and
 * leaves the old table, which takes no changes any more, to those who read, as long as a
 * snapshot from before the move is in use.  So
 *
 *	 reads	use the map of the moment when they begin (shard_map_get_now).  A statement that sees all nodes
 *			as of an earlier moment uses the map as of that one (shard_map_as_of)
 *	 writes	lock their shards until the transaction ends, and look at the map again (shard_map_lock)
 *
 * At REPEATABLE READ and above both are refused (40001) where a shard has moved since the
 * transaction's snapshot (shard_map_check_unmoved): the transaction may have read the old table,
 * or have a snapshot of the new node from before the rows were there.
 */

/* shard_map_get() with what other sessions have committed by now. */
extern const ShardMap *shard_map_get_now(Oid relid);
extern const ShardMap *shard_map_get_levels_now(Oid relid);

/*
 * Locks shard shardno against moves, for changing rows (RowExclusiveLock) or locking them
 * (RowShareLock), until the transaction ends.  False: the table's map is another one now.
 */
extern bool shard_map_lock(const ShardMap *map, int shardno, int lockmode);

/*
 * The same for who has a map that must stay; returns the server where the shard is now.
 * Errors: as shard_map_check_unmoved().
 */
extern Oid	shard_map_lock_shard(const Shard *shard, int lockmode);

/* The same for a foreign table that core has locked already, as those that ModifyTable changes. */
extern Oid	shard_map_server(Oid relid);

/*
 * map as of a moment: where it has other servers, a copy in the current context.
 * snapshot: as SerializeSnapshot() has written it; xmin: its xmin.
 */
extern const ShardMap *shard_map_as_of(const ShardMap *map, const char *snapshot, TransactionId xmin);

/*
 * A copy of map, in the current context, that has its shards on servers (one for each shard; InvalidOid: where it is),
 * for reading replicas of them.  Until the transaction ends it must not write to what it reads elsewhere, since it would
 * not see that: shard_map_lock() and its kind raise ERRCODE_SYSTEM_ERROR then.
 */
extern const ShardMap *shard_map_redirect(const ShardMap *map, const Oid *servers);

/* Has this transaction read shards of a server elsewhere? */
extern bool shard_map_is_redirected(Oid serverid);

/*
 * At REPEATABLE READ and above, raises ERRCODE_T_R_SERIALIZATION_FAILURE when a shard of map among
 * shards (shardnos; NULL: all) has moved since the transaction's snapshot.
 */
extern void shard_map_check_unmoved(const ShardMap *map, const Bitmapset *shards);

/* Are all of its nodes nodes of the cluster, which have replicas of the reference tables?  Asked anew each time. */
extern bool shard_map_in_cluster(const ShardMap *map);

/* partno of a shard. */
extern int	shard_map_part_of(const ShardMap *map, int shardno);

/* shardno of a shard in its map, -1 when it is not there. */
extern int	shard_map_find(const ShardMap *map, Oid shard_relid);

/* Numbers of the shards relids, or of all.  Errors: one of relids is not a shard of map's table. */
extern Bitmapset *shard_map_numbers(const ShardMap *map, bool all, const List *relids);

/*
 * The table at the top of relid's partition tree: relid itself when it is not a partition,
 * or is being detached concurrently, where core names no ancestors any more.
 */
extern Oid	shard_map_top(Oid relid);

/* Has this transaction looked at a table that has replicas?  Before, it has written to none. */
extern bool shard_map_seen_replicas(void);

/* relid has changed, or InvalidOid: any relation. */
extern void shard_map_invalidate(Oid relid);
extern void shard_map_end_transaction(void);

#endif
