/*
 * own_schema.h
 *	  The extension's schemas: one of what users call and read, one of what the
 *	  extension itself does.  A node has the second, too: of partial aggregates and of
 *	  the notes by which it knows its coordinators.
 */
#ifndef SHARDFDW_OWN_SCHEMA_H
#define SHARDFDW_OWN_SCHEMA_H

#define SHARD_SCHEMA "shardfdw"
#define SHARD_INTERNAL_SCHEMA "shardfdw_internal"

#define SHARD_EXTENSION "shardfdw"

#endif							/* SHARDFDW_OWN_SCHEMA_H */
