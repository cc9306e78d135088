/*
 * cte_order.h
 *	  Statements that insert rows into a sharded table, and change rows of it in another part.
 */
#ifndef SHARDFDW_CTE_ORDER_H
#define SHARDFDW_CTE_ORDER_H

/* To be called once, when the library is loaded. */
extern void shard_cte_order_init(void);

#endif
