/*
 * peer_follow.h
 *	  Which statements change definitions that all coordinators have.
 */
#ifndef SHARDFDW_PEER_FOLLOW_H
#define SHARDFDW_PEER_FOLLOW_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Does the statement change what each coordinator's database has?  Not so: what belongs to a whole server (roles,
 * databases, settings), to replication, or to this session (temporary objects), and what is work on
 * rows (REFRESH, CLUSTER).  Errors: feature_not_supported for what cannot be done on the others.
 */
extern bool shard_peer_follows(Node *stmt);

/* Does the statement commit in its course, so that the others follow when it is done? */
extern bool shard_peer_is_concurrent(Node *stmt);

/* A copy of the statement as a coordinator runs it that follows another one: at once, and without rows. */
extern Node *shard_peer_follower_statement(Node *stmt);

#endif
