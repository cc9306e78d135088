/*
 * version.h
 *	  Does this library fit the SQL objects of the database?
 */
#ifndef SHARDFDW_VERSION_H
#define SHARDFDW_VERSION_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Raises that it does not.  For whatever uses a sharded table or a node.  Cost: that
 * of a call, but for the first one, and the first one after changes of functions.
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

extern void shard_version_init(void);	/* registers callbacks */

#endif
