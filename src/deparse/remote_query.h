/*
 * remote_query.h
 *	  The planner's description of a remote query: a tree of FROM items, and the clauses above it.
 *
 * The expressions are those of the planner, checked by shippable.c: Vars of the range table of the planned query
 * level, clauses without RestrictInfo.  One description is for all shards. remote_query.c turns it into a template.
 */
#ifndef SHARDFDW_REMOTE_QUERY_H
#define SHARDFDW_REMOTE_QUERY_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"

typedef enum ShardFromKind
{
	SHARD_FROM_TABLE,			/* a sharded table or a shard: each remote query reads one shard of it */
	SHARD_FROM_REFERENCE,		/* a reference table: with the same name and the same rows on every node */
	SHARD_FROM_JOIN,
	SHARD_FROM_QUERY			/* a sub-select that nodes compute completely */
} ShardFromKind;

struct ShardRemoteQuery;

typedef struct ShardFrom
{
	ShardFromKind kind;
	Relids		relids;			/* range table indexes of the relations below it */
	List	   *where;			/* conditions on its rows; for an outer join those from above it, not its ON conditions */

	/* all except joins */
	Index		rtindex;
	Oid			relid;			/* TABLE, REFERENCE */

	/* SHARD_FROM_QUERY: its columns are query->tlist's entries, by resno; Vars inside are of that query level */
	struct ShardRemoteQuery *query;

	/* SHARD_FROM_JOIN */
	JoinType	jointype;		/* INNER, LEFT, FULL, SEMI or ANTI */
	struct ShardFrom *outer;
	struct ShardFrom *inner;	/* for SEMI and ANTI not visible above */
	List	   *on;				/* the join's ON conditions */

	/*
	 * SEMI: Vars of the inner side that are still needed above the join (for equivalence classes), each followed by
	 * an equal Var of the outer side.
	 */
	List	   *shown;
} ShardFrom;

/* One ORDER BY item. */
typedef struct ShardSort
{
	Expr	   *expr;
	Oid			sortop;			/* "<" or ">" of its type */
	Oid			eqop;
	bool		nulls_first;
} ShardSort;

typedef struct ShardRemoteQuery
{
	ShardFrom  *from;
	Oid			driver;			/* the table whose shards are queried; first of the plan's relids */

	/*
	 * TargetEntries.  Entry resno - 1 is the attribute of the scan's slot.  An Aggref with aggsplit other than
	 * AGGSPLIT_SIMPLE stands for its partial state.
	 */
	List	   *tlist;
	bool		aggregated;		/* an aggregate query, even without GROUP BY */
	List	   *group_exprs;	/* may contain expressions that are not in tlist */
	List	   *grouping_sets;	/* of IntLists, 0-based positions in group_exprs; NIL: grouped by all of them */
	List	   *having;
	List	   *windows;		/* WindowClauses for tlist's WindowFuncs; their expressions are in window_tlist */
	List	   *window_tlist;	/* the planner's target list, for the sort/group references in windows */
	bool		distinct;
	List	   *distinct_on;	/* expressions of DISTINCT ON, a prefix of sort */
	List	   *sort;			/* of ShardSort */
	Node	   *limit;			/* int8: maximum number of rows that each remote query returns; a Const or an
								 * expression for the coordinator */

	/*
	 * One remote query for each node instead of each shard.  Sharded tables, and joins among them, are read shard by
	 * shard.  Joins with reference tables and everything above run over the UNION ALL of these.
	 */
	bool		per_node;

	/* Constants that conditions compare with become parameters. */
	bool		has_params;
} ShardRemoteQuery;

/* FROM of one table: TABLE or REFERENCE. where: bare clauses. */
extern ShardFrom *shard_from_table(ShardFromKind kind, Index rtindex, Oid relid, List *where);

/* FROM of a join; sets relids. */
extern ShardFrom *shard_from_join(JoinType jointype, ShardFrom *outer, ShardFrom *inner, List *on);

/* Returns those relids of from whose columns are not visible above it: the inner sides of SEMI and ANTI joins. */
extern Relids shard_from_hidden(const ShardFrom *from);

/*
 * The query under construction, with its outputs and parameters.  Finish it by shard_select_finish(). select->relids:
 * tables with places in the template, driver first.
 */
extern ShardSelect *shard_remote_query_select(const ShardRemoteQuery *query);

#endif
