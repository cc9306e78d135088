/*
 * key_filter.h
 *	  Paths that are filtered by the keys of a key join.
 *
 * A search for the best order of joins looks at many pairs of relations, and most
 * key joins are dropped at once.  So keys get their parameters only when their join
 * has become part of the plan.
 */
#ifndef SHARDFDW_KEY_FILTER_H
#define SHARDFDW_KEY_FILTER_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* One equality between the sides. */
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

/* What the filter leaves of a relation, and what it costs. */
typedef struct ShardKeyedPath
{
	Path	   *path;
	double		fraction;		/* of the rows */
	double		nkeys;			/* that are sent, estimate */
	Cost		rescan;			/* of each further batch, rows apart */
	bool		splits;			/* a key is the shard key: each shard gets its own keys */
} ShardKeyedPath;

/*
 * A copy of path whose rows are those with some exprs[i] = ANY (values of keys[i])
 * for each i, or NULL when it cannot be filtered so.  keys: of ShardKeyClause; exprs:
 * what stands for the keys' inner expressions in path.  The caller fills
 * keyed->fraction and keyed->nkeys.  The function fills keyed->rescan and
 * keyed->splits.
 */
extern Path *shard_key_filter_path(PlannerInfo *root, Path *path, List *keys, List *exprs,
								   ShardKeyedPath *keyed);

/* Must a foreign table by itself be scanned by scanrelid, since its system columns are needed? */
extern bool shard_key_filter_needs_own_scan(const RelOptInfo *rel, const ShardRelInfo *info);

/* Was path filtered? */
extern bool shard_key_filter_is_set(const ForeignPath *path);

/*
 * When the plan is made: number of the parameter that has the key's values, which
 * is given out at the first call.
 */
extern int	shard_key_filter_param(PlannerInfo *root, ShardKeyClause *key);

/*
 * When the plan is made: info, or, when path was filtered, a copy of it whose FROM
 * has the conditions with the keys, too.
 */
extern const ShardRelInfo *shard_key_filter_info(PlannerInfo *root, const ForeignPath *path,
												 const ShardRelInfo *info);

#endif
