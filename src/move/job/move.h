/*
 * move.h
 *	  What is known of a move, a split or a merge while it goes on.
 *
 * A split is a move to the node where the shard is, into several tables, its pieces: they are
 * partitions of a staging table, which takes rows and changes as that of a move does.  In a
 * merge the tables of several shards have one staging table.
 */
#ifndef SHARDFDW_MOVE_H
#define SHARDFDW_MOVE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/timestamp.h"

#define SHARD_MOVE_MAX_SHARDS 16

/* A part of what the source says about a table; see shardfdw_internal.moving_table_query(). */
typedef struct ShardMovePart
{
	const char *part;
	const char *text;
} ShardMovePart;

/* One of the shards that move together. */
typedef struct ShardMoveTable
{
	Oid			relid;			/* the foreign table on the coordinator */
	Oid			parent;
	const char *name;			/* qualified, quoted name on the coordinator */
	const char *remote_name;	/* the same on the nodes, before and after the move */
	const char *remote_schema;	/* not quoted */
	const char *remote_table;	/* not quoted */
	const char *staging;		/* qualified, quoted name on the target of what takes the rows */
	const char *columns;		/* those that are not generated, as in a column list; may be empty */
	bool		binary;			/* COPY may be binary */
	bool		identified;		/* has a replica identity */
	char		persistence;	/* relpersistence on the source */
	char		identity;		/* relreplident on the source */
	List	   *parts;			/* of ShardMovePart */
} ShardMoveTable;

/* How far it has come, for the view shardfdw.jobs. */
typedef struct ShardJobProgress
{
	int64		nrows;			/* copied */
	int64		nbytes;			/* copied, as COPY sends them */
	int64		nchanges;		/* applied */
	int64		lag_bytes;		/* -1: not known */
	TimestampTz noted_at;		/* when that was last written down */
} ShardJobProgress;

typedef struct ShardMove
{
	MemoryContext cxt;			/* of all that is here */
	int64		id;
	Oid			userid;			/* whose user mappings are used */
	int			nshards;		/* that were asked for: more than one are merged */
	Oid			shards[SHARD_MOVE_MAX_SHARDS];
	Oid			source;			/* servers */
	Oid			target;			/* of splits and merges: the source */
	int			npieces;		/* that each shard becomes: more than one of a split */
	const char *at;				/* a text array as text: the values at which a shard by range, or list, is split */
	const char *source_name;
	const char *target_name;
	bool		online;
	bool		verify;
	const char *schema;			/* of the move on both nodes */
	int			ntables;
	ShardMoveTable *tables;
	bool		switched;		/* the shards are on the target */
	bool		has_nodes;		/* no other job works on source and target */
	bool		on_nodes;		/* nodes may have something of it */
	bool		indexed;		/* the staging tables have their indexes before their rows */
	bool		released;		/* the old tables have no foreign keys any more */
	ShardJobProgress progress;
} ShardMove;

#define SHARD_MOVE_IS_SPLIT(move) ((move)->npieces > 1)
#define SHARD_MOVE_IS_MERGE(move) ((move)->nshards > 1)

/* Do other shards take the place of these, on the same node? */
#define SHARD_MOVE_REPLACES(move) (SHARD_MOVE_IS_SPLIT(move) || SHARD_MOVE_IS_MERGE(move))

/* As in "cannot be moved". */
#define SHARD_MOVE_DONE(move) \
	(SHARD_MOVE_IS_SPLIT(move) ? "split" : SHARD_MOVE_IS_MERGE(move) ? "merged" : "moved")

#endif
