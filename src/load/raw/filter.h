/*
 * filter.h
 *	  FILTER: a function makes a row of the table from the columns of the input.
 */
#ifndef SHARDFDW_FILTER_H
#define SHARDFDW_FILTER_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

typedef struct ShardFilter ShardFilter;

/*
 * Looks up name ('schema.function' or 'function').  Exactly one function with that name must return the row type of
 * rel, or a record of its columns, in order.  It must not be a set-returning, aggregate, window, variadic or
 * polymorphic function, and the user needs EXECUTE.  Its IN parameters are the columns of the input, in order.
 * Errors: a requirement is not met.  The message names the function and the reason.
 */
extern ShardFilter *shard_filter_open(MemoryContext cxt, const char *name, Relation rel);

/*
 * Calls the function with the nfields texts of one line (NULL for NULL; in the database encoding).  Appends the row
 * to out as one line of COPY's text format with '\n' at its end: all columns except dropped and generated ones, with
 * the default options.  Returns false if the row is dropped: the function returned NULL, or is strict and has a NULL
 * argument.  Errors: those of input functions and of the function.  The memory of a call is freed by the next call.
 */
extern bool shard_filter_row(ShardFilter *filter, char **fields, int nfields, StringInfo out);

#endif
