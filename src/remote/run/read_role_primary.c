/*
 * read_role_primary.c
 *	  Checks whether the primary of a node can be read, and asks for its WAL position.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "remote/run/read_role.h"
#include "remote/run/read_role_private.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/node_stat.h"
#include "utils/timestamp.h"

#define RETRY_PRIMARY_MS 5000	/* time until the next attempt at a primary that could not be connected to */
#define ASK_PRIMARY_MS 5000		/* how often a primary that is read is asked for its position */

void
shard_read_note_identifier(ShardReadNode *node)
{
	shard_pool_foreach(conn, node->primary)
	{
		if (conn->state == SHARD_CONN_READY && conn->server.system_identifier != 0)
			node->system_identifier = conn->server.system_identifier;
	}
}

/*
 * Sends sql, which returns one column, to the primary; NULL: only connects.  False if the primary
 * is unavailable.  Then it is not tried again for some seconds, since that may take up to
 * connect_timeout.
 */
static bool
ask_primary(ShardReadNode *node, const char *sql, PGresult **answer)
{
	ShardPool  *primary = node->primary;
	ShardConn  *conn;

	if (GetCurrentTimestamp() < primary->retry_at)
	{
		node->primary_reason = pstrdup(_("It could not be read a moment ago."));
		node->primary_state = SHARD_READ_SKIPPED;
	}
	else if (shard_read_ask(primary, sql, 1, answer, &conn, &node->primary_reason))
	{
		primary->retry_at = 0;
		shard_read_note_identifier(node);
		node->primary_state = SHARD_READ_ANSWERS;
	}
	else
	{
		primary->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RETRY_PRIMARY_MS);
		ereport(LOG,
				(errmsg("could not read the primary of node \"%s\"", GetForeignServer(node->serverid)->servername),
				 errdetail_internal("%s", node->primary_reason)));
		node->primary_state = SHARD_READ_LOST;
	}
	return node->primary_state == SHARD_READ_ANSWERS;
}

bool
shard_read_ask_position(ShardReadNode *node)
{
	ShardPosition *position = node->position;
	TimestampTz asked_at = GetCurrentTimestamp();
	uint64		ncommits = position->ncommits;
	PGresult   *answer = NULL;
	bool		known;

	if (shard_read_primary_is_lost(node) || !ask_primary(node, SHARD_POSITION_SQL, &answer))
		return false;
	node->primary->asked_at = asked_at;
	known = shard_position_learn(position, answer, ncommits, asked_at);
	if (known && node->system_identifier != 0)
	{
		ShardNodeEnd end = {asked_at, node->system_identifier, position->end.timeline, position->end.lsn};

		shard_node_stat_note_end(position->stat_node, node->serverid, &end);
	}
	return known;
}

/* A commit flushes all WAL before it.  It does not wait for standbys, since these may be the ones that lag. */
#define FLUSH_SQL \
	"SELECT pg_catalog.set_config('synchronous_commit', 'local', true)," \
	" CASE WHEN pg_catalog.pg_current_wal_insert_lsn() OPERATOR(pg_catalog.>) pg_catalog.pg_current_wal_flush_lsn()" \
	" THEN pg_catalog.pg_logical_emit_message(true, 'shardfdw_flush', '') END"

void
shard_read_flush(ShardReadNode *node)
{
	if (!shard_read_primary_is_lost(node))
		shard_read_try(node->primary, FLUSH_SQL);
}

void
shard_read_take_known_end(ShardReadNode *node, TimestampTz servers_changed_at)
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

bool
shard_read_primary_answers(ShardReadNode *node)
{
	PGresult   *none;

	if (!TimestampDifferenceExceeds(Max(node->position->asked_at, node->primary->asked_at), GetCurrentTimestamp(), ASK_PRIMARY_MS))
		return shard_read_has_connection(node->primary) || ask_primary(node, NULL, &none);
	return shard_read_ask_position(node) || !shard_read_primary_is_lost(node);
}

bool
shard_read_role_primary_is_there(Oid serverid, Oid userid)
{
	ShardReadNode node = {0};
	PGresult   *none;

	node.serverid = serverid;
	node.userid = userid;
	node.primary = shard_pool_get(serverid, userid);
	return shard_read_has_connection(node.primary) || ask_primary(&node, NULL, &none);
}

/* Reads the outstanding answers of connections to the primary about its position. */
static void
take_owed_answers(ShardPool *pool)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SHARD_READ_ANSWER_MS);

	shard_pool_foreach(conn, pool)
	{
		if (conn->ncommits_asked == 0)
			continue;
		while (!shard_connection_settle(conn))
			if (!shard_connection_wait_input(conn, deadline, false))
				break;
	}
}

bool
shard_read_find_own_position(ShardReadNode *node)
{
	ShardPosition *position = node->position;

	if (position->nknown < position->ncommits)
		take_owed_answers(node->primary);
	return position->nknown >= position->ncommits || shard_read_ask_position(node);
}
