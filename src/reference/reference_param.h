/*
 * reference_param.h
 *	  Identifies rows and passes values in commands for the replicas of a reference table.
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
	const char *prefix;			/* of the names of columns of unnest() */
	int			nbefore;		/* number of other parameters before them */
	bool		is_single;		/* the command is for one row, whose values are the parameters; else arrays are */
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

extern void shard_reference_param_init(ShardReferenceParams *columns, Relation rel, AttrNumber *attnos, int ncolumns,
									   const char *prefix, int nbefore, bool is_single);

/* Reads the row's values in text form.  Memory: row_cxt. */
extern void shard_reference_param_read(ShardReferenceParams *columns, TupleTableSlot *slot,
									   MemoryContext row_cxt);

/* Appends the current values to the arrays.  Returns their size in bytes. */
extern Size shard_reference_param_append(ShardReferenceParams *columns);

/*
 * Returns the parameters of a command: those of keys, then those of values (NULL: none).  Completes the arrays.  Memory:
 * current context.  empty: empties the arrays, after the command.
 */
extern const char **shard_reference_param_collect(ShardReferenceParams *keys, ShardReferenceParams *values);
extern void shard_reference_param_empty(ShardReferenceParams *columns);

/* Appends "ROWS FROM (pg_catalog.unnest($1::type[]), ...) AS v (k1, ...)". values may be NULL. */
extern void shard_reference_param_rows(StringInfo sql, const ShardReferenceParams *keys, const ShardReferenceParams *values);

/* Appends the value of column i (0-based): "$1::type", or the column of those rows. */
extern void shard_reference_param_value(StringInfo sql, const ShardReferenceParams *columns, int i);

/* Appends "r.a OPERATOR(pg_catalog.=) v.k1 AND ..." */
extern void shard_reference_param_match(StringInfo sql, Relation rel, const ShardReferenceParams *keys,
										const ShardReferenceIdentity *identity);

#endif
