/*
 * cte_order.h
 *	  Runs statements that insert rows into a sharded table in one part, and change rows of the same table in another.
 */
#ifndef SHARDFDW_CTE_ORDER_H
#define SHARDFDW_CTE_ORDER_H

#include "postgres.h"

#include "executor/execdesc.h"

/* Calls run(arg), which must run the statement in direction, so that its parts run in the required order. */
extern void shard_cte_order_run(QueryDesc *desc, ScanDirection direction, void (*run) (void *arg), void *arg);

#endif
