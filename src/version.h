/*
 * version.h
 *	  Does this library match the SQL objects of the database?
 */
#ifndef SHARDFDW_VERSION_H
#define SHARDFDW_VERSION_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Raises an error if it does not.  To be called by all code that uses a sharded table or a node.
 * Cost: a function call, except for the first call, and the first one after changes of functions or
 * wrappers.
 *
 * Errors: OBJECT_NOT_IN_PREREQUISITE_STATE.
 */
extern void shard_version_check(void);

/* The same for a background worker: returns false, and writes a message to the log. */
extern bool shard_version_check_noerror(void);

/*
 * To be called for each utility statement, before it runs: refuses to install SQL objects that are
 * newer than this library.
 */
extern void shard_version_check_statement(Node *stmt);

/* Functions or wrappers have changed, or a transaction that may have changed them was rolled back. */
extern void shard_version_forget(void);

#endif
