-- What ended jobs have left on nodes, and move_shard().

CREATE FUNCTION shardfdw_internal.job_traces(nodes name[])
	RETURNS TABLE (node name, id bigint, schema_name name, note jsonb, is_own boolean)
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT q.node, substring((q.fields)[1] FROM '_([0-9]{1,18})_[0-9a-f]{8}$')::bigint, (q.fields)[1]::name, (q.fields)[2]::jsonb,
		starts_with((q.fields)[1], format('shardfdw_%s_', x.identities[1]))
	FROM (SELECT d.identities, format($query$SELECT n.nspname, obj_description(n.oid, 'pg_namespace') FROM pg_namespace n
			WHERE n.nspname ~ '^shardfdw_(%s)_[0-9]{1,18}_[0-9a-f]{8}$' AND obj_description(n.oid, 'pg_namespace') ~ '^\{"server": [0-9]+, "other": [0-9]+, "tables": '
				-- The notes of another role would be commands of that role.
				AND pg_get_userbyid(n.nspowner) = current_user
				-- A successor of this coordinator may need the tables.
				AND coalesce(obj_description(to_regclass('shardfdw_internal.%s'), 'pg_class'), %L) = ANY (%L) ORDER BY 1$query$,
			array_to_string(d.identities, '|'), i.note_name, i.identity, d.identities) AS command
		  FROM (SELECT shardfdw_internal.decided_identities()) d(identities), shardfdw_internal.coordinator_identity() i) x,
		shardfdw_internal.run_commands(nodes, array_fill(x.command, ARRAY[cardinality(nodes)]), 'settle', false) q
	WHERE q.fields IS NOT NULL
		-- Left by another server that uses the same database: only that server can tell where its tables are needed.
		AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.oid = ((q.fields)[2]::jsonb->>'server')::oid AND s.srvname <> q.node)
$$;
COMMENT ON FUNCTION shardfdw_internal.job_traces(name[]) IS
	'Queries nodes for schemas that jobs of this coordinator created there, or jobs of predecessors of which it has all commits. Only schemas count that the current user''s role on the node owns. If two servers are the same database, each of them returns the schemas of its jobs. Returns the node, the number of the job, the schema, the note of the job in it, and whether it was a job of this coordinator. Returns no row for a node that does not answer, or that another coordinator has taken over.';

CREATE FUNCTION shardfdw_internal.check_no_traces(jobs bigint[], nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	usable CONSTANT name[] := ARRAY(SELECT s.srvname FROM pg_foreign_server s WHERE s.srvname = ANY (nodes) AND has_server_privilege(s.oid, 'USAGE'));
	job text;
BEGIN
	SELECT substring((q.fields)[1] FROM '_([0-9]+)_[0-9a-f]{8}$') INTO job
	FROM shardfdw_internal.run_commands(usable, array_fill(format('SELECT nspname, substring(obj_description(oid, ''pg_namespace'') FROM ''^\{"server": ([0-9]+),'') FROM pg_namespace WHERE nspname ~ %L', format('^shardfdw_(%s)_(%s)_[0-9a-f]{8}$',
		array_to_string(shardfdw_internal.decided_identities(), '|'), array_to_string(jobs, '|'))), ARRAY[cardinality(usable)]), 'settle', false) q
		-- recovery does not use what is left of a server that was removed and added again
		JOIN pg_foreign_server s ON s.srvname = q.node AND s.oid::text = (q.fields)[2] LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('names of the shard cannot be changed before it is recovered from job %s', job),
			HINT = 'SELECT * FROM shardfdw.recover_prepared_transactions() removes what the job has left.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_no_traces(bigint[], name[]) IS
	'Checks that jobs of this coordinator, which have ended, have left no schemas on nodes. Does not count nodes that do not answer. Returns nothing. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.placements_of(remote_schema name, remote_table name) RETURNS TABLE (server oid, placed_by xid)
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT f.ftserver, f.xmin
	FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'schema_name'), n.nspname) = remote_schema
		AND coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'table_name'), c.relname) = remote_table
$$;
COMMENT ON FUNCTION shardfdw_internal.placements_of(name, name) IS
	'Finds the foreign tables that refer to a table of this schema and name on their nodes, with the latest committed catalogs. Returns for each the server, and the transaction that has placed the table there.';

CREATE FUNCTION shardfdw_internal.servers_of(remote_schema name, remote_table name) RETURNS oid[]
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(p.server), '{}') FROM shardfdw_internal.placements_of(remote_schema, remote_table) p
$$;
COMMENT ON FUNCTION shardfdw_internal.servers_of(name, name) IS
	'Finds the foreign tables that refer to a table of this schema and name on their nodes, with the latest committed catalogs. Returns their servers.';

CREATE FUNCTION shardfdw_internal.has_older_snapshots(placed_by xid) RETURNS boolean
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_has_older_snapshots';
COMMENT ON FUNCTION shardfdw_internal.has_older_snapshots(xid) IS
	'Checks whether transactions of this database have snapshots that may not see a transaction. Does not count transactions that wait for a job. Returns true or false.';

CREATE FUNCTION shardfdw_internal.old_tables_in_use(node name, tables jsonb) RETURNS boolean
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(bool_or(s.srvname = node OR shardfdw_internal.has_older_snapshots(p.placed_by)), false)
	FROM jsonb_to_recordset(tables) x(side text, schema name, "table" name) CROSS JOIN LATERAL shardfdw_internal.placements_of(x.schema, x."table") p
	JOIN pg_foreign_server s ON s.oid = p.server WHERE x.side = 'source'
$$;
COMMENT ON FUNCTION shardfdw_internal.old_tables_in_use(name, jsonb) IS
	'Checks on a coordinator whether transactions may still read tables on a node from which another coordinator has moved shards. tables: those in the note of the job. Returns true if a shard is still on the node here, or a snapshot may show the shard there; false otherwise.';

CREATE FUNCTION shardfdw_internal.release_command(schema_name name) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- Readers of the tables wait behind an attempt.
	SELECT format('SET LOCAL lock_timeout = ''100ms''; SET LOCAL search_path = pg_catalog, pg_temp; DO %L', format($body$
DECLARE
	k record;
BEGIN
	FOR k IN SELECT c.conrelid::regclass AS old, c.conname FROM pg_constraint c WHERE c.contype = 'f' AND c.conrelid IN (
		SELECT g.tgrelid FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace WHERE g.tgname = 'shardfdw_moved' AND n.nspname = %L)
	LOOP
		EXECUTE format('ALTER TABLE %%s DROP CONSTRAINT %%I', k.old, k.conname);
	END LOOP;
END$body$, schema_name))
$$;
COMMENT ON FUNCTION shardfdw_internal.release_command(name) IS
	'Writes the command that drops the foreign keys of the old tables of a job on the source. Otherwise the invisible rows of these tables block changes of the reference tables'' rows that they reference.';

CREATE FUNCTION shardfdw_internal.trace_commands(schema_name name, note jsonb) RETURNS TABLE (kind text, command text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	own CONSTANT oid := (note->>'server')::oid;
	other CONSTANT oid := (note->>'other')::oid;
	placed jsonb;
BEGIN
	-- placed: whether the table is needed. Null if only a person can decide, because servers were added or removed, or several servers
	-- point to one database.
	SELECT jsonb_agg(t || jsonb_build_object('placed', CASE WHEN own = ANY (s) THEN true
		WHEN t->>'side' = 'target' AND other = ALL (s) THEN false
		WHEN t->>'side' = 'source' AND EXISTS (SELECT FROM pg_foreign_server f WHERE f.oid = own) THEN false END)) INTO placed
	FROM jsonb_array_elements(note->'tables') t CROSS JOIN LATERAL shardfdw_internal.servers_of((t->>'schema')::name, (t->>'table')::name) s;
	-- Validation may take long, and the rest does not need it. It comes first because the tables may get other owners later.
	-- It is committed separately, so that the rest does not wait for it.
	RETURN QUERY SELECT 'validate', format('SET LOCAL lock_timeout = ''500ms''; SET LOCAL statement_timeout = ''25s''; %s', t->>'validate')
	FROM jsonb_array_elements(placed) t WHERE (t->>'placed')::boolean AND t->>'validate' <> '';
	-- Clients use these tables, so each has a separate transaction. A session that holds one lock and waits for another could
	-- deadlock with a client.
	RETURN QUERY SELECT 'table', format('SET LOCAL statement_timeout = ''25s''; DO %L', format($body$
DECLARE
	t record;
BEGIN
	SET LOCAL lock_timeout = '500ms';
	SET LOCAL client_min_messages = warning;
	SELECT c.oid, c.relreplident, x.* INTO t FROM pg_catalog.jsonb_to_record(%2$L) x(name text, side text, identity text, finish text) JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(x.name);
	IF t.side = 'target' AND pg_catalog.obj_description(t.oid, 'pg_class') = %1$L THEN
		EXECUTE t.finish;
	END IF;
	IF t.side = 'source' AND EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = t.oid AND g.tgname = 'shardfdw_moved' AND g.tgfoid IN (SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %1$L)) THEN
		EXECUTE pg_catalog.format('DROP TRIGGER shardfdw_moved ON %%s', t.name);
	END IF;
	IF t.side = 'source' AND t.identity IS NOT NULL AND t.relreplident = 'f' THEN
		-- together, since changes of a published table without replica identity fail
		EXECUTE 'DROP PUBLICATION IF EXISTS %1$I';
		EXECUTE pg_catalog.format('ALTER TABLE %%s REPLICA IDENTITY %%s', t.name, CASE t.identity WHEN 'n' THEN 'NOTHING' ELSE 'DEFAULT' END);
	END IF;
END$body$, schema_name, t)) FROM jsonb_array_elements(placed) t WHERE (t->>'placed')::boolean;
	-- If the caller gives up, the command and its locks do not remain on the node.
	RETURN QUERY SELECT 'rest', format('SET LOCAL statement_timeout = ''25s''; DO %L', format($body$
DECLARE
	t record;
	doomed text[] := '{}';
BEGIN
	SET LOCAL lock_timeout = '500ms';
	SET LOCAL client_min_messages = warning;
	-- another session may have removed it
	IF pg_catalog.to_regnamespace(%3$L) IS NULL THEN
		RETURN;
	END IF;
	EXECUTE 'DROP PUBLICATION IF EXISTS %1$I';
	FOR t IN SELECT pg_catalog.to_regclass(x.name) AS relation, x.* FROM pg_catalog.jsonb_to_recordset(%2$L) x(name text, side text, placed boolean, identity text)
	LOOP
		CONTINUE WHEN t.relation IS NULL;
		IF t.side = 'source' THEN
			-- A transaction prepared there may be the one that creates the trigger. Readers do not have to wait.
			IF NOT t.placed THEN
				EXECUTE pg_catalog.format('LOCK TABLE %%s IN SHARE ROW EXCLUSIVE MODE', t.name);
				SET LOCAL lock_timeout = '100ms';
			END IF;
			IF NOT t.placed AND EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
					WHERE g.tgrelid = pg_catalog.to_regclass(t.name) AND g.tgname = 'shardfdw_moved' AND n.nspname = %1$L) THEN
				doomed := doomed || t.name;
			ELSIF t.placed IS NULL THEN
				RAISE EXCEPTION 'nothing tells whether table %% is needed', t.name;
			ELSIF NOT t.placed AND t.identity IS NOT NULL AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(t.name) AND c.relreplident = 'f') THEN
				-- The shard has not moved, and its foreign table was dropped or detached. The table on the node stays, as after any such drop.
				EXECUTE pg_catalog.format('ALTER TABLE %%s REPLICA IDENTITY %%s', t.name, CASE t.identity WHEN 'n' THEN 'NOTHING' ELSE 'DEFAULT' END);
			ELSIF t.placed AND EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = t.relation AND g.tgname = 'shardfdw_moved' AND g.tgfoid IN (SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %1$L))
				OR t.placed AND t.identity IS NOT NULL AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = t.relation AND c.relreplident = 'f') THEN
				RAISE EXCEPTION 'table %% is in use', t.name;
			END IF;
		ELSIF pg_catalog.obj_description(t.relation, 'pg_class') = %1$L THEN
			IF t.placed IS NULL THEN
				RAISE EXCEPTION 'nothing tells whether table %% is needed', t.name;
			ELSIF t.placed THEN
				RAISE EXCEPTION 'table %% is in use', t.name;
			ELSE
				doomed := doomed || t.name;
			END IF;
		END IF;
	END LOOP;
	IF doomed <> '{}' THEN
		EXECUTE 'DROP TABLE ' || pg_catalog.array_to_string(doomed, ', ');
	END IF;
	EXECUTE 'DROP SCHEMA IF EXISTS %4$s CASCADE';
END$body$, schema_name, placed, quote_ident(schema_name), (SELECT string_agg(quote_ident(concat(schema_name, '_' || nullif(n, 1))), ', ')
		-- the names that job_schema() has returned
		FROM generate_series(1, (SELECT count(DISTINCT t->>'schema') FROM jsonb_array_elements(placed) t)) n)));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.trace_commands(name, jsonb) IS
	'Writes the commands that remove the leftovers of a job from a node. Returns in order: "validate", commands that validate the foreign keys of its tables where the shards are; "table", one command for each of these tables; "rest", the command that drops its schemas and publication, and its tables where the shards are not.';

CREATE FUNCTION shardfdw_internal.turn_command(note jsonb) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SET LOCAL lock_timeout = ''10s''; DO %L', format($body$
DECLARE
	n record;
BEGIN
	-- Another job may be writing its note. This transaction also writes one. Until it ends, other transactions wait to use the name of a schema.
	-- Any role could hold an advisory lock. Only roles that may write notes can make a schema.
	CREATE SCHEMA shardfdw_job;
	DROP SCHEMA shardfdw_job;
	WITH own AS MATERIALIZED (
		SELECT x.*, c.relowner FROM pg_catalog.jsonb_to_recordset(%1$L) x(side text, name text, schema text, "table" text) LEFT JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(x.name)
	), notes AS MATERIALIZED (
		-- Other roles could not work on the tables, and their notes may be invalid.
		SELECT m.parts, pg_catalog.obj_description(s.oid, 'pg_namespace') AS note
		FROM pg_catalog.pg_namespace s CROSS JOIN LATERAL pg_catalog.regexp_match(s.nspname, '^shardfdw_([0-9a-f]{16})_([0-9]{1,18})_[0-9a-f]{8}$') m(parts)
		WHERE %2$L::pg_catalog.jsonb ? m.parts[1] AND EXISTS (SELECT FROM own WHERE pg_catalog.pg_has_role(s.nspowner, own.relowner, 'USAGE'))
	)
	SELECT own.name, notes.parts[2] AS id, %2$L::pg_catalog.jsonb->>notes.parts[1] AS coordinator INTO n
	FROM notes CROSS JOIN LATERAL pg_catalog.jsonb_to_recordset(notes.note::pg_catalog.jsonb->'tables') t(schema text, "table" text) JOIN own ON own.schema = t.schema AND own."table" = t."table"
	ORDER BY own.side, own.name LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = pg_catalog.format('job %%s of coordinator "%%s" works on shard %%s', n.id, n.coordinator, n.name),
			HINT = pg_catalog.format('SELECT shardfdw.wait_job(%%s) on that coordinator waits for the job. If the job is not running, SELECT * FROM shardfdw.recover_prepared_transactions() there removes what it has left.', n.id);
	END IF;
END$body$, note->'tables', p.names))
	FROM (SELECT jsonb_object_agg(c.identity, c.name) AS names FROM shardfdw.coordinators c WHERE c.name = ANY (shardfdw_internal.peers())) p WHERE p.names IS NOT NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.turn_command(jsonb) IS
	'Writes the command that raises an error on a node if a job of another coordinator works there on the tables of a job, whose note is given. The note must be written in the same transaction. Returns null if there is no other coordinator.';

CREATE FUNCTION shardfdw_internal.source_has_tables(note jsonb) RETURNS boolean
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce((SELECT q.ok AND (q.fields)[1] = 't' FROM (
		SELECT s.srvname, format($query$SELECT bool_and(to_regclass(x.name) IS NOT NULL AND NOT EXISTS (
				SELECT FROM pg_trigger g WHERE g.tgrelid = to_regclass(x.name) AND EXISTS (SELECT FROM pg_proc f WHERE f.oid = g.tgfoid AND f.proname = 'moved' AND f.pronamespace::regnamespace::text ~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'))) FROM unnest(%L::text[]) x(name)$query$, n.names) AS command
		FROM (SELECT array_agg(t->>'name') FILTER (WHERE t->>'side' = 'source') AS own, array_agg(t->>'name') AS names FROM jsonb_array_elements(note->'tables') t) a
		-- Only the note of a target contains the names on the source.
		CROSS JOIN LATERAL (SELECT coalesce(a.own, a.names) AS names, (CASE WHEN a.own IS NULL THEN note->>'other' ELSE note->>'server' END)::oid AS server) n
		JOIN pg_foreign_server s ON s.oid = n.server) c
		CROSS JOIN LATERAL shardfdw_internal.run_commands(ARRAY[c.srvname], ARRAY[c.command], 'settle', false) q), false)
$$;
COMMENT ON FUNCTION shardfdw_internal.source_has_tables(jsonb) IS
	'Checks on the source of a job, whose note is given, whether its tables exist. Returns true if all of them exist and have not moved; false otherwise, or if the node does not answer.';

CREATE FUNCTION shardfdw_internal.remove_traces(nodes name[], own bigint DEFAULT NULL)
	RETURNS TABLE (node name, message text, ok boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	t record;
	peers CONSTANT name[] := shardfdw_internal.peers();
BEGIN
	PERFORM shardfdw_internal.check_isolation('recover_prepared_transactions');
	-- The catalogs of an unconfirmed clone of the coordinator may be older than the job, and the job may still run on the original.
	IF NOT (SELECT i.confirmed FROM shardfdw_internal.coordinator_identity() i) THEN
		RETURN;
	END IF;
	FOR t IN SELECT x.* FROM (SELECT array_agg(n) AS usable FROM unnest(nodes) n WHERE has_server_privilege(n, 'USAGE')) u,
			shardfdw_internal.job_traces(coalesce(u.usable, '{}')) x WHERE own IS NULL OR x.is_own AND x.id = own
	LOOP
		-- The process of the job holds the lock already. Its leftovers may be gone by now; the commands check that again.
		CONTINUE WHEN NOT shardfdw_internal.claim_job(t.id, 0);
		-- An administrator may have confirmed the commits of a predecessor wrongly. Then the tables that look superfluous are the only ones.
		IF NOT t.is_own AND EXISTS (
			SELECT FROM jsonb_array_elements(t.note->'tables') x
			-- of a split, where source and target are one node, the new tables
			WHERE (x->>'side' = 'target' OR t.note->>'server' <> t.note->>'other')
				AND (CASE x->>'side' WHEN 'target' THEN t.note->>'server' ELSE t.note->>'other' END)::oid <> ALL (shardfdw_internal.servers_of((x->>'schema')::name, (x->>'table')::name)))
			AND NOT shardfdw_internal.source_has_tables(t.note) THEN
			RETURN QUERY VALUES (t.node, format('what job %s of a predecessor has left: nothing tells whether its tables are needed', t.id), false);
			CONTINUE;
		END IF;
		-- The process of the job would have waited for these transactions (move/place.c). They would miss the table, or read an empty
		-- one there after a move back.
		IF (SELECT t.note->>'server' <> t.note->>'other' AND bool_and((t.note->>'server')::oid <> ALL (shardfdw_internal.servers_of((x->>'schema')::name, (x->>'table')::name)))
				FROM jsonb_array_elements(t.note->'tables') x WHERE x->>'side' = 'source')
			AND (shardfdw_internal.old_tables_in_use(t.node, t.note->'tables') OR EXISTS (
				SELECT FROM shardfdw_internal.run_commands(peers, array_fill(format('SELECT shardfdw_internal.old_tables_in_use(%L, %L)', t.node, t.note->'tables'),
					ARRAY[cardinality(peers)]), 'settle', false) q WHERE NOT q.ok OR (q.fields)[1] = 't')) THEN
			PERFORM shardfdw_internal.run_commands(ARRAY[t.node], ARRAY[shardfdw_internal.release_command(t.schema_name)], 'settle', false);
			RETURN QUERY VALUES (t.node, format('what job %s has left: transactions that began before the switch may read the old tables', t.id), false);
			CONTINUE;
		END IF;
		RETURN QUERY
		SELECT q.node, CASE WHEN q.ok THEN format('what job %s has left', t.id)
			WHEN q.kind = 'validate' THEN format('foreign keys of job %s, which are not validated: %s', t.id, q.message)
			ELSE format('what job %s has left: %s', t.id, q.message) END, q.ok
		-- Each bounded like recovery: transactions in doubt on other nodes and in other databases wait for this.
		FROM shardfdw_internal.trace_commands(t.schema_name, t.note) c
		CROSS JOIN LATERAL (SELECT r.node, r.ok, r.message, c.kind FROM shardfdw_internal.run_commands(ARRAY[t.node], ARRAY[c.command], 'settle', false) r) q
		WHERE NOT q.ok OR q.kind = 'rest';
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.remove_traces(name[], bigint) IS
	'Removes the leftovers of ended jobs from nodes. own: removes only those of this job, which the process of the job may do itself; null for all. Returns one row for each job and node, with the node''s error if it failed, and one row for foreign keys that could not be validated.';

CREATE FUNCTION shardfdw_internal.start_job(shards regclass[], target oid, pieces integer, at text[], online boolean, verify boolean) RETURNS bigint
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_start_job';
COMMENT ON FUNCTION shardfdw_internal.start_job(regclass[], oid, integer, text[], boolean, boolean) IS
	'Starts the process of a move (one shard, pieces: 1), a split (at these values, or by hash) or a merge (several shards). The process makes all checks itself. Returns the number of the job. Raises insufficient_resources.';

CREATE FUNCTION shardfdw_internal.await_job(id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.wait_move(id);
EXCEPTION WHEN query_canceled OR active_sql_transaction THEN
	PERFORM shardfdw.cancel_job(id);
	RAISE;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.await_job(bigint) IS
	'Waits for a job as wait_move() does. Cancels the job if the wait is cancelled or the job would wait for this transaction. Returns nothing. Raises the error that ended the job.';

CREATE FUNCTION shardfdw_internal.run_job(function_name text, shards regclass[], target oid, pieces integer, at text[], mode text, verify boolean, wait boolean) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	id bigint;
BEGIN
	IF verify IS NULL OR wait IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'verify and wait must not be null';
	END IF;
	IF wait THEN
		PERFORM shardfdw_internal.check_wait(function_name, (SELECT m.node FROM shardfdw_internal.moving_tables(shards[1]) m LIMIT 1), mode);
	END IF;
	id := shardfdw_internal.start_job(shards, target, pieces, at, mode = 'online', verify);
	IF wait THEN
		PERFORM shardfdw_internal.await_job(id);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_job(text, regclass[], oid, integer, text[], text, boolean, boolean) IS
	'Starts a job after its checks, and optionally waits for it. Returns the number of the job. Raises null_value_not_allowed, active_sql_transaction, and the error that ended the job.';

CREATE FUNCTION shardfdw.move_shard(shard regclass, node name, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.check_isolation('move_shard');
	PERFORM shardfdw_internal.check_move_here(shard, node, mode);
	RETURN shardfdw_internal.run_job('move_shard', ARRAY[shard], (SELECT s.oid FROM pg_foreign_server s WHERE s.srvname = node), 1, '{}', mode, verify, wait);
END
$$;
COMMENT ON FUNCTION shardfdw.move_shard(regclass, name, text, boolean, boolean) IS
	'Moves a shard to another node, together with the shards of colocated tables that have the same keys. mode: online, or block, where writers of these shards wait during the whole copy. verify: compares the rows of both nodes before the switch. wait: true returns when the shards are moved, false returns immediately. A background process does the work; a rollback of this transaction does not undo it. Returns the number of the job. Raises an error before anything changes if the shards cannot be moved.';
REVOKE ALL ON FUNCTION shardfdw.move_shard(regclass, name, text, boolean, boolean) FROM PUBLIC;
