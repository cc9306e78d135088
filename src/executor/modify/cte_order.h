/*
 * cte_order.h
 *	  Statements that insert rows into a sharded table, and change rows of it in another part.
 */
#ifndef SHARDFDW_CTE_ORDER_H
#define SHARDFDW_CTE_ORDER_H

#include "postgres.h"

#include "executor/execdesc.h"

/* Has run(arg) run the statement in direction, its parts in the order that they need. */
extern void shard_cte_order_run(QueryDesc *desc, ScanDirection direction, void (*run) (void *arg), void *arg);

#endif
