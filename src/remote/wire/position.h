/*
 * position.h
 *	  The WAL position on each node that covers all commits of this session there.
 *
 * A standby that has replayed up to this position shows the commits. remote/xact/committed.c asks
 * for the position.
 */
#ifndef SHARDFDW_POSITION_H
#define SHARDFDW_POSITION_H

#include "postgres.h"

#include "remote/wire/connection.h"

/* A position in the WAL. */
typedef struct ShardWalPlace
{
	TimeLineID	timeline;		/* 0: unknown */
	XLogRecPtr	lsn;
} ShardWalPlace;

/* The position of one node, for all users whose mappings the session uses.  Exists as long as the backend. */
typedef struct ShardPosition
{
	Oid			serverid;		/* hash key */
	uint64		ncommits;		/* of this session on the node */
	uint64		nknown;			/* number of commits that precede the position committed; ncommits: all */
	ShardWalPlace committed;
	TimestampTz asked_at;		/* when the primary was last asked for its position; 0: never */
	ShardWalPlace end;			/* the position that it returned */
	int			stat_node;		/* number of shard_node_stat_find(); -1: not searched yet */
} ShardPosition;

/*
 * shard_position_get() returns the entry of a node. find returns NULL if there was no connection to the node yet; it
 * allocates nothing.
 */
extern ShardPosition *shard_position_get(Oid serverid);
extern ShardPosition *shard_position_find(Oid serverid);

/*
 * Asks a primary for its position, timeline and LSN.  A standby answers NULL.  If the next record
 * begins on a page that has nothing yet, the LSN is after the header of that page.  A standby that
 * has replayed the last record is before that header, so the header is subtracted.
 */
#define SHARD_POSITION_SQL \
	"SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN (SELECT pg_catalog.substr(f.file_name, 1, 8) OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||)" \
	" (p.lsn OPERATOR(pg_catalog.-) CASE WHEN f.file_offset OPERATOR(pg_catalog.=) 40 THEN 40" \
	" WHEN f.file_offset OPERATOR(pg_catalog.%) pg_catalog.current_setting('wal_block_size')::pg_catalog.int4 OPERATOR(pg_catalog.=) 24 THEN 24" \
	" ELSE 0 END::pg_catalog.numeric)::pg_catalog.text" \
	" FROM (SELECT pg_catalog.pg_current_wal_insert_lsn() AS lsn) p, LATERAL pg_catalog.pg_walfile_name_offset(p.lsn) f) END"

/* text: as returned by the query above, or a pg_lsn.  False if it is neither. */
extern bool shard_position_parse(const char *text, ShardWalPlace *place);
extern bool shard_position_parse_lsn(const char *text, XLogRecPtr *lsn);

/* Is a server that has replayed up to replayed on timeline certainly past place? */
extern bool shard_position_is_reached(const ShardWalPlace *place, TimeLineID timeline, XLogRecPtr replayed);

/* Forgets the answers of primaries, since addresses may point to other servers now. */
extern void shard_position_forget_ends(void);

/*
 * Processes an answer to SHARD_POSITION_SQL, which was sent at asked_at after ncommits commits.
 * False if it is invalid.
 */
extern bool shard_position_learn(ShardPosition *of_node, const PGresult *res, uint64 ncommits, TimestampTz asked_at);

#endif
