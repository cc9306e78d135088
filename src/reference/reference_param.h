/*
 * reference_param.h
 *	  How commands for replicas of a reference table identify rows and pass values.
 */
#ifndef SHARDFDW_REFERENCE_PARAM_H
#define SHARDFDW_REFERENCE_PARAM_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "tuple/encode.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

/* Columns whose values are parameters of a command. */
typedef struct ShardReferenceParams
{
	int			ncolumns;
	AttrNumber *attnos;
	ShardEncoder *encoder;
	const char **values;		/* of the row at hand, NULL for NULL */
	const char **types;			/* names without typmod */
	bool	   *as_text;		/* its arrays are arrays of text */
	char	   *delims;			/* between elements of its arrays */
	StringInfoData *arrays;		/* literals without the closing brace */
} ShardReferenceParams;

/* How a replica finds a row. */
typedef struct ShardReferenceIdentity
{
	int			ncolumns;
	AttrNumber *attnos;
	const char **operators;		/* equality, as in SQL */
} ShardReferenceIdentity;

/* Columns whose values are sent: all but dropped ones and those that nodes compute. */
extern AttrNumber *shard_reference_param_sent(TupleDesc desc, int *ncolumns);

extern const char *shard_reference_param_column(Relation rel, AttrNumber attno);

/* Finds the identity.  Raises when the table has none; verb ("update") is for that message. */
extern void shard_reference_param_identity(Relation rel, const char *verb, ShardReferenceIdentity *identity);

/* Columns on which immediate unique indexes depend, offset by FirstLowInvalidHeapAttributeNumber. */
extern Bitmapset *shard_reference_param_unique(Relation rel);

extern void shard_reference_param_init(ShardReferenceParams *columns, Relation rel,
									   AttrNumber *attnos, int ncolumns);

/* The row's values in text form.  Memory: row_cxt. */
extern void shard_reference_param_read(ShardReferenceParams *columns, TupleTableSlot *slot,
									   MemoryContext row_cxt);

/* Appends the values at hand to the arrays; returns their size in bytes. */
extern Size shard_reference_param_append(ShardReferenceParams *columns);

/* Appends "pg_catalog.unnest($1::type[]), ..."; the first parameter is $(before + 1). */
extern void shard_reference_param_unnest(StringInfo sql, const ShardReferenceParams *columns, int before);

/* Appends the names of the columns of unnest, prefix and a number each. */
extern void shard_reference_param_aliases(StringInfo sql, const ShardReferenceParams *columns,
										  const char *prefix, bool first);

/* Appends column i (0-based) of unnest, as a value of its type. */
extern void shard_reference_param_value(StringInfo sql, const ShardReferenceParams *columns, int i,
										const char *prefix);

/* Appends "r.a OPERATOR(pg_catalog.=) v.k1 AND ..." */
extern void shard_reference_param_match(StringInfo sql, Relation rel, const ShardReferenceParams *keys,
										const ShardReferenceIdentity *identity);

/*
 * For commands about a single row, whose values are parameters themselves: "$1::type" of column i, where before
 * parameters come first; "r.a OPERATOR(pg_catalog.=) $1::type AND ...", where keys are the first parameters.
 */
extern void shard_reference_param_row_value(StringInfo sql, const ShardReferenceParams *columns, int i, int before);
extern void shard_reference_param_row_match(StringInfo sql, Relation rel, const ShardReferenceParams *keys,
											const ShardReferenceIdentity *identity);

#endif
