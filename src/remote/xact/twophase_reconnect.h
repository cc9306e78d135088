/*
 * twophase_reconnect.h
 *	  One more attempt to settle what a lost connection has prepared.
 */
#ifndef SHARDFDW_TWOPHASE_RECONNECT_H
#define SHARDFDW_TWOPHASE_RECONNECT_H

#include "postgres.h"

#include "remote/wire/connection.h"

/*
 * Runs sql (COMMIT or ROLLBACK PREPARED) over a new connection in place of conn's
 * lost one; true when the node did it.  When the node does not know the prepared
 * transaction, and is still the same server, a commit that was sent over the lost
 * connection (was_sent) was carried out.  A rollback was not: PREPARE may still be
 * under way there.  Never raises.
 */
extern bool shard_twophase_settle_over_new_connection(ShardConn *conn, const char *sql, bool was_sent,
													  TimestampTz deadline);

#endif
