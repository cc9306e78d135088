/*
 * shard_map.h
 *	  Which shards a sharded table has: a cache over partition bounds and
 *	  foreign-table options.
 */
#ifndef SHARDFDW_SHARD_MAP_H
#define SHARDFDW_SHARD_MAP_H

#include "postgres.h"

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
	const char *name;			/* schema-qualified, quoted name on the coordinator, for messages */
	const char *relation;		/* qualified, quoted name on the node */

	/*
	 * The FROM item of a remote query that replaces the parent: the same as relation,
	 * or, where columns have other names on the node,
	 * "(SELECT remote AS local, ... FROM relation)".  An alias always follows.
	 */
	const char *from_item;
} Shard;

/*
 * A sharded table.  shards[] is in the order of the parent's PartitionDesc, so
 * that the index core's pruning returns is the index here (shardno).  For a
 * foreign table by itself: one shard, that table.
 */
typedef struct ShardMap
{
	Oid			relid;
	uint64		serial;			/* changes with each new map of this session */
	bool		renames;		/* columns of some shard have other names on its node */
	bool		read_only;		/* option `updatable` of some shard, or of its server, is false */
	bool		has_triggers;	/* some shard has triggers here */
	bool		foreign_definition; /* some shard's table is defined on its node alone, maybe in another way */
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

/* Are all of its nodes nodes of the cluster, which have copies of the reference tables?  Asked anew each time. */
extern bool shard_map_in_cluster(const ShardMap *map);

/* shardno of a shard in its map, -1 when it is not there. */
extern int	shard_map_find(const ShardMap *map, Oid shard_relid);

/*
 * The table at the top of relid's partition tree: relid itself when it is not a partition,
 * or is being detached concurrently, where core names no ancestors any more.
 */
extern Oid	shard_map_top(Oid relid);

extern void shard_map_init(void);	/* registers invalidation callbacks */

#endif
