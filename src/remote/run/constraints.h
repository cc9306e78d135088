/*
 * constraints.h
 *	  SET CONSTRAINTS ALL on nodes.
 */
#ifndef SHARDFDW_CONSTRAINTS_H
#define SHARDFDW_CONSTRAINTS_H

#include "postgres.h"

/*
 * SET CONSTRAINTS ALL for the rest of the current (sub)transaction, on nodes to which
 * it has written and on those to which it will write.  Errors: constraints that nodes
 * then find violated.
 */
extern void shard_constraints_set(bool deferred);

#endif
