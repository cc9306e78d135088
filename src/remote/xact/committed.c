/*
 * committed.c
 *	  Notes this session's commits on nodes.  A standby must have replayed them before the session reads it.
 *
 * After each commit the session asks the node for its WAL position.  The session may need the position later to read
 * standbys, even if the node has been lost by then.  No statement waits for the answer: it is read before the
 * connection is used again, like the answer to the COMMIT of a read transaction.
 */
#include "postgres.h"

#include "guc.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/position.h"
#include "remote/xact/committed.h"

static bool in_doubt = false;
static TimestampTz first_at = 0;

void
shard_committed_note(Oid serverid, ShardConn *conn)
{
	ShardPosition *position = shard_position_find(serverid);

	if (first_at == 0)
		first_at = GetCurrentTimestamp();
	if (!position)
		return;
	position->ncommits++;
	if (shard_guc_read_from == SHARD_READ_PRIMARY || !conn || !conn->has_standbys || conn->standby > 0 ||
		conn->state != SHARD_CONN_READY || conn->end_pending || PQtransactionStatus(conn->pg) != PQTRANS_IDLE)
		return;
	conn->position_asked_at = GetCurrentTimestamp();
	if (shard_broadcast_send(conn, SHARD_POSITION_SQL))
	{
		conn->end_pending = true;
		conn->ncommits_asked = position->ncommits;
	}
}

TimestampTz
shard_committed_first_at(void)
{
	return first_at;
}

void
shard_committed_doubt(Oid serverid)
{
	in_doubt = true;
	shard_node_stat_leave(serverid);
}

bool
shard_committed_in_doubt(void)
{
	return in_doubt;
}
