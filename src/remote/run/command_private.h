/*
 * command_private.h
 *	  A run of commands, shared by command*.c: command_result.c has what a run owns and
 *	  how it fails, command_lane.c the steps of a lane, command.c connections and the wait loop.
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
	ShardConn  *conn;			/* NULL: could not get one */
	bool		held;			/* to be released at the end */
	bool		passing;		/* and then to be closed, since other backends wait for a connection */
	int			current;		/* index of its current command */
	ShardCommandStep step;
	bool		sent;			/* a command */
	bool		unanswered;		/* the node has not answered the current one completely */
	bool		exporting;
	PGresult   *rows;			/* of a result whose end has not come */
	bool		copying;		/* the node sends the data of a COPY, which nobody wants */
	bool		copied;			/* the current command was such a COPY */
} ShardCommandLane;

/*
 * One call of shard_command_run().  It lives in a context of its own, whose reset
 * callback clears the results: libpq's memory would not be freed after an error.
 */
typedef struct ShardCommandRun
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	ShardCommand *commands;		/* only while they run */
	int			ncommands;
	int		   *laneno;			/* of each command */
	PGresult  **results;		/* of each command */
	PGresult  **failures;		/* of each command, until it is raised or kept */
	ShardCommandLane *lanes;
	int			nlanes;
	ShardCommandMode mode;
	bool		noerror;
	bool		writes;			/* in this transaction */
	bool		guarded;		/* each command in a savepoint */
	CommandId	cid;			/* of the statement that runs them */
	int			timeout_ms;		/* WATCH, SPARE and SETTLE; else 0 */
	TimestampTz deadline;		/* the same */
	ShardSnapshot *snapshot;	/* READ */
	MemoryContext snapshot_cxt;
	MemoryContext caller_cxt;
} ShardCommandRun;

/* Room for a run of ncommands, in a context of its own. */
extern ShardCommandRun *shard_command_alloc(int ncommands);

/* Index of lane's first command from start on; ncommands when there is none. */
extern int	shard_command_next(ShardCommandRun *run, int laneno, int start);

/* The result of command i; takes ownership of res, which may be NULL. */
extern void shard_command_set_result(ShardCommandRun *run, int i, PGresult *res);

/*
 * To be called in PG_CATCH: returns the current error, copied to the caller's
 * context.  Raises it again if it is an error of ours that must not be caught.
 */
extern ErrorData *shard_command_catch_error(ShardCommandRun *run, bool from_node);

/* Raises the failure of command i; takes ownership of its result. */
extern void shard_command_raise_failure(ShardCommandRun *run, int i);

/* With noerror: notes error as that of the lane's current command and of all behind it. */
extern void shard_command_fail_rest(ShardCommandRun *run, int laneno, ErrorData *error);

/* Moves a lane on as far as it goes without waiting.  Returns the socket events to wait for, 0 when it has ended. */
extern int	shard_command_advance(ShardCommandRun *run, int laneno);

#endif
