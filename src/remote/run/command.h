/*
 * command.h
 *	  Runs commands on nodes that return few rows or none: DDL, DML with parameters, queries.  They are started on all
 *	  nodes in parallel, then their results are collected.
 */
#ifndef SHARDFDW_COMMAND_H
#define SHARDFDW_COMMAND_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef enum ShardCommandMode
{
	SHARD_COMMAND_WRITE,		/* in this transaction, on the node's writer */
	SHARD_COMMAND_EXCLUSIVE,	/* the same, for statements that lock tables: first ends this transaction's reads over other connections */
	SHARD_COMMAND_READ,			/* like a reader: sees this transaction's writes, if any */
	SHARD_COMMAND_AUTOCOMMIT,	/* outside any transaction, commits by itself */
	SHARD_COMMAND_SETTLE,		/* the same, a few nodes at a time, with noerror; fails if a node does not answer within SHARD_COMMAND_SETTLE_MS */
	SHARD_COMMAND_SPARE,		/* the same within SHARD_COMMAND_SPARE_MS; fails if it had to wait for a connection */
	SHARD_COMMAND_WATCH			/* like SPARE, within shardfdw.watch_timeout */
} ShardCommandMode;

/*
 * How long recovery waits for a node.  Without a limit, a node that does not answer would keep it
 * from the other nodes.
 */
#define SHARD_COMMAND_SETTLE_MS 30000

/*
 * How long the search for deadlocks waits for a node.  It is short, since the interrupted wait may
 * have a time limit.
 */
#define SHARD_COMMAND_SPARE_MS 2000

typedef struct ShardCommand
{
	Oid			serverid;
	Oid			userid;
	const char *sql;
	bool		has_values;		/* sql contains values of rows or passwords as literals, so errors do not show it */
	const char *label;			/* shard's name for messages, or NULL */
	bool		portable_text;	/* see ShardStreamSpec */
	bool		is_whole;		/* sql is the user's own command, so errors are reported as the node has raised them */
	bool		keeps_rows;		/* in WRITE mode: locks or reads rows, and changes none */
	bool		only_reads;		/* writes nothing; in WRITE mode: opens or closes a cursor.  The same for all commands on a node */
	bool		changes_session;	/* sql may leave settings, locks, and so on: the connection is closed afterwards */
	int			nparams;
	const char *const *params;	/* text */
	bool		for_values;		/* the node plans it for the values of its parameters each time */
	bool		inlines;		/* sql was deparsed by us, with a cast for each parameter, so values may be inserted as literals */
	const int  *workers;		/* max_parallel_workers_per_gather; NULL: the node's own */
	int			cpu_factor;		/* see ShardStreamSpec */
	int			nfields;		/* number of columns that the result must have; 0: not checked */
	size_t		max_bytes;		/* maximum size of its rows; more is an error. 0: SHARD_ANSWER_BYTES */
	/* result fields */
	PGresult   *result;			/* last result, text format; NULL on error */
	ErrorData  *error;			/* only with noerror; in the caller's memory context */
	MemoryContext memory;		/* set in the first command of a run: owns the results of all */
} ShardCommand;

/*
 * Runs ncommands.  Commands of different nodes run in parallel, those of one node in order.
 *
 * noerror: a failure is stored in .error, and the other commands continue.  In WRITE and EXCLUSIVE
 * mode each command then has its own savepoint.  Without noerror, the first failure is raised after
 * all have ended.
 *
 * Memory: the results are freed with the current memory context of the call, or earlier by
 * shard_command_free().  Callers only read them, and never call PQclear().
 */
extern void shard_command_run(ShardCommand *commands, int ncommands,
							  ShardCommandMode mode, bool noerror);

/* Frees the results of a run of these commands, but not their errors. */
extern void shard_command_free(ShardCommand *commands, int ncommands);

/*
 * Has this transaction taken its snapshot of the node?  Then a command in WRITE mode sees the data
 * as of that snapshot.
 */
extern bool shard_command_is_fixed(Oid serverid, Oid userid);

/* Does this transaction write to any node?  Commands of other users do not see these writes. */
extern bool shard_command_has_written(void);

#endif
