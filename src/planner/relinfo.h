/*
 * relinfo.h
 *	  What the planner knows of a relation of ours while it plans: RelOptInfo's
 *	  fdw_private.
 */
#ifndef SHARDFDW_RELINFO_H
#define SHARDFDW_RELINFO_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/pathnodes.h"

typedef enum ShardRelKind
{
	SHARD_REL_SCAN,				/* rows of one table */
	SHARD_REL_GROUP,			/* groups, final on the nodes */
	SHARD_REL_PARTIAL_GROUP		/* groups of each shard, partial states */
} ShardRelKind;

typedef struct ShardRelInfo
{
	ShardRelKind kind;

	/* The table that is read: of a scan, or of the input of a grouping. */
	const ShardMap *map;
	Oid			relid;
	Index		rtindex;
	bool		sharded;		/* a parent with shards, not a foreign table by itself */
	Bitmapset  *live;			/* shardnos left by pruning */
	int			nlive;
	int			nexpected;		/* of them, how many are left when execution starts: a guess */

	/* Conditions of the scan; RestrictInfos. */
	List	   *remote_conds;
	List	   *local_conds;

	/* Columns needed above the scan, as pull_varattnos() numbers them (a shard by itself). */
	Bitmapset  *columns;

	/*
	 * Conditions for pruning when execution starts: clauses over the key's
	 * columns, with Params or stable expressions in some; NIL when there are none.
	 */
	List	   *prune_conds;

	/* Groupings: see upper_path.c. */
	List	   *group_exprs;	/* what the remote query groups by */
	List	   *grouped_tlist;	/* TargetEntries: what it returns */
	List	   *local_having;	/* clauses to check here (SHARD_REL_GROUP) */
	List	   *remote_having;

	/* Estimates; cost.c. */
	bool		analyzed;		/* the table has statistics */
	double		rows;			/* rows that come from all nodes together */
	int			width;
	Cost		remote_cost;	/* of the remote queries, without transfer; elapsed, not summed up */
} ShardRelInfo;

/* Fills baserel->fdw_private, rows and width. */
extern ShardRelInfo *shard_relinfo_create(PlannerInfo *root, RelOptInfo *baserel, Oid relid);

/* Rows of a sharded table: reltuples of it (-1: never analyzed), else of its shards, else a guess. */
extern double shard_relinfo_tuples(Oid relid, double reltuples);

/* EXPLAIN's "Relations": schema-qualified, quoted name and alias of the table. */
extern char *shard_relinfo_name(PlannerInfo *root, const ShardRelInfo *info);

#endif
