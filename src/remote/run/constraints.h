/*
 * constraints.h
 *	  SET CONSTRAINTS ALL on nodes.
 */
#ifndef SHARDFDW_CONSTRAINTS_H
#define SHARDFDW_CONSTRAINTS_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* The kind of a foreign key on the nodes. */
typedef enum ShardConstraintKind
{
	SHARD_CONSTRAINT_NONE,		/* there is none */
	SHARD_CONSTRAINT_IMMEDIATE, /* it, or one of several with that name, cannot be deferred */
	SHARD_CONSTRAINT_DEFERRABLE
} ShardConstraintKind;

/* The last SET CONSTRAINTS ALL in this transaction. */
typedef enum ShardConstraintsMode
{
	SHARD_CONSTRAINTS_OWN,		/* none: each constraint is as it was defined */
	SHARD_CONSTRAINTS_DEFERRED,
	SHARD_CONSTRAINTS_IMMEDIATE
} ShardConstraintsMode;

extern ShardConstraintsMode shard_constraints_mode(void);

/*
 * SET CONSTRAINTS ALL for the rest of the current (sub)transaction, on the nodes to which it has
 * written or will write.  Errors: violations that nodes find.
 */
extern void shard_constraints_set_all(bool deferred);

/* The same for foreign keys with one name in a schema of the nodes. */
extern void shard_constraints_set_key(const char *schema, const char *name, bool deferred);

/* Searches servers (OIDs) for foreign keys with that name.  Errors: those of the nodes. */
extern ShardConstraintKind shard_constraints_find_key(const List *servers, const char *schema, const char *name);

#endif
