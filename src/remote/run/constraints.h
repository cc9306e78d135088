/*
 * constraints.h
 *	  SET CONSTRAINTS ALL on nodes.
 */
#ifndef SHARDFDW_CONSTRAINTS_H
#define SHARDFDW_CONSTRAINTS_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* What nodes know of a foreign key. */
typedef enum ShardConstraintKind
{
	SHARD_CONSTRAINT_NONE,		/* nothing */
	SHARD_CONSTRAINT_IMMEDIATE, /* it, or one of several of that name, cannot be deferred */
	SHARD_CONSTRAINT_DEFERRABLE
} ShardConstraintKind;

/* What SET CONSTRAINTS ALL has said in this transaction. */
typedef enum ShardConstraintsMode
{
	SHARD_CONSTRAINTS_OWN,		/* nothing: each constraint is as it was defined */
	SHARD_CONSTRAINTS_DEFERRED,
	SHARD_CONSTRAINTS_IMMEDIATE
} ShardConstraintsMode;

extern ShardConstraintsMode shard_constraints_mode(void);

/*
 * SET CONSTRAINTS ALL for the rest of the current (sub)transaction, on nodes to which
 * it has written and on those to which it will write.  Errors: constraints that nodes
 * then find violated.
 */
extern void shard_constraints_set_all(bool deferred);

/* The same for foreign keys of one name in a schema of the nodes. */
extern void shard_constraints_set_key(const char *schema, const char *name, bool deferred);

/* Asks servers (OIDs) for foreign keys of that name.  Errors: those of the nodes. */
extern ShardConstraintKind shard_constraints_find_key(const List *servers, const char *schema, const char *name);

#endif
