/*
 * qualified.h
 *	  Schema-qualified names of objects as SQL text, so that they have the same meaning with every
 *	  search_path.
 */
#ifndef SHARDFDW_QUALIFIED_H
#define SHARDFDW_QUALIFIED_H

#include "postgres.h"

#include "utils/relcache.h"

/* The name of a relation of any kind.  Memory: current context. */
extern char *shard_qualified_relation(Oid relid);

/* "OPERATOR(schema.name)" */
extern char *shard_qualified_operator(Oid operator);

/*
 * The same for the equality of column keyno (0-based) of an index.  A GiST index has "overlaps" in its place.  Then it is
 * the equality of the type of the table's column.
 */
extern char *shard_qualified_equality(Relation index, int keyno, Oid atttype);

#endif
