/*
 * copy_stream.c
 *	  Rows into nodes by COPY FROM STDIN: many targets at once, one transaction
 *	  per node, bounded memory.
 *
 * A target is a buffer of rows.  Each node has one connection, and a COPY at a
 * time on it:
 *
 *	   put                          node's connection
 *	 ------+   +----------+  chunk   connecting --> idle <----------------------------+
 *	 target|-->| rows     |--swap--+                 | the fullest target is chosen   |
 *	 ------+   +----------+        |              starting (BEGIN..., COPY ... sent)  |
 *	 target|-->| rows     |        |                 | node answers CopyInResponse    |
 *	 ------+   +----------+        +-----------> sending --chunk out--> next chunk    |
 *	                                                 | other targets are fuller       |
 *	                                              ending --count confirmed------------+
 *
 * When a chunk is out and the same target has the most rows again, the COPY
 * goes on with them, so a node with one target gets one long COPY.  While the
 * nodes are slower than the input, buffers fill and chunks become large by
 * themselves; while they are faster, a chunk is sent as soon as it is worth a
 * round trip.
 *
 * Nothing waits until the buffers of all targets together are larger than
 * shardfdw.copy_buffer_size; then all sockets are waited for at once and every
 * node is given what there is for it.
 *
 * libpq: in nonblocking mode PQputCopyData takes any amount into its own buffer
 * and returns 0 only when that cannot grow, so what bounds it is that the next
 * piece is put only when PQflush has sent the last one.  While a COPY runs
 * libpq does not look at what the node sends; input on the socket is therefore
 * taken as a sign to end this COPY early, and then to read the error, or, if it
 * was only a notice, to go on with another COPY.
 *
 * The connection is held from the first row on.  Others of this transaction
 * that need it make the holder yield, which sends all rows of that node, so
 * that they see them.  Savepoints are made up to the level in which the set was
 * created, not the one in which it has to yield.
 *
 * A node names the row it dislikes by number ("COPY t_07, line 42").  The input
 * lines of the rows of the COPY under way are kept as varint differences, about
 * a byte per row, so that the user gets the line of his own file.  That takes
 * one line per row: formats binary and text, not CSV with line breaks in values.
 */
#include "postgres.h"

#include "access/xact.h"
#include "guc.h"
#include "remote/copy_stream.h"
#include "remote/error.h"
#include "remote/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define PIECE_BYTES (64 * 1024) /* handed to libpq at once */
#define PUMP_BYTES (64 * 1024)	/* of input between two looks at the sockets */
#define MIN_CHUNK_BYTES (32 * 1024)
#define MAX_CHUNK_BYTES (1024 * 1024)	/* more is sent when it is there, but not waited for */
#define MAX_COPY_BYTES (32 * 1024 * 1024)	/* of one COPY, bounds the memory for lines */
#define MAX_BUFFER_BYTES (256 * 1024 * 1024)	/* a target's buffer must stay below 1 GB */
#define WAIT_MS 1000			/* a node's connect timeout is looked at as often */

typedef enum ShardCopyState
{
	COPY_CONNECTING,
	COPY_IDLE,
	COPY_STARTING,
	COPY_SENDING,
	COPY_ENDING
} ShardCopyState;

/* Rows, and the input lines they came from as varint differences to the one before. */
typedef struct ShardCopyRows
{
	StringInfoData data;
	StringInfoData lines;
	uint64		nrows;
	uint64		base_line;		/* line of the row before the first one */
} ShardCopyRows;

typedef struct ShardCopyNode
{
	ShardCopySet *set;
	Oid			serverid;
	Oid			userid;
	List	   *targets;
	ShardConn  *conn;			/* NULL: not held */
	ShardConnHolder holder;
	ShardCopyState state;
	int			events;			/* socket events it waits for, 0 none */
	bool		flushing;		/* everything has to go out now */

	/* the COPY under way */
	ShardCopyTarget *target;
	ShardCopyRows chunk;		/* data: of the chunk; lines, nrows: of the whole COPY */
	int			nsent;			/* bytes of the chunk that libpq has */
	int64		copy_bytes;
	bool		end_soon;		/* the node has said something */
	bool		trailed;		/* chunk is the trailer, the last one */
	uint64		nconfirmed;
	PGresult   *error;
} ShardCopyNode;

struct ShardCopyTarget
{
	ShardCopySet *set;
	ShardCopyNode *node;
	const char *copy_sql;
	const char *label;
	bool		binary;
	ShardCopyRows rows;
	int			counted;		/* bytes of rows that are in set->nbytes */
	uint64		last_line;
	uint64		nconfirmed;
};

struct ShardCopySet
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	ShardCopyErrorHook hook;
	void	   *hook_arg;
	int			level;			/* nesting level of the rows */
	List	   *nodes;
	int			nnodes;
	int			ntargets;
	int64		nbytes;			/* not handed to libpq yet */
	int64		npumped;		/* bytes put since the sockets were looked at */
	int64		limit_bytes;
	int			chunk_bytes;	/* worth a COPY */
	bool		full;
	bool		lost;			/* a connection was taken away with rows on it */
	ShardWaitSet *wait_set;
	ShardWaitItem *items;
	int			maxitems;
};

static const char binary_header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
static const char binary_trailer[] = "\377\377";

#define BINARY_HEADER_BYTES 19
#define BINARY_TRAILER_BYTES 2

static void yield_connection(ShardConn *conn, void *arg);
static void lose_connection(ShardConn *conn, void *arg);

/* ---------- rows and their lines ---------- */

static void
init_rows(ShardCopyRows *rows)
{
	initStringInfo(&rows->data);
	initStringInfo(&rows->lines);
	rows->nrows = 0;
	rows->base_line = 0;
}

static inline void
append_line(StringInfo lines, uint64 delta)
{
	if (delta < 0x80 && lines->len + 1 < lines->maxlen)
	{
		lines->data[lines->len++] = (char) delta;
		return;
	}
	while (delta >= 0x80)
	{
		appendStringInfoCharMacro(lines, (char) (delta | 0x80));
		delta >>= 7;
	}
	appendStringInfoCharMacro(lines, (char) delta);
}

/* Input line of row rowno (1-based), 0 when there is no such row. */
static uint64
line_of_row(const ShardCopyRows *rows, uint64 rowno)
{
	const unsigned char *p = (const unsigned char *) rows->lines.data;
	const unsigned char *end = p + rows->lines.len;
	uint64		line = rows->base_line;

	while (p < end)
	{
		uint64		delta = 0;
		int			shift = 0;

		while (p < end && *p & 0x80)
		{
			delta |= (uint64) (*p++ & 0x7f) << shift;
			shift += 7;
		}
		if (p < end)
			delta |= (uint64) *p++ << shift;
		line += delta;
		if (--rowno == 0)
			return line;
	}
	return 0;
}

/*
 * Row number in a node's error context, a line of which is "COPY t_07, line 42,
 * column a: ..." ("line" in the node's language).  0 when there is none.
 */
static uint64
row_in_context(const char *context)
{
	while (context)
	{
		if (strncmp(context, "COPY ", 5) == 0)
		{
			const char *end = strchr(context, '\n');
			const char *p = strstr(context, ", line ");

			if (!p || (end && p > end))
				p = strchr(context, ',');
			if (p && (!end || p < end))
			{
				p += strcspn(p, "0123456789\n");
				if (*p >= '0' && *p <= '9')
					return strtoull(p, NULL, 10);
			}
		}
		context = strchr(context, '\n');
		if (context)
			context++;
	}
	return 0;
}

/* ---------- errors ---------- */

/* Raises res (or the loss of the connection, when NULL) as the error of node's COPY. */
static void
raise_error(ShardCopyNode *node, PGresult *res)
{
	ShardCopySet *set = node->set;
	uint64		rowno = res ? row_in_context(PQresultErrorField(res, PG_DIAG_CONTEXT)) : 0;

	/* an inner block may catch this and let the load go on: not without these rows */
	set->lost = true;
	node->error = res;			/* freed with the set if the hook raises */
	if (set->hook)
		set->hook(set->hook_arg, rowno > 0 ? line_of_row(&node->chunk, rowno) : 0, NULL);
	node->error = NULL;
	shard_error_report(ERROR, res, node->conn, node->target ? node->target->label : NULL, NULL);
}

/* The connection is lost: raises the reason, as far as libpq knows one. */
static void
raise_lost(ShardCopyNode *node)
{
	PGresult   *res = node->error;

	node->error = NULL;
	if (!res && !PQisBusy(node->conn->pg))
		res = PQgetResult(node->conn->pg);
	if (res && PQresultStatus(res) != PGRES_FATAL_ERROR)
	{
		PQclear(res);
		res = NULL;
	}
	node->conn->state = SHARD_CONN_BROKEN;
	raise_error(node, res);
}

/* ---------- the steps of a node's connection ---------- */

/*
 * Bytes that make a target worth a COPY.  Anything is when it has to go out or
 * when the buffers are full.
 */
static int
worth_bytes(const ShardCopyNode *node)
{
	return node->flushing || node->set->full ? 1 : node->set->chunk_bytes;
}

/* The target with the most rows waiting, other than except; NULL when none has enough. */
static ShardCopyTarget *
fullest_target(const ShardCopyNode *node, const ShardCopyTarget *except)
{
	ShardCopyTarget *best = NULL;
	int			best_bytes = worth_bytes(node) - 1;
	ListCell   *lc;

	foreach(lc, node->targets)
	{
		ShardCopyTarget *target = lfirst(lc);

		if (target != except && target->rows.data.len > best_bytes)
		{
			best = target;
			best_bytes = target->rows.data.len;
		}
	}
	return best;
}

/* Makes the rows of the COPY's target its next chunk. */
static void
take_chunk(ShardCopyNode *node)
{
	ShardCopyTarget *target = node->target;
	StringInfoData empty = node->chunk.data;

	resetStringInfo(&empty);
	node->chunk.data = target->rows.data;
	target->rows.data = empty;
	node->nsent = 0;
	node->copy_bytes += node->chunk.data.len;

	if (node->chunk.nrows == 0)
		node->chunk.base_line = target->rows.base_line;
	node->chunk.nrows += target->rows.nrows;
	appendBinaryStringInfo(&node->chunk.lines, target->rows.lines.data, target->rows.lines.len);
	resetStringInfo(&target->rows.lines);
	target->rows.nrows = 0;
	target->rows.base_line = target->last_line;
	target->counted = 0;
}

/* Makes bytes of the format itself the next chunk. */
static void
take_frame(ShardCopyNode *node, const char *bytes, int nbytes)
{
	resetStringInfo(&node->chunk.data);
	appendBinaryStringInfo(&node->chunk.data, bytes, nbytes);
	node->nsent = 0;
	node->set->nbytes += nbytes;
}

/* Sends COPY for target, with all that has to precede it. */
static void
start_copy(ShardCopyNode *node, ShardCopyTarget *target)
{
	StringInfoData sql;

	shard_txn_check_writer(node->conn);
	node->target = target;
	resetStringInfo(&node->chunk.data);
	resetStringInfo(&node->chunk.lines);
	node->chunk.nrows = 0;
	node->nsent = 0;
	node->copy_bytes = 0;
	node->end_soon = node->trailed = false;
	node->nconfirmed = 0;

	initStringInfo(&sql);
	shard_txn_writer_preamble(node->conn, node->set->level, &sql);
	shard_connection_sync_settings(node->conn, -1, &sql);
	appendStringInfoString(&sql, target->copy_sql);
	shard_connection_send(node->conn, sql.data);
	pfree(sql.data);
	node->state = COPY_STARTING;
}

/*
 * Reads the node's answers to COPY or to its end.  Returns the events to wait
 * for, 0 when the state has changed.
 */
static int
read_results(ShardCopyNode *node)
{
	PGconn	   *pg = node->conn->pg;
	bool		flushed = shard_connection_flush(node->conn);
	bool		alive = shard_connection_consume(node->conn);

	while (!PQisBusy(pg))
	{
		PGresult   *res = PQgetResult(pg);

		if (!res)
		{
			if (node->error && PQstatus(pg) == CONNECTION_OK)
			{
				res = node->error;
				raise_error(node, res);
			}
			if (node->error || PQstatus(pg) != CONNECTION_OK)
				raise_lost(node);
			if (node->state == COPY_STARTING)
				shard_error_protocol(node->conn, node->target->label, "COPY did not start");
			node->state = COPY_IDLE;
			return 0;
		}
		shard_connection_note_result(node->conn, res);
		if (PQresultStatus(res) == PGRES_COPY_IN && node->state == COPY_STARTING)
		{
			PQclear(res);
			node->state = COPY_SENDING;
			if (node->target->binary)
				take_frame(node, binary_header, BINARY_HEADER_BYTES);
			return 0;
		}
		if (PQresultStatus(res) == PGRES_FATAL_ERROR && !node->error)
		{
			node->error = res;
			continue;
		}
		if (PQresultStatus(res) == PGRES_COMMAND_OK && node->state == COPY_ENDING)
			node->nconfirmed = strtoull(PQcmdTuples(res), NULL, 10);
		PQclear(res);
	}
	if (!alive)
		raise_lost(node);
	return WL_SOCKET_READABLE | (flushed ? 0 : WL_SOCKET_WRITEABLE);
}

/* The node has answered the end of a COPY: are all rows there? */
static void
confirm_copy(ShardCopyNode *node)
{
	shard_connection_flush_notices(node->conn);
	if (node->nconfirmed != node->chunk.nrows)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("node \"%s\" stored " UINT64_FORMAT " of " UINT64_FORMAT " rows",
						node->conn->node, node->nconfirmed, node->chunk.nrows),
				 errdetail("Node \"%s\", shard %s.", node->conn->node, node->target->label),
				 errhint("A trigger on the node may have skipped rows.")));
	node->target->nconfirmed += node->nconfirmed;
	node->target = NULL;
	resetStringInfo(&node->chunk.lines);
	node->chunk.nrows = 0;
}

/*
 * The chunk is out: another one of the same COPY, or its end?  False when
 * there is nothing to send, and no reason to end the COPY.
 */
static bool
choose_next_chunk(ShardCopyNode *node)
{
	ShardCopyTarget *target = node->target;
	ShardCopyTarget *other = fullest_target(node, target);
	int			own_bytes = target->rows.data.len;
	bool		end = node->end_soon || node->copy_bytes >= MAX_COPY_BYTES ||
		(other && other->rows.data.len > own_bytes) ||
		(node->flushing && own_bytes == 0);

	if (!end && own_bytes < Min(worth_bytes(node), PIECE_BYTES))
		return false;
	if (!end)
		take_chunk(node);
	else
	{
		node->trailed = true;
		if (target->binary)
			take_frame(node, binary_trailer, BINARY_TRAILER_BYTES);
	}
	return true;
}

/* Sends what the socket takes.  Returns the events to wait for, 0 when there is nothing to wait for. */
static int
send_data(ShardCopyNode *node)
{
	const int	blocked = WL_SOCKET_WRITEABLE | (node->end_soon ? 0 : WL_SOCKET_READABLE);
	PGconn	   *pg = node->conn->pg;

	for (;;)
	{
		int			nleft = node->chunk.data.len - node->nsent;
		int			rc;

		/* libpq still has some of the last piece */
		if (!shard_connection_flush(node->conn))
			return blocked;
		if (nleft > 0)
		{
			int			nbytes = Min(nleft, PIECE_BYTES);

			rc = PQputCopyData(pg, node->chunk.data.data + node->nsent, nbytes);
			if (rc > 0)
			{
				node->nsent += nbytes;
				node->set->nbytes -= nbytes;
				continue;
			}
		}
		else if (node->trailed)
		{
			rc = PQputCopyEnd(pg, NULL);
			if (rc > 0)
			{
				node->state = COPY_ENDING;
				return 0;
			}
		}
		else if (choose_next_chunk(node))
			continue;
		else
			return 0;
		if (rc < 0)
			raise_lost(node);
		return blocked;			/* not taken at all: the same again when there is room */
	}
}

/*
 * Moves node on as far as that is possible without waiting; sets its events.
 */
static void
advance_node(ShardCopyNode *node)
{
	ShardCopyTarget *target;

	node->events = 0;
	while (node->conn)
	{
		switch (node->state)
		{
			case COPY_CONNECTING:
				node->events = shard_connection_poll(node->conn);
				if (node->events == 0 && !shard_connection_settle(node->conn))
					node->events = WL_SOCKET_READABLE;
				if (node->events != 0)
					return;
				node->state = COPY_IDLE;
				break;
			case COPY_IDLE:
				target = fullest_target(node, NULL);
				if (!target)
					return;
				start_copy(node, target);
				break;
			case COPY_STARTING:
				node->events = read_results(node);
				if (node->events != 0)
					return;
				break;
			case COPY_SENDING:
				node->events = send_data(node);
				if (node->state == COPY_SENDING)
					return;
				break;
			case COPY_ENDING:
				node->events = read_results(node);
				if (node->events != 0)
					return;
				confirm_copy(node);
				break;
		}
	}
}

/* ---------- all nodes of a set ---------- */

static void
advance_all(ShardCopySet *set)
{
	ListCell   *lc;

	set->npumped = 0;
	foreach(lc, set->nodes)
		advance_node(lfirst(lc));
}

/* Waits until a node can go on. */
static void
wait_for_nodes(ShardCopySet *set)
{
	ListCell   *lc;
	int			n = 0;

	if (set->maxitems < set->nnodes)
	{
		set->maxitems = 0;
		set->items = MemoryContextAllocZero(set->cxt, set->nnodes * sizeof(ShardWaitItem));
		set->maxitems = set->nnodes;
	}
	foreach(lc, set->nodes)
	{
		ShardCopyNode *node = lfirst(lc);

		set->items[n].fd = node->conn ? PQsocket(node->conn->pg) : -1;
		set->items[n++].events = node->conn ? node->events : 0;
	}
	shard_wait_set_wait(set->wait_set, set->items, n, WAIT_MS, false);
	n = 0;
	foreach(lc, set->nodes)
	{
		ShardCopyNode *node = lfirst(lc);

		if (!(set->items[n++].revents & WL_SOCKET_READABLE) || node->state != COPY_SENDING)
			continue;
		node->end_soon = true;
		if (!shard_connection_consume(node->conn))
			raise_lost(node);
	}
}

/* Waits until an eighth of the buffers is free. */
static void
make_room(ShardCopySet *set)
{
	set->full = true;
	for (;;)
	{
		advance_all(set);
		if (set->nbytes <= set->limit_bytes - set->limit_bytes / 8)
			break;
		wait_for_nodes(set);
	}
	set->full = false;
}

static void
check_not_lost(ShardCopySet *set)
{
	if (set->lost)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("rows that were on their way to a node are lost")));
}

static void
hold_connection(ShardCopyNode *node)
{
	check_not_lost(node->set);
	node->conn = shard_txn_writer_start(node->serverid, node->userid);
	node->state = COPY_CONNECTING;
	node->target = NULL;
	shard_connection_hold(node->conn, &node->holder);
}

static bool
has_rows(const ShardCopyNode *node)
{
	ListCell   *lc;

	foreach(lc, node->targets)
		if (((ShardCopyTarget *) lfirst(lc))->rows.data.len > 0)
			return true;
	return false;
}

/* Sends all rows of node (NULL: of all nodes) and lets go of the connections. */
static void
flush_nodes(ShardCopySet *set, ShardCopyNode *only)
{
	ListCell   *lc;
	bool		busy = true;

	check_not_lost(set);
	foreach(lc, set->nodes)
	{
		ShardCopyNode *node = lfirst(lc);

		node->flushing = only == NULL || node == only;
		Assert(node->conn || !has_rows(node));
	}
	for (;;)
	{
		advance_all(set);
		busy = false;
		foreach(lc, set->nodes)
		{
			ShardCopyNode *node = lfirst(lc);

			if (node->flushing && node->conn && (node->state != COPY_IDLE || has_rows(node)))
				busy = true;
		}
		if (!busy)
			break;
		wait_for_nodes(set);
	}
	foreach(lc, set->nodes)
	{
		ShardCopyNode *node = lfirst(lc);
		ShardConn  *conn = node->conn;

		if (!node->flushing)
			continue;
		node->flushing = false;
		node->conn = NULL;
		if (conn)
			shard_connection_release(conn);
	}
}

/* ---------- as holder of a connection ---------- */

static void
yield_connection(ShardConn *conn, void *arg)
{
	ShardCopyNode *node = arg;

	flush_nodes(node->set, node);
}

/*
 * The connection was released: by flush_nodes, which has forgotten it already,
 * or because of an abort.  Then the node's COPY is told to fail; it would wait
 * for data, deaf to a cancel request, for ever.
 */
static void
lose_connection(ShardConn *conn, void *arg)
{
	ShardCopyNode *node = arg;

	if (node->conn != conn)
		return;
	node->conn = NULL;
	node->events = 0;
	node->set->lost = true;
	if (node->state == COPY_SENDING && conn->state == SHARD_CONN_READY)
	{
		(void) PQputCopyEnd(conn->pg, "the transaction was aborted");
		(void) PQflush(conn->pg);
	}
	node->state = COPY_IDLE;
}

/* Reset of the set's memory. */
static void
drop_set(void *arg)
{
	ShardCopySet *set = arg;
	ListCell   *lc;

	foreach(lc, set->nodes)
	{
		ShardCopyNode *node = lfirst(lc);

		if (node->conn)
			shard_connection_release(node->conn);
		PQclear(node->error);
		node->error = NULL;
	}
}

/* ---------- entry points ---------- */

ShardCopySet *
shard_copy_set_create(MemoryContext cxt, ShardCopyErrorHook hook, void *arg)
{
	MemoryContext set_cxt = AllocSetContextCreate(cxt, "shardfdw copy", ALLOCSET_DEFAULT_SIZES);
	ShardCopySet *set = MemoryContextAllocZero(set_cxt, sizeof(ShardCopySet));

	set->cxt = set_cxt;
	set->hook = hook;
	set->hook_arg = arg;
	set->level = GetCurrentTransactionNestLevel();
	set->limit_bytes = Min((int64) shard_guc_copy_buffer_kb * 1024, MAX_BUFFER_BYTES);
	set->chunk_bytes = MAX_CHUNK_BYTES;
	set->wait_set = shard_wait_set_create(set_cxt);
	set->callback.func = drop_set;
	set->callback.arg = set;
	MemoryContextRegisterResetCallback(set_cxt, &set->callback);
	return set;
}

static ShardCopyNode *
node_of(ShardCopySet *set, Oid serverid, Oid userid)
{
	ShardCopyNode *node;
	ListCell   *lc;

	foreach(lc, set->nodes)
	{
		node = lfirst(lc);
		if (node->serverid == serverid && node->userid == userid)
			return node;
	}
	node = palloc0(sizeof(ShardCopyNode));
	node->set = set;
	node->serverid = serverid;
	node->userid = userid;
	node->holder.yield = yield_connection;
	node->holder.arg = node;
	node->holder.lost = lose_connection;
	node->state = COPY_IDLE;
	init_rows(&node->chunk);
	set->nodes = lappend(set->nodes, node);
	set->nnodes++;
	return node;
}

ShardCopyTarget *
shard_copy_target_open(ShardCopySet *set, Oid serverid, Oid userid,
					   const char *copy_sql, bool binary, const char *label)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(set->cxt);
	ShardCopyTarget *target = palloc0(sizeof(ShardCopyTarget));

	target->set = set;
	target->copy_sql = pstrdup(copy_sql);
	target->label = label ? pstrdup(label) : NULL;
	target->binary = binary;
	init_rows(&target->rows);
	target->node = node_of(set, serverid, userid);
	target->node->targets = lappend(target->node->targets, target);
	set->ntargets++;
	set->chunk_bytes = Max(MIN_CHUNK_BYTES,
						   Min(MAX_CHUNK_BYTES, set->limit_bytes / (2 * set->ntargets)));
	MemoryContextSwitchTo(oldcxt);
	return target;
}

StringInfo
shard_copy_target_buffer(ShardCopyTarget *target)
{
	return &target->rows.data;
}

void
shard_copy_target_put(ShardCopyTarget *target, uint64 lineno)
{
	ShardCopySet *set = target->set;
	int			nbytes = target->rows.data.len - target->counted;

	append_line(&target->rows.lines, lineno - target->last_line);
	target->last_line = lineno;
	target->rows.nrows++;
	target->counted = target->rows.data.len;
	set->nbytes += nbytes;
	set->npumped += nbytes;

	/* held from the first row on: nobody may read the node without this row */
	if (unlikely(!target->node->conn || set->lost))
		hold_connection(target->node);
	if (likely(set->npumped < PUMP_BYTES))
		return;
	if (set->nbytes > set->limit_bytes)
		make_room(set);
	else
		advance_all(set);
}

void
shard_copy_set_flush(ShardCopySet *set)
{
	flush_nodes(set, NULL);
}

void
shard_copy_set_finish(ShardCopySet *set)
{
	flush_nodes(set, NULL);
	MemoryContextDelete(set->cxt);
}

uint64
shard_copy_target_rows(ShardCopyTarget *target)
{
	return target->nconfirmed;
}
