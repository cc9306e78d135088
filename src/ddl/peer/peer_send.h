/*
 * peer_send.h
 *	  Sends changes of definitions to the other coordinators of the same nodes.
 */
#ifndef SHARDFDW_PEER_SEND_H
#define SHARDFDW_PEER_SEND_H

#include "postgres.h"

#include "ddl/ddl_call.h"

/* A statement that the other coordinators run too. */
typedef struct ShardPeerStatement
{
	List	   *peers;			/* of ShardNodeName, by name; NIL: no other coordinator must run it */
	int			nsent;			/* number of coordinators that have run it */
	const char *text;			/* as the user wrote it */
	Node	   *stmt;
	bool		shows_nested;	/* statements that run within this one are sent separately */
	bool		is_finished;	/* all coordinators that must run it have done so */
	struct ShardPeerStatement *outer;	/* for shard_peer_end() */
} ShardPeerStatement;

/* Would a user's statement be sent to other coordinators? */
extern bool shard_peer_would_send(Node *stmt);

/*
 * Call it before a statement runs on this coordinator.  Runs the statement, in this transaction, on the coordinators
 * whose names come before this one's.  Errors: their errors; feature_not_supported.
 */
extern void shard_peer_begin(ShardPeerStatement *statement, ShardDdlCall *call);

/*
 * Call it when this coordinator has run the statement, before the nodes run it.  Runs the statement on the other
 * coordinators. statement: a ShardPeerStatement.
 */
extern void shard_peer_before_nodes(void *statement);

/*
 * Call it after this coordinator and the nodes.  Runs the statement on the other coordinators if that is not yet done.
 * Then does the work that each coordinator does separately.
 */
extern void shard_peer_finish(ShardPeerStatement *statement);

/* Call it at the end, also after an error. */
extern void shard_peer_end(const ShardPeerStatement *statement);

/*
 * Statements that core or hooks run within a sent statement are part of it, and are not sent.  Between these two
 * calls statements are sent, for steps that follow the statement on this coordinator only.  The first call returns
 * when the others have run the outer statement.  Pass its result to the second call.  After an error shard_peer_end()
 * cleans up.
 */
extern ShardPeerStatement *shard_peer_part_begin(void);
extern void shard_peer_part_end(ShardPeerStatement *current);

#endif
