-- Loads that commit in parts and can be resumed.

-- Not registered with pg_extension_config_dump: the progress of a load describes rows on nodes, which
-- a dump does not contain.
CREATE TABLE shardfdw_internal.resumable_load (
	role oid NOT NULL,
	name text COLLATE "C" NOT NULL,
	relation oid NOT NULL,
	definition text NOT NULL,
	bytes bigint NOT NULL,
	lines bigint NOT NULL,
	checksum bigint NOT NULL,
	line_end integer NOT NULL,
	lines_left bigint,
	rows bigint NOT NULL,
	rejected bigint NOT NULL,
	duplicates bigint NOT NULL,
	replaced bigint NOT NULL,
	other_errors boolean NOT NULL,
	reject_load bigint,
	started timestamptz NOT NULL,
	committed timestamptz NOT NULL,
	finished timestamptz,
	whole boolean NOT NULL,
	failed timestamptz,
	error text,
	lock_key oid NOT NULL,
	PRIMARY KEY (role, name)
);
REVOKE ALL ON shardfdw_internal.resumable_load FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.resumable_load IS
	'Progress of COPY with the option RESUME: one row per role and name. The transactions that commit the rows of the loaded table also write this row.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.role IS 'Role of the load.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.name IS 'Name in option RESUME.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.relation IS 'Table that is loaded.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.definition IS 'Options and columns that define the format of the lines.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.bytes IS 'Bytes of the input whose rows are committed.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.lines IS 'Lines of the input whose rows are committed.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.checksum IS 'CRC-32C of the bytes whose rows are committed.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.line_end IS 'Line ending of the input.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.lines_left IS 'Lines left of MAX_ROWS; null: no limit.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.rows IS 'Rows that are loaded.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.rejected IS 'Rows set aside by ON_ERROR.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.duplicates IS 'Rows refused by ON_DUPLICATE.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.replaced IS 'Rows of the table that were replaced by new rows.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.other_errors IS 'Rows were rejected for more than values of a wrong type.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.reject_load IS 'Number of the load in REJECT_TABLE; null: none was given.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.started IS 'When the load began.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.committed IS 'When the load committed last.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.finished IS 'When the load finished. Null if it has not finished.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.whole IS 'Whether the load has reached the end of the input.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.failed IS 'When an error ended the load after its last commit. Null if there was none.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.error IS 'That error.';
COMMENT ON COLUMN shardfdw_internal.resumable_load.lock_key IS 'Number of the object lock, of this table, that the session has which runs the load.';

CREATE VIEW shardfdw.resumable_loads AS
	SELECT l.name, r.rolname AS role, l.relation::pg_catalog.regclass AS relation,
		CASE WHEN l.finished IS NOT NULL THEN 'finished' WHEN k.pid IS NOT NULL THEN 'running' ELSE 'unfinished' END AS state,
		CASE WHEN l.finished IS NULL THEN k.pid END AS pid,
		l.bytes, l.lines, l.rows, l.rejected, l.duplicates, l.replaced, l.started AS started_at, l.committed AS committed_at, l.finished AS ended_at, l.failed AS failed_at, l.error
	FROM shardfdw_internal.resumable_load l
	JOIN pg_catalog.pg_roles r ON r.oid = l.role AND (pg_catalog.pg_has_role(r.oid, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
	LEFT JOIN pg_catalog.pg_locks k ON k.locktype = 'object' AND k.granted AND k.mode = 'ExclusiveLock'
		AND k.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
		AND k.classid = 'shardfdw_internal.resumable_load'::pg_catalog.regclass AND k.objid = l.lock_key;
GRANT SELECT ON shardfdw.resumable_loads TO PUBLIC;
COMMENT ON VIEW shardfdw.resumable_loads IS
	'Lists the loads by COPY with the option RESUME of the current role and of roles that it is a member of. Members of pg_read_all_stats see the loads of all roles. Progress is committed in the same transaction as the rows. Finished loads stay listed until forget_load() is called.';
COMMENT ON COLUMN shardfdw.resumable_loads.name IS 'Name of the load, from the option RESUME.';
COMMENT ON COLUMN shardfdw.resumable_loads.role IS 'Role of the load, which can resume it.';
COMMENT ON COLUMN shardfdw.resumable_loads.relation IS 'Table that is loaded.';
COMMENT ON COLUMN shardfdw.resumable_loads.state IS 'running; unfinished: COPY with the same name and input resumes the load; finished.';
COMMENT ON COLUMN shardfdw.resumable_loads.pid IS 'Process ID of the session that runs the load. Null if none does.';
COMMENT ON COLUMN shardfdw.resumable_loads.bytes IS 'Bytes of the input whose rows are committed. The load resumes after them.';
COMMENT ON COLUMN shardfdw.resumable_loads.lines IS 'Number of lines of the input whose rows are committed, including the header.';
COMMENT ON COLUMN shardfdw.resumable_loads.rows IS 'Number of loaded rows.';
COMMENT ON COLUMN shardfdw.resumable_loads.rejected IS 'Number of rows set aside by ON_ERROR.';
COMMENT ON COLUMN shardfdw.resumable_loads.duplicates IS 'Number of rows refused by ON_DUPLICATE.';
COMMENT ON COLUMN shardfdw.resumable_loads.replaced IS 'Number of rows of the table that new rows replaced.';
COMMENT ON COLUMN shardfdw.resumable_loads.started_at IS 'Time when the load began.';
COMMENT ON COLUMN shardfdw.resumable_loads.committed_at IS 'Time of the last commit of the load.';
COMMENT ON COLUMN shardfdw.resumable_loads.ended_at IS 'Time when the load finished. Null if it has not finished.';
COMMENT ON COLUMN shardfdw.resumable_loads.failed_at IS 'Time of the error that ended the load after its last commit. Null if there was none.';
COMMENT ON COLUMN shardfdw.resumable_loads.error IS 'Message of that error, with the line of the input.';

CREATE FUNCTION shardfdw.forget_load(name text, role name DEFAULT current_user) RETURNS boolean
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_forget_load';
COMMENT ON FUNCTION shardfdw.forget_load(text, name) IS
	'Removes the progress of a load by COPY with the option RESUME: the next COPY with that name begins at the start of the input. Loaded rows remain. Only the role of the load, members of that role and superusers can call it. Returns whether there was such a load. Raises object_in_use while the load runs.';
