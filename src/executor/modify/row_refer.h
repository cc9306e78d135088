/*
 * row_refer.h
 *	  Rows that refer to a row that is about to leave its shard.
 */
#ifndef SHARDFDW_ROW_REFER_H
#define SHARDFDW_ROW_REFER_H

#include "postgres.h"

#include "executor/modify/row_statement.h"

typedef struct ShardRowReferrers ShardRowReferrers;

/*
 * Asks the node which foreign keys with ON DELETE actions refer to relation, a qualified name on
 * the node.  Server and user are the statement's.  Memory: current context.
 */
extern ShardRowReferrers *shard_row_refer_find(const ShardRowStatement *statement, const char *relation);

/*
 * If there are such keys, locks the row whose ctid is the statement's first parameter.  Returns
 * whether it still exists.  Errors: foreign_key_violation; feature_not_supported if ON UPDATE would
 * change rows that refer to it. table: name for messages.
 */
extern bool shard_row_refer_check(const ShardRowReferrers *referrers, const ShardRowStatement *statement, const char *table);

#endif
