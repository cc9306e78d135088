/*
 * collation.h
 *	  Do nodes compare and sort text in the default collation in the same way as the coordinator?  Which majors do the
 *	  nodes run?
 */
#ifndef SHARDFDW_COLLATION_H
#define SHARDFDW_COLLATION_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * Is the default collation of every node of the map known to be the coordinator's, in the same
 * version?
 */
extern bool shard_collation_same_default(const ShardMap *map);

/* Is any node of the cluster known to have another default collation than the coordinator, or another version? */
extern bool shard_collation_differs(void);

/*
 * Returns the major versions that some of the servers (coordinator and nodes) have reached, and others have not: all
 * majors above the lowest, up to the highest.  Each is the bit 1 << major.  0: all servers run the same major.  Nodes
 * whose major is not known do not count.
 */
extern uint32 shard_collation_majors_apart(void);

/* Does a collation, which is not the default one, take its Unicode data from the server's major? */
extern bool shard_collation_is_builtin(Oid collation);

/* Servers have changed. */
extern void shard_collation_invalidate(void);

#endif
