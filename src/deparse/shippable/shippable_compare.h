/*
 * shippable_compare.h
 *	  Whether nodes compare values of a type as the coordinator does.
 */
#ifndef SHARDFDW_SHIPPABLE_COMPARE_H
#define SHARDFDW_SHIPPABLE_COMPARE_H

#include "postgres.h"

#include "deparse/shippable/shippable_extension.h"

/* Do servers surely sort the same?  default_collation: all of them have the same default collation. */
extern bool shard_compare_order_ok(Node *expr, Oid sortop, bool default_collation,
								   ShardExtensionScope *extensions);

/* Do servers surely find the same values equal?  Not under a collation that takes different bytes for equal. */
extern bool shard_compare_equality_ok(Node *expr, ShardExtensionScope *extensions);

#endif
