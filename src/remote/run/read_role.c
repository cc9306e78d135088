/*
 * read_role.c
 *	  Which server of a node a statement reads: its primary, or a standby.
 *
 *	 shardfdw.read_from		node lists standbys		what is read
 *	   primary				  either				  the primary
 *	   standby				  no					  the primary
 *	   standby				  yes					  a standby
 *	   any					  no					  the primary
 *	   any					  yes					  the primary; a standby if that cannot be connected to
 *
 * What a transaction has written is on the primary, so from its first write on it reads
 * primaries alone; so do statements that write or lock, snapshots over all nodes, and
 * transactions that may write at REPEATABLE READ, since they have one snapshot of a node.
 *
 * A standby is read only if it has
 *	- all that this session has committed on the node (position.h);
 *	- all that anybody had committed there shardfdw.max_standby_lag ago;
 *	- the shards that this session has seen being placed: for these it waits once for each
 *	  node, while the primary is there, and then reads the standby all the same.
 * That it has all that was committed before a moment t follows from either of these:
 *	1. It has replayed a commit whose time stamp is t.  A commit gets its time stamp before
 *	   its place in the WAL, and is acknowledged after both; so what was acknowledged before
 *	   t stands before it.  (t is the primary's time, now is the standby's: their clocks
 *	   must agree.)
 *	2. It has replayed all up to the position that the primary gave when it was asked at t.
 * What WAL receivers say of the last message that they had proves nothing: the sender may be
 * a standby itself, or send less than it has.  So while the primary is there to be read
 * ("any"), sessions ask it for its position now and then, for the time when it is not; and
 * tell each other, where the library is preloaded.
 *
 * A standby only goes forward, so what was found out stays true of that server, but not of
 * others at its address, nor after a crash: shard_pool_is_proved().
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "compat.h"
#include "conninfo.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/read_role.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/position.h"
#include "remote/wire/wait.h"
#include "remote/xact/committed.h"
#include "remote/xact/txn_private.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define CATCH_UP_MS 2000		/* how long a standby has at least to replay what is needed; else ... */
#define MAX_CATCH_UP_MS 10000	/* ... as long as its data may be old, and at most so long */
#define FIRST_PAUSE_MS 2		/* before it is asked again; then twice that ... */
#define MAX_PAUSE_MS 100
#define ANSWER_MS 5000			/* for an answer that the primary owes */
#define RETRY_PRIMARY_MS 5000	/* before a primary that could not be connected to is tried again */

#define ASK_PRIMARY_MS 5000		/* how often a primary that is read is asked for its position */

#define LOOK_AGAIN_MS 1000		/* how long it is believed that a standby has not been promoted */

/*
 * Has it been promoted?  What it has replayed, the age in seconds of the last commit that it has, and its timeline: of the
 * last restart point at least, of what it receives if the role may know that.
 */
#define REPLAY_SQL \
	"SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_last_wal_replay_lsn()," \
	" pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.pg_last_xact_replay_timestamp())," \
	" GREATEST((SELECT r.received_tli FROM pg_catalog.pg_stat_wal_receiver r), (SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() c))"

/* What a standby must have to be read. */
typedef struct ReadNeed
{
	ShardWalPlace committed;	/* by this session */
	TimestampTz as_of;			/* for shardfdw.max_standby_lag; DT_NOBEGIN: any */
	TimestampTz placed;			/* when this session has last seen shards being placed; 0: never */
} ReadNeed;

/* A node that is being looked at. */
typedef struct ReadNode
{
	Oid			serverid;
	Oid			userid;
	int			nstandbys;		/* that it lists */
	ShardPool  *primary;
	ShardPosition *position;
	bool		primary_lost;	/* it could not be connected to, for this statement or a moment before */
	bool		primary_skipped;	/* it was not tried for this statement, because of ReadMemory.retry_at */
	char	   *primary_reason; /* why it cannot be read; NULL: it can */
	int64		system_identifier;	/* of the primary; 0: not known */
	bool		is_hearsay;		/* system_identifier comes from another session, not from a connection */
} ReadNode;

/* What is remembered of a node and user between statements. */
typedef struct ReadMemory
{
	Oid			key[2];			/* hash key: server, user */
	TimestampTz retry_at;		/* when a primary that could not be connected to may be tried again; 0: now */
	uint32		standby;		/* the one that was read last, 0-based */
	TimestampTz placed;			/* a standby was waited for to have the shards that were placed until then; 0: none */
} ReadMemory;

static int	nwriting = 0;		/* statements that write or lock, and run now */
static HTAB *memories = NULL;
static TimestampTz placed_at = 0;
static TimestampTz servers_changed_at = 0;	/* when servers were last changed, as far as this session knows */

/* ---------- asking servers ---------- */

/*
 * Reads the answer to a question, one row of ncolumns, into *row.  False: the server does not
 * answer in time, or with something else; then conn is broken.  *failed: its error.
 */
static bool
read_row(ShardConn *conn, int ncolumns, PGresult *volatile *row, PGresult *volatile *failed)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ANSWER_MS);
	bool		nonsense = false;
	PGresult   *res;

	for (;;)
	{
		ExecStatusType status;

		if (!shard_connection_next_result(conn, deadline, false, &res))
			break;
		if (res == NULL)
			return *row != NULL || *failed != NULL;
		status = PQresultStatus(res);
		nonsense = status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK && status != PGRES_FATAL_ERROR;
		if (status == PGRES_SINGLE_TUPLE && *row == NULL && PQnfields(res) == ncolumns)
			*row = res;
		else if (status == PGRES_FATAL_ERROR && *failed == NULL)
			*failed = res;
		else
			PQclear(res);
		if (nonsense)
			break;				/* a COPY would go on for ever */
	}
	conn->state = SHARD_CONN_BROKEN;
	return false;
}

/* Sends sql, which returns one row of ncolumns, and waits for it.  Memory: caller clears it.  Errors: the server's, or that it does not answer. */
static PGresult *
ask(ShardConn *conn, const char *sql, int ncolumns)
{
	PGresult   *volatile row = NULL;
	PGresult   *volatile failed = NULL;
	volatile bool answered = false;

	shard_connection_send(conn, sql);
	PG_TRY();
	{
		answered = read_row(conn, ncolumns, &row, &failed);
	}
	PG_CATCH();
	{
		PQclear(row);
		PQclear(failed);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (answered && failed == NULL)
		return row;
	PQclear(row);
	if (failed != NULL)
		shard_error_report(ERROR, failed, conn, NULL, sql);
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("node \"%s\" has not answered within %d ms", conn->node, ANSWER_MS)));
}

static void
refuse_yield(ShardConn *conn, void *arg)
{
	elog(ERROR, "connection to node \"%s\" is in use by a question", conn->node);
}

static const ShardConnHolder asker = {refuse_yield, NULL, NULL};

/* What conn is asked, by try_asking(). */
typedef PGresult *(*Question) (ShardConn *conn);

static PGresult *
ask_nothing(ShardConn *conn)
{
	return NULL;
}

static PGresult *
ask_position(ShardConn *conn)
{
	return ask(conn, SHARD_POSITION_SQL, 1);
}

static PGresult *
ask_standby(ShardConn *conn)
{
	return ask(conn, REPLAY_SQL, 4);
}

/* Is error about the server's being away, rather than about this session? */
static bool
means_lost(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_OPERATOR_INTERVENTION:
			return error->sqlerrcode != ERRCODE_QUERY_CANCELED;
		default:
			return error->sqlerrcode == ERRCODE_TOO_MANY_CONNECTIONS;
	}
}

/*
 * A connection to put a question over: an idle one; one that reads, in whose transaction the
 * question does no harm, as what others of this session hold must not be waited for; or a new one.
 */
static ShardConn *
take_connection(ShardPool *pool)
{
	ShardConn  *conn = shard_pool_start_spare(pool);
	dlist_iter	iter;

	if (conn != NULL)
		return conn;
	dlist_foreach(iter, &pool->conns)
	{
		conn = dlist_container(ShardConn, link, iter.cur);
		if (conn->state != SHARD_CONN_READY || !shard_connection_in_xact(conn) || shard_connection_is_aborted(conn))
			continue;
		if (conn->holder != NULL)
			shard_connection_yield(conn);
		if (conn->state == SHARD_CONN_READY && !shard_connection_is_aborted(conn))
		{
			shard_connection_hold(conn, &asker);
			return conn;
		}
		break;
	}
	return shard_pool_start_free(pool);
}

/*
 * Connects to the server of pool, or takes a connection to it, and puts the question to it.
 * false: the server is away, and *reason says why.  *conn: where the answer came from, free
 * again.  Other errors are raised.
 */
static bool
try_asking(ShardPool *pool, Question question, PGresult **answer, ShardConn **conn, char **reason)
{
	MemoryContext cxt = CurrentMemoryContext;
	ShardConn  *volatile taken = NULL;
	volatile bool answered = false;

	PG_TRY();
	{
		taken = take_connection(pool);
		shard_connection_finish(taken);
		*answer = question(taken);
		shard_connection_release(taken);
		answered = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		/* its answer may be half read, and the end of an inner savepoint would not release it */
		if (taken)
			shard_pool_discard(taken);
		taken = NULL;
		/* our own cancel and termination come as the same errors */
		if (!means_lost(error) || QueryCancelPending || ProcDiePending)
			PG_RE_THROW();
		FlushErrorState();
		/* that it could not be connected to goes without saying; an error of the server is a message */
		*reason = error->sqlerrcode == ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION && error->detail ?
			error->detail : error->message;
	}
	PG_END_TRY();
	*conn = taken;
	return answered;
}

/* ---------- the primary ---------- */

static ReadMemory *
memory_of(const ReadNode *node)
{
	Oid			key[2] = {node->serverid, node->userid};
	ReadMemory *memory;
	bool		found;

	if (!memories)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(key);
		ctl.entrysize = sizeof(ReadMemory);
		ctl.hcxt = AllocSetContextCreate(TopMemoryContext, "shardfdw read roles", ALLOCSET_SMALL_SIZES);
		memories = hash_create("shardfdw read roles", 16, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	memory = hash_search(memories, key, HASH_ENTER, &found);
	if (!found)
	{
		memory->retry_at = 0;
		memory->standby = MyProcPid;	/* sessions spread over the standbys */
		memory->placed = 0;
	}
	return memory;
}

/* Has pool a connection that works, as far as can be seen from here? */
static bool
has_connection(ShardPool *pool)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn->state == SHARD_CONN_READY && !conn->invalidated &&
			(conn->holder || shard_connection_in_xact(conn) ? shard_connection_is_alive(conn) : shard_connection_usable(conn)))
			return true;
	}
	return false;
}

static void
note_identifier(ReadNode *node)
{
	dlist_iter	iter;

	dlist_foreach(iter, &node->primary->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn->state == SHARD_CONN_READY && conn->server.system_identifier != 0)
			node->system_identifier = conn->server.system_identifier;
	}
}

/*
 * Asks the primary question.  False when it is away; in the next seconds it is then not
 * tried again, as that may take up to connect_timeout.
 */
static bool
ask_primary(ReadNode *node, Question question, PGresult **answer)
{
	ReadMemory *memory = memory_of(node);
	ShardConn  *conn;

	node->primary_skipped = GetCurrentTimestamp() < memory->retry_at;
	if (node->primary_skipped)
		node->primary_reason = pstrdup(_("It could not be connected to a moment ago."));
	else if (try_asking(node->primary, question, answer, &conn, &node->primary_reason))
	{
		memory->retry_at = 0;
		note_identifier(node);
		node->primary_lost = false;
		return true;
	}
	else
	{
		memory->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RETRY_PRIMARY_MS);
		ereport(LOG,
				(errmsg("could not connect to the primary of node \"%s\" to read it", GetForeignServer(node->serverid)->servername),
				 errdetail_internal("%s", node->primary_reason)));
	}
	node->primary_lost = true;
	return false;
}

/* Asks the primary how far its WAL is, and notes that.  False when it cannot say. */
static bool
ask_for_position(ReadNode *node)
{
	ShardPosition *position = node->position;
	TimestampTz asked_at = GetCurrentTimestamp();
	uint64		ncommits = position->ncommits;
	PGresult   *answer = NULL;
	bool		known;

	if (node->primary_lost || !ask_primary(node, ask_position, &answer))
		return false;
	known = shard_position_learn(position, answer, ncommits, asked_at);
	PQclear(answer);
	if (known && node->system_identifier != 0)
	{
		ShardNodeEnd end = {asked_at, node->system_identifier, position->end.timeline, position->end.lsn};

		shard_node_stat_note_end(position->stat_node, node->serverid, &end);
	}
	if (!known)
		node->primary_reason = pstrdup(_("It is in recovery."));
	return known;
}

/* Takes over what other sessions have found out about the primary. */
static void
take_known_end(ReadNode *node)
{
	ShardPosition *position = node->position;
	ShardNodeEnd end;

	if (position->stat_node < 0)
		position->stat_node = shard_node_stat_find(node->serverid);
	end = shard_node_stat_end(position->stat_node, node->serverid);
	if (end.asked_at <= servers_changed_at || (node->system_identifier != 0 && node->system_identifier != end.system_identifier))
		return;
	node->is_hearsay = node->system_identifier == 0;
	node->system_identifier = end.system_identifier;
	if (end.asked_at > position->asked_at)
	{
		position->asked_at = end.asked_at;
		position->end.timeline = end.timeline;
		position->end.lsn = end.lsn;
	}
}

/* Can the primary be read?  Where it can, it is asked for its position now and then. */
static bool
primary_answers(ReadNode *node)
{
	PGresult   *none;

	if (!TimestampDifferenceExceeds(node->position->asked_at, GetCurrentTimestamp(), ASK_PRIMARY_MS))
		return has_connection(node->primary) || ask_primary(node, ask_nothing, &none);
	return ask_for_position(node) || !node->primary_lost;
}

/* Takes the answers that connections to the primary still owe about its position. */
static void
take_owed_answers(ShardPool *pool)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ANSWER_MS);
	dlist_iter	iter;

	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn->ncommits_asked == 0)
			continue;
		while (!shard_connection_settle(conn))
			if (!shard_connection_wait_input(conn, deadline, false))
				break;
	}
}

/* Finds out how far a standby must be to show what this session has committed; false when that cannot be known. */
static bool
find_own_position(ReadNode *node)
{
	ShardPosition *position = node->position;

	if (position->nknown < position->ncommits)
		take_owed_answers(node->primary);
	return position->nknown >= position->ncommits || ask_for_position(node);
}

/* ---------- a standby ---------- */

static bool
has_committed(const ShardPool *pool, const ReadNeed *need)
{
	return shard_position_is_reached(&need->committed, pool->timeline, pool->replayed);
}

static bool
suffices(const ShardPool *pool, const ReadNeed *need)
{
	return pool->proved_at != 0 && has_committed(pool, need) && pool->as_of >= need->as_of;
}

/* The same, found out lately, and over connections that are there still. */
static bool
is_known_to_suffice(ShardPool *pool, const ReadNeed *need)
{
	return !pool->look_again && suffices(pool, need) && pool->as_of >= need->placed &&
		!TimestampDifferenceExceeds(pool->proved_at, GetCurrentTimestamp(), LOOK_AGAIN_MS) && has_connection(pool);
}

/* What a standby has said of itself. */
typedef struct StandbySays
{
	TimestampTz asked_at;
	XLogRecPtr	replayed;
	TimestampTz last_commit;	/* 0: none */
	TimeLineID	timeline;		/* 0: not known */
} StandbySays;

static void
note_proof(ShardPool *pool, const ShardPosition *position, ShardConn *conn, const StandbySays *says)
{
	if (!shard_pool_is_proved(pool, conn))
	{
		pool->server = conn->server;
		pool->replayed = InvalidXLogRecPtr;
		pool->timeline = 0;
		pool->as_of = 0;
	}
	conn->replayed = says->replayed;
	pool->replayed = Max(pool->replayed, says->replayed);
	pool->timeline = Max(pool->timeline, says->timeline);
	pool->as_of = Max(pool->as_of, says->last_commit);
	if (position->asked_at != 0 && shard_position_is_reached(&position->end, pool->timeline, pool->replayed))
		pool->as_of = Max(pool->as_of, position->asked_at);
	pool->proved_at = says->asked_at;
	pool->look_again = false;
	conn->replayed_at = says->asked_at;
}

/*
 * Asks the standby of pool how far it is.  False: it is away, or none of this node, and *reason
 * says why (it is NULL before).
 */
static bool
look_at_standby(ReadNode *node, ShardPool *pool, char **reason)
{
	StandbySays says = {GetCurrentTimestamp()};
	PGresult   *answer = NULL;
	ShardConn  *conn;
	double		age;

	if (!try_asking(pool, ask_standby, &answer, &conn, reason))
		return false;
	if (strcmp(PQgetvalue(answer, 0, 0), "t") != 0 || !shard_position_parse_lsn(PQgetvalue(answer, 0, 1), &says.replayed))
		*reason = pstrdup(_("It has been promoted."));
	else if (node->system_identifier != 0 && conn->server.system_identifier != 0 &&
			 conn->server.system_identifier != node->system_identifier)
		*reason = pstrdup(_("It is a standby of another server."));
	else
	{
		age = PQgetisnull(answer, 0, 2) ? INFINITY : Max(strtod(PQgetvalue(answer, 0, 2), NULL), 0);
		if (age < (double) says.asked_at / USECS_PER_SEC)
			says.last_commit = says.asked_at - (TimestampTz) (age * USECS_PER_SEC);
		says.timeline = strtoul(PQgetvalue(answer, 0, 3), NULL, 10);
		note_proof(pool, node->position, conn, &says);
	}
	PQclear(answer);
	if (*reason != NULL)
		conn->invalidated = true;
	return *reason == NULL;
}

static char *
say_lag(const ShardPool *pool, const ReadNeed *need)
{
	if (pool->timeline < need->committed.timeline)
		return psprintf(_("It is not known to be on timeline %u, as the primary."), need->committed.timeline);
	if (!has_committed(pool, need))
		return psprintf(_("It has not replayed what this session has committed: it is at %X/%X, not at %X/%X."),
						LSN_FORMAT_ARGS(pool->replayed), LSN_FORMAT_ARGS(need->committed.lsn));
	if (pool->as_of == 0)
		return pstrdup(_("It is not known how old its data is."));
	return psprintf(_("Its data may be %ld ms old, and shardfdw.max_standby_lag is %d ms."),
					TimestampDifferenceMilliseconds(pool->as_of, GetCurrentTimestamp()), shard_guc_max_standby_lag_ms);
}

/*
 * Waits until the standby has what is needed; false, with *reason, when it does not in time, or is
 * away.
 */
static bool
await_standby(ReadNode *node, ShardPool *pool, const ReadNeed *need, char **reason)
{
	int			catch_up_ms = Max(CATCH_UP_MS, Min(shard_guc_max_standby_lag_ms, MAX_CATCH_UP_MS));
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), catch_up_ms);
	long		pause_ms = FIRST_PAUSE_MS;
	bool		asked = false;	/* the primary */

	if (is_known_to_suffice(pool, need))
		return true;
	for (;;)
	{
		if (!look_at_standby(node, pool, reason))
			return false;
		if (suffices(pool, need) && pool->as_of >= need->placed)
			return true;
		if (!asked && has_committed(pool, need))
		{
			asked = true;
			if (ask_for_position(node))
				continue;
			/* nobody can say whether it has the shards that were placed last */
			if (suffices(pool, need))
				return true;
		}
		if (GetCurrentTimestamp() >= deadline)
			break;
		shard_wait_pause(pause_ms, false);
		pause_ms = Min(pause_ms * 2, MAX_PAUSE_MS);
	}
	/* that it has the shards which were placed last is waited for, but only once */
	if (suffices(pool, need))
	{
		memory_of(node)->placed = need->placed;
		return true;
	}
	*reason = say_lag(pool, need);
	return false;
}

/* Finds a standby of the node that may be read, and returns its number, 1-based.  0: there is none; reasons gets a line for each. */
static uint32
choose_standby(ReadNode *node, const ReadNeed *need, StringInfo reasons)
{
	ReadMemory *memory = memory_of(node);

	for (int i = 0; i < node->nstandbys; i++)
	{
		uint32		number = memory->standby % node->nstandbys + 1;
		char	   *reason = NULL;

		if (await_standby(node, shard_pool_get_standby(node->serverid, node->userid, number), need, &reason))
			return number;
		appendStringInfo(reasons, _("\nStandby %u: %s"), number, reason);
		memory->standby = number;	/* the next one, as it counts from 0 */
	}
	return 0;
}

/* ---------- choosing ---------- */

/* May the transaction read standbys at all? */
static bool
may_read_standbys(const ShardSnapshot *snapshot)
{
	return shard_guc_read_from != SHARD_READ_PRIMARY && nwriting == 0 && !snapshot->cut && !IsolationIsSerializable() &&
		(!IsolationUsesXactSnapshot() || XactReadOnly) && !shard_committed_in_doubt() &&
		shard_txn_writers == NIL && !TransactionIdIsValid(GetTopTransactionIdIfAny());
}

static TimestampTz
oldest_allowed(void)
{
	return shard_guc_max_standby_lag_ms < 0 ? DT_NOBEGIN :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), -(int64) shard_guc_max_standby_lag_ms);
}

/* Finds a standby that has what is needed.  0: there is none; reasons says why. */
static uint32
find_standby(ReadNode *node, StringInfo reasons)
{
	ReadNeed	need;

	if (!find_own_position(node))
	{
		appendStringInfoString(reasons, _("\nIt is not known how far a standby has to be to have what this session has committed."));
		return 0;
	}
	need.committed = node->position->committed;
	need.as_of = oldest_allowed();
	need.placed = node->primary_lost || placed_at <= memory_of(node)->placed ? 0 : placed_at;
	return choose_standby(node, &need, reasons);
}

/* The number of the standby to read; 0: the primary. */
static uint32
choose_server(ReadNode *node)
{
	const char *name = GetForeignServer(node->serverid)->servername;
	StringInfoData reasons;
	uint32		number;

	note_identifier(node);
	take_known_end(node);
	if (shard_guc_read_from == SHARD_READ_ANY && primary_answers(node))
		return 0;
	/* which server the standbys have to be of, and how far that is, is asked once at least */
	if (node->system_identifier == 0 || node->position->asked_at == 0)
		(void) ask_for_position(node);
	initStringInfo(&reasons);
	if ((number = find_standby(node, &reasons)) > 0)
		return number;
	/* what others have said may be about a server that was there before */
	if (node->is_hearsay && ask_for_position(node))
	{
		resetStringInfo(&reasons);
		if ((number = find_standby(node, &reasons)) > 0)
			return number;
	}
	if (node->primary_skipped)
	{
		memory_of(node)->retry_at = 0;
		node->primary_lost = node->primary_skipped = false;
		if (shard_guc_read_from == SHARD_READ_ANY)
		{
			if (primary_answers(node))
				return 0;
		}
		else if (ask_for_position(node))
		{
			resetStringInfo(&reasons);
			if ((number = find_standby(node, &reasons)) > 0)
				return number;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 node->primary_lost ?
			 errmsg("neither the primary nor a standby of node \"%s\" can be read", name) :
			 errmsg("no standby of node \"%s\" can be read", name),
			 node->primary_lost ?
			 errdetail("Primary: %s%s", node->primary_reason, reasons.data) :
			 errdetail_internal("%s", reasons.data + 1)));
}

/* NULL: the node lists no standbys. */
static ReadNode *
make_node(Oid serverid, Oid userid)
{
	int			nstandbys = shard_connection_count_standbys(serverid);
	ReadNode   *node;

	if (nstandbys == 0)
		return NULL;
	node = palloc0(sizeof(ReadNode));
	node->serverid = serverid;
	node->userid = userid;
	node->nstandbys = nstandbys;
	node->primary = shard_pool_get(serverid, userid);
	node->position = shard_position_get(serverid);
	return node;
}

/* Begins to connect to the server of node that will be asked first, if it is not connected to. */
static void
warm(const ReadNode *node)
{
	MemoryContext cxt = CurrentMemoryContext;
	ReadMemory *memory = memory_of(node);
	bool		primary = shard_guc_read_from == SHARD_READ_ANY && GetCurrentTimestamp() >= memory->retry_at;

	PG_TRY();
	{
		shard_pool_warm(primary ? node->primary :
						shard_pool_get_standby(node->serverid, node->userid, memory->standby % node->nstandbys + 1));
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		if (!means_lost(error) || QueryCancelPending || ProcDiePending)
			PG_RE_THROW();
		FlushErrorState();		/* it will be met again when the server is asked */
	}
	PG_END_TRY();
}

void
shard_read_role_choose(ShardSnapshot *snapshot, List *serverids, Oid userid)
{
	List	   *nodes = NIL;
	ListCell   *lc;

	if (!may_read_standbys(snapshot))
		return;
	foreach(lc, serverids)
	{
		ShardNodeSnapshot *seen = shard_snapshot_node(snapshot, lfirst_oid(lc), userid);
		ReadNode   *node;

		/* what has begun to read the primary goes on */
		if (!seen->role_chosen && seen->state == SHARD_SNAPSHOT_NONE && !seen->shown &&
			(node = make_node(lfirst_oid(lc), userid)) != NULL)
			nodes = lappend(nodes, node);
		seen->role_chosen = true;
	}
	if (list_length(nodes) > 1)
		foreach(lc, nodes)
			warm(lfirst(lc));
	foreach(lc, nodes)
	{
		ReadNode   *node = lfirst(lc);
		uint32		standby = choose_server(node);

		shard_snapshot_node(snapshot, node->serverid, userid)->standby = standby;
	}
}

void
shard_read_role_run_writing(void (*run) (void *arg), void *arg)
{
	int			before = nwriting++;

	PG_TRY();
	{
		run(arg);
	}
	PG_FINALLY();
	{
		nwriting = before;
	}
	PG_END_TRY();
}

/* Foreign tables were made or moved. */
static void
note_placement(Datum arg, SysCacheIdentifier cacheid, uint32 hashvalue)
{
	placed_at = GetCurrentTimestamp();
}

/* Servers were changed: they may lead to others. */
static void
note_servers(Datum arg, SysCacheIdentifier cacheid, uint32 hashvalue)
{
	servers_changed_at = GetCurrentTimestamp();
	shard_position_forget_ends();
}

void
shard_read_role_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, note_servers, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNTABLEREL, note_placement, (Datum) 0);
}
