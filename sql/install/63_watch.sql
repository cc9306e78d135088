-- Monitoring of the coordinator and all nodes: views that query each node once.

CREATE FUNCTION shardfdw_internal.watch(command text, here boolean)
	RETURNS TABLE (node name, says jsonb, message text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	nodes CONSTANT name[] := shardfdw_internal.granted_nodes();
BEGIN
	IF here THEN
		RETURN QUERY EXECUTE format('SELECT NULL::name, x.says, NULL::text FROM (%s) x(says)', command);
	END IF;
	RETURN QUERY
	SELECT q.node, (q.fields)[1]::jsonb, CASE WHEN NOT q.ok THEN concat_ws(': ', q.message, q.detail) END
	FROM shardfdw_internal.run_commands(nodes, array_fill(command, ARRAY[cardinality(nodes)]), 'watch', false) q
	WHERE q.fields IS NOT NULL OR NOT q.ok;
	-- a node without an answer must differ from a node without rows
	RETURN QUERY SELECT n.node, NULL::jsonb, format('permission denied for foreign server %s', n.node)
	FROM shardfdw.nodes n WHERE NOT has_server_privilege(n.node, 'USAGE');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.watch(text, boolean) IS
	'Runs a query whose one column is a JSON object on all nodes of the cluster and, if here, on the coordinator (node is null). Returns a row for each of its rows, and one with the error message for a node that fails or has not answered within shardfdw.watch_timeout.';

-- Nodes identify sessions of the coordinator by their application_name.
CREATE FUNCTION shardfdw_internal.session_sql(application_name text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($q$substring(%s FROM '^shardfdw:%s:([0-9]{1,9})$')::integer$q$, application_name, s.system_identifier) FROM pg_control_system() s
$$;
COMMENT ON FUNCTION shardfdw_internal.session_sql(text) IS
	'Writes an expression, for a query on a node, for the process of this server to which an application_name (an expression) belongs. Returns its text.';

-- ---------- sessions ----------

CREATE VIEW shardfdw.activity AS
	SELECT x.pid, s.usename AS role, s.application_name, s.query, w.node, x.node_pid, x.node_user, x.state, x.wait_event_type, x.wait_event, x.xact_age, x.state_age, x.node_query, w.message
	FROM shardfdw_internal.watch(pg_catalog.format($query$SELECT to_jsonb(x) FROM (
		SELECT %s AS pid, a.pid AS node_pid, a.usename AS node_user, a.state, a.wait_event_type, a.wait_event,
			clock_timestamp() - a.xact_start AS xact_age, clock_timestamp() - a.state_change AS state_age,
			-- without the settings and the BEGIN that precede the first statement of a transaction
			regexp_replace(a.query, '^(SET (LOCAL )?[A-Za-z_.]+ (=|TO) (''[^'']*''|[^'';]*); ?|BEGIN[^;]*; ?)+(?=.)', '') AS node_query
		FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()) x WHERE x.pid IS NOT NULL$query$,
		shardfdw_internal.session_sql('a.application_name')), false) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(pid integer, node_pid integer, node_user name, state text, wait_event_type text, wait_event text,
		xact_age interval, state_age interval, node_query text) ON true
	LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = x.pid;
COMMENT ON VIEW shardfdw.activity IS
	'Lists what sessions of this coordinator do on the nodes: one row per connection, including idle connections. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has one row with a message. Statements and states of other roles are shown only to members of pg_read_all_stats, here and on the node. Sessions that set another application_name for nodes cannot be recognized there.';
COMMENT ON COLUMN shardfdw.activity.pid IS 'Process ID of the session on the coordinator.';
COMMENT ON COLUMN shardfdw.activity.role IS 'Role of the session. Null if the session has ended.';
COMMENT ON COLUMN shardfdw.activity.application_name IS 'application_name of the session on the coordinator.';
COMMENT ON COLUMN shardfdw.activity.query IS 'Statement of the session on the coordinator; if the session is idle, its last statement.';
COMMENT ON COLUMN shardfdw.activity.node IS 'Node of the connection.';
COMMENT ON COLUMN shardfdw.activity.node_pid IS 'Process ID of the connection on the node.';
COMMENT ON COLUMN shardfdw.activity.node_user IS 'Role of the connection on the node.';
COMMENT ON COLUMN shardfdw.activity.state IS 'State of the connection, as in pg_stat_activity on the node.';
COMMENT ON COLUMN shardfdw.activity.wait_event_type IS 'Type of the wait event of the process on the node, as in pg_stat_activity there.';
COMMENT ON COLUMN shardfdw.activity.wait_event IS 'Wait event of the process on the node, as in pg_stat_activity there.';
COMMENT ON COLUMN shardfdw.activity.xact_age IS 'How long the transaction on the node has been open. Null if there is none.';
COMMENT ON COLUMN shardfdw.activity.state_age IS 'How long the connection has been in its state.';
COMMENT ON COLUMN shardfdw.activity.node_query IS 'Statement of the connection on the node; if the connection is idle, its last statement.';
COMMENT ON COLUMN shardfdw.activity.message IS 'Reason why the node did not answer. Null if it answered.';
GRANT SELECT ON shardfdw.activity TO PUBLIC;

-- ---------- locks ----------

CREATE VIEW shardfdw.lock_waits AS
	WITH waits AS MATERIALIZED (
		SELECT w.node, w.message, x.pid AS there, CASE WHEN w.node IS NOT NULL THEN x.pid END AS node_pid,
			CASE WHEN w.node IS NULL THEN x.pid ELSE x.session END AS session, x.query,
			x.blocking_pid AS blocking_there, CASE WHEN w.node IS NOT NULL THEN x.blocking_pid END AS blocking_node_pid,
			CASE WHEN w.node IS NULL THEN nullif(x.blocking_pid, 0) ELSE x.blocking_session END AS blocking_session,
			x.blocking_query, x.blocking_state, x.blocking_gid, x.locktype, x.mode, x.relation, x.waiting
		FROM shardfdw_internal.watch(pg_catalog.format($query$
WITH w AS MATERIALIZED (
	SELECT DISTINCT ON (l.pid) l.* FROM pg_locks l WHERE NOT l.granted AND l.pid IS NOT NULL ORDER BY l.pid, l.waitstart
), a AS MATERIALIZED (
	SELECT a.pid, a.datname, CASE WHEN a.datname = current_database() THEN a.query END AS query, a.state, %s AS session FROM pg_stat_activity a
)
SELECT to_jsonb(x) FROM (
	SELECT w.pid, wa.session, wa.query, b.pid AS blocking_pid, ba.session AS blocking_session, ba.query AS blocking_query, ba.state AS blocking_state,
		CASE WHEN b.pid = 0 THEN (
			-- A prepared transaction holds the lock that is waited for, and the lock of its transaction ID.
			SELECT string_agg(p.gid, ', ' ORDER BY p.gid) FROM pg_prepared_xacts p WHERE p.transaction = w.transactionid OR w.transactionid IS NULL AND EXISTS (
				SELECT FROM pg_locks o JOIN pg_locks h ON h.virtualtransaction = o.virtualtransaction AND h.pid IS NULL AND h.granted
				WHERE o.locktype = 'transactionid' AND o.transactionid = p.transaction AND o.pid IS NULL
					AND (h.locktype, h.database, h.relation, h.classid, h.objid, h.objsubid) IS NOT DISTINCT FROM (w.locktype, w.database, w.relation, w.classid, w.objid, w.objsubid)))
			END AS blocking_gid,
		-- A session that waits for the last writer of a row has locked the row for that time.
		(SELECT c.oid::regclass::text FROM pg_class c WHERE w.database IS NOT DISTINCT FROM d.oid AND c.oid = w.relation
			OR w.locktype = 'transactionid' AND c.oid = (SELECT t.relation FROM pg_locks t WHERE t.pid = w.pid AND t.locktype = 'tuple' AND t.granted AND t.database = d.oid LIMIT 1)) AS relation,
		w.locktype, w.mode, clock_timestamp() - w.waitstart AS waiting
	FROM w JOIN a wa ON wa.pid = w.pid AND wa.datname = current_database()
	CROSS JOIN pg_database d
	CROSS JOIN LATERAL (SELECT DISTINCT u.pid FROM unnest(pg_blocking_pids(w.pid)) u(pid)) b
	LEFT JOIN a ba ON ba.pid = b.pid
	WHERE d.datname = current_database()) x$query$,
		shardfdw_internal.session_sql('a.application_name')), true) w
		LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(pid integer, session integer, query text, blocking_pid integer, blocking_session integer,
			blocking_query text, blocking_state text, blocking_gid text, locktype text, mode text, relation text, waiting interval) ON true
	)
	SELECT w.node, w.session AS pid, w.node_pid, coalesce(s.query, w.query) AS query, w.blocking_session AS blocking_pid, w.blocking_node_pid, coalesce(b.query, w.blocking_query) AS blocking_query,
		coalesce(b.state, w.blocking_state) AS blocking_state, w.blocking_gid,
		CASE WHEN w.there IS NOT NULL THEN EXISTS (SELECT FROM waits o WHERE o.session = w.blocking_session
			OR (o.node, o.there) IS NOT DISTINCT FROM (w.node, w.blocking_there)) END AS blocker_waits,
		w.locktype, w.mode AS lock_mode, w.relation, w.waiting, w.message
	FROM waits w
	LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = w.session
	LEFT JOIN pg_catalog.pg_stat_activity b ON b.pid = w.blocking_session;
COMMENT ON VIEW shardfdw.lock_waits IS
	'Lists which sessions wait for locks of which other sessions in this database, on the coordinator and on the nodes: one row per pair. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has one row with a message. Statements of other roles are shown only to members of pg_read_all_stats, here and on the node.';
COMMENT ON COLUMN shardfdw.lock_waits.node IS 'Node of the lock. Null for the coordinator.';
COMMENT ON COLUMN shardfdw.lock_waits.pid IS 'Process ID on the coordinator of the waiting session. Null if the session does not belong to this coordinator.';
COMMENT ON COLUMN shardfdw.lock_waits.node_pid IS 'Process ID of the waiting session on the node.';
COMMENT ON COLUMN shardfdw.lock_waits.query IS 'Statement of the waiting session on the coordinator, or else of the process on the node.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_pid IS 'Process ID on the coordinator of the blocking session, which holds the lock or is ahead in the queue. Null for a prepared transaction, or if the session does not belong to this coordinator.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_node_pid IS 'Process ID of the blocking session on the node. 0 for a prepared transaction.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_query IS 'Statement of the blocking session; if that session is idle, its last statement.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_state IS 'State of the blocking session. A session that is "idle in transaction" waits for its client.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_gid IS 'Identifiers of the prepared transactions that hold the lock; see prepared_transactions.';
COMMENT ON COLUMN shardfdw.lock_waits.blocker_waits IS 'True if the blocking session waits for a lock too, on any server. Sessions with false are the cause of the waits. Null if the node did not answer.';
COMMENT ON COLUMN shardfdw.lock_waits.locktype IS 'Type of the lock, as in pg_locks. transactionid means a row that another transaction has written.';
COMMENT ON COLUMN shardfdw.lock_waits.lock_mode IS 'Lock mode that the session waits for.';
COMMENT ON COLUMN shardfdw.lock_waits.relation IS 'Table or other relation on that server. Null if not known.';
COMMENT ON COLUMN shardfdw.lock_waits.waiting IS 'How long the session has waited.';
COMMENT ON COLUMN shardfdw.lock_waits.message IS 'Reason why the node did not answer. Null if it answered.';
GRANT SELECT ON shardfdw.lock_waits TO PUBLIC;

-- ---------- transactions ----------

CREATE VIEW shardfdw.long_transactions AS
	SELECT w.node, CASE WHEN w.node IS NULL THEN x.pid ELSE x.session END AS pid, CASE WHEN w.node IS NOT NULL THEN x.pid END AS node_pid, x.role, x.gid, x.age, x.state, coalesce(s.query, x.query) AS query, x.xmin_age, w.message
	FROM shardfdw_internal.watch(pg_catalog.format($query$SELECT to_jsonb(x) FROM (
		SELECT a.pid, %s AS session, a.usename AS role, NULL::text AS gid, clock_timestamp() - a.xact_start AS age, a.state, a.query,
			age(a.backend_xmin) AS xmin_age
		FROM pg_stat_activity a WHERE a.datname = current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
		UNION ALL
		SELECT NULL, NULL, p.owner, p.gid, clock_timestamp() - p.prepared, 'prepared', NULL, age(p.transaction)
		FROM pg_prepared_xacts p WHERE p.database = current_database()) x$query$,
		shardfdw_internal.session_sql('a.application_name')), true) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(pid integer, session integer, role name, gid text, age interval, state text, query text, xmin_age integer) ON true
	LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = x.session AND w.node IS NOT NULL
	ORDER BY x.age DESC NULLS FIRST, w.node, x.pid;
COMMENT ON VIEW shardfdw.long_transactions IS
	'Lists the open transactions of this database on the coordinator and on the nodes, oldest first, including prepared transactions. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has one row with a message, before the others.';
COMMENT ON COLUMN shardfdw.long_transactions.node IS 'Node of the transaction. Null for the coordinator.';
COMMENT ON COLUMN shardfdw.long_transactions.pid IS 'Process ID of the session on the coordinator. Null for a prepared transaction, or if the session does not belong to this coordinator.';
COMMENT ON COLUMN shardfdw.long_transactions.node_pid IS 'Process ID of the session on the node. Null for a prepared transaction.';
COMMENT ON COLUMN shardfdw.long_transactions.role IS 'Role of the transaction on that server.';
COMMENT ON COLUMN shardfdw.long_transactions.gid IS 'Identifier of a prepared transaction; see prepared_transactions.';
COMMENT ON COLUMN shardfdw.long_transactions.age IS 'How long the transaction has been open, or prepared.';
COMMENT ON COLUMN shardfdw.long_transactions.state IS 'State of the process, as in pg_stat_activity, or "prepared".';
COMMENT ON COLUMN shardfdw.long_transactions.query IS 'Statement of the session on the coordinator, or else of the process on the node.';
COMMENT ON COLUMN shardfdw.long_transactions.xmin_age IS 'Age of the transaction''s snapshot or of its transaction ID, in transactions. VACUUM cannot remove rows that were deleted since then. Null if the transaction holds back no rows.';
COMMENT ON COLUMN shardfdw.long_transactions.message IS 'Reason why the node did not answer. Null if it answered.';
GRANT SELECT ON shardfdw.long_transactions TO PUBLIC;

-- ---------- servers ----------

CREATE VIEW shardfdw.node_status AS
	SELECT w.node, w.message IS NULL AS answers, x.version, x.is_standby, x.up, x.connections, x.max_connections, x.of_coordinator,
		x.prepared, x.oldest_prepared, x.size_bytes, x.commits, x.rollbacks, x.deadlocks, x.temp_bytes, w.message
	FROM shardfdw_internal.watch(pg_catalog.format($query$SELECT jsonb_build_object('version', current_setting('server_version'), 'is_standby', pg_is_in_recovery(),
			'up', clock_timestamp() - pg_postmaster_start_time(), 'max_connections', current_setting('max_connections')::integer,
			'connections', (SELECT sum(x.numbackends) FROM pg_stat_database x WHERE x.datid <> 0),
			'of_coordinator', (SELECT count(%s) FROM pg_stat_activity a),
			'prepared', (SELECT count(*) FROM pg_prepared_xacts p WHERE p.database = d.datname),
			'oldest_prepared', (SELECT clock_timestamp() - min(p.prepared) FROM pg_prepared_xacts p WHERE p.database = d.datname),
			'size_bytes', pg_database_size(d.oid), 'commits', s.xact_commit, 'rollbacks', s.xact_rollback, 'deadlocks', s.deadlocks, 'temp_bytes', s.temp_bytes)
		FROM pg_database d LEFT JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datname = current_database()$query$,
		shardfdw_internal.session_sql('a.application_name')), true) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(version text, is_standby boolean, up interval, connections integer, max_connections integer, of_coordinator integer,
		prepared integer, oldest_prepared interval, size_bytes bigint, commits bigint, rollbacks bigint, deadlocks bigint, temp_bytes bigint) ON true;
COMMENT ON VIEW shardfdw.node_status IS
	'Lists the servers of the cluster and their state, including the coordinator (node is null). Counters are those of pg_stat_database. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has a message and no values.';
COMMENT ON COLUMN shardfdw.node_status.node IS 'Node. Null for the coordinator.';
COMMENT ON COLUMN shardfdw.node_status.answers IS 'True if the server answered in time.';
COMMENT ON COLUMN shardfdw.node_status.version IS 'Version of PostgreSQL.';
COMMENT ON COLUMN shardfdw.node_status.is_standby IS 'True if the server is in recovery.';
COMMENT ON COLUMN shardfdw.node_status.up IS 'How long the server has been running.';
COMMENT ON COLUMN shardfdw.node_status.connections IS 'Number of connections to all databases of the server.';
COMMENT ON COLUMN shardfdw.node_status.max_connections IS 'Setting max_connections of the server.';
COMMENT ON COLUMN shardfdw.node_status.of_coordinator IS 'Number of connections from this coordinator''s server.';
COMMENT ON COLUMN shardfdw.node_status.prepared IS 'Number of prepared transactions of the database.';
COMMENT ON COLUMN shardfdw.node_status.oldest_prepared IS 'Age of the oldest prepared transaction. Null if there is none.';
COMMENT ON COLUMN shardfdw.node_status.size_bytes IS 'Size of the database in bytes.';
COMMENT ON COLUMN shardfdw.node_status.commits IS 'Number of committed transactions of the database.';
COMMENT ON COLUMN shardfdw.node_status.rollbacks IS 'Number of rolled back transactions of the database.';
COMMENT ON COLUMN shardfdw.node_status.deadlocks IS 'Number of deadlocks that the server detected in the database.';
COMMENT ON COLUMN shardfdw.node_status.temp_bytes IS 'Bytes written to temporary files.';
COMMENT ON COLUMN shardfdw.node_status.message IS 'Reason why the node did not answer. Null if it answered.';
GRANT SELECT ON shardfdw.node_status TO PUBLIC;

-- ---------- standbys ----------

CREATE VIEW shardfdw.stat_replication AS
	SELECT w.node, x.standby, x.address, x.state, x.sync_state, x.lag_bytes, x.replay_lag, x.reply_age, w.message
	FROM shardfdw_internal.watch($query$SELECT jsonb_build_object('standby', r.application_name, 'address', host(r.client_addr), 'state', r.state, 'sync_state', r.sync_state,
			'lag_bytes', CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END - r.replay_lsn,
			'replay_lag', r.replay_lag, 'reply_age', clock_timestamp() - r.reply_time)
		FROM pg_stat_replication r$query$, true) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(standby text, address text, state text, sync_state text, lag_bytes numeric, replay_lag interval, reply_age interval) ON true;
COMMENT ON VIEW shardfdw.stat_replication IS
	'Lists the standbys of all servers of the cluster and their lag, as in pg_stat_replication on those servers. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has a message and no values. Roles without pg_read_all_stats on the server see no details.';
COMMENT ON COLUMN shardfdw.stat_replication.node IS 'Node that the standby belongs to. Null for the coordinator.';
COMMENT ON COLUMN shardfdw.stat_replication.standby IS 'Name of the standby: application_name of its connection.';
COMMENT ON COLUMN shardfdw.stat_replication.address IS 'IP address of the standby. Null for a connection through a Unix-domain socket.';
COMMENT ON COLUMN shardfdw.stat_replication.state IS 'streaming, catchup, startup, backup or stopping.';
COMMENT ON COLUMN shardfdw.stat_replication.sync_state IS 'sync, quorum, potential or async.';
COMMENT ON COLUMN shardfdw.stat_replication.lag_bytes IS 'Bytes of WAL that the standby has not replayed.';
COMMENT ON COLUMN shardfdw.stat_replication.replay_lag IS 'Time until the last commits were replayed on the standby. Null if there were no recent commits.';
COMMENT ON COLUMN shardfdw.stat_replication.reply_age IS 'Time since the last status message of the standby.';
COMMENT ON COLUMN shardfdw.stat_replication.message IS 'Reason why the node did not answer. Null if it answered.';
GRANT SELECT ON shardfdw.stat_replication TO PUBLIC;

-- ---------- shards ----------

CREATE VIEW shardfdw.stat_shards AS
	WITH told AS MATERIALIZED (
		SELECT w.node, w.message, x.*
		FROM shardfdw_internal.watch($query$SELECT jsonb_build_object('name', jsonb_build_array(s.schemaname, s.relname), 'size_bytes', pg_total_relation_size(s.relid), 'estimated_rows', s.n_live_tup, 'dead_rows', s.n_dead_tup,
			'seq_scans', s.seq_scan, 'index_scans', s.idx_scan, 'rows_read', coalesce(s.seq_tup_read, 0) + coalesce(s.idx_tup_fetch, 0),
			'inserted', s.n_tup_ins, 'updated', s.n_tup_upd, 'deleted', s.n_tup_del,
			'last_vacuum', greatest(s.last_vacuum, s.last_autovacuum), 'last_analyze', greatest(s.last_analyze, s.last_autoanalyze))
		FROM pg_stat_user_tables s$query$, false) w
		LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(name jsonb, size_bytes bigint, estimated_rows bigint, dead_rows bigint, seq_scans bigint, index_scans bigint, rows_read bigint,
			inserted bigint, updated bigint, deleted bigint, last_vacuum timestamptz, last_analyze timestamptz) ON true
	), placed AS (
		SELECT s.relation, s.shard, s.node, pg_catalog.jsonb_build_array(
			coalesce((SELECT o.option_value FROM pg_catalog.pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'schema_name'), n.nspname),
			coalesce((SELECT o.option_value FROM pg_catalog.pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'table_name'), c.relname)) AS name
		FROM shardfdw.shards s JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = s.shard JOIN pg_catalog.pg_class c ON c.oid = s.shard JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	)
	SELECT p.relation, p.shard, p.node, t.size_bytes, t.estimated_rows, t.dead_rows, t.seq_scans, t.index_scans, t.rows_read, t.inserted, t.updated, t.deleted, t.last_vacuum, t.last_analyze, m.message
	FROM placed p
	LEFT JOIN told t ON t.node = p.node AND t.name = p.name
	LEFT JOIN told m ON m.node = p.node AND m.message IS NOT NULL;
COMMENT ON VIEW shardfdw.stat_shards IS
	'Lists the shards with the statistics that their nodes keep about them. Shards of a node that does not answer within shardfdw.watch_timeout, or that the role may not use, have a message and no values.';
COMMENT ON COLUMN shardfdw.stat_shards.relation IS 'Sharded table.';
COMMENT ON COLUMN shardfdw.stat_shards.shard IS 'Foreign table of the shard.';
COMMENT ON COLUMN shardfdw.stat_shards.node IS 'Node of the shard.';
COMMENT ON COLUMN shardfdw.stat_shards.size_bytes IS 'Size of the shard in bytes, with indexes and TOAST.';
COMMENT ON COLUMN shardfdw.stat_shards.estimated_rows IS 'Estimated number of rows.';
COMMENT ON COLUMN shardfdw.stat_shards.dead_rows IS 'Estimated number of rows that VACUUM has not removed yet.';
COMMENT ON COLUMN shardfdw.stat_shards.seq_scans IS 'Number of sequential scans.';
COMMENT ON COLUMN shardfdw.stat_shards.index_scans IS 'Number of index scans.';
COMMENT ON COLUMN shardfdw.stat_shards.rows_read IS 'Number of rows that these scans read.';
COMMENT ON COLUMN shardfdw.stat_shards.inserted IS 'Number of inserted rows.';
COMMENT ON COLUMN shardfdw.stat_shards.updated IS 'Number of updated rows.';
COMMENT ON COLUMN shardfdw.stat_shards.deleted IS 'Number of deleted rows.';
COMMENT ON COLUMN shardfdw.stat_shards.last_vacuum IS 'Time of the last VACUUM, manual or automatic.';
COMMENT ON COLUMN shardfdw.stat_shards.last_analyze IS 'Time of the last ANALYZE, manual or automatic.';
COMMENT ON COLUMN shardfdw.stat_shards.message IS 'Reason why the node did not answer. Null if it answered.';
GRANT SELECT ON shardfdw.stat_shards TO PUBLIC;
