/*
 * constraints.h
 *	  SET CONSTRAINTS ALL on nodes.
 */
#ifndef SHARDFDW_CONSTRAINTS_H
#define SHARDFDW_CONSTRAINTS_H

#include "postgres.h"

/*
 * SET CONSTRAINTS ALL for the rest of the current (sub)transaction, on nodes that
 * it writes to and those that it is going to.  Errors: what nodes then find violated.
 */
extern void shard_constraints_set(bool deferred);

#endif
