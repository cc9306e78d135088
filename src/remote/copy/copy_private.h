/*
 * copy_private.h
 *	  What the parts of copy_*.c share: sets, lanes, targets, rows.
 */
#ifndef SHARDFDW_COPY_PRIVATE_H
#define SHARDFDW_COPY_PRIVATE_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "remote/copy/copy_stream.h"
#include "remote/wire/wait.h"

#define SHARD_COPY_MAX_CHUNK_BYTES (1024 * 1024)	/* no COPY waits to collect more */

#define SHARD_COPY_SAVEPOINT "shardfdw_copy"

/* ---------- rows: copy_rows.c ---------- */

/*
 * Rows, and what has to be known of each of them when a node refuses one.
 * lines: the input line as a varint, the difference to that of the row before;
 * for rows of several lines of text the bytes 0x80 0x00 and the number of lines
 * as a varint come first.  sizes, in guarded sets: bytes of the row, bytes of
 * its source + 1 (0: the row is its own source), as varints.
 */
typedef struct ShardCopyRows
{
	StringInfoData data;
	StringInfoData lines;
	StringInfoData sizes;
	StringInfoData sources;
	uint64		nrows;
	uint64		base_line;		/* input line of the row before the first one */
} ShardCopyRows;

/* A place between two rows. */
typedef struct ShardCopyPos
{
	uint64		rowno;			/* rows before it */
	uint64		lineno;			/* input line of the row before it */
	int			data_pos;
	int			lines_pos;
	int			sizes_pos;
	int			sources_pos;
} ShardCopyPos;

typedef struct ShardCopyRow
{
	uint64		lineno;			/* input line, the last one of the row's */
	uint64		nlines;			/* lines of text that a node counts for it */
	const char *data;			/* this and the rest: in guarded sets only */
	size_t		nbytes;
	const char *source;			/* NULL: data is */
	size_t		source_bytes;
} ShardCopyRow;

extern void shard_copy_rows_init(ShardCopyRows *rows);
extern void shard_copy_rows_reset(ShardCopyRows *rows, uint64 base_line, int kept_bytes);
extern void shard_copy_rows_note_line(ShardCopyRows *rows, uint64 delta, uint64 nlines);
extern void shard_copy_rows_note_size(ShardCopyRows *rows, size_t nbytes,
									  const char *source, size_t source_bytes);
extern void shard_copy_rows_start(const ShardCopyRows *rows, ShardCopyPos *pos);
extern bool shard_copy_rows_next(const ShardCopyRows *rows, ShardCopyPos *pos, ShardCopyRow *row);

/*
 * Finds the row behind from that has the node's line text_lineno (1-based, counted
 * from there on).  *rowno: number of rows before it; *lineno: the user's line.
 */
extern bool shard_copy_rows_find(const ShardCopyRows *rows, const ShardCopyPos *from,
								 uint64 text_lineno, uint64 *rowno, uint64 *lineno);

/* Empties the target's buffer: its rows have become a chunk, or (drop) are not needed any more. */
extern void shard_copy_rows_reset_target(ShardCopyTarget *target);
extern void shard_copy_rows_drop(ShardCopyTarget *target);

/* ---------- lanes: copy_lane.c ---------- */

typedef enum ShardCopyState
{
	COPY_CONNECTING,
	COPY_IDLE,
	COPY_STARTING,
	COPY_SENDING,
	COPY_ENDING
} ShardCopyState;

/*
 * A lane of a guarded set: how far its chunk is.  A slice of the chunk is the
 * COPY under way, behind a savepoint.
 */
typedef struct ShardCopyGuard
{
	bool		standing;		/* our savepoint is there */
	ShardCopyPos pos;			/* first row of the slice; all before it are done */
	ShardCopyPos end;			/* behind its last row */
	bool		staged;			/* the slice goes by way of the staging table */
	uint64		suspect_end;	/* between pos and this row (number) is a bad one; 0 not known */
	uint64	   *refused;		/* rows (numbers) behind pos that are refused already, last ones first */
	int			nrefused;
	int			maxrefused;
	int64		charged_bytes;	/* of the rows from pos on, in set->nbytes */
	uint64		ncounted;		/* rows of the chunk that are in the set's figures */
	uint64		guess;			/* number + 1 of the row that an error without a row seems to be about; 0 none */
	bool		guessed;		/* a guess was wrong: no more guesses for these rows */
} ShardCopyGuard;

/* A connection and the targets that it serves. */
typedef struct ShardCopyLane
{
	ShardCopySet *set;
	Oid			serverid;
	Oid			userid;
	struct ShardCopyLane *main; /* the node's first lane, whose connection is the node's writer */
	int			laneno;			/* 0: this is it */
	int			nopened;		/* main: targets of the node */
	List	   *targets;
	ShardConn  *conn;			/* NULL: not held */
	ShardConn  *extra;			/* the connection of a lane that is not main, once it has one */
	ShardConnHolder holder;
	ShardCopyState state;
	int			events;			/* socket events it waits for, 0 none */
	bool		flushing;		/* everything has to go out now */
	bool		completing;		/* no rows follow: staging tables are dropped, frames are ended */
	bool		aborted;		/* the remote transaction is, by an error that waits to be raised */
	TimestampTz stalled_since;	/* 0: it can take rows */

	/* the COPY under way */
	ShardCopyTarget *target;
	ShardCopyRows chunk;		/* data: of the chunk; lines, nrows: of the whole COPY */
	StringInfoData mirrored;	/* data of the whole COPY, of a target with mirrors */
	uint64		mirrored_line;	/* input line of its last row */
	bool		mirroring;		/* the node said that the rows are to go to mirrors */
	const char *span;			/* bytes that are being sent: rows, header, trailer */
	int			span_bytes;
	int			nsent;			/* of them, that libpq has */
	bool		span_is_rows;
	bool		trailed;		/* span is the last one */
	bool		end_soon;		/* the node has said something */
	int64		copy_bytes;
	uint64		nconfirmed;
	PGresult   *error;
	PGresult   *rows;			/* of a staging table's result_sql */
	PGresult   *partial;		/* rows of a result whose end has not come */
	ShardCopyGuard guard;
} ShardCopyLane;

/* A target's way around duplicates: copy_staging.c. */
typedef struct ShardCopyDetour
{
	ShardCopyStaging sql;
	char	   *relname;		/* of the staging table, in error contexts */
	bool		created;
	bool		taken;			/* slices go through the staging table */
	int			nclean;			/* slices without duplicates in a row */
	char	   *message;		/* of the last duplicate that COPY met; NULL none */
} ShardCopyDetour;

struct ShardCopyTarget
{
	ShardCopySet *set;
	ShardCopyLane *lane;
	const char *copy_sql;
	const char *table;			/* as copy_sql names it */
	const char *relname;		/* as the node names it in error contexts */
	const char *label;
	bool		binary;
	const char *header;			/* a line in front of each COPY's rows; NULL: none */
	ShardCopyRows rows;
	int			put_pos;		/* bytes of rows that are complete */
	int64		charged_bytes;	/* of them and their sources, in set->nbytes */
	uint64		last_line;
	ShardCopyDetour *detour;	/* NULL: none */
	const ShardCopyFrame *frame;	/* NULL: none */
	bool		framed;			/* first_sql was sent, and last_sql was not */
	List	   *mirrors;		/* targets that get the rows which this one has stored */
	const char *before;			/* commands around each COPY; NULL: none */
	const char *after;
	ShardCopyTargetStat stat;	/* what is counted here: all but nbytes_buffered */
};

/* Moves lane on as far as that is possible without waiting; sets its events. */
extern void shard_copy_lane_advance(ShardCopyLane *lane);

/* The connection is lost: raises the reason, as far as libpq knows one. */
extern void shard_copy_lane_raise_lost(ShardCopyLane *lane) __attribute__((noreturn));

extern bool shard_copy_lane_has_rows(const ShardCopyLane *lane);

/* ---------- errors: copy_error.c ---------- */

/* An error about a row that is not raised before others have been looked for. */
typedef struct ShardCopyError
{
	PGresult   *res;			/* NULL: none */
	ShardCopyLane *lane;
	ShardConn  *conn;
	const char *label;
	uint64		lineno;			/* of the input; 0 not known */
	char	   *place;
	char	   *context;
} ShardCopyError;

/* What an error says about the row that it is about. */
typedef struct ShardCopyErrorPlace
{
	uint64		text_lineno;	/* as the node counts, behind the header; 0 not known */
	char	   *place;			/* what follows the number, NULL when there is none */
	char	   *context;		/* the rest of the context, or NULL */
} ShardCopyErrorPlace;

/* Name of the table in "COPY schema.table (...) ...".  Memory: current context. */
extern char *shard_copy_error_relname(const char *copy_sql);

extern void shard_copy_error_find_place(const ShardCopyLane *lane, const PGresult *res,
										ShardCopyErrorPlace *place);
extern bool shard_copy_error_is_about_row(const PGresult *res, const ShardCopyErrorPlace *place);

/* Takes lane->error, an error of its COPY: raises it, or keeps it when it is about a row. */
extern void shard_copy_error_take(ShardCopyLane *lane);

/* Raises lane->error (NULL: the state of the connection) at once. */
extern void shard_copy_error_raise(ShardCopyLane *lane) __attribute__((noreturn));

/* Raises the error that was kept. */
extern void shard_copy_error_raise_first(ShardCopySet *set) __attribute__((noreturn));

/* ---------- guarded sets: copy_guard.c, copy_staging.c, copy_refused.c ---------- */

/* Chooses the rows of the next COPY, and appends to sql its savepoint and the COPY. */
extern void shard_copy_guard_append(ShardCopyLane *lane, StringInfo sql, bool rolled_back, bool changed);

/* The lane has a new chunk. */
extern void shard_copy_guard_begin(ShardCopyLane *lane, int64 charged_bytes);

/* The node has confirmed the slice.  True: that was the last one of the chunk. */
extern bool shard_copy_guard_confirm(ShardCopyLane *lane);

/* The slice has failed with lane->error.  False: the caller has to raise it. */
extern bool shard_copy_guard_fail(ShardCopyLane *lane, bool *chunk_done);

/* The rest of the chunk is not needed any more. */
extern void shard_copy_guard_drop(ShardCopyLane *lane);

extern void shard_copy_staging_append(ShardCopyDetour *detour, StringInfo sql);
extern void shard_copy_staging_confirm(ShardCopyLane *lane);

/* Staging tables on the lane's node: are there any, and their removal. */
extern bool shard_copy_staging_is_there(const ShardCopyLane *lane);
extern void shard_copy_staging_append_drop(ShardCopyLane *lane, StringInfo sql);

/* Keeps a refused row (rowno of the chunk, to be looked for from pos on) for deliver. */
extern void shard_copy_refused_add(ShardCopyLane *lane, ShardCopyPos *pos, uint64 rowno, int sqlstate,
								   const char *message, const char *column, bool duplicate);

/* Hands refused rows to the hook. */
extern void shard_copy_refused_deliver(ShardCopySet *set);

/* ---------- sets: copy_stream.c ---------- */

typedef struct ShardCopyRefused
{
	slist_node	link;
	ShardCopyRefusal refusal;
} ShardCopyRefused;

struct ShardCopySet
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	ShardCopyErrorHook hook;
	void	   *hook_arg;
	void		(*progress) (void *arg);
	void	   *progress_arg;
	TimestampTz ticked_at;		/* progress was called, and quiet sockets were looked at */
	int			level;			/* nesting level of the rows */
	CommandId	cid;			/* the command that writes them */
	int			nlanes;			/* per node */
	List	   *lanes;
	int			ntargets;
	int64		nbytes;			/* of rows that may still be needed here */
	int64		npumped;		/* bytes put since the sockets were looked at */
	int64		limit_bytes;
	int			chunk_bytes;	/* worth a COPY; empty buffers keep room for two */
	bool		full;
	bool		lost;			/* rows will never arrive: a connection was taken away, or an error is raised */
	bool		judging;		/* an error is known; those of earlier lines are looked for */
	ShardCopyError first;
	bool		user_lines;
	bool		has_mirrors;	/* of some target */
	bool		guarded;
	bool		on_error;		/* refused rows are handed over whatever the reason */
	ShardCopyRefuseHook refuse;
	void	   *refuse_arg;
	uint64		rows_counted;	/* how far bad rows are apart: rows, ... */
	uint64		bad_counted;	/* ... and bad ones among them, both decaying */
	uint64		rows_since_bad;
	slist_head	refused;		/* of ShardCopyRefused, newest first, not handed over yet */
	MemoryContext refused_cxt;	/* their memory */
	bool		delivering;
	ShardWaitSet *wait_set;
	ShardWaitItem *items;
	int			maxitems;
};

#endif
