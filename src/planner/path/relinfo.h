/*
 * relinfo.h
 *	  What the planner knows of a relation of ours while it plans: RelOptInfo's
 *	  fdw_private.
 *
 * Memory: what a structure of the planner points to must live as long as that
 * structure.  While the best order of joins is searched, the current context may
 * be one that is reset for each order that is tried (GEQO, and extensions that
 * search in their own way).  The RelOptInfos of joins, their infos and paths are
 * made in it and go with it; base relations, PlannerInfo and PlannerGlobal stay.
 * So from the first join on until the plan is made
 *
 *	 - an info is made for joins only: all base relations have theirs by then, a
 *	   reference table too, whether a join will ask for it or not;
 *	 - nothing is added to a base relation, PlannerInfo or PlannerGlobal: keys that
 *	   a join sends along get their parameters when the plan is made (key_filter.h);
 *	 - joins point to their sides, never the other way round.
 */
#ifndef SHARDFDW_RELINFO_H
#define SHARDFDW_RELINFO_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "deparse/remote_query.h"
#include "foreign/fdwapi.h"
#include "nodes/pathnodes.h"

typedef enum ShardRelKind
{
	SHARD_REL_SCAN,				/* rows of one table */
	SHARD_REL_JOIN,				/* rows of several */
	SHARD_REL_GROUP,			/* groups, final on the nodes */
	SHARD_REL_PARTIAL_GROUP,	/* groups of each shard, or node; partial states */
	SHARD_REL_UPPER				/* any other upper stage */
} ShardRelKind;

/*
 * Expressions over a relation's columns that say on which shard a row lies: one
 * for each column of the partition key, in its order.  A row in which none of
 * them is NULL lies on the shard that the map's key function gives.
 */
typedef struct ShardDistKey
{
	List	   *exprs;
	bool		nullable;		/* an outer join may have made them NULL: such rows lie on any shard */
} ShardDistKey;

typedef struct ShardRelInfo
{
	ShardRelKind kind;

	/*
	 * The rows of the relation are the union of what from gives on each live
	 * shard of map; of a reference relation, what it gives on any one node (or
	 * here).  Conditions that nodes check are in from's where.
	 */
	ShardFrom  *from;
	bool		reference;		/* only reference tables below; no map, no shards */
	List	   *keys;			/* of ShardDistKey; NIL for a reference relation */

	/* The shard key's equality, column by column; the same in all tables of a join. */
	int			nkeycols;
	const Oid  *key_opfamilies;
	const Oid  *key_collations;
	const int  *key_strategies; /* of "=" in these operator families */

	/* The table whose shards are asked: of a join one of its sharded tables, all of which are colocated. */
	const ShardMap *map;
	Oid			relid;
	Index		rtindex;
	bool		sharded;		/* a parent with shards, not a foreign table by itself */
	Bitmapset  *live;			/* shardnos left by pruning */
	bool		live_only;		/* from has rows on other shards, too: those of a reference table */
	int			nlive;
	int			nexpected;		/* how many of them pruning at execution start will leave: an estimate */

	/* Conditions of the scan; RestrictInfos. */
	List	   *remote_conds;	/* SHARD_REL_SCAN: the same as from->where */
	List	   *local_conds;	/* checked on the coordinator; with some, the relation takes no part in joins and upper stages */

	TableSampleClause *sample;	/* its rows are a sample (a shard by itself); NULL: all of them */
	bool		gated;			/* takes no part in joins and upper stages, since a condition without columns can only be tested
								 * here, above the scan, or rows are a sample */

	/* Conditions of a higher security level than this must not run beside those in from. */
	Index		min_security;

	/* Columns needed above the scan, as pull_varattnos() numbers them (a shard by itself). */
	Bitmapset  *columns;

	/*
	 * Conditions for pruning when execution starts: clauses over the columns of
	 * rtindex (0: of a table within a sub-select), with Params or stable
	 * expressions in some; NIL when there are none.
	 */
	List	   *prune_conds;

	/*
	 * LIMIT over a table of two levels whose partitions follow each other in the order that is asked for: how many
	 * of them are likely to have enough rows, and are read first; 0: all at once.
	 */
	int			first_parts;
	bool		parts_descending;

	/* Upper stages: what is asked for; NULL where the columns follow from the path's target. */
	ShardRemoteQuery *query;
	List	   *local_having;	/* clauses to check here: HAVING, run conditions of windows */

	/* Estimates; cost.c, or a node's (remote_estimate.c). */
	bool		remote_estimate;	/* the node is asked: scans and joins of foreign tables by themselves */
	bool		analyzed;		/* the tables have statistics */
	double		rows;			/* rows that come from all nodes together */
	int			width;
	Cost		remote_cost;	/* of the remote queries, without transfer; elapsed, not summed up */
	Cost		unsure_cost;	/* so much more it is where nodes have no indexes but those known here */
	double		read_rows;		/* rows that the sharded tables, and joins among them, give from all nodes together */
} ShardRelInfo;

/* create_plan: our GetForeignPlan callback, by which relations of ours are recognized.  To be called once, at load. */
extern void shard_relinfo_init(GetForeignPlan_function create_plan);

/* Does this library plan rel, a base or join relation: has its wrapper our handler? */
extern bool shard_relinfo_is_ours(const RelOptInfo *rel);

/* True while planning when rte is a sharded parent that hooks.c turned into one foreign table. */
extern bool shard_relinfo_is_sharded(const RangeTblEntry *rte);

/* Fills baserel->fdw_private, rows and width. */
extern ShardRelInfo *shard_relinfo_create(PlannerInfo *root, RelOptInfo *baserel, Oid relid);

/* The plain clauses of RestrictInfos, those without columns first. */
extern List *shard_relinfo_clauses(List *rinfos);

/* Rows of a sharded table: reltuples of it (-1: never analyzed), else of its shards, else a guess. */
extern double shard_relinfo_tuples(Oid relid, double reltuples);

/*
 * The same for a reference table, which has a size and paths of core's: fills
 * rel->fdw_private, for joins, unless the table cannot be read on nodes here.
 */
extern void shard_relinfo_create_reference(PlannerInfo *root, RelOptInfo *rel);

/*
 * Do rows that are equal in exprs, by the operators eqops (one for each), lie on one
 * shard?  They do when exprs contain a whole shard key that no outer join has made
 * NULL.  The collations are those of the expressions.
 */
extern bool shard_relinfo_has_key(const ShardRelInfo *info, List *exprs, List *eqops);

/*
 * Does the relation over relids have an equivalence class that says that left equals
 * right, by the equality of the shard key's column keyno?
 */
extern bool shard_relinfo_equal_by_class(PlannerInfo *root, const ShardRelInfo *info, int keyno,
										 Relids relids, Expr *left, Expr *right);

/*
 * The constant, parameter or other Var-free expression that expr, column keyno
 * of a key, is known to equal in the relation over relids; or NULL.
 */
extern Expr *shard_relinfo_class_constant(PlannerInfo *root, const ShardRelInfo *info, int keyno,
										  Relids relids, Expr *expr);

/* Are both the same expression, apart from binary relabelling and outer joins that may have made them NULL? */
extern bool shard_relinfo_same_expr(Expr *left, Expr *right);

/* May a condition of this kind be checked by nodes beside those of info? */
extern bool shard_relinfo_security_allows(const RestrictInfo *rinfo, Index min_security);

/* EXPLAIN's "Relations": schema-qualified, quoted names and aliases of the tables, and how they are joined. */
extern char *shard_relinfo_name(PlannerInfo *root, const ShardFrom *from);

#endif
