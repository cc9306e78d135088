/*
 * route.h
 *	  Finds shards by key values, or by conditions on the key.  Core's own partition support
 *	  functions decide, so that pruning, INSERT and COPY agree.
 */
#ifndef SHARDFDW_ROUTE_H
#define SHARDFDW_ROUTE_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "nodes/primnodes.h"
#include "partitioning/partdefs.h"
#include "utils/relcache.h"

/*
 * Returns the shards of the partitioned table relid that can hold rows which satisfy quals, an
 * implicit-AND list whose Vars have varno 1 (the partitioned table). quals may contain Consts but
 * no Params.  Uses core's pruning with a scratch RelOptInfo.  Apart from the bound search, its cost
 * does not depend on the number of shards.  Result: set of shardnos in the current context.
 */
extern Bitmapset *shard_route_prune(Oid relid, List *quals);

/*
 * Returns the partitions (partnos) of a table with two levels that can hold such rows.  To read
 * them, the caller must lock them and get the map again before their shards are pruned.
 */
extern Bitmapset *shard_route_prune_parts(const ShardMap *map, List *quals);

/*
 * Returns the key by which the partitions of a table with two levels are sharded, in core's form.
 * Memory: current context.
 */
extern PartitionKey shard_route_part_key(const ShardMap *map);

/*
 * Returns the shards (shardnos) of map that can hold such rows.  With two levels, only those of the
 * partitions parts, which are locked.  Partitions with the same bounds are pruned once.
 */
extern Bitmapset *shard_route_prune_map(const ShardMap *map, List *quals, const Bitmapset *parts);

/*
 * Returns those of shards, a set of shardnos, that can hold such rows.  Partitions that contain
 * some of them must be locked.
 */
extern Bitmapset *shard_route_prune_shards(const ShardMap *map, List *quals, const Bitmapset *shards);

/*
 * Returns the map of a sharded table and the matching bounds, for a statement that routes rows.
 * Both stay valid while parent is open, although other sessions can attach and detach partitions.
 * NULL if it is not sharded (any more).
 */
extern const ShardMap *shard_route_pin(Relation parent, PartitionDesc *partdesc);

/*
 * Routes rows of a statement through all levels of a sharded table. map stays valid until the
 * statement ends.  Partitions of a table with two levels are locked (RowExclusiveLock) and opened
 * at the first row for them.
 */
typedef struct ShardRouting
{
	const ShardMap *map;
	Relation	parent;			/* the caller's, open and locked */
	PartitionDesc partdesc;		/* matches map */
	Relation   *parts;			/* map->nparts of them; NULL: not open yet */
	PartitionDesc *part_descs;	/* of these partitions, matching map */
} ShardRouting;

/*
 * NULL if parent is not sharded.  Memory: current context.  Errors: ERRCODE_OBJECT_IN_USE if
 * partitions are being attached or detached.
 */
extern ShardRouting *shard_route_open(Relation parent);

/*
 * Returns the shardno for the values of all key columns, those of the upper level first; -1 if no
 * partition accepts them.
 */
extern int	shard_route_row(ShardRouting *routing, const Datum *values, const bool *isnull);

/* Raises the error for a row for which shard_route_row() has returned -1. */
extern void shard_route_raise_unrouted(const ShardRouting *routing, const Datum *values, const bool *isnull) __attribute__((noreturn));

/* Locks and opens all partitions, as for a row in each, for a statement that runs on all shards. */
extern void shard_route_open_parts(ShardRouting *routing);

/* Closes the partitions.  A later row opens its partition again. */
extern void shard_route_close(ShardRouting *routing);

/*
 * Returns the shardno, in the map that partdesc was pinned with, for key values (partnatts of them,
 * in key order); -1 if no partition accepts them.  The caller computes key expressions.
 */
extern int	shard_route_key(Relation parent, PartitionDesc partdesc,
							const Datum *values, const bool *isnull);

/*
 * Is expr_varno1 column keyno (0-based) of relid's partition key, and is eqop with collation the
 * key's own equality?
 */
extern bool shard_route_key_matches(Oid relid, int keyno, Node *expr_varno1,
									Oid eqop, Oid collation);
extern int	shard_route_nkeys(Oid relid);

/* Columns of the shard key, of both levels.  IntList; 0 stands for an expression.  NIL for a shard, which has no key. */
extern List *shard_route_key_attnos(Oid relid);

/* May an assignment of targets (TargetEntries) to columns of relid change the shard key of a row? */
extern bool shard_route_assigns_key(Oid relid, const List *targets);

/* Raises the error for a row for whose key rel has no shard. */
extern void shard_route_raise_no_shard(Relation rel, const Datum *values, const bool *isnull) __attribute__((noreturn));

/* Returns expr without relabeling of its type: varchar columns have a RelabelType, which the key may have, too. */
static inline void *
shard_route_strip_relabel(const void *expr)
{
	while (expr != NULL && IsA(expr, RelabelType))
		expr = ((const RelabelType *) expr)->arg;
	return unconstify(void *, expr);
}

#endif
