/*
 * copy_stream.c
 *	  Sends rows to nodes by COPY FROM STDIN: all targets of a load, one transaction per node,
 *	  bounded memory.
 *
 *	 put --> target's rows --\            advance
 *	 put --> target's rows ---+--> lane (connection) --> node
 *	 put --> target's rows ------> lane (connection) --> node
 *
 * A target is a buffer of rows.  A lane is a connection that serves several targets in turn
 * (copy_lane.c).  If the nodes are slower than the input, buffers fill, and chunks become large.
 * If they are faster, a chunk is sent as soon as it is worth a round trip.
 *
 * Nothing waits until the buffers of all targets together are larger than
 * shardfdw.copy_buffer_size.  Then the session waits for all sockets together, and sends each node
 * what there is for it.
 *
 * A connection is held from the first row on.  If another holder of this transaction needs it, the
 * set yields, which sends all rows of that lane, so that the other holder sees them.  Savepoints
 * are created up to the level in which the set was created, not the one in which it yields.
 *
 * If an extra connection has written to a table, all rows of the table use that connection, since
 * two connections could wait for each other indefinitely.  So if a set follows another one in the
 * same transaction, it uses for each claimed table the connection that has claimed it.
 *
 * If a node reports an error about a row, the set "judges": it sends everything that is buffered,
 * in bounded time, and raises the error with the first line of the input (copy_error.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "guc.h"
#include "remote/copy/copy_private.h"
#include "remote/xact/txn_level.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define PUMP_BYTES (64 * 1024)	/* input between two checks of the sockets */
#define MIN_CHUNK_BYTES (32 * 1024)
#define MAX_BUFFER_BYTES (256 * 1024 * 1024)	/* a target's buffer must be smaller than 1 GB */
#define WAIT_MS 1000			/* longest wait; connect timeouts are checked this often */
#define TICK_MS 100
#define JUDGE_MS 30000			/* time for nodes to find an earlier error */

/* ---------- all lanes of a set ---------- */

/* Watches the lanes' sockets for timeout_ms.  Input from a node makes its COPY end soon. */
static void
watch_sockets(ShardCopySet *set, long timeout_ms)
{
	int			nlanes = list_length(set->lanes);
	int			n = 0;

	if (set->maxitems < nlanes)
	{
		set->maxitems = 0;
		set->items = MemoryContextAllocZero(set->cxt, nlanes * sizeof(ShardWaitItem));
		set->maxitems = nlanes;
	}
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		ShardWaitItem *item = &set->items[n++];

		long		poll_ms = lane->conn ? shard_connection_poll_ms(lane->conn) : -1;

		if (poll_ms >= 0 && (timeout_ms < 0 || poll_ms < timeout_ms))
			timeout_ms = poll_ms;
		item->fd = lane->conn ? PQsocket(lane->conn->pg) : -1;
		item->events = lane->conn ? lane->events : 0;
		if (item->fd >= 0 && lane->state == COPY_SENDING && !lane->end_soon)
			item->events |= WL_SOCKET_READABLE;
	}
	shard_wait_announce(SHARD_WAIT_COPY_NODE);
	shard_wait_set_wait(set->wait_set, set->items, n, timeout_ms, false);
	n = 0;
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		if (!(set->items[n++].revents & WL_SOCKET_READABLE) || lane->state != COPY_SENDING)
			continue;
		lane->end_soon = true;
		if (!shard_connection_consume(lane->conn))
			shard_copy_lane_raise_lost(lane);
	}
}

/* Every 100 ms: calls the progress hook, and checks quiet sockets. */
static void
tick(ShardCopySet *set)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now - set->ticked_at < TICK_MS * INT64CONST(1000))
		return;
	set->ticked_at = now;
	if (set->progress)
		set->progress(set->progress_arg);
	watch_sockets(set, 0);
}

/* Does a lane have rows, for mirrors, without having a connection? */
static bool
needs_connection(const ShardCopyLane *lane)
{
	return lane->set->has_mirrors && lane->conn == NULL && shard_copy_lane_has_rows(lane);
}

static bool
has_work(const ShardCopyLane *lane)
{
	return lane->conn &&
		(lane->state != COPY_IDLE || lane->completing || shard_copy_lane_has_rows(lane));
}

/* Advances all lanes.  True if one of the flushing lanes has not finished yet. */
static bool
advance_all(ShardCopySet *set)
{
	bool		busy = false;

	set->npumped = 0;
	foreach_ptr(ShardCopyLane, lane, set->lanes)
		shard_copy_lane_advance(lane);
	/* each may have passed rows to another one, for mirrors */
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		if (lane->flushing && (has_work(lane) || (needs_connection(lane) && !set->judging)))
			busy = true;
	}
	return busy;
}

/* An error about a row is known.  Raises the error about the first bad row. */
static void
judge(ShardCopySet *set)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), JUDGE_MS);

	foreach_ptr(ShardCopyLane, lane, set->lanes)
		lane->flushing = true;
	while (advance_all(set) && GetCurrentTimestamp() < deadline)
		watch_sockets(set, WAIT_MS);
	shard_copy_error_raise_first(set);
}

/* Advances all lanes.  True if one of the flushing lanes has not finished yet. */
static bool
pump(ShardCopySet *set)
{
	bool		busy = advance_all(set);

	if (set->judging)
		judge(set);
	if (!slist_is_empty(&set->refused))
		shard_copy_refused_deliver(set);
	tick(set);
	return busy;
}

static void
wait_for_nodes(ShardCopySet *set)
{
	watch_sockets(set, set->progress ? TICK_MS : WAIT_MS);
}

static void hold_mirrors(ShardCopySet *set);

/* Waits until an eighth of the buffers is free. */
static void
make_room(ShardCopySet *set)
{
	set->full = true;
	for (;;)
	{
		hold_mirrors(set);
		(void) pump(set);
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
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("rows that were on their way to a node are lost")));
}

/* ---------- holding connections ---------- */

static void
hold_connection(ShardCopyLane *lane, ShardConn *conn)
{
	lane->conn = conn;
	lane->state = COPY_CONNECTING;
	lane->target = NULL;
	shard_connection_hold(conn, &lane->holder);
}

static void
hold_main(ShardCopyLane *lane)
{
	if (!lane->conn)
		hold_connection(lane, shard_txn_writer_start(lane->serverid, lane->userid, lane->set->level));
}

/*
 * Gives target's lane a connection, unless it has one.  If none is available, the lane leaves its
 * targets to the main lane.
 */
static void
take_connection(ShardCopyTarget *target)
{
	ShardCopyLane *lane = target->lane;
	ShardCopyLane *main = lane->main;

	hold_main(main);
	if (lane->conn)
		return;

	if (lane->extra)
	{
		/* what it has written must not be lost */
		if (lane->extra->state == SHARD_CONN_BROKEN || lane->extra->holder)
		{
			target->set->lost = true;
			check_not_lost(target->set);
		}
		hold_connection(lane, lane->extra);
		return;
	}
	lane->extra = shard_txn_extra_writer_start(lane->serverid, lane->userid);
	if (lane->extra)
	{
		foreach_ptr(ShardCopyTarget, other, lane->targets)
			shard_txn_extra_writer_claim(lane->extra, other->table);
		hold_connection(lane, lane->extra);
		return;
	}
	foreach_ptr(ShardCopyTarget, other, lane->targets)
	{
		other->lane = main;
		main->targets = lappend(main->targets, other);
	}
	lane->targets = NIL;
}

static void
hold_lane(ShardCopyTarget *target)
{
	ShardCopySet *set = target->set;

	check_not_lost(set);
	/* stays set if the following fails, since the row to be sent is already in the buffer */
	set->lost = true;
	take_connection(target);
	foreach_ptr(ShardCopyTarget, mirror, target->mirrors)
		take_connection(mirror);
	set->lost = false;
}

/* Gives lanes with rows for mirrors their connections back. */
static void
hold_mirrors(ShardCopySet *set)
{
	if (!set->has_mirrors)
		return;
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		if (needs_connection(lane))
			hold_lane(linitial(lane->targets));
	}
}

/* Sends all rows of the lane only (NULL: of all lanes). */
static void
send_all(ShardCopySet *set, ShardCopyLane *only)
{
	check_not_lost(set);
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		lane->flushing = only == NULL || lane == only;
		Assert(lane->conn || !shard_copy_lane_has_rows(lane) || set->has_mirrors);
	}
	if (only == NULL)
		hold_mirrors(set);
	while (pump(set))
	{
		wait_for_nodes(set);
		if (only == NULL)
			hold_mirrors(set);
	}
	foreach_ptr(ShardCopyLane, lane, set->lanes)
		lane->flushing = false;
}

/* Releases the connection. */
static void
let_go(ShardCopyLane *lane)
{
	ShardConn  *conn = lane->conn;

	lane->conn = NULL;
	if (conn)
		shard_connection_release(conn);
}

static void
yield_connection(ShardConn *conn, void *arg)
{
	ShardCopyLane *lane = arg;

	send_all(lane->set, lane);
	let_go(lane);
}

/*
 * The connection was released: by let_go(), which has already forgotten it, or in an abort.  In an
 * abort, the node's COPY is made to fail, since it would wait for data indefinitely, and does not
 * react to a cancel request.
 */
static void
lose_connection(ShardConn *conn, void *arg)
{
	ShardCopyLane *lane = arg;

	if (lane->conn != conn)
		return;
	lane->conn = NULL;
	lane->events = 0;
	lane->set->lost = true;
	if (lane->state == COPY_SENDING && conn->state == SHARD_CONN_READY)
	{
		(void) PQputCopyEnd(conn->pg, "the transaction was aborted");
		(void) PQflush(conn->pg);
	}
	lane->state = COPY_IDLE;
}

/* Called at the reset of the set's memory. */
static void
drop_set(void *arg)
{
	ShardCopySet *set = arg;

	PQclear(set->first.res);
	set->first.res = NULL;
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		if (lane->conn)
			shard_connection_release(lane->conn);
		PQclear(lane->error);
		PQclear(lane->rows);
		PQclear(lane->partial);
		lane->error = lane->rows = lane->partial = NULL;
	}
}

/* ---------- sets and targets ---------- */

ShardCopySet *
shard_copy_set_create(MemoryContext cxt, ShardCopyErrorHook hook, void *arg)
{
	MemoryContext set_cxt = AllocSetContextCreate(cxt, "shardfdw copy", ALLOCSET_DEFAULT_SIZES);
	ShardCopySet *set = MemoryContextAllocZero(set_cxt, sizeof(ShardCopySet));

	set->cxt = set_cxt;
	set->hook = hook;
	set->hook_arg = arg;
	set->level = GetCurrentTransactionNestLevel();
	set->cid = shard_txn_level_command();
	set->nlanes = 1;
	set->limit_bytes = Min((int64) shard_guc_copy_buffer_kb * 1024, MAX_BUFFER_BYTES);
	set->chunk_bytes = SHARD_COPY_MAX_CHUNK_BYTES;
	set->wait_set = shard_wait_set_create(set_cxt);
	set->callback.func = drop_set;
	set->callback.arg = set;
	MemoryContextRegisterResetCallback(set_cxt, &set->callback);
	return set;
}

void
shard_copy_set_user_lines(ShardCopySet *set)
{
	Assert(set->lanes == NIL);
	set->user_lines = true;
}

void
shard_copy_set_spread(ShardCopySet *set, int nconns)
{
	Assert(set->lanes == NIL);
	set->nlanes = Max(1, Min(nconns, shard_guc_max_connections_per_node));
}

void
shard_copy_set_guard(ShardCopySet *set, bool on_error, ShardCopyRefuseHook hook, void *arg)
{
	Assert(set->lanes == NIL);
	set->guarded = true;
	set->on_error = on_error;
	set->refuse = hook;
	set->refuse_arg = arg;
	set->refused_cxt = AllocSetContextCreate(set->cxt, "shardfdw refused rows", ALLOCSET_DEFAULT_SIZES);
}

void
shard_copy_set_on_progress(ShardCopySet *set, void (*hook) (void *arg), void *arg)
{
	set->progress = hook;
	set->progress_arg = arg;
}

static ShardCopyLane *
find_lane(const ShardCopySet *set, Oid serverid, Oid userid, int laneno)
{
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		if (lane->serverid == serverid && lane->userid == userid && lane->laneno == laneno)
			return lane;
	}
	return NULL;
}

static ShardCopyLane *
add_lane(ShardCopySet *set, Oid serverid, Oid userid, ShardCopyLane *main, int laneno)
{
	ShardCopyLane *lane = palloc0(sizeof(ShardCopyLane));

	lane->set = set;
	lane->serverid = serverid;
	lane->userid = userid;
	lane->main = main ? main : lane;
	lane->laneno = laneno;
	lane->holder.yield = yield_connection;
	lane->holder.arg = lane;
	lane->holder.lost = lose_connection;
	lane->state = COPY_IDLE;
	shard_copy_rows_init(&lane->chunk);
	initStringInfo(&lane->mirrored);
	set->lanes = lappend(set->lanes, lane);
	return lane;
}

/* The lane of an extra writer that an earlier set has used. */
static ShardCopyLane *
lane_of_extra(ShardCopySet *set, ShardConn *extra, ShardCopyLane *main)
{
	ShardCopyLane *lane;
	ListCell   *lc;

	foreach(lc, set->lanes)
	{
		lane = lfirst(lc);
		if (lane->extra == extra)
			return lane;
	}
	lane = add_lane(set, extra->serverid, extra->userid, main, -1);
	lane->extra = extra;
	return lane;
}

/* The lane for the node's next target, table.  Lanes take turns. */
static ShardCopyLane *
next_lane(ShardCopySet *set, Oid serverid, Oid userid, const char *table)
{
	ShardCopyLane *main = find_lane(set, serverid, userid, 0);
	ShardConn  *extra = shard_txn_extra_writer_of(serverid, userid, table);
	ShardCopyLane *lane;
	int			laneno;

	if (!main)
		main = add_lane(set, serverid, userid, NULL, 0);
	if (extra)
		return lane_of_extra(set, extra, main);
	laneno = main->nopened++ % set->nlanes;
	lane = find_lane(set, serverid, userid, laneno);
	return lane ? lane : add_lane(set, serverid, userid, main, laneno);
}

/* Returns the table's name as written in "COPY schema.table (...) ...".  Memory: current context. */
static char *
table_in(const char *copy_sql)
{
	const char *start = copy_sql + strlen("COPY ");
	const char *p = start;
	bool		quoted = false;

	for (; *p && (quoted || (*p != ' ' && *p != '(')); p++)
		if (*p == '"')
			quoted = !quoted;
	return pnstrdup(start, p - start);
}

ShardCopyTarget *
shard_copy_target_open(ShardCopySet *set, Oid serverid, Oid userid,
					   const char *copy_sql, bool binary, const char *label)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(set->cxt);
	ShardCopyTarget *target = palloc0(sizeof(ShardCopyTarget));

	target->set = set;
	target->copy_sql = pstrdup(copy_sql);
	target->relname = shard_copy_error_relname(copy_sql);
	target->label = label ? pstrdup(label) : NULL;
	target->binary = binary;
	shard_copy_rows_init(&target->rows);
	target->table = table_in(copy_sql);
	target->lane = next_lane(set, serverid, userid, target->table);
	target->lane->targets = lappend(target->lane->targets, target);
	if (target->lane->extra)
		shard_txn_extra_writer_claim(target->lane->extra, target->table);
	set->ntargets++;
	set->chunk_bytes = Max(MIN_CHUNK_BYTES,
						   Min(SHARD_COPY_MAX_CHUNK_BYTES, set->limit_bytes / (2 * set->ntargets)));
	MemoryContextSwitchTo(oldcxt);
	return target;
}

void
shard_copy_target_set_header(ShardCopyTarget *target, const char *header)
{
	target->header = MemoryContextStrdup(target->set->cxt, header);
}

void
shard_copy_target_set_frame(ShardCopyTarget *target, const ShardCopyFrame *frame)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(target->set->cxt);
	ShardCopyFrame *copy = palloc(sizeof(ShardCopyFrame));

	copy->first_sql = pstrdup(frame->first_sql);
	copy->last_sql = pstrdup(frame->last_sql);
	target->frame = copy;
	MemoryContextSwitchTo(oldcxt);
}

void
shard_copy_target_mirror(ShardCopyTarget *target, const Oid *servers, int nservers, const char *ask, const char *before, const char *after)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(target->set->cxt);

	Assert(!target->set->guarded);
	target->before = pstrdup(ask);
	target->after = pstrdup(after);
	for (int i = 0; i < nservers; i++)
	{
		ShardCopyTarget *mirror = shard_copy_target_open(target->set, servers[i], target->lane->userid, target->copy_sql,
														 target->binary, target->label);

		mirror->header = target->header;
		mirror->before = pstrdup(before);
		mirror->after = target->after;
		target->mirrors = lappend(target->mirrors, mirror);
		target->set->has_mirrors = true;
	}
	MemoryContextSwitchTo(oldcxt);
}

StringInfo
shard_copy_target_buffer(ShardCopyTarget *target)
{
	return &target->rows.data;
}

/* Counts nbytes more for target.  If it is time to, checks the sockets, or waits. */
static inline void
charge(ShardCopyTarget *target, int nbytes)
{
	ShardCopySet *set = target->set;

	target->charged_bytes += nbytes;
	set->nbytes += nbytes;
	set->npumped += nbytes;

	/* held from the first row on, so that no other holder reads from the node and misses this row */
	if (unlikely(!target->lane->conn || set->lost))
		hold_lane(target);
	if (likely(set->npumped < PUMP_BYTES))
		return;
	if (set->nbytes > set->limit_bytes)
		make_room(set);
	else
	{
		hold_mirrors(set);
		(void) pump(set);
	}
}

void
shard_copy_target_put_row(ShardCopyTarget *target, uint64 lineno, uint32 nlines,
						  const char *source, size_t source_bytes)
{
	ShardCopySet *set = target->set;
	StringInfo	lines = &target->rows.lines;
	uint64		delta = lineno - target->last_line;
	int			nbytes = target->rows.data.len - target->put_pos;

	if (likely(nlines == 1 && delta < 0x80 && lines->len + 1 < lines->maxlen))
		lines->data[lines->len++] = (char) delta;
	else
		shard_copy_rows_note_line(&target->rows, delta, nlines);
	target->last_line = lineno;
	target->rows.nrows++;
	target->put_pos = target->rows.data.len;
	if (set->guarded)
	{
		shard_copy_rows_note_size(&target->rows, nbytes, source, source_bytes);
		if (source)
			nbytes += source_bytes;
	}
	charge(target, nbytes);
}

void
shard_copy_target_put_rows(ShardCopyTarget *target, uint64 lineno, uint32 nrows)
{
	ShardCopyRows *rows = &target->rows;
	int			nbytes = rows->data.len - target->put_pos;

	Assert(!target->set->guarded);
	shard_copy_rows_note_line(rows, lineno - target->last_line, 1);
	enlargeStringInfo(&rows->lines, nrows);
	memset(rows->lines.data + rows->lines.len, 1, nrows - 1);
	rows->lines.len += nrows - 1;
	target->last_line = lineno + nrows - 1;
	rows->nrows += nrows;
	target->put_pos = rows->data.len;
	charge(target, nbytes);
}

void
shard_copy_target_put(ShardCopyTarget *target, uint64 lineno)
{
	shard_copy_target_put_row(target, lineno, 1, NULL, 0);
}

void
shard_copy_target_stat(const ShardCopyTarget *target, ShardCopyTargetStat *stat)
{
	*stat = target->stat;
	stat->nbytes_buffered = target->put_pos;
}

bool
shard_copy_set_pump(ShardCopySet *set)
{
	(void) pump(set);
	foreach_ptr(ShardCopyLane, lane, set->lanes)
		if (lane->events != 0)
			return true;
	return false;
}

/* Lanes with an extra connection keep it, since no other holder may use it. */
ShardCopySet *
shard_copy_target_get_set(const ShardCopyTarget *target)
{
	return target->set;
}

bool
shard_copy_set_is_lost(const ShardCopySet *set)
{
	return set->lost;
}

void
shard_copy_set_flush(ShardCopySet *set)
{
	send_all(set, NULL);
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		if (lane == lane->main)
			let_go(lane);
	}
}

static bool
has_frames(const ShardCopyLane *lane)
{
	foreach_ptr(ShardCopyTarget, target, lane->targets)
		if (target->framed)
			return true;
	return false;
}

void
shard_copy_set_complete(ShardCopySet *set)
{
	bool		any = false;

	send_all(set, NULL);
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		lane->completing = shard_copy_staging_is_there(lane) || has_frames(lane);
		if (lane->completing && !lane->conn)
			hold_lane(linitial(lane->targets));
		any |= lane->completing;
	}
	if (any)
		send_all(set, NULL);
}

void
shard_copy_set_finish(ShardCopySet *set)
{
	shard_copy_set_complete(set);
	foreach_ptr(ShardCopyLane, lane, set->lanes)
		let_go(lane);
	MemoryContextDelete(set->cxt);
}
