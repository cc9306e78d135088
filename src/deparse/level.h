/*
 * level.h
 *	  The SELECT levels of a remote query under construction, and where the
 *	  planner's relations stand in them.
 *
 * The planner's description of a query has range table indexes of its own.  One
 * description may need several SELECT levels: EXISTS for semi and anti joins,
 * sub-selects in FROM for conditions that must be checked below a full join.
 */
#ifndef SHARDFDW_LEVEL_H
#define SHARDFDW_LEVEL_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"

/* A relation of the planner, as it stands in one level. */
typedef struct ShardLevelRel
{
	Index		rtindex;		/* the planner's */
	Index		varno;			/* in the level's query; 0: nowhere */
	bool		nulls;			/* all its columns are NULL */
	List	   *shown;			/* pairs of Vars: a column of the relation, the visible one that stands for it */
	Oid			relid;			/* a table's; InvalidOid for sub-selects */
	bool		nullable;		/* an outer join of this level may have made all its columns NULL */
	List	   *resnos;			/* sub-select: IntList, the planner's numbers of its columns in order */
	struct ShardLevel *wrapped; /* the relation is in this level, which is sub-select varno */
} ShardLevelRel;

typedef struct ShardLevel
{
	struct ShardLevel *outer;	/* EXISTS: the level around, whose relations are visible here */
	Query	   *query;
	List	   *rels;			/* of ShardLevelRel */
	List	   *quals;			/* converted, implicit AND */
	List	   *having;
} ShardLevel;

/* A level with an empty FROM; outer: see ShardLevel.outer, or NULL. */
extern ShardLevel *shard_level_create(ShardSelect *select, ShardLevel *outer);

/*
 * Each adds an item of FROM; the caller puts the result into the jointree.
 * has_place: the template has a place for the table's name.
 */
extern Node *shard_level_add_table(ShardSelect *select, ShardLevel *level, Index rtindex,
								   Oid relid, bool has_place);
extern Node *shard_level_add_query(ShardSelect *select, ShardLevel *level, Index rtindex,
								   ShardLevel *sub, List *resnos);
extern Node *shard_level_add_wrapped(ShardSelect *select, ShardLevel *level, ShardLevel *sub);
extern Node *shard_level_add_join(ShardLevel *level, JoinType jointype, Node *left, Node *right,
								  List *quals);

/* Adds, as a wrapped level, what sub returns on each shard of a node, all together.  A remote query has one at most. */
extern Node *shard_level_add_union(ShardSelect *select, ShardLevel *level, ShardLevel *sub);

/* These relations are not in level: their columns are NULL, or those in shown (see ShardLevelRel). */
extern void shard_level_add_hidden(ShardLevel *level, Relids relids, bool nulls, List *shown);

/* From here on an outer join may make the columns of these relations NULL. */
extern void shard_level_set_nullable(ShardLevel *level, Relids relids);

/*
 * Finds the planner's relation rtindex in `level` or a level around it; *levelsup: how
 * many levels up.  Raises an error when there is none.
 */
extern ShardLevelRel *shard_level_find(ShardLevel *level, Index rtindex, int *levelsup);

/* Column of sub-select varno of level whose value is converted (in the sub-select's terms). */
extern Var *shard_level_column(ShardLevel *level, Index varno, ShardLevel *sub, Expr *converted);

/* Gives level, a sub-select of which no column is wanted, one. */
extern void shard_level_add_constant(ShardLevel *level);

/* Completes the level's query: adds the conditions, and the columns of joins, which printing needs. */
extern void shard_level_finish(const ShardSelect *select, ShardLevel *level);

#endif
