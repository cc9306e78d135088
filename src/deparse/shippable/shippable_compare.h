/*
 * shippable_compare.h
 *	  Whether nodes compare values of a type as the coordinator does.
 */
#ifndef SHARDFDW_SHIPPABLE_COMPARE_H
#define SHARDFDW_SHIPPABLE_COMPARE_H

#include "postgres.h"

#include "deparse/shippable/shippable_extension.h"

/* Is it surely the same order on all servers that agree on the default collation, or even without that? */
extern bool shard_compare_order_ok(Node *expr, Oid sortop, bool default_collation,
								   ShardExtensionScope *extensions);

/* Equality of values: the type's own, under which no collation takes different bytes for equal ones. */
extern bool shard_compare_equality_ok(Node *expr, ShardExtensionScope *extensions);

#endif
