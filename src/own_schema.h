/*
 * own_schema.h
 *	  The extension's schemas: one with what users call and read, one for the extension
 *	  itself.  A node has the second, too, with partial aggregates and the notes by which
 *	  it knows its coordinators.
 */
#ifndef SHARDFDW_OWN_SCHEMA_H
#define SHARDFDW_OWN_SCHEMA_H

#define SHARD_SCHEMA "shardfdw"
#define SHARD_INTERNAL_SCHEMA "shardfdw_internal"

#define SHARD_EXTENSION "shardfdw"

#endif							/* SHARDFDW_OWN_SCHEMA_H */
