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
	'Lists the loads into sharded tables that are in progress in this database, and the last load that this session finished: one row per shard. A row without a shard counts rows that were rejected before their shard was determined. For sessions of other roles only the process ID is shown, except to members of pg_read_all_stats.';
COMMENT ON COLUMN shardfdw.stat_load.pid IS 'Process ID of the session.';
COMMENT ON COLUMN shardfdw.stat_load.relation IS 'Sharded table.';
COMMENT ON COLUMN shardfdw.stat_load.method IS 'raw: COPY that forwards lines unchanged; parsed: COPY that parses rows on the coordinator; insert: INSERT.';
COMMENT ON COLUMN shardfdw.stat_load.reason IS 'Reason why COPY parses the rows.';
COMMENT ON COLUMN shardfdw.stat_load.started_at IS 'Time when the load began.';
COMMENT ON COLUMN shardfdw.stat_load.ended_at IS 'Time when the load ended. Null if it is in progress.';
COMMENT ON COLUMN shardfdw.stat_load.node IS 'Node. Null in a row without a shard.';
COMMENT ON COLUMN shardfdw.stat_load.shard IS 'Shard. Null in a row for rows whose shard is not known.';
COMMENT ON COLUMN shardfdw.stat_load.rows_sent IS 'Number of rows sent to the node, including rows that the node refuses.';
COMMENT ON COLUMN shardfdw.stat_load.bytes_sent IS 'Bytes sent to the node.';
COMMENT ON COLUMN shardfdw.stat_load.bytes_buffered IS 'Bytes in the session''s memory that are waiting to be sent.';
COMMENT ON COLUMN shardfdw.stat_load.stalled IS 'How long the load has waited because the connection could not accept rows.';
COMMENT ON COLUMN shardfdw.stat_load.rejected IS 'Number of rows set aside by ON_ERROR.';
COMMENT ON COLUMN shardfdw.stat_load.duplicates IS 'Number of rows refused by ON_DUPLICATE.';
COMMENT ON COLUMN shardfdw.stat_load.replaced IS 'Number of rows of the table that new rows replaced.';
GRANT SELECT ON shardfdw.stat_load TO PUBLIC;
