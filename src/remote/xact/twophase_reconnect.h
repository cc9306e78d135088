/*
 * twophase_reconnect.h
 *	  One more attempt to commit or roll back what a lost connection has prepared.
 */
#ifndef SHARDFDW_TWOPHASE_RECONNECT_H
#define SHARDFDW_TWOPHASE_RECONNECT_H

#include "postgres.h"

#include "remote/wire/connection.h"

/*
 * Runs sql (COMMIT or ROLLBACK PREPARED) over a new connection, in place of conn's lost one.  True
 * if the outcome is certain.
 *
 * The node may not have the prepared transaction any more.  If it is still the same server and sql
 * was sent over the lost connection (was_sent), a COMMIT was carried out.  For ROLLBACK this proves
 * nothing: PREPARE may still be running there.  Never raises.
 */
extern bool shard_twophase_settle_over_new_connection(ShardConn *conn, const char *sql, bool was_sent,
													  TimestampTz deadline);

#endif
