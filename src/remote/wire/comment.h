/*
 * comment.h
 *	  Comments that tell a node which statement of a client what it is sent belongs to.
 */
#ifndef SHARDFDW_COMMENT_H
#define SHARDFDW_COMMENT_H

#include "postgres.h"

#include "lib/stringinfo.h"

/*
 * What is to stand in front of a message to a node: the client's traceparent as a
 * comment and an empty statement; "" when there is none, or it is not to be handed on.
 * *sampled: the client's trace is being recorded.  Memory: valid until the next call.
 */
extern const char *shard_comment_trace(bool *sampled);

/*
 * What is to stand behind a statement on a node: the query id of the client's
 * statement as a comment; "" when it has none, or it is not to be sent.
 * Memory: valid until the next call.
 */
extern const char *shard_comment_query_id(void);

#endif
