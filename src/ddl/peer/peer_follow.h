/*
 * peer_follow.h
 *	  Finds the statements that change definitions on all coordinators.
 */
#ifndef SHARDFDW_PEER_FOLLOW_H
#define SHARDFDW_PEER_FOLLOW_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Does the statement change definitions that each coordinator has?  Returns false for objects of the whole server
 * (roles, databases, settings), replication, temporary objects, and statements that only process rows (REFRESH,
 * CLUSTER).  Errors: feature_not_supported for statements that cannot be run on the other coordinators.
 */
extern bool shard_peer_follows(Node *stmt);

/* May the text of the statement contain a password? */
extern bool shard_peer_may_have_password(Node *stmt);

/*
 * Returns a LOCK TABLE for the other coordinators to run before a statement that they do not run.  This is for
 * TRUNCATE of sharded tables and reference tables: sessions of the other coordinators would wait for it on nodes, with
 * snapshots that do not show the rows that come after it.  NULL for other statements.
 */
extern LockStmt *shard_peer_locks_before(Node *stmt);

/*
 * Must this coordinator run the statement before the others?  True for statements that commit while they run, and for
 * statements whose result is known only afterwards.
 */
extern bool shard_peer_follows_late(Node *stmt);

/*
 * Returns the text that the other coordinators run after this one: sql, or a statement with the same result, or NULL.
 * A table made by a query is made without rows.  A view of temporary tables is temporary.
 */
extern const char *shard_peer_late_text(Node *stmt, const char *sql);

/*
 * A copy of the statement for a coordinator that follows another one.  The copy runs without CONCURRENTLY and makes
 * no rows.
 */
extern Node *shard_peer_follower_statement(Node *stmt);

#endif
