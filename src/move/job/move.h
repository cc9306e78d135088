/*
 * move.h
 *	  The state of a move, a split or a merge.
 *
 * A split is a move into several tables, its pieces, on the same node.  The pieces are partitions of a staging table,
 * which gets rows and changes like the staging table of a move.  In a merge the tables of several shards share one
 * staging table.
 */
#ifndef SHARDFDW_MOVE_H
#define SHARDFDW_MOVE_H

#include "postgres.h"

#include "move/job/job.h"
#include "nodes/pg_list.h"

/* A part of a table's description by the source, see shardfdw_internal.moving_table_query(). */
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
	const char *staging_schema; /* of the staging table; needs no quotes */
	const char *staging;		/* qualified, quoted name of the table on the target that gets the rows */
	const char *columns;		/* columns that are not generated, as a column list; may be empty */
	bool		binary;			/* use COPY with binary format */
	bool		identified;		/* has a replica identity */
	char		identity;		/* relreplident on the source */
	List	   *parts;			/* of ShardMovePart */
} ShardMoveTable;

typedef struct ShardMove
{
	ShardJob	job;			/* plan: a text array as text, the values at which a shard by range or list is split */
	int			nshards;		/* number of requested shards; more than one are merged */
	Oid			shards[SHARD_MOVE_MAX_SHARDS];
	Oid			source;			/* server */
	Oid			target;			/* server; for splits and merges: the source */
	int			npieces;		/* number of pieces of each shard; more than one for a split */
	const char *source_name;
	const char *target_name;
	const char *schema;			/* of the move, on both nodes; the first of shard_move_schemas() */
	int			ntables;
	ShardMoveTable *tables;
	bool		switched;		/* the shards are on the target */
	bool		has_nodes;		/* no other job works on source and target */
	bool		on_nodes;		/* nodes may have objects of the move */
	bool		indexed;		/* the staging tables got their indexes before their rows */
	bool		released;		/* the foreign keys of the old tables have been dropped */
} ShardMove;

#define SHARD_MOVE_IS_SPLIT(move) ((move)->npieces > 1)
#define SHARD_MOVE_IS_MERGE(move) ((move)->nshards > 1)

/* Do other shards on the same node replace these? */
#define SHARD_MOVE_REPLACES(move) (SHARD_MOVE_IS_SPLIT(move) || SHARD_MOVE_IS_MERGE(move))

/* Participle, as in "cannot be moved". */
#define SHARD_MOVE_DONE(move) \
	(SHARD_MOVE_IS_SPLIT(move) ? "split" : SHARD_MOVE_IS_MERGE(move) ? "merged" : "moved")

#endif
