/*
 * qualified.h
 *	  Names of objects as SQL text, with their schemas, so that no search_path changes what they mean.
 */
#ifndef SHARDFDW_QUALIFIED_H
#define SHARDFDW_QUALIFIED_H

#include "postgres.h"

/* Of a relation of any kind.  Memory: current context. */
extern char *shard_qualified_relation(Oid relid);

/* "OPERATOR(schema.name)" */
extern char *shard_qualified_operator(Oid operator);

#endif
