-- Loads in progress.

CREATE FUNCTION shardfdw_internal.load_stats(
	OUT pid int, OUT relation oid, OUT method text, OUT reason text, OUT started_at timestamptz, OUT ended_at timestamptz,
	OUT shard oid, OUT server oid, OUT rows_sent bigint, OUT bytes_sent bigint, OUT bytes_buffered bigint,
	OUT stalled interval, OUT rejected bigint, OUT duplicates bigint, OUT replaced bigint
) RETURNS SETOF record
	LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'shardfdw_load_stats';
COMMENT ON FUNCTION shardfdw_internal.load_stats() IS
	'Returns what the view stat_load shows, with the OIDs of relations and servers.';

CREATE VIEW shardfdw.stat_load AS
SELECT l.pid, l.relation::pg_catalog.regclass AS relation, l.method, l.reason, l.started_at, l.ended_at,
	s.srvname AS node, l.shard::pg_catalog.regclass AS shard,
	l.rows_sent, l.bytes_sent, l.bytes_buffered, l.stalled, l.rejected, l.duplicates, l.replaced
FROM shardfdw_internal.load_stats() l
LEFT JOIN pg_catalog.pg_foreign_server s ON s.oid = l.server;
COMMENT ON VIEW shardfdw.stat_load IS
	'Shows, per shard, the loads into sharded tables that are in progress in this database, and the last one that this session finished: how it reads its input, rows and bytes sent and bytes waiting to be sent, how long rows waited for a node that could not take them, rows rejected, refused as duplicates, and replaced. A line without a shard counts rows that were rejected before their shard was known. Of sessions of other roles only the process id is shown, except to members of pg_read_all_stats.';
COMMENT ON COLUMN shardfdw.stat_load.pid IS 'Process of the session.';
COMMENT ON COLUMN shardfdw.stat_load.relation IS 'Sharded table.';
COMMENT ON COLUMN shardfdw.stat_load.method IS 'raw: COPY that forwards lines as they are; parsed: COPY whose rows are parsed on the coordinator; insert: INSERT.';
COMMENT ON COLUMN shardfdw.stat_load.reason IS 'Why a COPY is parsed.';
COMMENT ON COLUMN shardfdw.stat_load.started_at IS 'When the load began.';
COMMENT ON COLUMN shardfdw.stat_load.ended_at IS 'When it ended; null: it is in progress.';
COMMENT ON COLUMN shardfdw.stat_load.node IS 'Node; null in a row for what belongs to no shard.';
COMMENT ON COLUMN shardfdw.stat_load.shard IS 'Shard; null in a row for what belongs to no shard.';
COMMENT ON COLUMN shardfdw.stat_load.rows_sent IS 'Rows handed to the connection, those that the node refuses included.';
COMMENT ON COLUMN shardfdw.stat_load.bytes_sent IS 'Bytes handed to the connection.';
COMMENT ON COLUMN shardfdw.stat_load.bytes_buffered IS 'Bytes that wait in the session''s memory.';
COMMENT ON COLUMN shardfdw.stat_load.stalled IS 'For how long rows have waited for a connection that could not take them.';
COMMENT ON COLUMN shardfdw.stat_load.rejected IS 'Rows set aside by ON_ERROR.';
COMMENT ON COLUMN shardfdw.stat_load.duplicates IS 'Rows refused by ON_DUPLICATE.';
COMMENT ON COLUMN shardfdw.stat_load.replaced IS 'Rows of the table that new ones have replaced.';
GRANT SELECT ON shardfdw.stat_load TO PUBLIC;
