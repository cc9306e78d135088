/*
 * shippable_extension.h
 *	  Decides which extensions' objects mean the same on the nodes as on the coordinator: those of the extensions
 *	  in the servers' option `extensions`.
 */
#ifndef SHARDFDW_SHIPPABLE_EXTENSION_H
#define SHARDFDW_SHIPPABLE_EXTENSION_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* The tables of an expression. root NULL: there are none. */
typedef struct ShardExtensionScope
{
	PlannerInfo *root;
	Relids		relids;
	bool		known;			/* names is set; initially 0 */
	List	   *names;			/* list of char *: extensions of all nodes of the tables */
} ShardExtensionScope;

/* Does a type (or its element type), operator, or immutable function or aggregate belong to such an extension? */
extern bool shard_extension_type_ok(ShardExtensionScope *scope, Oid type);
extern bool shard_extension_operator_ok(ShardExtensionScope *scope, Oid opno);
extern bool shard_extension_function_ok(ShardExtensionScope *scope, Oid funcid);

#endif
