/*
 * connection_position.c
 *	  Whether a node that was connected to has what was committed there (node_position.h).
 */
#include "postgres.h"

#include "remote/wire/connection_private.h"
#include "remote/wire/node_stat.h"
#include "utils/builtins.h"

void
shard_connection_check_position(ShardConn *conn)
{
	const ShardNodePosition *needed = &conn->opening.position;
	const ShardConnServer *server = &conn->server;
	bool		is_other;

	if (!conn->opening.has_position || conn->stateless)
		return;
	is_other = (server->system_identifier != 0 && needed->system_identifier != 0 && server->system_identifier != needed->system_identifier) ||
		(OidIsValid(conn->database) && OidIsValid(needed->database) && conn->database != needed->database);
	if (!is_other && (server->timeline == 0 || server->timeline == needed->timeline) && conn->began_at >= needed->lsn)
		return;
	conn->state = SHARD_CONN_BROKEN;
	shard_node_stat_add(conn->stat_node, SHARD_NODE_CONNECT_FAILURES, 1);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("node \"%s\" is not known to have all that was committed there", conn->node),
			 is_other ? errdetail("It is another server or database than before.") :
			 errdetail("Transactions have committed there up to WAL position %X/%X of timeline %u; the node is at %X/%X of timeline %u.",
					   LSN_FORMAT_ARGS(needed->lsn), needed->timeline, LSN_FORMAT_ARGS(conn->began_at), server->timeline),
			 errhint("SELECT shardfdw.disable_node(%1$s) and then SELECT shardfdw.enable_node(%1$s) make its copies of shards again; if it lacks nothing, run SELECT shardfdw.confirm_node(%1$s).",
					 quote_literal_cstr(conn->node))));
}
