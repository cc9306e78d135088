/*
 * own_schema.h
 *	  The schemas of the extension: one for users, and one for the extension itself.  The second one
 *	  also exists on nodes, with partial aggregates and the notes by which a node knows its
 *	  coordinators.
 */
#ifndef SHARDFDW_OWN_SCHEMA_H
#define SHARDFDW_OWN_SCHEMA_H

#define SHARD_SCHEMA "shardfdw"
#define SHARD_INTERNAL_SCHEMA "shardfdw_internal"

#define SHARD_EXTENSION "shardfdw"

#endif							/* SHARDFDW_OWN_SCHEMA_H */
