/*
 * copy_private.h
 *	  Internals of copy_*.c: sets, lanes, targets, rows.
 */
#ifndef SHARDFDW_COPY_PRIVATE_H
#define SHARDFDW_COPY_PRIVATE_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "remote/copy/copy_stream.h"
#include "remote/wire/wait.h"

#define SHARD_COPY_MAX_CHUNK_BYTES (1024 * 1024)	/* a COPY never waits to collect more than this */

#define SHARD_COPY_SAVEPOINT "shardfdw_copy"

/* ---------- rows: copy_rows.c ---------- */

/*
 * Rows, and what must be known about each of them if a node refuses one.
 *
 * lines: for each row the input line as a varint, as difference to that of the previous row.  For
 * rows with several lines of text, it is preceded by the bytes 0x80 0x00 and the number of lines as
 * a varint.
 *
 * sizes, in guarded sets: size of the row, then size of its source + 1 (0: the row is its own
 * source), as varints.
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

/* A position between two rows. */
typedef struct ShardCopyPos
{
	uint64		rowno;			/* number of rows before it */
	uint64		lineno;			/* input line of the row before it */
	int			data_pos;
	int			lines_pos;
	int			sizes_pos;
	int			sources_pos;
} ShardCopyPos;

typedef struct ShardCopyRow
{
	uint64		lineno;			/* input line, the last one if the row has several */
	uint64		nlines;			/* number of lines of text that a node counts for it */
	const char *data;			/* this and the following: only in guarded sets */
	size_t		nbytes;
	const char *source;			/* NULL: the same as data */
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
 * Finds the row after from with the node's line text_lineno (1-based, counted from there). *rowno:
 * number of rows before it. *lineno: the user's line.
 */
extern bool shard_copy_rows_find(const ShardCopyRows *rows, const ShardCopyPos *from,
								 uint64 text_lineno, uint64 *rowno, uint64 *lineno);

/*
 * reset: empties the target's buffer, whose rows have become a chunk. drop: the same for rows that
 * are no longer needed.
 */
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
 * State of a lane in a guarded set.  A slice of the chunk is the running COPY, after a savepoint.
 */
typedef struct ShardCopyGuard
{
	bool		standing;		/* our savepoint exists */
	ShardCopyPos pos;			/* first row of the slice; all rows before it are done */
	ShardCopyPos end;			/* after its last row */
	bool		staged;			/* the slice is sent through the staging table */
	uint64		suspect_end;	/* a bad row is between pos and this row number; 0: unknown */
	uint64	   *refused;		/* row numbers after pos that were refused already, last ones first */
	int			nrefused;
	int			maxrefused;
	int64		charged_bytes;	/* of the rows from pos on, included in set->nbytes */
	uint64		ncounted;		/* number of rows of the chunk that are included in the set's figures */
	uint64		guess;			/* number + 1 of the row that an error without a row seems to be about; 0: none */
	bool		guessed;		/* a guess was wrong, so no more guesses for these rows */
} ShardCopyGuard;

/* A connection, and the targets that it serves. */
typedef struct ShardCopyLane
{
	ShardCopySet *set;
	Oid			serverid;
	Oid			userid;
	struct ShardCopyLane *main; /* the node's first lane, whose connection is the node's writer */
	int			laneno;			/* 0: this is main */
	int			nopened;		/* main: number of targets of the node */
	List	   *targets;
	ShardConn  *conn;			/* NULL: not held */
	ShardConn  *extra;			/* for a lane other than main: its connection, if it has had one */
	ShardConnHolder holder;
	ShardCopyState state;
	int			events;			/* socket events it waits for; 0: none */
	bool		flushing;		/* everything must be sent now */
	bool		completing;		/* no rows follow: staging tables are dropped, frames are ended */
	bool		aborted;		/* the remote transaction was aborted by an error that is still to be raised */
	TimestampTz stalled_since;	/* since when it could not take rows; 0: it can */

	/* the running COPY */
	ShardCopyTarget *target;
	ShardCopyRows chunk;		/* data: of the chunk. lines, nrows: of the whole COPY */
	StringInfoData mirrored;	/* for a target with mirrors: data of the whole COPY */
	uint64		mirrored_line;	/* input line of its last row */
	bool		mirroring;		/* the node said that the rows must go to mirrors */
	const char *span;			/* bytes being sent: rows, header, trailer */
	int			span_bytes;
	int			nsent;			/* number of these bytes that libpq has */
	bool		span_is_rows;
	bool		trailed;		/* span is the last one */
	bool		end_soon;		/* input has arrived from the node */
	int64		copy_bytes;
	uint64		nconfirmed;
	PGresult   *error;
	PGresult   *rows;			/* of a staging table's result_sql */
	PGresult   *partial;		/* rows of a result that has not ended yet */
	ShardCopyGuard guard;
} ShardCopyLane;

/* How a target avoids duplicates: copy_staging.c. */
typedef struct ShardCopyDetour
{
	ShardCopyStaging sql;
	char	   *relname;		/* of the staging table, in error contexts */
	bool		created;
	bool		taken;			/* slices are sent through the staging table */
	int			nclean;			/* number of consecutive slices without duplicates */
	char	   *message;		/* of the last duplicate that COPY found; NULL: none */
} ShardCopyDetour;

struct ShardCopyTarget
{
	ShardCopySet *set;
	ShardCopyLane *lane;
	const char *copy_sql;
	const char *table;			/* as written in copy_sql */
	const char *relname;		/* the node's name of it in error contexts */
	const char *label;
	bool		binary;
	const char *header;			/* a line before each COPY's rows; NULL: none */
	ShardCopyRows rows;
	int			put_pos;		/* number of bytes of complete rows */
	int64		charged_bytes;	/* of these and their sources, included in set->nbytes */
	uint64		last_line;
	ShardCopyDetour *detour;	/* NULL: none */
	const ShardCopyFrame *frame;	/* NULL: none */
	bool		framed;			/* first_sql was sent, but not last_sql */
	List	   *mirrors;		/* targets that get the rows that this one has stored */
	const char *before;			/* commands before and after each COPY; NULL: none */
	const char *after;
	ShardCopyTargetStat stat;	/* without nbytes_buffered, which is computed */
};

/* Advances lane as far as possible without waiting, and sets its events. */
extern void shard_copy_lane_advance(ShardCopyLane *lane);

/* The connection is lost.  Raises the reason, if libpq knows it. */
extern void shard_copy_lane_raise_lost(ShardCopyLane *lane) __attribute__((noreturn));

extern bool shard_copy_lane_has_rows(const ShardCopyLane *lane);

/* ---------- errors: copy_error.c ---------- */

/* An error about a row.  It is not raised before other errors have been searched. */
typedef struct ShardCopyError
{
	PGresult   *res;			/* NULL: none */
	ShardCopyLane *lane;
	ShardConn  *conn;
	const char *label;
	uint64		lineno;			/* of the input; 0: unknown */
	char	   *place;
	char	   *context;
} ShardCopyError;

/* What an error says about its row. */
typedef struct ShardCopyErrorPlace
{
	uint64		text_lineno;	/* counted by the node, after the header; 0: unknown */
	char	   *place;			/* text after the number; NULL: none */
	char	   *context;		/* the rest of the context, or NULL */
} ShardCopyErrorPlace;

/* Name of the table in "COPY schema.table (...) ...".  Memory: current context. */
extern char *shard_copy_error_relname(const char *copy_sql);

extern void shard_copy_error_find_place(const ShardCopyLane *lane, const PGresult *res,
										ShardCopyErrorPlace *place);
extern bool shard_copy_error_is_about_row(const PGresult *res, const ShardCopyErrorPlace *place);

/* Takes lane->error, an error of its COPY.  Raises it, or stores it if it is about a row. */
extern void shard_copy_error_take(ShardCopyLane *lane);

/* Raises lane->error (NULL: the state of the connection) immediately. */
extern void shard_copy_error_raise(ShardCopyLane *lane) __attribute__((noreturn));

/* Raises the stored error. */
extern void shard_copy_error_raise_first(ShardCopySet *set) __attribute__((noreturn));

/* ---------- guarded sets: copy_guard.c, copy_staging.c, copy_refused.c ---------- */

/* Chooses the rows of the next COPY, and appends to sql its savepoint and the COPY. */
extern void shard_copy_guard_append(ShardCopyLane *lane, StringInfo sql, bool rolled_back, bool changed);

/* The lane has a new chunk. */
extern void shard_copy_guard_begin(ShardCopyLane *lane, int64 charged_bytes);

/* The node has confirmed the slice.  True: it was the last one of the chunk. */
extern bool shard_copy_guard_confirm(ShardCopyLane *lane);

/* The slice has failed with lane->error.  False: the caller must raise it. */
extern bool shard_copy_guard_fail(ShardCopyLane *lane, bool *chunk_done);

/* The rest of the chunk is no longer needed. */
extern void shard_copy_guard_drop(ShardCopyLane *lane);

extern void shard_copy_staging_append(ShardCopyDetour *detour, StringInfo sql);
extern void shard_copy_staging_confirm(ShardCopyLane *lane);

/* Staging tables on the lane's node: do any exist; and their removal. */
extern bool shard_copy_staging_is_there(const ShardCopyLane *lane);
extern void shard_copy_staging_append_drop(ShardCopyLane *lane, StringInfo sql);

/* Stores a refused row (rowno of the chunk, searched from pos on) for deliver. */
extern void shard_copy_refused_add(ShardCopyLane *lane, ShardCopyPos *pos, uint64 rowno, int sqlstate,
								   const char *message, const char *column, bool duplicate);

/* Passes refused rows to the hook. */
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
	TimestampTz ticked_at;		/* when progress was last called, and quiet sockets were checked */
	int			level;			/* nesting level of the rows */
	CommandId	cid;			/* the command that writes them */
	int			nlanes;			/* per node */
	List	   *lanes;
	int			ntargets;
	int64		nbytes;			/* of rows that may still be needed here */
	int64		npumped;		/* number of bytes put since the sockets were checked */
	int64		limit_bytes;
	int			chunk_bytes;	/* size that is worth a COPY; empty buffers keep room for two */
	bool		full;
	bool		lost;			/* rows will never arrive: a connection was taken away, or an error is raised */
	bool		judging;		/* an error is known; errors of earlier lines are searched */
	ShardCopyError first;
	bool		user_lines;
	bool		has_mirrors;	/* some target has mirrors */
	bool		guarded;
	bool		on_error;		/* rows that are refused for any reason are passed to the hook */
	ShardCopyRefuseHook refuse;
	void	   *refuse_arg;
	uint64		rows_counted;	/* for the distance of bad rows: number of rows, ... */
	uint64		bad_counted;	/* ... and number of bad rows among them; both decay */
	uint64		rows_since_bad;
	slist_head	refused;		/* List of ShardCopyRefused, newest first, not passed to the hook yet */
	MemoryContext refused_cxt;	/* their memory */
	bool		delivering;
	ShardWaitSet *wait_set;
	ShardWaitItem *items;
	int			maxitems;
};

#endif
