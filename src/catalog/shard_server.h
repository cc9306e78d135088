/*
 * shard_server.h
 *	  Changes where the catalog says that a shard is.
 */
#ifndef SHARDFDW_SHARD_SERVER_H
#define SHARDFDW_SHARD_SERVER_H

#include "postgres.h"

/* The catalog says that shard relid, a partition of parent, is on target.  Plans of both are made anew. */
extern void shard_server_set(Oid relid, Oid parent, Oid source, Oid target);

#endif
