/*
 * relinfo.h
 *	  Planner information of a relation of ours: RelOptInfo's fdw_private.
 *
 * Memory: an object that a planner structure points to must live as long as that structure.  During the join search,
 * the current memory context may be reset for each join order that is tried (GEQO, and extensions with their own join
 * search).  RelOptInfos, infos and paths of joins are allocated in that context.  Base relations, PlannerInfo and
 * PlannerGlobal live longer.  So from the first join on until the plan is made
 *
 *	 - infos are made for joins only.  All base relations have their infos by then, including
 *	   reference tables that no join needs.
 *	 - nothing is added to a base relation, PlannerInfo or PlannerGlobal.  Keys that
 *	   a join sends get their parameters when the plan is made (key_filter.h).
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
	SHARD_REL_JOIN,				/* rows of several tables */
	SHARD_REL_GROUP,			/* groups, final on the nodes */
	SHARD_REL_PARTIAL_GROUP,	/* groups of each shard, or node, with partial states */
	SHARD_REL_UPPER				/* any other upper stage */
} ShardRelKind;

/*
 * Expressions over a relation's columns that determine the shard of a row: one for each column of the partition key,
 * in that order.  If none of them is NULL, the row lies on the shard that the map's key function returns.
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
	 * The rows of the relation are the union of the rows of from over all live shards of map.  For a reference
	 * relation, they are the rows of from on any one node (or on the coordinator).  Conditions that nodes check are
	 * in the where of from.
	 */
	ShardFrom  *from;
	bool		reference;		/* only reference tables below; no map, no shards */
	List	   *keys;			/* of ShardDistKey; NIL for a reference relation */

	/* The equality of the shard key, column by column; the same in all tables of a join. */
	int			nkeycols;
	const Oid  *key_opfamilies;
	const Oid  *key_collations;
	const int  *key_strategies; /* of "=" in these operator families */

	/*
	 * The table whose shards are queried.  For a join it is one of the join's sharded tables, which are all
	 * colocated.
	 */
	const ShardMap *map;
	Oid			relid;
	Index		rtindex;
	bool		sharded;		/* a parent with shards, not a single foreign table */
	Bitmapset  *live;			/* shard numbers left by pruning */
	bool		live_only;		/* from also returns rows on other shards, but those are rows of a reference table */
	int			nlive;
	int			nexpected;		/* estimate of how many live shards remain after pruning at execution start */

	/* Conditions of the scan; RestrictInfos. */
	List	   *remote_conds;	/* SHARD_REL_SCAN: the same as from->where */
	List	   *local_conds;	/* checked on the coordinator.  A relation with such conditions takes no part in
								 * remote joins and upper stages */

	TableSampleClause *sample;	/* of a single foreign table that is sampled, otherwise NULL */
	bool		gated;			/* takes no part in remote joins and upper stages: core must check a condition
								 * without columns above the scan, or the rows are a sample */

	/* Conditions with a higher security level than this must not run together with the conditions in from. */
	Index		min_security;

	/* Columns needed above the scan, numbered as by pull_varattnos() (a single foreign table). */
	Bitmapset  *columns;

	/*
	 * Conditions for pruning at execution start: clauses over the columns of rtindex (0: of a table within a
	 * sub-select).  Some of them have Params or stable expressions.  NIL if there are none.
	 */
	List	   *prune_conds;

	/*
	 * For a LIMIT over a two-level table whose partitions are in the requested order: the number of partitions that
	 * are likely to have enough rows.  These partitions are read first.  0: read all in parallel.
	 */
	int			first_parts;
	bool		parts_descending;

	/* Upper stages: the remote query.  NULL if the columns follow from the path's target. */
	ShardRemoteQuery *query;
	List	   *local_having;	/* clauses that the coordinator checks: HAVING, run conditions of windows */

	/* Estimates of cost.c, or of a node (remote_estimate.c). */
	bool		remote_estimate;	/* ask the node: for scans and joins of single foreign tables */
	bool		analyzed;		/* the tables have statistics */
	double		rows;			/* rows that all nodes together return */
	int			width;
	Cost		remote_cost;	/* elapsed cost of the remote queries (not their sum), without transfer */
	Cost		unsure_cost;	/* added to remote_cost if nodes have only the indexes that the coordinator knows */
	double		read_rows;		/* rows that the scans and joins of sharded tables produce on all nodes together */
} ShardRelInfo;

/*
 * create_plan: our GetForeignPlan callback, by which our relations are recognized.  Call it once, when the library is
 * loaded.
 */
extern void shard_relinfo_init(GetForeignPlan_function create_plan);

/* Is rel, a base or join relation, planned by this library: does its foreign-data wrapper have our handler? */
extern bool shard_relinfo_is_ours(const RelOptInfo *rel);

/* True during planning if rte is a sharded parent that hooks.c has turned into one foreign table. */
extern bool shard_relinfo_is_sharded(const RangeTblEntry *rte);

/* Fills baserel->fdw_private, rows and width. */
extern ShardRelInfo *shard_relinfo_create(PlannerInfo *root, RelOptInfo *baserel, Oid relid);

/* The bare clauses of RestrictInfos, pseudoconstant clauses first. */
extern List *shard_relinfo_clauses(List *rinfos);

/* Rows of a sharded table: its reltuples (-1: never analyzed), else the sum over its shards, else a default. */
extern double shard_relinfo_tuples(Oid relid, double reltuples);

/*
 * The same for a reference table: sets rel->fdw_private, for joins, unless nodes cannot read the table in this query.
 * Core sets the size and paths.
 */
extern void shard_relinfo_create_reference(PlannerInfo *root, RelOptInfo *rel);

/*
 * Do rows that are equal in exprs, by the operators eqops (one for each), lie on one shard?  They do if exprs contain
 * all columns of a shard key that no outer join has made NULL.  The collations are those of the expressions.
 */
extern bool shard_relinfo_has_key(const ShardRelInfo *info, List *exprs, List *eqops);

/*
 * Does an equivalence class of the relation over relids prove that left equals right, by the equality of column keyno
 * of the shard key?
 */
extern bool shard_relinfo_equal_by_class(PlannerInfo *root, const ShardRelInfo *info, int keyno,
										 Relids relids, Expr *left, Expr *right);

/*
 * The constant, parameter or other expression without Vars that equals expr, column keyno of a key, in the relation
 * over relids.  NULL if there is none.
 */
extern Expr *shard_relinfo_class_constant(PlannerInfo *root, const ShardRelInfo *info, int keyno,
										  Relids relids, Expr *expr);

/* Are both the same expression?  Ignores RelabelType nodes and varnullingrels. */
extern bool shard_relinfo_same_expr(Expr *left, Expr *right);

/* May nodes check this condition together with the conditions of info? */
extern bool shard_relinfo_security_allows(const RestrictInfo *rinfo, Index min_security);

/* EXPLAIN's "Relations": schema-qualified, quoted names and aliases of the tables, and how they are joined. */
extern char *shard_relinfo_name(PlannerInfo *root, const ShardFrom *from);

#endif
