/*
 * schema_lock.h
 *	  Keeps schemas from being renamed while something is made on nodes under their names.
 */
#ifndef SHARDFDW_SCHEMA_LOCK_H
#define SHARDFDW_SCHEMA_LOCK_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "storage/lockdefs.h"

/* Until the end of the transaction: AccessShareLock to use the name on nodes, AccessExclusiveLock to change it. */
extern void shard_schema_lock(Oid namespace, LOCKMODE lockmode);
extern void shard_schema_unlock(Oid namespace, LOCKMODE lockmode);

/* Keeps other sessions from making schemas, types and the like on nodes until the end of the transaction. */
extern void shard_schema_lock_new_objects(void);

/* The table that a statement will make, EXPLAIN of it included; NULL: none, or a foreign one. */
extern RangeVar *shard_schema_new_table(Node *stmt);

/*
 * Locks, shared, the schemas that a statement is going to use on nodes, before any table that it
 * changes is locked: those of the table, of types, of functions and the like.
 */
extern void shard_schema_lock_statement(Node *stmt);

#endif
