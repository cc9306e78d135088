/*
 * comment.h
 *	  Comments that tell a node to which statement of a client a message belongs.
 */
#ifndef SHARDFDW_COMMENT_H
#define SHARDFDW_COMMENT_H

#include "postgres.h"

#include "lib/stringinfo.h"

/*
 * Text that precedes a message to a node: the client's traceparent as a comment, and an empty
 * statement. "" if there is none or it must not be sent. *sampled: the client's trace is being
 * recorded.  Memory: valid until the next call.
 */
extern const char *shard_comment_trace(bool *sampled);

/*
 * Text that follows a statement on a node: the query id of the client's statement as a comment. ""
 * if it has none or it must not be sent.  Memory: valid until the next call.
 */
extern const char *shard_comment_query_id(void);

#endif
