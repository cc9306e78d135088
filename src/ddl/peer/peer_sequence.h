/*
 * peer_sequence.h
 *	  Values of sequences that are each coordinator's own.
 */
#ifndef SHARDFDW_PEER_SEQUENCE_H
#define SHARDFDW_PEER_SEQUENCE_H

#include "postgres.h"

#include "nodes/nodes.h"

/*
 * After a statement that may have made sequences: gives them this coordinator's share of the values.  Errors:
 * feature_not_supported for a foreign key of a plain table to a reference table, whose rows are changed on all.
 */
extern void shard_peer_share_sequences(Node *stmt);

#endif
