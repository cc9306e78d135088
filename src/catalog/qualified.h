/*
 * qualified.h
 *	  Schema-qualified names of objects as SQL text, so that they have the same meaning with every
 *	  search_path.
 */
#ifndef SHARDFDW_QUALIFIED_H
#define SHARDFDW_QUALIFIED_H

#include "postgres.h"

/* The name of a relation of any kind.  Memory: current context. */
extern char *shard_qualified_relation(Oid relid);

/* "OPERATOR(schema.name)" */
extern char *shard_qualified_operator(Oid operator);

#endif
