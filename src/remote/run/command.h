/*
 * command.h
 *	  Commands on nodes that return few rows or none: DDL, DML with parameters,
 *	  questions.  Started on all nodes at once, then collected.
 */
#ifndef SHARDFDW_COMMAND_H
#define SHARDFDW_COMMAND_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef enum ShardCommandMode
{
	SHARD_COMMAND_WRITE,		/* in this transaction, on the node's writing connection */
	SHARD_COMMAND_EXCLUSIVE,	/* the same; may lock what this transaction has read over other connections, which end before */
	SHARD_COMMAND_READ,			/* like a reader: sees this transaction's writes if any */
	SHARD_COMMAND_AUTOCOMMIT,	/* outside any transaction, committed by itself */
	SHARD_COMMAND_SETTLE,		/* the same; fails where a node has not answered within SHARD_COMMAND_SETTLE_MS */
	SHARD_COMMAND_SPARE,		/* the same within SHARD_COMMAND_SPARE_MS; fails where a connection would have to be waited for */
	SHARD_COMMAND_WATCH			/* the same as SPARE, within shardfdw.watch_timeout */
} ShardCommandMode;

/* How long recovery waits for nodes, which would otherwise keep it from the others for ever. */
#define SHARD_COMMAND_SETTLE_MS 30000

/* How long the search for deadlocks does.  It is short, because what waits while it goes on may have a limit of its own. */
#define SHARD_COMMAND_SPARE_MS 2000

typedef struct ShardCommand
{
	Oid			serverid;
	Oid			userid;
	const char *sql;
	bool		has_values;		/* sql has values of rows as literals: errors do not show it */
	const char *label;			/* shard's name for messages, or NULL */
	bool		portable_text;	/* as in ShardStreamSpec */
	bool		is_whole;		/* sql is all that there is to say: errors are reported as the node has raised them */
	bool		keeps_rows;		/* in WRITE mode: locks or looks at rows, and changes none */
	bool		only_reads;		/* writes nothing; in WRITE mode: makes or ends a cursor.  All of a node, or none */
	bool		changes_session;	/* sql may leave settings, locks...: the connection is closed afterwards */
	int			nparams;
	const char *const *params;	/* text */
	bool		for_values;		/* the node plans it for the values of its parameters each time */
	bool		inlines;		/* sql is printed by us, each parameter with a cast: values may be put in their places */
	const int  *workers;		/* max_parallel_workers_per_gather; NULL: the node's own */
	int			cpu_factor;		/* as in ShardStreamSpec */
	int			nfields;		/* columns that the result must have; 0: not checked */
	size_t		max_bytes;		/* of its rows, more are an error; 0: SHARD_ANSWER_BYTES */
	/* out */
	PGresult   *result;			/* last result, text format; NULL on error */
	ErrorData  *error;			/* only with noerror; in the caller's memory */
	MemoryContext memory;		/* of the first command of a run: owns the results of all */
} ShardCommand;

/*
 * Runs ncommands, those of different nodes at the same time, those of one node
 * in order.  With noerror a failure is kept in .error and the others go on
 * (in WRITE and EXCLUSIVE mode each command then runs in a savepoint of its own); without it
 * the first failure is raised after all have ended.
 * Memory: the results are freed with the context that is current at the call, or
 * earlier by shard_command_free().  Callers only read them, and never call PQclear().
 */
extern void shard_command_run(ShardCommand *commands, int ncommands,
							  ShardCommandMode mode, bool noerror);

/* Frees what a run of these commands has given: their results, not their errors. */
extern void shard_command_free(ShardCommand *commands, int ncommands);

/* Has this transaction's snapshot of the node been taken, so that a command in WRITE mode would see it as of then? */
extern bool shard_command_is_fixed(Oid serverid, Oid userid);

/* Does this transaction write to some node?  Commands of other users do not see that. */
extern bool shard_command_has_written(void);

#endif
