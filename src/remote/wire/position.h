/*
 * position.h
 *	  How far in a node's WAL lies what this session has committed there.
 *
 * A standby that has replayed so far shows it.  remote/xact/committed.c asks for the
 * position.
 */
#ifndef SHARDFDW_POSITION_H
#define SHARDFDW_POSITION_H

#include "postgres.h"

#include "remote/wire/connection.h"

/* One node's, for all users whose mappings the session uses.  Lives as long as the backend. */
typedef struct ShardPosition
{
	Oid			serverid;		/* hash key */
	uint64		ncommits;		/* of this session on the node */
	uint64		nknown;			/* how many of them position covers; ncommits: all */
	XLogRecPtr	position;
	TimestampTz asked_at;		/* when the primary was last asked for its position; 0: never */
	XLogRecPtr	end;			/* that position */
} ShardPosition;

/* The entry of a node; find: NULL when no connection to it was opened yet, and needs no memory. */
extern ShardPosition *shard_position_get(Oid serverid);
extern ShardPosition *shard_position_find(Oid serverid);

/* Asks a primary for its position; a standby answers NULL. */
#define SHARD_POSITION_SQL \
	"SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.pg_current_wal_insert_lsn() END"

/* text: as pg_lsn is written.  False when it is no such thing. */
extern bool shard_position_parse(const char *text, XLogRecPtr *position);

/* The node has said that the first ncommits commits lie before position. */
extern void shard_position_learn(ShardPosition *of_node, uint64 ncommits, XLogRecPtr position);

/* Takes an answer to SHARD_POSITION_SQL, which was sent behind conn->ncommits_asked commits, and frees it. */
extern void shard_position_take(ShardConn *conn, PGresult *res);

#endif
