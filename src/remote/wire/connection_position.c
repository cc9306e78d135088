/*
 * connection_position.c
 *	  Checks whether a node that was just connected to has all that was committed there
 *	  (node_position.h).
 */
#include "postgres.h"

#include "remote/wire/connection_private.h"
#include "remote/wire/node_stat.h"
#include "utils/builtins.h"

static bool
is_other(const ShardConn *conn, const ShardNodePosition *needed)
{
	int64		system_identifier = conn->server.system_identifier;

	return (system_identifier != 0 && needed->system_identifier != 0 && system_identifier != needed->system_identifier) ||
		(OidIsValid(conn->database) && OidIsValid(needed->database) && conn->database != needed->database);
}

static bool
is_reached(const ShardConn *conn, ShardPositionKind kind)
{
	const ShardNodePosition *needed = &conn->opening.positions[kind];
	TimeLineID	timeline = conn->server.timeline;

	if (needed->timeline == 0)
		return true;
	if (timeline != 0 && (kind == SHARD_POSITION_REPLICAS ? timeline != needed->timeline : timeline < needed->timeline))
		return false;
	return conn->began_at >= needed->lsn && !is_other(conn, needed);
}

void
shard_connection_check_position(ShardConn *conn)
{
	const ShardNodePosition *needed;
	bool		has_replicas = !is_reached(conn, SHARD_POSITION_REPLICAS);

	if (conn->stateless || (!has_replicas && is_reached(conn, SHARD_POSITION_REFERENCES)))
		return;
	needed = &conn->opening.positions[has_replicas ? SHARD_POSITION_REPLICAS : SHARD_POSITION_REFERENCES];
	for (ShardPositionKind kind = 0; kind < SHARD_POSITION_KINDS; kind++)
	{
		const ShardNodePosition *position = &conn->opening.positions[kind];

		if (position->timeline != 0 && conn->began_at < position->lsn && !is_other(conn, position))
			shard_node_position_note_refusal(conn->node, kind, position);
	}
	conn->state = SHARD_CONN_BROKEN;
	shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECT_FAILURES, 1);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("node \"%s\" is not known to have all that was committed there", conn->node),
			 is_other(conn, needed) ? errdetail("It is another server or database than before.") :
			 needed->lsn == SHARD_POSITION_NOT_REACHED ? errdetail("It was not as far as transactions have committed there, and has gone on since.") :
			 errdetail("Transactions have committed there up to WAL position %X/%X of timeline %u; the node is at %X/%X of timeline %u.",
					   LSN_FORMAT_ARGS(needed->lsn), needed->timeline, LSN_FORMAT_ARGS(conn->began_at), conn->server.timeline),
			 has_replicas ?
			 errhint("SELECT shardfdw.disable_node(%1$s) and then SELECT shardfdw.enable_node(%1$s) make its replicas of shards again; if it lacks nothing, run SELECT shardfdw.confirm_node(%1$s).",
					 quote_literal_cstr(conn->node)) :
			 errhint("SELECT shardfdw.enable_node(%1$s) makes those of its replicas of reference tables again that differ; if it lacks nothing, run SELECT shardfdw.confirm_node(%1$s).",
					 quote_literal_cstr(conn->node))));
}
