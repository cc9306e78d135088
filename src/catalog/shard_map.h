/*
 * shard_map.h
 *	  The shards of a sharded table: a cache over partition bounds and options of foreign tables.
 */
#ifndef SHARDFDW_SHARD_MAP_H
#define SHARDFDW_SHARD_MAP_H

#include "postgres.h"

#include "access/attnum.h"
#include "access/transam.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"

/* A node with shards of one table. */
typedef struct ShardNode
{
	Oid			serverid;
	const char *name;			/* server's name */
	int			cores;			/* server option `cores`; 0: unknown */
	const char *host;
	int			nhosted;		/* number of nodes of this table with the same host, which share the cores */
	int			nshards;		/* number of shards of this table there */
	bool		has_partial_aggregates; /* server option `partial_aggregates`: add_node created partial aggregates there */
	List	   *extensions;		/* of char *: server option `extensions`, whose objects are the same there */
	const char *default_collation;	/* server option of this name, see collation.c; NULL: unknown */
	List	   *missing_partial_aggregates;	/* of char *: qualified names, server option `missing_partial_aggregates` */
} ShardNode;

/* One shard: an ordinary table on one node, a foreign table here. */
typedef struct Shard
{
	Oid			relid;			/* the foreign table on the coordinator */
	int			nodeno;			/* 0-based index in ShardMap.nodes */
	Oid			serverid;
	TransactionId placed_by;	/* the xid that has written its row of pg_foreign_table */
	const char *name;			/* schema-qualified, quoted name on the coordinator, for messages */
	const char *relation;		/* qualified, quoted name on the node */

	/*
	 * The FROM item that replaces the parent in a remote query.  It is the same as relation or, if
	 * columns have other names on the node, "(SELECT remote AS local, ...  FROM relation)".  An
	 * alias always follows.
	 */
	const char *from_item;

	/*
	 * The shard has replicas, or had them until their nodes were disabled.  Triggers of the node note its changed rows.
	 */
	bool		is_noted;

	/*
	 * Servers that have the same rows, in the order of option `replica_nodes`.  Changes of the shard go to them, too.
	 */
	int			nreplicas;
	const Oid  *replicas;
} Shard;

/* The partition key by which the partitions of a table with two levels are sharded: by hash, over plain columns. */
typedef struct ShardLevelKey
{
	int			natts;
	AttrNumber *attnos;			/* of the table; partitions may have others */
	Oid		   *types;
	int32	   *typmods;
	Oid		   *typcollations;	/* of the columns */
	Oid		   *opfamilies;
	Oid		   *opcintypes;
	Oid		   *collations;
} ShardLevelKey;

/* A partition of a table with two levels, itself a sharded table (a month, for example). */
typedef struct ShardPart
{
	Oid			relid;
	int			first;			/* shardno of its first shard */
	int			nshards;
	const int  *bounds;			/* modulus and remainder of each shard */
	int			like;			/* partno of the first partition with the same bounds, perhaps itself */
} ShardPart;

/*
 * A sharded table. shards[] is in the order of the parent's PartitionDesc, so that an index
 * returned by core's pruning is an index here (shardno).  For a foreign table that is not a shard:
 * one shard, the table itself.
 *
 * With two levels, shards[] has the shards of all partitions, one partition after the other, both
 * levels in the order of their PartitionDesc.
 */
typedef struct ShardMap
{
	Oid			relid;
	int			nparts;			/* 0: one level */
	ShardPart  *parts;			/* in the order of the table's PartitionDesc; partno is 0-based */
	const ShardLevelKey *part_key;	/* NULL: one level */
	bool		parts_ordered;	/* one column, which is never NULL, is the key: the partitions are in its order, and do not overlap */
	uint64		serial;			/* differs for each new map of this session */
	bool		renames;		/* columns of a shard have other names on its node */
	bool		read_only;		/* option `updatable` of a shard, or of its server, is false */
	bool		has_triggers;	/* a shard has triggers here */
	bool		foreign_definition; /* the table of a shard is defined only on its node, perhaps differently */
	bool		has_replicas;		/* some shard is_noted */
	bool		takes_all;		/* one shard, a partition that accepts every key */
	Oid			home;			/* takes_all: the schema, if all of its tables are on one node (home.h); else InvalidOid */
	const struct ShardMap *placed_as;	/* of shard_map_redirect(): the map that it was given; else NULL */
	TransactionId newest_place; /* the newest placed_by of all shards; invalid: all are frozen */
	int			nshards;
	Shard	   *shards;
	int			nnodes;
	ShardNode  *nodes;
} ShardMap;

/*
 * Returns the map of a partitioned table all of whose partitions are foreign tables of this
 * extension (at least one), or of one such foreign table.  NULL for anything else.  Memory: cached;
 * stays valid until the end of the transaction even if it is invalidated.  Cost: one hash look-up
 * if cached.  Errors: the library does not match the extension (version.h).
 */
extern const ShardMap *shard_map_get(Oid relid);

/*
 * The same, and also returns the map of a table with two levels: partitioned by range, all of its
 * partitions by hash with the same key, and all partitions of these are shards.
 *
 * Callers hold a lock on the table, not on its partitions.  The partitions are locked for a moment
 * while the map is built. wait: waits for these locks; otherwise returns NULL if one is not
 * available, since a session that does not read that partition must not wait for it.  To use a
 * partition's shards, the caller must lock the partition, and call this again.
 */
extern const ShardMap *shard_map_get_levels(Oid relid, bool wait);

/*
 * Shards can move while statements run.  A move waits for locks of sessions that write.  It leaves
 * the old table, which accepts no changes any more, to sessions that read, as long as a snapshot
 * from before the move is in use.  So
 *
 *	 reads	use the map of the moment when they begin (shard_map_get_now).  A statement that sees all
 *			nodes as of an earlier moment uses the map of that moment (shard_map_as_of)
 *	 writes	lock their shards until the transaction ends, and then get the map again (shard_map_lock)
 *
 * At REPEATABLE READ and above both are refused (40001) if a shard was moved after the
 * transaction's snapshot (shard_map_check_unmoved).  The transaction may have read the old table, or
 * may have a snapshot of the new node from before the rows were there.  For the same reason, a shard that
 * has moved back is not read by an older snapshot (shard_map_as_of, deparse/table_check.h).
 */

/* shard_map_get() including what other sessions have committed by now. */
extern const ShardMap *shard_map_get_now(Oid relid);
extern const ShardMap *shard_map_get_levels_now(Oid relid);

/* Does the table still have the shards of this map, in the same places?  The map must not be of shard_map_redirect(). */
extern bool shard_map_is_current(const ShardMap *map);

/*
 * Locks shard shardno against moves until the transaction ends, for changing rows
 * (RowExclusiveLock) or locking them (RowShareLock).  False: the table's map has changed.
 */
extern bool shard_map_lock(const ShardMap *map, int shardno, int lockmode);

/*
 * An UPDATE that moves a row to another shard locks two shards on their nodes in EXCLUSIVE mode
 * (executor/modify/row_move.c).  Another statement locks several shards in ROW EXCLUSIVE or ROW
 * SHARE mode, and each node grants its locks when it can.  If each of them had one shard and waited
 * for the other shard, that would be a deadlock.  So both first take one lock of the whole table on
 * the coordinator, and keep it until the transaction ends:
 *
 *	 shard_map_lock_several		a statement that writes to several shards of the tables relids, or
 *								locks rows there: ROW EXCLUSIVE
 *	 shard_map_lock_key_change	an UPDATE that knows both shards before it reads rows: SHARE.  Such
 *								UPDATEs lock shards in one order
 *
 * Statements on one shard take no such lock.  They hold no other shard while they wait for this one.
 */
extern void shard_map_lock_several(const List *relids);
extern void shard_map_lock_key_change(Oid relid);

/*
 * The same as shard_map_lock() for callers whose map must not change.  Returns the server where the shard is now.
 * Errors: see shard_map_check_unmoved().
 */
extern Oid	shard_map_lock_shard(const Shard *shard, int lockmode);

/* The same for a foreign table that core has already locked, such as those that ModifyTable changes. */
extern Oid	shard_map_server(Oid relid);

/*
 * Returns map as of a moment: if it has other servers, a copy in the current context. snapshot:
 * from SerializeSnapshot(); xmin: its xmin.
 */
extern const ShardMap *shard_map_as_of(const ShardMap *map, const char *snapshot, TransactionId xmin);

/*
 * Returns a copy of map, in the current context, that places its shards on servers (one for each
 * shard; InvalidOid: not changed), for reading replicas of them.  Until the transaction ends it must
 * not write to shards that it reads there, since it would not see these writes.  So
 * shard_map_lock() and similar functions raise ERRCODE_SYSTEM_ERROR then.
 */
extern const ShardMap *shard_map_redirect(const ShardMap *map, const Oid *servers);

/* Has this transaction read shards of a server on other servers? */
extern bool shard_map_is_redirected(Oid serverid);

/*
 * At REPEATABLE READ and above, raises ERRCODE_T_R_SERIALIZATION_FAILURE if a shard of map among
 * shards (shardnos; NULL: all) was moved after the transaction's snapshot.
 */
extern void shard_map_check_unmoved(const ShardMap *map, const Bitmapset *shards);

/* partno of a shard. */
extern int	shard_map_part_of(const ShardMap *map, int shardno);

/* Returns the shardno of a shard in its map; -1: not there. */
extern int	shard_map_find(const ShardMap *map, Oid shard_relid);

/* Returns the numbers of the shards relids, or of all.  Errors: one of relids is not a shard of map's table. */
extern Bitmapset *shard_map_numbers(const ShardMap *map, bool all, const List *relids);

/*
 * Returns the table at the top of relid's partition tree.  It is relid itself if relid is not a
 * partition, or is being detached concurrently, since core then returns no ancestors.
 */
extern Oid	shard_map_top(Oid relid);

/* Has this transaction looked at a table that has replicas?  Before, it has written to none. */
extern bool shard_map_seen_replicas(void);

/* relid has changed, or InvalidOid: any relation. */
extern void shard_map_invalidate(Oid relid);
extern void shard_map_end_transaction(void);

#endif
