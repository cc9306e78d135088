/*
 * key_filter.h
 *	  Paths that are filtered by the keys of a key join.
 *
 * The join search looks at many pairs of relations and drops most key joins immediately.  So keys get their parameter
 * numbers only when the plan with the key join is made.
 */
#ifndef SHARDFDW_KEY_FILTER_H
#define SHARDFDW_KEY_FILTER_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* One equality between the sides of the join. */
typedef struct ShardKeyClause
{
	RestrictInfo *rinfo;
	Expr	   *outer;
	Expr	   *inner;
	Oid			opno;			/* inner opno outer */
	Oid			value_type;		/* of the values that are sent */
	Oid			collation;
	Oid			outer_hash;
	Oid			inner_hash;
	int			paramid;		/* 0 until the plan is made: shard_key_filter_param() */
} ShardKeyClause;

/* A filtered path: the fraction of rows that remains, and its cost. */
typedef struct ShardKeyedPath
{
	Path	   *path;
	double		fraction;		/* of the rows that remain */
	double		nkeys;			/* estimate of the keys that are sent */
	Cost		rescan;			/* cost of each further batch, without its rows */
	bool		splits;			/* a key is the shard key: each shard gets only its keys */
} ShardKeyedPath;

/*
 * Returns a copy of path that returns only rows with exprs[i] = ANY (values of keys[i]) for each i.  Returns NULL if
 * the path cannot be filtered. keys: list of ShardKeyClause. exprs: the keys' inner expressions as they appear in
 * path.  The caller sets keyed->fraction and keyed->nkeys.  The function sets keyed->rescan and keyed->splits.
 */
extern Path *shard_key_filter_path(PlannerInfo *root, Path *path, List *keys, List *exprs,
								   ShardKeyedPath *keyed);

/* Must a single foreign table be scanned with its scanrelid, because its system columns are needed? */
extern bool shard_key_filter_needs_own_scan(const RelOptInfo *rel, const ShardRelInfo *info);

/* Was path filtered? */
extern bool shard_key_filter_is_set(const ForeignPath *path);

/* While the plan is made: number of the parameter that has the key's values.  The first call assigns it. */
extern int	shard_key_filter_param(PlannerInfo *root, ShardKeyClause *key);

/*
 * While the plan is made: returns info.  If path was filtered, returns a copy of info whose FROM has the key
 * conditions, too.
 */
extern const ShardRelInfo *shard_key_filter_info(PlannerInfo *root, const ForeignPath *path,
												 const ShardRelInfo *info);

#endif
