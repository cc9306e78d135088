/*
 * filter.h
 *	  FILTER: a function makes the row of the table out of the columns of the input.
 */
#ifndef SHARDFDW_FILTER_H
#define SHARDFDW_FILTER_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

typedef struct ShardFilter ShardFilter;

/*
 * Looks up name ('schema.function' or 'function'): exactly one function of that
 * name must return the row type of rel (or a record of its columns, in order),
 * not be set-returning, aggregate, window, variadic or polymorphic, and the user must
 * have EXECUTE.  Its IN parameters are the columns of the input, in order.
 * Errors: as above, naming the function and what is wrong with it.
 */
extern ShardFilter *shard_filter_open(MemoryContext cxt, const char *name, Relation rel);

/*
 * Calls it with the nfields texts (NULL for NULL; in the database's encoding) of
 * one line, and appends the row to out as one line of COPY's text format, all
 * columns but dropped and generated ones, with defaults of the options and '\n'
 * at the end.  False: NULL was returned, the row is dropped.  A strict function
 * with a NULL argument drops the row too.
 * Errors: input functions' and the function's own; memory of the call is freed
 * at the next one.
 */
extern bool shard_filter_row(ShardFilter *filter, char **fields, int nfields, StringInfo out);

#endif
