/*
 * schema_lock.h
 *	  Keeps schemas from being renamed while objects are made on nodes under their names.
 */
#ifndef SHARDFDW_SCHEMA_LOCK_H
#define SHARDFDW_SCHEMA_LOCK_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

/*
 * Locks a schema until the end of the transaction.  AccessShareLock: its name is used on nodes.  AccessExclusiveLock:
 * it is changed.
 */
extern void shard_schema_lock(Oid namespace, LOCKMODE lockmode);
extern void shard_schema_unlock(Oid namespace, LOCKMODE lockmode);

/*
 * Keeps other sessions from making schemas, types and so on on nodes and other coordinators, until the end of the
 * transaction.
 */
extern void shard_schema_lock_new_objects(void);

/* The table that a statement, or EXPLAIN of it, will make.  NULL if none, or if it is a foreign table. */
extern RangeVar *shard_schema_new_table(Node *stmt);

/*
 * Locks, shared, the schemas that a statement will use on nodes, before any table is locked.  These are the schemas
 * of the table, of types, functions and so on.
 */
extern void shard_schema_lock_statement(Node *stmt);

#endif
