/*
 * peer_send.h
 *	  Changes of definitions on their way to the other coordinators of the same nodes.
 */
#ifndef SHARDFDW_PEER_SEND_H
#define SHARDFDW_PEER_SEND_H

#include "postgres.h"

#include "ddl/ddl_call.h"

/* A statement that the other coordinators run, too. */
typedef struct ShardPeerStatement
{
	List	   *peers;			/* of ShardNodeName, by name; NIL: there are none, or it is none of theirs */
	int			nsent;			/* so many of them have run it */
	const char *text;			/* as the user has written it */
	Node	   *stmt;
	bool		shows_nested;	/* what is run within it is sent by itself */
	bool		is_finished;	/* all have run it that are to */
	struct ShardPeerStatement *outer;	/* for shard_peer_end() */
} ShardPeerStatement;

/* Would a statement of the user be sent to other coordinators? */
extern bool shard_peer_would_send(Node *stmt);

/*
 * To be called before a statement is run here: has those coordinators run it whose names come before this one's,
 * in this transaction.  Errors: theirs; feature_not_supported.
 */
extern void shard_peer_begin(ShardPeerStatement *statement, ShardDdlCall *call);

/* When it has been run here, before the nodes follow (statement: a ShardPeerStatement): has the rest of them run it. */
extern void shard_peer_before_nodes(void *statement);

/* When it has been run here and by the nodes: the same, if that has not been done, and what each does for itself. */
extern void shard_peer_finish(ShardPeerStatement *statement);

/* In the end, after an error, too. */
extern void shard_peer_end(const ShardPeerStatement *statement);

/*
 * Statements that are run within one which the others run, by core or by hooks, are a part of that, and not sent.
 * Those between these two calls are sent by themselves: what follows the statement here alone.  The others have run
 * it when the first call returns, whose result is for the second one.  After an error shard_peer_end() does.
 */
extern ShardPeerStatement *shard_peer_part_begin(void);
extern void shard_peer_part_end(ShardPeerStatement *current);

#endif
