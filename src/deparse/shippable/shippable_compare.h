/*
 * shippable_compare.h
 *	  Decides whether nodes compare values of a type as the coordinator does.
 */
#ifndef SHARDFDW_SHIPPABLE_COMPARE_H
#define SHARDFDW_SHIPPABLE_COMPARE_H

#include "postgres.h"

#include "deparse/shippable/shippable_extension.h"

/* Is the sort order surely the same on all servers? default_collation: all of them have the same default collation. */
extern bool shard_compare_order_ok(Node *expr, Oid sortop, bool default_collation,
								   ShardExtensionScope *extensions);

/* Is equality surely the same on all servers?  False for nondeterministic collations. */
extern bool shard_compare_equality_ok(Node *expr, ShardExtensionScope *extensions);

#endif
