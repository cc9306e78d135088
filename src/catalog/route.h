/*
 * route.h
 *	  Finds shards by key values, or by conditions on the key: core's own partition
 *	  support functions decide, so that pruning, INSERT and COPY agree.
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
 * Shards of the partitioned table relid that can hold rows which satisfy quals,
 * an implicit-AND list whose Vars have varno 1 (the partitioned table) and
 * which may hold Consts but no Params.  Core's pruning over a scratch
 * RelOptInfo; cost does not depend on the number of shards beyond the bound
 * search.  Result: set of shardno in the current context.
 */
extern Bitmapset *shard_route_prune(Oid relid, List *quals);

/*
 * Partitions (partnos) of a table of two levels that can hold such rows.  Who reads them locks
 * them and asks for the map again before their shards are pruned.
 */
extern Bitmapset *shard_route_prune_parts(const ShardMap *map, List *quals);

/* The key by which the partitions of a table of two levels are sharded, as core has those of tables.  Memory: current context. */
extern PartitionKey shard_route_part_key(const ShardMap *map);

/*
 * Shards (shardnos) of map that can hold such rows; of two levels, those of partitions parts alone,
 * which are locked.  Partitions with the same bounds are pruned once.
 */
extern Bitmapset *shard_route_prune_map(const ShardMap *map, List *quals, const Bitmapset *parts);

/* Those of shards, a set of shardnos, that can hold such rows.  Partitions that have some of them are locked. */
extern Bitmapset *shard_route_prune_shards(const ShardMap *map, List *quals, const Bitmapset *shards);

/*
 * The map of a sharded table and the bounds that fit it, for a statement that
 * routes rows: both stay as they are while parent is open, though other
 * sessions can attach and detach partitions meanwhile.  NULL when it is not
 * sharded (any more).
 */
extern const ShardMap *shard_route_pin(Relation parent, PartitionDesc *partdesc);

/*
 * Routes rows of a statement through all levels of a sharded table.  map stays as it is until the statement ends.
 * Partitions of a table of two levels are locked (RowExclusiveLock) and opened when the first row for them comes.
 */
typedef struct ShardRouting
{
	const ShardMap *map;
	Relation	parent;			/* the caller's, open and locked */
	PartitionDesc partdesc;		/* that map fits */
	Relation   *parts;			/* map->nparts of them; NULL: not open yet */
	PartitionDesc *part_descs;	/* of these, as map has them */
} ShardRouting;

/* Result: in the current context, NULL when parent is not sharded.  Errors: ERRCODE_OBJECT_IN_USE, partitions come or go. */
extern ShardRouting *shard_route_open(Relation parent);

/* shardno for the values of all columns of the key, those of the upper level first; -1 when no partition takes them. */
extern int	shard_route_row(ShardRouting *routing, const Datum *values, const bool *isnull);

/* Locks and opens all partitions, as if each had got a row: the statement runs on all shards. */
extern void shard_route_open_parts(ShardRouting *routing);

/* Closes partitions; a row that comes later opens its own again. */
extern void shard_route_close(ShardRouting *routing);

/*
 * shardno, in the map that partdesc was pinned with, for key values (partnatts
 * of them, in key order), -1 when no partition takes them.  The caller computes key
 * expressions.
 */
extern int	shard_route_key(Relation parent, PartitionDesc partdesc,
							const Datum *values, const bool *isnull);

/*
 * Is expr_varno1 column keyno (0-based) of relid's partition key, and is eqop under
 * collation the key's own equality?
 */
extern bool shard_route_key_matches(Oid relid, int keyno, Node *expr_varno1,
									Oid eqop, Oid collation);
extern int	shard_route_nkeys(Oid relid);

/* Raises the error of a row for whose key rel has no shard. */
extern void shard_route_raise_no_shard(Relation rel, const Datum *values, const bool *isnull) __attribute__((noreturn));

/* expr without changes of its type's name: varchar columns come with a RelabelType that the key may have, too. */
static inline void *
shard_route_strip_relabel(const void *expr)
{
	while (expr != NULL && IsA(expr, RelabelType))
		expr = ((const RelabelType *) expr)->arg;
	return unconstify(void *, expr);
}

#endif
