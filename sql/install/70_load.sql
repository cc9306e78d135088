-- Loads in progress.

CREATE FUNCTION shardfdw.load_stats(
	OUT pid int, OUT relation oid, OUT mode text, OUT reason text, OUT started timestamptz, OUT finished timestamptz,
	OUT shard oid, OUT server oid, OUT rows_sent bigint, OUT bytes_sent bigint, OUT bytes_buffered bigint,
	OUT stalled interval, OUT rejected bigint, OUT duplicates bigint, OUT replaced bigint
) RETURNS SETOF record
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'shardfdw_load_stats';
COMMENT ON FUNCTION shardfdw.load_stats() IS
	'Returns what the view stat_load shows, with the OIDs of relations and servers.';

CREATE VIEW shardfdw.stat_load AS
SELECT l.pid, l.relation::pg_catalog.regclass AS relation, l.mode, l.reason, l.started, l.finished,
	s.srvname AS node, l.shard::pg_catalog.regclass AS shard,
	l.rows_sent, l.bytes_sent, l.bytes_buffered, l.stalled, l.rejected, l.duplicates, l.replaced
FROM shardfdw.load_stats() l
LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = l.server;
COMMENT ON VIEW shardfdw.stat_load IS
	'Shows, per shard, the loads into sharded tables that are in progress in this database, and the last one that this session finished: how it reads its input, rows and bytes sent and bytes waiting to be sent, how long rows waited for a node that could not take them, rows rejected, refused as duplicates, and replaced. A line without a shard counts rows that were rejected before their shard was known. Of sessions of other roles only the process id is shown, except to members of pg_read_all_stats.';
GRANT SELECT ON shardfdw.stat_load TO PUBLIC;
