/*
 * version.h
 *	  Does this library fit the SQL objects of the database?
 */
#ifndef SHARDFDW_VERSION_H
#define SHARDFDW_VERSION_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Raises if it does not.  To be called by all code that uses a sharded table or a node.
 * Cost: a function call, except for the first one, and the first one after changes of
 * functions or wrappers.
 * Errors: OBJECT_NOT_IN_PREREQUISITE_STATE.
 */
extern void shard_version_check(void);

/* The same for a background worker: false, and a message in the log. */
extern bool shard_version_check_noerror(void);

/*
 * For each utility statement, before it is run: refuses to install SQL objects
 * that are newer than this library.
 */
extern void shard_version_check_statement(Node *stmt);

/* Functions or wrappers have changed, or a transaction that may have changed them was rolled back. */
extern void shard_version_forget(void);

#endif
