-- What goes on, on the coordinator and on all nodes: views that ask each node once.

CREATE FUNCTION shardfdw_internal.watch(command text, here boolean)
	RETURNS TABLE (node name, says jsonb, message text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	nodes CONSTANT name[] := shardfdw_internal.trusted_nodes();
BEGIN
	IF here THEN
		RETURN QUERY EXECUTE format('SELECT NULL::name, x.says, NULL::text FROM (%s) x(says)', command);
	END IF;
	RETURN QUERY
	SELECT q.node, (q.fields)[1]::jsonb, CASE WHEN NOT q.ok THEN concat_ws(': ', q.message, q.detail) END
	FROM shardfdw_internal.run_commands(nodes, array_fill(command, ARRAY[cardinality(nodes)]), 'watch', false) q
	WHERE q.fields IS NOT NULL OR NOT q.ok;
	-- no answer is not the same as nothing to be seen
	RETURN QUERY SELECT n.node, NULL::jsonb, format('permission denied for foreign server %s', n.node)
	FROM shardfdw.nodes n WHERE n.in_cluster AND NOT has_server_privilege(n.node, 'USAGE');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.watch(text, boolean) IS
	'Runs a query whose one column is a JSON object on all nodes of the cluster and, if here, on the coordinator (node is null). Returns a row for each of its rows, and one with the error message for a node that fails or has not answered within shardfdw.watch_timeout.';

-- The coordinator's sessions are known to nodes by their application_name.
CREATE FUNCTION shardfdw_internal.session_sql(application_name text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($q$substring(%s FROM '^shardfdw:%s:([0-9]{1,9})$')::integer$q$, application_name, s.system_identifier) FROM pg_control_system() s
$$;
COMMENT ON FUNCTION shardfdw_internal.session_sql(text) IS
	'Writes an expression, for a query on a node, for the process of this server to which an application_name (an expression) belongs. Returns its text.';

-- ---------- sessions ----------

CREATE FUNCTION shardfdw_internal.activity_query() RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($query$SELECT to_jsonb(x) FROM (
		SELECT %s AS pid, a.pid AS node_pid, a.usename AS node_user, a.state, a.wait_event_type, a.wait_event,
			clock_timestamp() - a.xact_start AS xact_age, clock_timestamp() - a.state_change AS state_age,
			-- without the settings and the BEGIN that go before a transaction's first statement
			regexp_replace(a.query, '^(SET (LOCAL )?[A-Za-z_.]+ (=|TO) (''[^'']*''|[^'';]*); ?|BEGIN[^;]*; ?)+(?=.)', '') AS node_query
		FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()) x WHERE x.pid IS NOT NULL$query$,
		shardfdw_internal.session_sql('a.application_name'))
$$;
COMMENT ON FUNCTION shardfdw_internal.activity_query() IS 'Writes the query by which the view activity asks nodes. Returns its text.';

CREATE VIEW shardfdw.activity AS
	SELECT x.pid, s.usename AS role, s.application_name, s.query, w.node, x.node_pid, x.node_user, x.state, x.wait_event_type, x.wait_event, x.xact_age, x.state_age, x.node_query, w.message
	FROM shardfdw_internal.watch(shardfdw_internal.activity_query(), false) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(pid integer, node_pid integer, node_user name, state text, wait_event_type text, wait_event text,
		xact_age interval, state_age interval, node_query text) ON true
	LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = x.pid;
COMMENT ON VIEW shardfdw.activity IS
	'Lists what sessions of this coordinator do on the nodes: a row for each of their connections, idle ones too, and one with a message for each node that does not answer within shardfdw.watch_timeout, or that the role may not use. Statements and states of others are shown to members of pg_read_all_stats, here and on the node. Sessions whose application_name is set for nodes are not known there.';
COMMENT ON COLUMN shardfdw.activity.pid IS 'Process of the session on the coordinator.';
COMMENT ON COLUMN shardfdw.activity.role IS 'Its role; null: the session has ended.';
COMMENT ON COLUMN shardfdw.activity.application_name IS 'Its application_name on the coordinator.';
COMMENT ON COLUMN shardfdw.activity.query IS 'Its statement on the coordinator, the last one if it is idle.';
COMMENT ON COLUMN shardfdw.activity.node IS 'Node to which it is connected.';
COMMENT ON COLUMN shardfdw.activity.node_pid IS 'Process of the connection on the node.';
COMMENT ON COLUMN shardfdw.activity.node_user IS 'Role of the connection on the node.';
COMMENT ON COLUMN shardfdw.activity.state IS 'State of the connection, as in pg_stat_activity on the node.';
COMMENT ON COLUMN shardfdw.activity.wait_event_type IS 'What the process on the node waits for, as in pg_stat_activity there.';
COMMENT ON COLUMN shardfdw.activity.wait_event IS 'The same, in particular.';
COMMENT ON COLUMN shardfdw.activity.xact_age IS 'How long its transaction has been open on the node; null: none is.';
COMMENT ON COLUMN shardfdw.activity.state_age IS 'How long it has been in that state.';
COMMENT ON COLUMN shardfdw.activity.node_query IS 'Its statement on the node, the last one if it is idle.';
COMMENT ON COLUMN shardfdw.activity.message IS 'Why the node could not be asked; null: it was.';
GRANT SELECT ON shardfdw.activity TO PUBLIC;

-- ---------- locks ----------

CREATE FUNCTION shardfdw_internal.lock_waits_query() RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($query$
WITH w AS MATERIALIZED (
	SELECT DISTINCT ON (l.pid) l.* FROM pg_locks l WHERE NOT l.granted AND l.pid IS NOT NULL ORDER BY l.pid, l.waitstart
), a AS MATERIALIZED (
	SELECT a.pid, a.datname, CASE WHEN a.datname = current_database() THEN a.query END AS query, a.state, %s AS session FROM pg_stat_activity a
)
SELECT to_jsonb(x) FROM (
	SELECT w.pid, wa.session, wa.query, b.pid AS blocking_pid, ba.session AS blocking_session, ba.query AS blocking_query, ba.state AS blocking_state,
		CASE WHEN b.pid = 0 THEN (
			-- a prepared transaction: it holds what is waited for, and the lock of its own number
			SELECT string_agg(p.gid, ', ' ORDER BY p.gid) FROM pg_prepared_xacts p WHERE p.transaction = w.transactionid OR w.transactionid IS NULL AND EXISTS (
				SELECT FROM pg_locks o JOIN pg_locks h ON h.virtualtransaction = o.virtualtransaction AND h.pid IS NULL AND h.granted
				WHERE o.locktype = 'transactionid' AND o.transactionid = p.transaction AND o.pid IS NULL
					AND (h.locktype, h.database, h.relation, h.classid, h.objid, h.objsubid) IS NOT DISTINCT FROM (w.locktype, w.database, w.relation, w.classid, w.objid, w.objsubid)))
			END AS blocking_gid,
		-- who waits for a row's last writer has locked the row for the time being
		(SELECT c.oid::regclass::text FROM pg_class c WHERE w.database IS NOT DISTINCT FROM d.oid AND c.oid = w.relation
			OR w.locktype = 'transactionid' AND c.oid = (SELECT t.relation FROM pg_locks t WHERE t.pid = w.pid AND t.locktype = 'tuple' AND t.granted AND t.database = d.oid LIMIT 1)) AS relation,
		w.locktype, w.mode, clock_timestamp() - w.waitstart AS waiting
	FROM w JOIN a wa ON wa.pid = w.pid AND wa.datname = current_database()
	CROSS JOIN pg_database d
	CROSS JOIN LATERAL (SELECT DISTINCT u.pid FROM unnest(pg_blocking_pids(w.pid)) u(pid)) b
	LEFT JOIN a ba ON ba.pid = b.pid
	WHERE d.datname = current_database()) x$query$,
		shardfdw_internal.session_sql('a.application_name'))
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_waits_query() IS 'Writes the query by which the view lock_waits asks nodes and the coordinator. Returns its text.';

CREATE VIEW shardfdw.lock_waits AS
	WITH waits AS MATERIALIZED (
		SELECT w.node, w.message, x.pid AS there, CASE WHEN w.node IS NOT NULL THEN x.pid END AS node_pid,
			CASE WHEN w.node IS NULL THEN x.pid ELSE x.session END AS session, x.query,
			x.blocking_pid AS blocking_there, CASE WHEN w.node IS NOT NULL THEN x.blocking_pid END AS blocking_node_pid,
			CASE WHEN w.node IS NULL THEN nullif(x.blocking_pid, 0) ELSE x.blocking_session END AS blocking_session,
			x.blocking_query, x.blocking_state, x.blocking_gid, x.locktype, x.mode, x.relation, x.waiting
		FROM shardfdw_internal.watch(shardfdw_internal.lock_waits_query(), true) w
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
	'Lists who waits for whose lock in this database, on the coordinator and on the nodes: a row for each pair, and one with a message for each node that does not answer within shardfdw.watch_timeout, or that the role may not use. Statements of others are shown to members of pg_read_all_stats, here and on the node.';
COMMENT ON COLUMN shardfdw.lock_waits.node IS 'Node on which the lock is waited for; null: the coordinator.';
COMMENT ON COLUMN shardfdw.lock_waits.pid IS 'Process on the coordinator of the session that waits; null: it is not one of this coordinator.';
COMMENT ON COLUMN shardfdw.lock_waits.node_pid IS 'Process on the node that waits.';
COMMENT ON COLUMN shardfdw.lock_waits.query IS 'Statement of that session on the coordinator, else of the process on the node.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_pid IS 'Process on the coordinator of the session that has the lock, or is before it in the queue; null: it is not one of this coordinator, or a prepared transaction.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_node_pid IS 'Its process on the node; 0: a prepared transaction.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_query IS 'Its statement, the last one if it is idle.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_state IS 'State of that session: "idle in transaction" waits for its client.';
COMMENT ON COLUMN shardfdw.lock_waits.blocking_gid IS 'Prepared transactions that have the lock; see prepared_transactions.';
COMMENT ON COLUMN shardfdw.lock_waits.blocker_waits IS 'Whether it waits itself, on whatever server; those who do not are where to begin; null: the node could not be asked.';
COMMENT ON COLUMN shardfdw.lock_waits.locktype IS 'Kind of lock, as in pg_locks; transactionid: a row that another transaction has written.';
COMMENT ON COLUMN shardfdw.lock_waits.lock_mode IS 'Mode that is waited for.';
COMMENT ON COLUMN shardfdw.lock_waits.relation IS 'Table there, or other relation; null: not known.';
COMMENT ON COLUMN shardfdw.lock_waits.waiting IS 'For how long.';
COMMENT ON COLUMN shardfdw.lock_waits.message IS 'Why the node could not be asked; null: it was.';
GRANT SELECT ON shardfdw.lock_waits TO PUBLIC;

-- ---------- transactions ----------

CREATE FUNCTION shardfdw_internal.long_transactions_query() RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($query$SELECT to_jsonb(x) FROM (
		SELECT a.pid, %s AS session, a.usename AS role, NULL::text AS gid, clock_timestamp() - a.xact_start AS age, a.state, a.query,
			age(a.backend_xmin) AS xmin_age
		FROM pg_stat_activity a WHERE a.datname = current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
		UNION ALL
		SELECT NULL, NULL, p.owner, p.gid, clock_timestamp() - p.prepared, 'prepared', NULL, age(p.transaction)
		FROM pg_prepared_xacts p WHERE p.database = current_database()) x$query$,
		shardfdw_internal.session_sql('a.application_name'))
$$;
COMMENT ON FUNCTION shardfdw_internal.long_transactions_query() IS 'Writes the query by which the view long_transactions asks nodes and the coordinator. Returns its text.';

CREATE VIEW shardfdw.long_transactions AS
	SELECT w.node, CASE WHEN w.node IS NULL THEN x.pid ELSE x.session END AS pid, CASE WHEN w.node IS NOT NULL THEN x.pid END AS node_pid, x.role, x.gid, x.age, x.state, coalesce(s.query, x.query) AS query, x.xmin_age, w.message
	FROM shardfdw_internal.watch(shardfdw_internal.long_transactions_query(), true) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(pid integer, session integer, role name, gid text, age interval, state text, query text, xmin_age integer) ON true
	LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = x.session AND w.node IS NOT NULL
	ORDER BY x.age DESC NULLS FIRST, w.node, x.pid;
COMMENT ON VIEW shardfdw.long_transactions IS
	'Lists the transactions that are open in this database on the coordinator and on the nodes, prepared ones too, the oldest first; before them a row with a message for each node that does not answer within shardfdw.watch_timeout, or that the role may not use.';
COMMENT ON COLUMN shardfdw.long_transactions.node IS 'Node on which it is open; null: the coordinator.';
COMMENT ON COLUMN shardfdw.long_transactions.pid IS 'Process of its session on the coordinator; null: it is not one of this coordinator, or prepared.';
COMMENT ON COLUMN shardfdw.long_transactions.node_pid IS 'Its process on the node; null: it is prepared.';
COMMENT ON COLUMN shardfdw.long_transactions.role IS 'Its role there.';
COMMENT ON COLUMN shardfdw.long_transactions.gid IS 'Its identifier if it is prepared; see prepared_transactions.';
COMMENT ON COLUMN shardfdw.long_transactions.age IS 'How long it has been open, or prepared.';
COMMENT ON COLUMN shardfdw.long_transactions.state IS 'State of its process, as in pg_stat_activity, or "prepared".';
COMMENT ON COLUMN shardfdw.long_transactions.query IS 'Statement of its session on the coordinator, else of the process on the node.';
COMMENT ON COLUMN shardfdw.long_transactions.xmin_age IS 'How many transactions ago its snapshot was taken, or its number was given: vacuum keeps all rows since; null: it keeps none.';
COMMENT ON COLUMN shardfdw.long_transactions.message IS 'Why the node could not be asked; null: it was.';
GRANT SELECT ON shardfdw.long_transactions TO PUBLIC;

-- ---------- servers ----------

CREATE FUNCTION shardfdw_internal.node_status_query() RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($query$SELECT jsonb_build_object('version', current_setting('server_version'), 'is_standby', pg_is_in_recovery(),
			'up', clock_timestamp() - pg_postmaster_start_time(), 'max_connections', current_setting('max_connections')::integer,
			'connections', (SELECT sum(x.numbackends) FROM pg_stat_database x WHERE x.datid <> 0),
			'of_coordinator', (SELECT count(%s) FROM pg_stat_activity a),
			'prepared', (SELECT count(*) FROM pg_prepared_xacts p WHERE p.database = d.datname),
			'oldest_prepared', (SELECT clock_timestamp() - min(p.prepared) FROM pg_prepared_xacts p WHERE p.database = d.datname),
			'size_bytes', pg_database_size(d.oid), 'commits', s.xact_commit, 'rollbacks', s.xact_rollback, 'deadlocks', s.deadlocks, 'temp_bytes', s.temp_bytes)
		FROM pg_database d LEFT JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datname = current_database()$query$,
		shardfdw_internal.session_sql('a.application_name'))
$$;
COMMENT ON FUNCTION shardfdw_internal.node_status_query() IS 'Writes the query by which the view node_status asks nodes and the coordinator. Returns its text.';

CREATE VIEW shardfdw.node_status AS
	SELECT w.node, w.message IS NULL AS answers, x.version, x.is_standby, x.up, x.connections, x.max_connections, x.of_coordinator,
		x.prepared, x.oldest_prepared, x.size_bytes, x.commits, x.rollbacks, x.deadlocks, x.temp_bytes, w.message
	FROM shardfdw_internal.watch(shardfdw_internal.node_status_query(), true) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(version text, is_standby boolean, up interval, connections integer, max_connections integer, of_coordinator integer,
		prepared integer, oldest_prepared interval, size_bytes bigint, commits bigint, rollbacks bigint, deadlocks bigint, temp_bytes bigint) ON true;
COMMENT ON VIEW shardfdw.node_status IS
	'Lists the servers of the cluster, the coordinator (node is null) among them, and how they are. Counters are those of pg_stat_database. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has a message, and no values.';
COMMENT ON COLUMN shardfdw.node_status.node IS 'Node; null: the coordinator.';
COMMENT ON COLUMN shardfdw.node_status.answers IS 'Whether it has answered in time.';
COMMENT ON COLUMN shardfdw.node_status.version IS 'Version of PostgreSQL.';
COMMENT ON COLUMN shardfdw.node_status.is_standby IS 'Whether it is in recovery.';
COMMENT ON COLUMN shardfdw.node_status.up IS 'How long ago it was started.';
COMMENT ON COLUMN shardfdw.node_status.connections IS 'Connections to all of its databases.';
COMMENT ON COLUMN shardfdw.node_status.max_connections IS 'How many it allows.';
COMMENT ON COLUMN shardfdw.node_status.of_coordinator IS 'Those of them that are of this coordinator''s server.';
COMMENT ON COLUMN shardfdw.node_status.prepared IS 'Prepared transactions of this database.';
COMMENT ON COLUMN shardfdw.node_status.oldest_prepared IS 'How long ago the oldest of these was prepared; null: there is none.';
COMMENT ON COLUMN shardfdw.node_status.size_bytes IS 'Size of the database.';
COMMENT ON COLUMN shardfdw.node_status.commits IS 'Transactions of the database that were committed.';
COMMENT ON COLUMN shardfdw.node_status.rollbacks IS 'Transactions of the database that were rolled back.';
COMMENT ON COLUMN shardfdw.node_status.deadlocks IS 'Deadlocks that the server itself has found in the database.';
COMMENT ON COLUMN shardfdw.node_status.temp_bytes IS 'Bytes written to temporary files.';
COMMENT ON COLUMN shardfdw.node_status.message IS 'Why the node could not be asked; null: it was.';
GRANT SELECT ON shardfdw.node_status TO PUBLIC;

-- ---------- standbys ----------

CREATE FUNCTION shardfdw_internal.stat_replication_query() RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT $query$SELECT jsonb_build_object('standby', r.application_name, 'address', host(r.client_addr), 'state', r.state, 'sync_state', r.sync_state,
			'lag_bytes', CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END - r.replay_lsn,
			'replay_lag', r.replay_lag, 'reply_age', clock_timestamp() - r.reply_time)
		FROM pg_stat_replication r$query$
$$;
COMMENT ON FUNCTION shardfdw_internal.stat_replication_query() IS 'Writes the query by which the view stat_replication asks nodes and the coordinator. Returns its text.';

CREATE VIEW shardfdw.stat_replication AS
	SELECT w.node, x.standby, x.address, x.state, x.sync_state, x.lag_bytes, x.replay_lag, x.reply_age, w.message
	FROM shardfdw_internal.watch(shardfdw_internal.stat_replication_query(), true) w
	LEFT JOIN LATERAL pg_catalog.jsonb_to_record(w.says) x(standby text, address text, state text, sync_state text, lag_bytes numeric, replay_lag interval, reply_age interval) ON true;
COMMENT ON VIEW shardfdw.stat_replication IS
	'Lists the standbys of all servers of the cluster and how far behind they are, as pg_stat_replication of those servers has it. A node that does not answer within shardfdw.watch_timeout, or that the role may not use, has a message, and no values. Roles without pg_read_all_stats there see no details.';
COMMENT ON COLUMN shardfdw.stat_replication.node IS 'Node whose standby it is; null: the coordinator.';
COMMENT ON COLUMN shardfdw.stat_replication.standby IS 'Its name: application_name of its connection.';
COMMENT ON COLUMN shardfdw.stat_replication.address IS 'Its IP address; null: it has connected through a Unix socket.';
COMMENT ON COLUMN shardfdw.stat_replication.state IS 'streaming, catchup, startup, backup or stopping.';
COMMENT ON COLUMN shardfdw.stat_replication.sync_state IS 'sync, quorum, potential or async.';
COMMENT ON COLUMN shardfdw.stat_replication.lag_bytes IS 'Bytes of WAL that it has not replayed.';
COMMENT ON COLUMN shardfdw.stat_replication.replay_lag IS 'How long it took the last commits to be replayed there; null: nothing was committed lately.';
COMMENT ON COLUMN shardfdw.stat_replication.reply_age IS 'How long ago it has last told where it is.';
COMMENT ON COLUMN shardfdw.stat_replication.message IS 'Why the node could not be asked; null: it was.';
GRANT SELECT ON shardfdw.stat_replication TO PUBLIC;

-- ---------- shards ----------

CREATE FUNCTION shardfdw_internal.stat_shards_query() RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT $query$SELECT jsonb_build_object('name', jsonb_build_array(s.schemaname, s.relname), 'size_bytes', pg_total_relation_size(s.relid), 'estimated_rows', s.n_live_tup, 'dead_rows', s.n_dead_tup,
			'seq_scans', s.seq_scan, 'index_scans', s.idx_scan, 'rows_read', coalesce(s.seq_tup_read, 0) + coalesce(s.idx_tup_fetch, 0),
			'inserted', s.n_tup_ins, 'updated', s.n_tup_upd, 'deleted', s.n_tup_del,
			'last_vacuum', greatest(s.last_vacuum, s.last_autovacuum), 'last_analyze', greatest(s.last_analyze, s.last_autoanalyze))
		FROM pg_stat_user_tables s$query$
$$;
COMMENT ON FUNCTION shardfdw_internal.stat_shards_query() IS 'Writes the query by which the view stat_shards asks nodes. Returns its text.';

CREATE VIEW shardfdw.stat_shards AS
	WITH told AS MATERIALIZED (
		SELECT w.node, w.message, x.*
		FROM shardfdw_internal.watch(shardfdw_internal.stat_shards_query(), false) w
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
	'Lists the shards with what the statistics of their nodes say of them. Those of a node that does not answer within shardfdw.watch_timeout, or that the role may not use, have a message, and no values.';
COMMENT ON COLUMN shardfdw.stat_shards.relation IS 'Sharded table.';
COMMENT ON COLUMN shardfdw.stat_shards.shard IS 'Shard.';
COMMENT ON COLUMN shardfdw.stat_shards.node IS 'Its node.';
COMMENT ON COLUMN shardfdw.stat_shards.size_bytes IS 'Its size there, with indexes and TOAST.';
COMMENT ON COLUMN shardfdw.stat_shards.estimated_rows IS 'Rows, as estimated.';
COMMENT ON COLUMN shardfdw.stat_shards.dead_rows IS 'Rows that vacuum has yet to remove, as estimated.';
COMMENT ON COLUMN shardfdw.stat_shards.seq_scans IS 'How often all of it was read.';
COMMENT ON COLUMN shardfdw.stat_shards.index_scans IS 'How often an index of it was searched.';
COMMENT ON COLUMN shardfdw.stat_shards.rows_read IS 'Rows that were read by either.';
COMMENT ON COLUMN shardfdw.stat_shards.inserted IS 'Rows that were inserted.';
COMMENT ON COLUMN shardfdw.stat_shards.updated IS 'Rows that were updated.';
COMMENT ON COLUMN shardfdw.stat_shards.deleted IS 'Rows that were deleted.';
COMMENT ON COLUMN shardfdw.stat_shards.last_vacuum IS 'When it was last vacuumed, by whomever.';
COMMENT ON COLUMN shardfdw.stat_shards.last_analyze IS 'When it was last analyzed, by whomever.';
COMMENT ON COLUMN shardfdw.stat_shards.message IS 'Why the node could not be asked; null: it was.';
GRANT SELECT ON shardfdw.stat_shards TO PUBLIC;
