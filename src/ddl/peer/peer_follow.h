/*
 * peer_follow.h
 *	  Which statements change definitions that all coordinators have.
 */
#ifndef SHARDFDW_PEER_FOLLOW_H
#define SHARDFDW_PEER_FOLLOW_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Does the statement change what each coordinator's database has?  Not so: what belongs to a whole server (roles,
 * databases, settings), to replication, or to this session (temporary objects), and what is work on
 * rows (REFRESH, CLUSTER).  Errors: feature_not_supported for what cannot be done on the others.
 */
extern bool shard_peer_follows(Node *stmt);

/*
 * The LOCK TABLE that comes before a statement which the others do not run: TRUNCATE of sharded tables, whose rows are
 * on nodes.  NULL: none does.
 */
extern LockStmt *shard_peer_locks_before(Node *stmt);

/* Do the others follow when the statement is done here: since it commits in its course, or shows only then what it makes? */
extern bool shard_peer_follows_late(Node *stmt);

/*
 * When it has been run here, what the others run: its text (sql), or that of a statement with the same result; NULL: nothing.
 * A table of a query is made as it is here, without rows.  A view of temporary tables is temporary.
 */
extern const char *shard_peer_late_text(Node *stmt, const char *sql);

/* A copy of the statement as a coordinator runs it that follows another one: at once, and without rows. */
extern Node *shard_peer_follower_statement(Node *stmt);

#endif
