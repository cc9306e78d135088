/*
 * level.h
 *	  The SELECT levels of a remote query under construction, and the positions of the planner's relations in
 *	  them.
 *
 * The planner's description of a query has its range table indexes.  One description may need several SELECT levels:
 * EXISTS for semi and anti joins, sub-selects in FROM for conditions that must be checked below a full join.
 */
#ifndef SHARDFDW_LEVEL_H
#define SHARDFDW_LEVEL_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"

/* A relation of the planner in one level. */
typedef struct ShardLevelRel
{
	Index		rtindex;		/* the planner's index */
	Index		varno;			/* index in the level's query; 0: not in it */
	bool		nulls;			/* all its columns are NULL */
	List	   *shown;			/* pairs of Vars: a column of the relation, and the visible column that replaces it */
	Oid			relid;			/* of a table; InvalidOid for sub-selects */
	bool		nullable;		/* an outer join of this level may have made all its columns NULL */
	List	   *resnos;			/* sub-select: IntList, the planner's column numbers in the order of its columns */
	struct ShardLevel *wrapped; /* the relation is in this level, which is sub-select varno */
} ShardLevelRel;

typedef struct ShardLevel
{
	struct ShardLevel *outer;	/* EXISTS: the outer level, whose relations are visible */
	Query	   *query;
	List	   *rels;			/* of ShardLevelRel */
	List	   *quals;			/* converted, implicit-AND list */
	List	   *having;
} ShardLevel;

/* A level with an empty FROM. outer: see ShardLevel.outer, or NULL. */
extern ShardLevel *shard_level_create(ShardSelect *select, ShardLevel *outer);

/*
 * Each function adds an item of FROM.  The caller puts the result into the jointree. has_place: the template has a
 * place for the table's name.
 */
extern Node *shard_level_add_table(ShardSelect *select, ShardLevel *level, Index rtindex,
								   Oid relid, bool has_place);
extern Node *shard_level_add_query(ShardSelect *select, ShardLevel *level, Index rtindex,
								   ShardLevel *sub, List *resnos);
extern Node *shard_level_add_wrapped(ShardSelect *select, ShardLevel *level, ShardLevel *sub);
extern Node *shard_level_add_join(ShardLevel *level, JoinType jointype, Node *left, Node *right,
								  List *quals);

/* Adds, as a wrapped level, the UNION ALL of sub over all shards of a node.  A remote query has at most one. */
extern Node *shard_level_add_union(ShardSelect *select, ShardLevel *level, ShardLevel *sub);

/* Adds relations that are not in level.  Their columns are NULL, or are replaced as in shown (see ShardLevelRel). */
extern void shard_level_add_hidden(ShardLevel *level, Relids relids, bool nulls, List *shown);

/* Marks that from here on, an outer join may make the columns of these relations NULL. */
extern void shard_level_set_nullable(ShardLevel *level, Relids relids);

/*
 * Finds the planner's relation rtindex in `level` or an outer level.  *levelsup: number of levels up.  Raises an
 * error if there is none.
 */
extern ShardLevelRel *shard_level_find(ShardLevel *level, Index rtindex, int *levelsup);

/* The column of sub-select varno in level that has the value of converted (an expression of the sub-select). */
extern Var *shard_level_column(ShardLevel *level, Index varno, ShardLevel *sub, Expr *converted);

/* Adds a column to level, a sub-select of which no column is needed. */
extern void shard_level_add_constant(ShardLevel *level);

/* Completes the level's query: adds the conditions, and the columns of joins, which are needed for printing. */
extern void shard_level_finish(const ShardSelect *select, ShardLevel *level);

#endif
