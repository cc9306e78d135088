/*
 * read_role_standby.c
 *	  Checks whether a standby of a node has what is needed.
 *
 * It has all that was committed before a moment t if one of these is true:
 *
 * 1. It has replayed a commit whose time stamp is t.  A commit gets its time stamp before its
 *	  position in the WAL, and is acknowledged after both.  So commits that were acknowledged before
 *	  t precede it in the WAL. (t is the primary's time, now is the standby's, so their clocks must
 *	  agree.)
 * 2. It has replayed all WAL up to the position that the primary returned at t.
 *
 * What a WAL receiver says about its last message proves nothing: the sender may be a standby
 * itself, or send less than it has.  So while the primary can be read ("any"), sessions ask it for
 * its position from time to time, for later use.  If the library is preloaded, they share the
 * answer.
 *
 * A standby only moves forward.  So the result stays true for that server, but not for others at
 * its address, nor after a crash: shard_pool_is_proved().
 */
#include "postgres.h"

#include <math.h>

#include "guc.h"
#include "remote/run/read_role_private.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/wait.h"
#include "utils/timestamp.h"

#define CATCH_UP_MS 2000		/* minimum time that a statement waits for the standbys of a node; else ... */
#define MAX_CATCH_UP_MS 10000	/* ... the permitted age of their data, with this maximum */
#define FIRST_PAUSE_MS 2		/* before the second query; doubled each time */
#define MAX_PAUSE_MS 100
#define FLUSH_PAUSE_MS 64		/* a pause of this length indicates that the WAL does not arrive */

#define LOOK_AGAIN_MS 1000		/* how long a standby is assumed not to have been promoted */

/*
 * Columns: is it still in recovery; the replayed position; the age in seconds of the last replayed
 * commit; the timeline.  The timeline is at least that of the last restart point.  If the role has
 * the right to read it, it is the timeline of the WAL receiver.
 */
#define REPLAY_SQL \
	"SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_last_wal_replay_lsn()," \
	" pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.pg_last_xact_replay_timestamp())," \
	" GREATEST((SELECT r.received_tli FROM pg_catalog.pg_stat_wal_receiver r), (SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() c))"

/* A standby's answer. */
typedef struct StandbySays
{
	TimestampTz asked_at;
	XLogRecPtr	replayed;
	TimestampTz last_commit;	/* 0: none */
	TimeLineID	timeline;		/* 0: unknown */
} StandbySays;

static bool
has_committed(const ShardPool *pool, const ShardReadNeed *need)
{
	return shard_position_is_reached(&need->committed, pool->timeline, pool->replayed);
}

static bool
suffices(const ShardPool *pool, const ShardReadNeed *need)
{
	return pool->proved_at != 0 && has_committed(pool, need) && pool->as_of >= need->as_of;
}

static bool
has_placed(const ShardPool *pool, const ShardReadNeed *need)
{
	return (need->placed_surely ? pool->surely_as_of : pool->as_of) >= need->placed;
}

/* Is it known, from a recent answer and over connections that still exist, that the standby has everything? */
static bool
is_known_to_suffice(ShardPool *pool, const ShardReadNeed *need)
{
	return !pool->look_again && suffices(pool, need) && has_placed(pool, need) &&
		!TimestampDifferenceExceeds(pool->proved_at, GetCurrentTimestamp(), LOOK_AGAIN_MS) && shard_read_has_connection(pool);
}

static void
note_proof(ShardPool *pool, const ShardPosition *position, ShardConn *conn, const StandbySays *says)
{
	if (!shard_pool_is_proved(pool, conn))
	{
		pool->server = conn->server;
		pool->replayed = InvalidXLogRecPtr;
		pool->timeline = 0;
		pool->as_of = pool->surely_as_of = 0;
	}
	conn->replayed = says->replayed;
	pool->replayed = Max(pool->replayed, says->replayed);
	pool->timeline = Max(pool->timeline, says->timeline);
	/* a standby of a former primary may replay commits that the failover has lost */
	if (pool->timeline >= position->end.timeline)
		pool->as_of = Max(pool->as_of, says->last_commit);
	if (position->asked_at != 0 && shard_position_is_reached(&position->end, pool->timeline, pool->replayed))
		pool->surely_as_of = Max(pool->surely_as_of, position->asked_at);
	pool->as_of = Max(pool->as_of, pool->surely_as_of);
	pool->proved_at = says->asked_at;
	pool->look_again = false;
	conn->replayed_at = says->asked_at;
}

/*
 * Asks the standby of pool for its position.  False: it is unavailable, or not a standby of this
 * node; *reason, NULL before, says why.
 */
static bool
look_at_standby(ShardReadNode *node, ShardPool *pool, char **reason)
{
	StandbySays says = {GetCurrentTimestamp()};
	PGresult   *answer = NULL;
	ShardConn  *conn;
	double		age;

	if (!shard_read_ask(pool, REPLAY_SQL, 4, &answer, &conn, reason))
		return false;
	if (strcmp(PQgetvalue(answer, 0, 0), "t") != 0 || !shard_position_parse_lsn(PQgetvalue(answer, 0, 1), &says.replayed))
		*reason = pstrdup(_("It has been promoted."));
	else if (node->system_identifier != 0 && conn->server.system_identifier != 0 &&
			 conn->server.system_identifier != node->system_identifier)
		*reason = pstrdup(_("It is a standby of another server."));
	else
	{
		age = PQgetisnull(answer, 0, 2) ? INFINITY : Max(strtod(PQgetvalue(answer, 0, 2), NULL), 0);
		/* with a limit of zero, no clocks agree well enough */
		if (shard_guc_max_standby_lag_ms != 0 && age < (double) says.asked_at / USECS_PER_SEC)
			says.last_commit = says.asked_at - (TimestampTz) (age * USECS_PER_SEC);
		says.timeline = strtoul(PQgetvalue(answer, 0, 3), NULL, 10);
		note_proof(pool, node->position, conn, &says);
	}
	if (*reason != NULL)
		conn->invalidated = true;
	return *reason == NULL;
}

static char *
say_lag(const ShardPool *pool, const ShardReadNeed *need)
{
	if (pool->timeline < need->committed.timeline)
		return psprintf(_("It is not known to be on timeline %u, as the primary."), need->committed.timeline);
	if (!has_committed(pool, need))
		return psprintf(_("It has not replayed what this session has committed: it is at %X/%X, not at %X/%X."),
						LSN_FORMAT_ARGS(pool->replayed), LSN_FORMAT_ARGS(need->committed.lsn));
	if (pool->as_of >= need->as_of)
		return pstrdup(_("It is not known to have the shards as they were placed last, with what this session has committed."));
	if (pool->as_of == 0)
		return pstrdup(_("It is not known how old its data is."));
	return psprintf(_("Its data may be %ld ms old, and shardfdw.max_standby_lag is %d ms."),
					TimestampDifferenceMilliseconds(pool->as_of, GetCurrentTimestamp()), shard_guc_max_standby_lag_ms);
}

/*
 * Waits until the standby has what is needed.  False, with *reason, if it does not within the time
 * that is left for the node, or is unavailable.
 */
static bool
await_standby(ShardReadNode *node, ShardPool *pool, const ShardReadNeed *need, char **reason)
{
	long		pause_ms = FIRST_PAUSE_MS;
	bool		asked = false;	/* whether the primary was asked */
	bool		flushed = false;

	if (is_known_to_suffice(pool, need))
		return true;
	if (node->deadline == 0)
		node->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), Max(CATCH_UP_MS, Min(shard_guc_max_standby_lag_ms, MAX_CATCH_UP_MS)));
	for (;;)
	{
		if (!look_at_standby(node, pool, reason))
			return false;
		if (suffices(pool, need) && has_placed(pool, need))
			return true;
		if (!asked && has_committed(pool, need))
		{
			asked = true;
			if (shard_read_ask_position(node))
				continue;
			/* no server can tell whether it has the shards that were placed last */
			if (suffices(pool, need) && !need->placed_surely)
				return true;
		}
		if (GetCurrentTimestamp() >= node->deadline)
			break;
		if (pause_ms >= FLUSH_PAUSE_MS && !flushed)
		{
			flushed = true;
			shard_read_flush(node);
		}
		shard_wait_pause(pause_ms, false);
		pause_ms = Min(pause_ms * 2, MAX_PAUSE_MS);
	}
	/* waits only once for the shards that were placed last */
	if (suffices(pool, need) && !need->placed_surely)
	{
		node->primary->placed = need->placed;
		return true;
	}
	*reason = say_lag(pool, need);
	return false;
}

ShardPool *
shard_read_first_standby(const ShardReadNode *node)
{
	return shard_pool_get_standby(node->serverid, node->userid,
								  node->only_standby > 0 ? node->only_standby : node->primary->first_standby % node->nstandbys + 1);
}

uint32
shard_read_choose_standby(ShardReadNode *node, const ShardReadNeed *need, StringInfo reasons)
{
	int			ntries = node->only_standby > 0 ? 1 : node->nstandbys;

	for (int i = 0; i < ntries; i++)
	{
		ShardPool  *pool = shard_read_first_standby(node);
		char	   *reason = NULL;

		if (await_standby(node, pool, need, &reason))
			return pool->key_standby;
		appendStringInfo(reasons, _("\nStandby %u: %s"), pool->key_standby, reason);
		node->primary->first_standby = pool->key_standby;	/* the next one, since first_standby is 0-based */
	}
	return 0;
}
