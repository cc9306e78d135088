/*
 * answer.h
 *	  Collects rows that are read one at a time into one result, up to a given size.
 */
#ifndef SHARDFDW_ANSWER_H
#define SHARDFDW_ANSWER_H

#include "postgres.h"

#include "remote/wire/connection.h"
#include "utils/memutils.h"

/* Limit for answers about catalogs: far more than they need, and harmless for this backend's memory. */
#define SHARD_ANSWER_BYTES ((size_t) 64 * 1024 * 1024)

/* Limit for answers that grow with the node's tables, or to the user's own queries: as much as palloc() gives. */
#define SHARD_ANSWER_MANY_BYTES ((size_t) MaxAllocSize)

/*
 * Takes res, a result from conn, and owns it.  Rows (PGRES_SINGLE_TUPLE) are
 * put into *rows, a result of the caller's that is NULL at first; NULL is
 * returned.  Their end (PGRES_TUPLES_OK) returns all of them as one result, and
 * everything else is returned as it is; *rows is NULL again.  Rows without
 * columns are dropped: no caller asks for any.
 * Errors: rows of more than max_bytes (conn is broken then), out of memory.
 */
extern PGresult *shard_answer_add(PGresult **rows, PGresult *res, size_t max_bytes,
								  ShardConn *conn, const char *label);

#endif
