/*
 * shippable_extension.h
 *	  Which extensions' objects mean the same on the nodes as on the coordinator: those
 *	  of extensions that the servers' option `extensions` lists.
 */
#ifndef SHARDFDW_SHIPPABLE_EXTENSION_H
#define SHARDFDW_SHIPPABLE_EXTENSION_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* The tables of an expression; root NULL: it has none. */
typedef struct ShardExtensionScope
{
	PlannerInfo *root;
	Relids		relids;
	bool		known;			/* names is set; 0 at first */
	List	   *names;			/* of char *: extensions of all nodes of the tables */
} ShardExtensionScope;

/* Is a type (its elements', of an array), operator, or immutable function or aggregate of such an extension? */
extern bool shard_extension_type_ok(ShardExtensionScope *scope, Oid type);
extern bool shard_extension_operator_ok(ShardExtensionScope *scope, Oid opno);
extern bool shard_extension_function_ok(ShardExtensionScope *scope, Oid funcid);

#endif
