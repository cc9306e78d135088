/*
 * command_private.h
 *	  A run of commands, shared by command*.c: command_result.c has its memory and failures,
 *	  command_lane.c the steps of a lane, command.c connections and the wait loop.
 */
#ifndef SHARDFDW_COMMAND_PRIVATE_H
#define SHARDFDW_COMMAND_PRIVATE_H

#include "remote/pool/pool.h"
#include "remote/run/command.h"
#include "remote/xact/txn.h"

typedef enum ShardCommandStep
{
	LANE_CONNECT,
	LANE_SEND,
	LANE_PREFIX,
	LANE_COMMAND,
	LANE_ROLLBACK,
	LANE_END
} ShardCommandStep;

typedef struct ShardCommandLane
{
	ShardPool  *pool;
	ShardConn  *conn;			/* NULL: none was available */
	bool		held;			/* must be released at the end */
	bool		passing;		/* and then closed, since other backends wait for a connection */
	int			current;		/* index of its current command */
	ShardCommandStep step;
	bool		sent;			/* a command was sent */
	bool		unanswered;		/* the node has not completely answered the current command */
	bool		exporting;
	PGresult   *rows;			/* rows of a result that has not ended yet */
	bool		copying;		/* the node sends data of a COPY, which are discarded */
	bool		copied;			/* the current command was such a COPY */
	bool		may_be_alone;	/* the current command was sent in one message with its settings, and may be sent without them */
	bool		is_alone;		/* the current command must be alone in its message */
} ShardCommandLane;

/*
 * One call of shard_command_run().  Its memory context has a reset callback that clears the
 * results, since libpq's memory would not be freed after an error.
 */
typedef struct ShardCommandRun
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	ShardCommand *commands;		/* valid only while they run */
	int			ncommands;
	int		   *laneno;			/* of each command */
	PGresult  **results;		/* of each command */
	PGresult  **failures;		/* of each command, until it is raised or stored */
	ShardCommandLane *lanes;
	int			nlanes;
	int			first_lane;		/* of the present round, see command.c; 0 except in SETTLE mode */
	ShardCommandMode mode;
	bool		noerror;
	bool		writes;			/* in this transaction */
	bool		guarded;		/* each command in a savepoint */
	CommandId	cid;			/* of the statement that runs them */
	int			timeout_ms;		/* WATCH, SPARE and SETTLE; else 0 */
	TimestampTz deadline;		/* the same; in SETTLE mode, of the present round */
	int			wait_ms;		/* SETTLE: how long the rounds may still wait for permission to open connections */
	ShardSnapshot *snapshot;	/* READ */
	MemoryContext snapshot_cxt;
} ShardCommandRun;

/* Allocates a run of ncommands, in a new memory context. */
extern ShardCommandRun *shard_command_alloc(int ncommands);

/* Index of the lane's first command from start on; ncommands if there is none. */
extern int	shard_command_next(ShardCommandRun *run, int laneno, int start);

/* Sets the result of command i.  Takes ownership of res, which may be NULL. */
extern void shard_command_set_result(ShardCommandRun *run, int i, PGresult *res);

/* Raises the failure of command i; takes ownership of its result. */
extern void shard_command_raise_failure(ShardCommandRun *run, int i);

/* With noerror: stores error for the lane's current command and all later ones. */
extern void shard_command_fail_rest(ShardCommandRun *run, int laneno, ErrorData *error);

/*
 * Advances a lane as far as possible without waiting.  Returns the socket events to wait for, or 0
 * when it has ended.
 */
extern int	shard_command_advance(ShardCommandRun *run, int laneno);

#endif
