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

/* A place in the WAL. */
typedef struct ShardWalPlace
{
	TimeLineID	timeline;		/* 0: not known */
	XLogRecPtr	lsn;
} ShardWalPlace;

/* One node's, for all users whose mappings the session uses.  Lives as long as the backend. */
typedef struct ShardPosition
{
	Oid			serverid;		/* hash key */
	uint64		ncommits;		/* of this session on the node */
	uint64		nknown;			/* how many of them lie before committed; ncommits: all */
	ShardWalPlace committed;
	TimestampTz asked_at;		/* when the primary was last asked for its position; 0: never */
	ShardWalPlace end;			/* that position */
	int			stat_node;		/* number of shard_node_stat_find(); -1: not looked for */
} ShardPosition;

/* The entry of a node; find: NULL when no connection to it was opened yet, and needs no memory. */
extern ShardPosition *shard_position_get(Oid serverid);
extern ShardPosition *shard_position_find(Oid serverid);

/*
 * Asks a primary for its position: timeline and LSN; a standby answers NULL.  The place of the next record is behind
 * the header of a page that nothing has been written to yet; what has replayed the last record is before that header.
 */
#define SHARD_POSITION_SQL \
	"SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN (SELECT pg_catalog.substr(f.file_name, 1, 8) OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||)" \
	" (p.lsn OPERATOR(pg_catalog.-) CASE WHEN f.file_offset OPERATOR(pg_catalog.=) 40 THEN 40" \
	" WHEN f.file_offset OPERATOR(pg_catalog.%) pg_catalog.current_setting('wal_block_size')::pg_catalog.int4 OPERATOR(pg_catalog.=) 24 THEN 24" \
	" ELSE 0 END::pg_catalog.numeric)::pg_catalog.text" \
	" FROM (SELECT pg_catalog.pg_current_wal_insert_lsn() AS lsn) p, LATERAL pg_catalog.pg_walfile_name_offset(p.lsn) f) END"

/* text: as the query above, or pg_lsn, writes it.  False when it is neither. */
extern bool shard_position_parse(const char *text, ShardWalPlace *place);
extern bool shard_position_parse_lsn(const char *text, XLogRecPtr *lsn);

/* Is what has replayed up to there, on that timeline, surely behind place? */
extern bool shard_position_is_reached(const ShardWalPlace *place, TimeLineID timeline, XLogRecPtr replayed);

/* What primaries were asked for counts for nothing any more: servers may lead elsewhere. */
extern void shard_position_forget_ends(void);

/* Takes an answer to SHARD_POSITION_SQL, sent at asked_at behind ncommits commits; false when it is none. */
extern bool shard_position_learn(ShardPosition *of_node, const PGresult *res, uint64 ncommits, TimestampTz asked_at);

#endif
