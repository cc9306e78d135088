/*
 * row_refer.h
 *	  Rows that refer to one that is about to leave its shard.
 */
#ifndef SHARDFDW_ROW_REFER_H
#define SHARDFDW_ROW_REFER_H

#include "postgres.h"

#include "executor/modify/row_statement.h"

typedef struct ShardRowReferrers ShardRowReferrers;

/*
 * Asks the node which foreign keys with ON DELETE actions refer to relation, a qualified name there; server and
 * user are the statement's.  Memory: current context.
 */
extern ShardRowReferrers *shard_row_refer_find(const ShardRowStatement *statement, const char *relation);

/*
 * Locks the row whose ctid is the statement's first parameter if there are such keys.  Returns whether it is still there.
 * Errors: foreign_key_violation, or feature_not_supported where ON UPDATE would change rows that refer to it; table
 * is the name for messages.
 */
extern bool shard_row_refer_check(const ShardRowReferrers *referrers, const ShardRowStatement *statement, const char *table);

#endif
