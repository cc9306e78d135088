/*
 * answer.h
 *	  Collects rows that are read one at a time into one result, up to a maximum size.
 */
#ifndef SHARDFDW_ANSWER_H
#define SHARDFDW_ANSWER_H

#include "postgres.h"

#include "remote/wire/connection.h"
#include "utils/memutils.h"

/* Limit for answers about catalogs: far more than they need, and harmless for this backend's memory. */
#define SHARD_ANSWER_BYTES ((size_t) 64 * 1024 * 1024)

/*
 * Limit for answers that grow with the node's tables, and for the user's own queries: as much as
 * palloc() can allocate.
 */
#define SHARD_ANSWER_MANY_BYTES ((size_t) MaxAllocSize)

/*
 * Takes res, a result from conn, and becomes its owner.  Rows (PGRES_SINGLE_TUPLE) are added to
 * *rows, which is NULL at first and belongs to the caller; NULL is returned.  At the end of the
 * rows (PGRES_TUPLES_OK), returns all of them as one result.  Every other result is returned
 * unchanged.  In both cases *rows is NULL again.  Rows without columns are dropped, since no caller
 * requests any.  Errors: rows of more than max_bytes (conn is broken then), out of memory.
 */
extern PGresult *shard_answer_add(PGresult **rows, PGresult *res, size_t max_bytes,
								  ShardConn *conn, const char *label);

/* The same for *res, which becomes NULL if it was added.  False in place of an error.  Never raises. */
extern bool shard_answer_add_noerror(PGresult **rows, PGresult **res, size_t max_bytes);

#endif
