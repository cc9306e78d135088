/*
 * row_limit.h
 *	  Checks statements that change more rows than their caller reads.
 */
#ifndef SHARDFDW_ROW_LIMIT_H
#define SHARDFDW_ROW_LIMIT_H

#include "postgres.h"

#include "executor/execdesc.h"

/*
 * Called when the executor has run the statement for up to count rows (0: all).  Errors:
 * ERRCODE_TOO_MANY_ROWS if nodes have changed more rows than that.
 */
extern void shard_row_limit_check(QueryDesc *desc, uint64 count);

#endif
