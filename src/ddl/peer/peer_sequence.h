/*
 * peer_sequence.h
 *	  Gives each coordinator separate values of sequences.
 */
#ifndef SHARDFDW_PEER_SEQUENCE_H
#define SHARDFDW_PEER_SEQUENCE_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * Call it after a statement that may have made sequences.  Restricts them to this coordinator's share of the values.
 * Errors: feature_not_supported for a foreign key of a plain table to a reference table, whose rows change on all
 * coordinators.
 */
extern void shard_peer_share_sequences(Node *stmt);

#endif
