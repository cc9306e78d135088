/*
 * error_function.h
 *	  Names the command that makes a function which a node lacks.
 */
#ifndef SHARDFDW_ERROR_FUNCTION_H
#define SHARDFDW_ERROR_FUNCTION_H

#include "postgres.h"

/*
 * message: of an error of a node with SQLSTATE 42883.  Returns a HINT if this database has a function of that name;
 * otherwise NULL.  Memory: current context.
 */
extern char *shard_error_function_hint(const char *message);

#endif
