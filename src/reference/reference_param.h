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
	const char **values;		/* of the current row, NULL for NULL */
	const char **types;			/* names without typmod */
	bool	   *as_text;		/* its arrays are text arrays */
	char	   *delims;			/* between elements of its arrays */
	StringInfoData *arrays;		/* literals without the closing brace */
} ShardReferenceParams;

/* How a replica finds a row. */
typedef struct ShardReferenceIdentity
{
	int			ncolumns;
	AttrNumber *attnos;
	const char **operators;		/* equality, as written in SQL */
} ShardReferenceIdentity;

/* Returns the columns whose values are sent: all except dropped ones and those that nodes compute. */
extern AttrNumber *shard_reference_param_sent(TupleDesc desc, int *ncolumns);

extern const char *shard_reference_param_column(Relation rel, AttrNumber attno);

/* Finds the identity.  Raises if the table has none. verb ("update"): for that message. */
extern void shard_reference_param_identity(Relation rel, const char *verb, ShardReferenceIdentity *identity);

/* Columns on which immediate unique indexes depend, offset by FirstLowInvalidHeapAttributeNumber. */
extern Bitmapset *shard_reference_param_unique(Relation rel);

extern void shard_reference_param_init(ShardReferenceParams *columns, Relation rel,
									   AttrNumber *attnos, int ncolumns);

/* Reads the row's values in text form.  Memory: row_cxt. */
extern void shard_reference_param_read(ShardReferenceParams *columns, TupleTableSlot *slot,
									   MemoryContext row_cxt);

/* Appends the current values to the arrays.  Returns their size in bytes. */
extern Size shard_reference_param_append(ShardReferenceParams *columns);

/* Appends "pg_catalog.unnest($1::type[]), ..."; the first parameter is $(before + 1). */
extern void shard_reference_param_unnest(StringInfo sql, const ShardReferenceParams *columns, int before);

/* Appends the column names of unnest: prefix and a number each. */
extern void shard_reference_param_aliases(StringInfo sql, const ShardReferenceParams *columns,
										  const char *prefix, bool first);

/* Appends column i (0-based) of unnest, as a value of its type. */
extern void shard_reference_param_value(StringInfo sql, const ShardReferenceParams *columns, int i,
										const char *prefix);

/* Appends "r.a OPERATOR(pg_catalog.=) v.k1 AND ..." */
extern void shard_reference_param_match(StringInfo sql, Relation rel, const ShardReferenceParams *keys,
										const ShardReferenceIdentity *identity);

/*
 * For commands for a single row, whose values are parameters. row_value: "$1::type" for column i,
 * after before other parameters. row_match: "r.a OPERATOR(pg_catalog.=) $1::type AND ...", with
 * keys as the first parameters.
 */
extern void shard_reference_param_row_value(StringInfo sql, const ShardReferenceParams *columns, int i, int before);
extern void shard_reference_param_row_match(StringInfo sql, Relation rel, const ShardReferenceParams *keys,
											const ShardReferenceIdentity *identity);

#endif
