/*
 * remote_query.h
 *	  What a remote query asks for, as the planner describes it: a tree of what
 *	  stands in FROM, and the clauses over it.
 *
 * The expressions are the planner's, checked by shippable.c: Vars of the range
 * table that the query level was planned with, clauses without RestrictInfo.
 * One description serves all shards; remote_query.c turns it into a template.
 */
#ifndef SHARDFDW_REMOTE_QUERY_H
#define SHARDFDW_REMOTE_QUERY_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"

typedef enum ShardFromKind
{
	SHARD_FROM_TABLE,			/* a sharded table or a shard: each remote query reads one shard of it */
	SHARD_FROM_REFERENCE,		/* a reference table: of the same name, and with the same rows, on every node */
	SHARD_FROM_JOIN,
	SHARD_FROM_QUERY			/* a sub-select that is remote as a whole */
} ShardFromKind;

struct ShardRemoteQuery;

typedef struct ShardFrom
{
	ShardFromKind kind;
	Relids		relids;			/* range table indexes of what is under it */
	List	   *where;			/* conditions on its rows; of an outer join those above it, not ON's */

	/* all but joins */
	Index		rtindex;
	Oid			relid;			/* TABLE, REFERENCE */

	/* SHARD_FROM_QUERY: its columns are query->tlist's entries, by resno; Vars inside are of its own level */
	struct ShardRemoteQuery *query;

	/* SHARD_FROM_JOIN */
	JoinType	jointype;		/* INNER, LEFT, FULL, SEMI or ANTI */
	struct ShardFrom *outer;
	struct ShardFrom *inner;	/* of SEMI and ANTI not visible above */
	List	   *on;				/* the join's own conditions */

	/*
	 * SEMI: Vars of the inner side that are needed above the join all the same
	 * (for equivalence classes), each followed by the outer side's Var that is equal.
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
	Oid			driver;			/* the table whose shards are asked; first of the plan's relids */

	/*
	 * TargetEntries; entry resno - 1 is the attribute of the scan's slot.  An
	 * Aggref with aggsplit other than AGGSPLIT_SIMPLE stands for its partial
	 * state.
	 */
	List	   *tlist;
	bool		aggregated;		/* an aggregate query, even without GROUP BY */
	List	   *group_exprs;	/* may hold expressions that are not in tlist */
	List	   *grouping_sets;	/* of IntLists, 0-based positions in group_exprs; NIL: grouped by all of them at once */
	List	   *having;
	List	   *windows;		/* WindowClauses that tlist's WindowFuncs refer to; their expressions are found in window_tlist */
	List	   *window_tlist;	/* the planner's target list, for the sort/group references in windows */
	bool		distinct;
	List	   *distinct_on;	/* expressions of DISTINCT ON, a prefix of sort */
	List	   *sort;			/* of ShardSort */
	Node	   *limit;			/* int8: rows that each remote query returns at most; Const or what the coordinator evaluates */

	/*
	 * One remote query for each node instead of each shard.  Sharded tables, and
	 * joins among them, are read shard by shard; joins with reference tables and
	 * everything above are over the UNION ALL of that.
	 */
	bool		per_node;

	/* Constants that conditions compare with become parameters. */
	bool		has_params;
} ShardRemoteQuery;

/* FROM of one table: TABLE or REFERENCE. where: plain clauses. */
extern ShardFrom *shard_from_table(ShardFromKind kind, Index rtindex, Oid relid, List *where);

/* FROM of a join; relids follow. */
extern ShardFrom *shard_from_join(JoinType jointype, ShardFrom *outer, ShardFrom *inner, List *on);

/* Those of from's relids whose columns are not visible: inner sides of SEMI and ANTI. */
extern Relids shard_from_hidden(const ShardFrom *from);

/*
 * The query under construction, its outputs and parameters; to be finished by
 * shard_select_finish().  select->relids: tables with places in the template,
 * driver first.
 */
extern ShardSelect *shard_remote_query_select(const ShardRemoteQuery *query);

#endif
