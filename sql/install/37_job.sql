-- Jobs: work on shards in a background worker. Only the catalogs say where a shard is. These rows describe the work in progress.

CREATE SEQUENCE shardfdw_internal.job_id;
REVOKE ALL ON SEQUENCE shardfdw_internal.job_id FROM PUBLIC;
COMMENT ON SEQUENCE shardfdw_internal.job_id IS 'Numbers of jobs. The names of objects that a job creates on nodes contain its number.';

-- Not dumped: a restored database is another coordinator, whose nodes have no leftovers of these jobs.
CREATE TABLE shardfdw_internal.job (
	id bigint PRIMARY KEY,
	kind text NOT NULL,
	state text NOT NULL,
	stage text NOT NULL,
	tables oid[] NOT NULL,
	names text[] NOT NULL,
	source name,
	target name,
	mode text NOT NULL,
	role oid NOT NULL,
	pid integer NOT NULL,
	started timestamptz NOT NULL,
	ended timestamptz,
	rows_copied bigint NOT NULL DEFAULT 0,
	bytes_copied bigint NOT NULL DEFAULT 0,
	changes_applied bigint NOT NULL DEFAULT 0,
	lag_bytes bigint,
	write_pause interval,
	waits_for text,
	sqlstate text,
	message text,
	detail text,
	hint text
);
REVOKE ALL ON shardfdw_internal.job FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.job IS 'Jobs, running and ended. Read the view shardfdw.jobs instead.';
COMMENT ON COLUMN shardfdw_internal.job.id IS 'Number of the job.';
COMMENT ON COLUMN shardfdw_internal.job.kind IS 'Kind of job: move, split, merge, shard, unshard or import. rebalance, drain_node and set_shard_count start other jobs.';
COMMENT ON COLUMN shardfdw_internal.job.state IS 'State of the job: running, done, failed or cancelled.';
COMMENT ON COLUMN shardfdw_internal.job.stage IS 'Current step of the job, or its last step if it has ended.';
COMMENT ON COLUMN shardfdw_internal.job.tables IS 'OIDs of the shards, including those of colocated tables. After the switch of a split or merge, OIDs of the new shards. For shard, unshard and import: OID of the table.';
COMMENT ON COLUMN shardfdw_internal.job.names IS 'Names of the tables when the job began.';
COMMENT ON COLUMN shardfdw_internal.job.source IS 'Node that has the shards when the job begins. For import: host of the server that is read. Null for the coordinator or for several nodes.';
COMMENT ON COLUMN shardfdw_internal.job.target IS 'Node that has the shards when the job is done. Null for the coordinator or for several nodes.';
COMMENT ON COLUMN shardfdw_internal.job.mode IS 'online or block; for import, online or copy.';
COMMENT ON COLUMN shardfdw_internal.job.role IS 'OID of the role that started the job, and whose user mappings the job uses.';
COMMENT ON COLUMN shardfdw_internal.job.pid IS 'Process ID of the job.';
COMMENT ON COLUMN shardfdw_internal.job.started IS 'Time when the job began.';
COMMENT ON COLUMN shardfdw_internal.job.ended IS 'Time when the job ended. Null if the job has not ended.';
COMMENT ON COLUMN shardfdw_internal.job.rows_copied IS 'Number of rows copied so far.';
COMMENT ON COLUMN shardfdw_internal.job.bytes_copied IS 'Bytes of the rows copied so far.';
COMMENT ON COLUMN shardfdw_internal.job.changes_applied IS 'Number of changes that were made on the source during the copy and have been applied on the target.';
COMMENT ON COLUMN shardfdw_internal.job.lag_bytes IS 'Bytes of the source''s WAL that the job has not processed yet. Null if not known.';
COMMENT ON COLUMN shardfdw_internal.job.write_pause IS 'How long writers of the shards, or of the source of an import, waited at the switch. Null before the switch.';
COMMENT ON COLUMN shardfdw_internal.job.waits_for IS 'Sessions that the job waits for. Null if it waits for none.';
COMMENT ON COLUMN shardfdw_internal.job.sqlstate IS 'SQLSTATE of the error that ended the job.';
COMMENT ON COLUMN shardfdw_internal.job.message IS 'Message of the error that ended the job. For a job that is done: how many shards stay, and why the first does.';
COMMENT ON COLUMN shardfdw_internal.job.detail IS 'DETAIL of that error.';
COMMENT ON COLUMN shardfdw_internal.job.hint IS 'HINT of that error.';

CREATE FUNCTION shardfdw_internal.job_is_running(id bigint) RETURNS boolean
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_job_is_running';
COMMENT ON FUNCTION shardfdw_internal.job_is_running(bigint) IS
	'Tells whether the process of a job is running. Returns true or false.';

CREATE FUNCTION shardfdw_internal.job_works_on(id bigint, kind text, relation regclass) RETURNS boolean
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_job_works_on';
COMMENT ON FUNCTION shardfdw_internal.job_works_on(bigint, text, regclass) IS
	'Tells whether the journal has a job of this kind that works on a table, or has ended. Returns true or false.';

CREATE FUNCTION shardfdw_internal.claim_job(id bigint, timeout_ms integer) RETURNS boolean
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_claim_job';
COMMENT ON FUNCTION shardfdw_internal.claim_job(bigint, integer) IS
	'Takes the lock of a job whose process has ended until the transaction ends, so that no other session removes the leftovers of the job. Returns false if another process holds the lock for timeout_ms, or if the current user is not a member of the role of the job. If the journal does not contain the job, only other sessions of the same role are excluded.';

CREATE FUNCTION shardfdw_internal.holds_job(id bigint) RETURNS boolean
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_holds_job';
COMMENT ON FUNCTION shardfdw_internal.holds_job(bigint) IS
	'Tells whether this process holds the lock of a job: it runs the job, or has called claim_job(). Returns true or false.';

CREATE FUNCTION shardfdw_internal.lock_to_clear(relation regclass) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_lock_to_clear';
COMMENT ON FUNCTION shardfdw_internal.lock_to_clear(regclass) IS
	'Locks a table of the current user that clients use, in ACCESS EXCLUSIVE mode, until the transaction ends. If the transaction has not locked another such table, waits for lock_timeout; otherwise does not wait, so that no client gets a deadlock. Returns nothing. Raises lock_not_available, undefined_table and insufficient_privilege.';

CREATE VIEW shardfdw.jobs AS
	SELECT j.id, j.kind, CASE WHEN j.state = 'running' AND NOT shardfdw_internal.job_is_running(j.id) THEN 'interrupted' ELSE j.state END AS state,
		j.stage, j.names AS shards, j.source, j.target, j.mode, pg_catalog.pg_get_userbyid(j.role) AS role, j.pid, j.started AS started_at, j.ended AS ended_at,
		j.rows_copied, j.bytes_copied, j.changes_applied, j.lag_bytes, j.write_pause, x.waits_for, x.message AS error
	FROM shardfdw_internal.job j
	-- These columns may contain queries and values of other roles, as in pg_stat_activity.
	LEFT JOIN LATERAL (SELECT j.waits_for, j.message WHERE pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
		OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = j.role AND pg_catalog.pg_has_role(r.oid, 'USAGE'))) x ON true;
GRANT SELECT ON shardfdw.jobs TO PUBLIC;
COMMENT ON VIEW shardfdw.jobs IS 'Lists the jobs that run and the jobs that have ended: moves, splits and merges of shards, tables that are sharded or unsharded online, imports, and series of such jobs.';
COMMENT ON COLUMN shardfdw.jobs.id IS 'Number of the job, for wait_job() and cancel_job().';
COMMENT ON COLUMN shardfdw.jobs.kind IS 'Kind of job: move, split, merge, shard, unshard or import. rebalance, drain_node and set_shard_count start other jobs.';
COMMENT ON COLUMN shardfdw.jobs.state IS
	'State of the job: running, done, failed, cancelled, or interrupted. interrupted: the process of the job ended without reporting a result; the view shards shows where the shards are.';
COMMENT ON COLUMN shardfdw.jobs.stage IS 'Current step of the job, or its last step if it has ended.';
COMMENT ON COLUMN shardfdw.jobs.shards IS 'Shards of the job, including those of colocated tables. For shard, unshard and import: the table.';
COMMENT ON COLUMN shardfdw.jobs.source IS 'Node that has the shards when the job begins. For import: host of the server that is read. Null for the coordinator or for several nodes.';
COMMENT ON COLUMN shardfdw.jobs.target IS 'Node that has the shards when the job is done. Null for the coordinator or for several nodes.';
COMMENT ON COLUMN shardfdw.jobs.mode IS 'online or block; for import, online or copy.';
COMMENT ON COLUMN shardfdw.jobs.role IS 'Role that started the job.';
COMMENT ON COLUMN shardfdw.jobs.pid IS 'Process ID of the job.';
COMMENT ON COLUMN shardfdw.jobs.started_at IS 'Time when the job began.';
COMMENT ON COLUMN shardfdw.jobs.ended_at IS 'Time when the job ended. Null if the job has not ended.';
COMMENT ON COLUMN shardfdw.jobs.rows_copied IS 'Number of rows copied so far.';
COMMENT ON COLUMN shardfdw.jobs.bytes_copied IS 'Bytes of the rows copied so far.';
COMMENT ON COLUMN shardfdw.jobs.changes_applied IS 'Number of changes that were made on the source during the copy and have been applied on the target.';
COMMENT ON COLUMN shardfdw.jobs.lag_bytes IS 'Bytes of the source''s WAL that the job has not processed yet. Null if not known.';
COMMENT ON COLUMN shardfdw.jobs.write_pause IS 'How long writers of the shards, or of the source of an import, waited at the switch. Null before the switch.';
COMMENT ON COLUMN shardfdw.jobs.waits_for IS 'Sessions that the job waits for. Null if it waits for none. Shown only to the role of the job, members of that role and members of pg_read_all_stats.';
COMMENT ON COLUMN shardfdw.jobs.error IS 'Error that ended the job. For rebalance and drain_node that are done: how many shards stay, and why the first does. Null if there is none. Shown only to the role of the job, members of that role and members of pg_read_all_stats.';

CREATE FUNCTION shardfdw.cancel_job(id bigint) RETURNS boolean
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_cancel_job';
COMMENT ON FUNCTION shardfdw.cancel_job(bigint) IS
	'Cancels a job: the job removes what it has created, and the shards stay where they are. A job that has already switched is not undone. The role of the job, members of that role and superusers can cancel it. Members of pg_signal_backend can, too, unless a superuser started the job. Returns whether the job was running. Raises insufficient_privilege, and undefined_object if the job does not exist.';

CREATE FUNCTION shardfdw_internal.wait_move(id bigint) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_wait_move';
COMMENT ON FUNCTION shardfdw_internal.wait_move(bigint) IS
	'Waits until the shards of a job are where they should be, and then for a short time until the old tables are dropped. Returns nothing. Raises the error that ended the job, and undefined_object if the job does not exist.';

CREATE FUNCTION shardfdw_internal.is_this_server(node name) RETURNS boolean
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- The start time identifies a server, and all roles may read it.
	SELECT coalesce(bool_and((q.fields)[1] = extract(epoch FROM pg_postmaster_start_time())::text), false)
	FROM pg_foreign_server s
	CROSS JOIN LATERAL shardfdw_internal.run_commands(ARRAY[s.srvname], ARRAY['SELECT extract(epoch FROM pg_postmaster_start_time())'], 'settle', false) q
	WHERE s.srvname = is_this_server.node AND has_server_privilege(s.oid, 'USAGE')
$$;
COMMENT ON FUNCTION shardfdw_internal.is_this_server(name) IS
	'Tells whether a node is a database of the coordinator''s server. Returns true or false; false also if the node does not answer, or the caller may not use it.';

CREATE FUNCTION shardfdw_internal.check_wait(function_name text, source name, mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF shardfdw_internal.in_remote_transaction() THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = format('%s() cannot wait in a transaction that has used nodes', function_name),
			DETAIL = 'The job would wait for what this transaction has written or locked there, and this transaction for the job.',
			HINT = 'Commit first.';
	END IF;
	-- Creating a replication slot waits until all transactions that write have ended.
	IF mode = 'online' AND pg_current_xact_id_if_assigned() IS NOT NULL AND shardfdw_internal.is_this_server(source) THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = format('%s() cannot wait in a transaction that has written', function_name),
			DETAIL = format('Node "%s" is a database of this server, whose writing transactions the job waits for.', source),
			HINT = 'Commit first.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_wait(text, name, text) IS
	'Checks that a job of this mode, from a node, would not wait for the current transaction, which is going to wait for the job. Returns nothing. Raises active_sql_transaction.';

CREATE FUNCTION shardfdw.wait_job(id bigint) RETURNS text
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_wait_job';
COMMENT ON FUNCTION shardfdw.wait_job(bigint) IS
	'Waits until a job has ended. Returns the state of the job. Raises the error that ended the job, undefined_object if the job does not exist, and active_sql_transaction if the job would wait for the current transaction.';
