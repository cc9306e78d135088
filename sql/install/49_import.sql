-- Imports the rows of a table of another server into a sharded table while that table is written to: the checks, and the steps of the job.
-- src/move/import/import_job.c defines the order and the transactions of the steps.
--
-- During the import, a trigger of the table (shardfdw_import) rejects all writes except those of the job, which acts as a replica. The arguments
-- of the trigger identify the job. The trigger remains after a crash: then the table is incomplete until recovery has emptied it.

CREATE FUNCTION shardfdw_internal.refuse_write_of_import() RETURNS trigger
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('table "%s" cannot be written to while job %s imports its rows', TG_TABLE_NAME, TG_ARGV[0]),
		HINT = format('SELECT shardfdw.cut_over(%s) makes this table the one to write to, SELECT shardfdw.cancel_job(%1$s) empties it. After a crash, SELECT * FROM shardfdw.recover_prepared_transactions() does that.', TG_ARGV[0]);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.refuse_write_of_import() IS
	'Rejects writes of other sessions to a table into which a job imports rows. Raises object_in_use.';

CREATE FUNCTION shardfdw_internal.imports() RETURNS TABLE (relation regclass, job bigint, identity text, stage text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t.tgrelid::regclass, a.args[1]::bigint, a.args[2], a.args[3]
	FROM pg_trigger t CROSS JOIN LATERAL (SELECT string_to_array(encode(t.tgargs, 'escape'), '\000') AS args) a
	WHERE t.tgfoid = 'shardfdw_internal.refuse_write_of_import()'::regprocedure
		-- each role can create such a trigger for its tables
		AND CASE WHEN a.args[1] ~ '^[0-9]{1,18}$' THEN shardfdw_internal.job_works_on(a.args[1]::bigint, 'import', t.tgrelid) END
$$;
COMMENT ON FUNCTION shardfdw_internal.imports() IS
	'Lists the tables into which jobs of the journal import rows, or were importing rows when their process died. Returns each with the number of the job, the identity of its coordinator, and its stage, see mark_import().';

CREATE FUNCTION shardfdw_internal.mark_import(relation regclass, job bigint, stage text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
BEGIN
	-- readers and this lock do not block each other
	EXECUTE format('CREATE OR REPLACE TRIGGER shardfdw_import BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT %s EXECUTE FUNCTION shardfdw_internal.refuse_write_of_import(%s, %L, %L)',
		relation, CASE WHEN stage = 'done' THEN 'WHEN (false)' END, job, (SELECT i.identity FROM shardfdw_internal.coordinator_identity() i), stage);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.mark_import(regclass, bigint, text) IS
	'Prevents all sessions except the job from writing to the table. stage: copying; switching, when the source may be closed already; done, when all sessions may write again. Returns nothing. Waits for transactions that have written to the table.';

CREATE FUNCTION shardfdw_internal.drop_import_mark(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
BEGIN
	EXECUTE format('DROP TRIGGER shardfdw_import ON %s', relation);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_import_mark(regclass) IS
	'Removes the trigger of mark_import(). Returns nothing. Waits for all sessions that use the table.';

CREATE FUNCTION shardfdw_internal.undo_import(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s'
AS $$
BEGIN
	-- only the job could write to it
	PERFORM shardfdw_internal.drop_import_mark(relation);
	EXECUTE format('TRUNCATE %s', relation);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.undo_import(regclass) IS
	'Empties a table whose import has failed, and lets all sessions write to it again. Returns nothing. Raises lock_not_available, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.undo_own_import(relation regclass, job bigint) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.undo_import(x.relation) FROM shardfdw_internal.imports() x WHERE (x.relation, x.job) = ($1, $2) AND x.stage <> 'done'
$$;
COMMENT ON FUNCTION shardfdw_internal.undo_own_import(regclass, bigint) IS
	'Does undo_import() for a failed job if the job has started to fill the table. Returns nothing. Raises lock_not_available, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.begin_import(relation regclass, job bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- Left by a job whose process died: no such job runs, because this job holds the lock of the table.
	PERFORM shardfdw_internal.remove_imports();
	PERFORM shardfdw_internal.check_import_here(relation);
	IF EXISTS (SELECT FROM shardfdw_internal.imports() x WHERE x.relation = begin_import.relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('table %s has something left of another import', relation),
			HINT = 'SELECT * FROM shardfdw.recover_prepared_transactions() removes it, or says what to do.';
	END IF;
	PERFORM shardfdw_internal.mark_import(relation, job, 'copying');
	-- Sessions that wrote to the table have ended, and no other session writes from now on.
	PERFORM shardfdw_internal.check_import_empty(relation);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.begin_import(regclass, bigint) IS
	'First step of an import: prevents all sessions except the job from writing to the table. Returns nothing. Raises an error if the table cannot be imported, and lock_not_available.';

CREATE FUNCTION shardfdw_internal.import_owners() RETURNS SETOF oid
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT c.relowner FROM shardfdw_internal.imports() x JOIN pg_class c ON c.oid = x.relation ORDER BY 1
$$;
COMMENT ON FUNCTION shardfdw_internal.import_owners() IS
	'Lists the owners of tables into which jobs import rows, or were importing rows when their process died. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.undecided_traces(nodes name[]) RETURNS TABLE (node name, message text, ok boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	predecessors CONSTANT text[] := ARRAY(SELECT c.identity FROM shardfdw_internal.coordinator c
		WHERE c.taken_over_at IS NOT NULL AND c.identity <> ALL (shardfdw_internal.decided_identities()));
	is_member CONSTANT boolean := EXISTS (SELECT FROM shardfdw.coordinators c WHERE c.is_this);
BEGIN
	IF predecessors = '{}' AND NOT is_member THEN
		RETURN;
	END IF;
	RETURN QUERY
	SELECT x.node, CASE WHEN x.identity = ANY (predecessors) THEN
		format('what job %s of predecessor "%s" has left, of which commits may be missing here. If none is missing: SELECT shardfdw.resolve_transaction(%L, ''rollback'')', x.job, x.identity, x.identity)
		ELSE format('what job %s of coordinator "%s" has left, which is not among shardfdw.coordinators', x.job, x.identity) END, false
	FROM (
		SELECT q.node, t.parts[1], t.parts[2]
		FROM shardfdw_internal.run_commands(nodes, array_fill('SELECT n.nspname FROM pg_namespace n WHERE n.nspname ~ ''^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'' AND pg_get_userbyid(n.nspowner) = current_user'::text, ARRAY[cardinality(nodes)]), 'settle', false) q
		CROSS JOIN LATERAL regexp_match((q.fields)[1], '^shardfdw_([0-9a-f]{16})_([0-9]{1,18})_[0-9a-f]{8}$') t(parts)
		WHERE q.fields IS NOT NULL
		UNION
		SELECT NULL, t.parts[2], t.parts[1] FROM pg_description d CROSS JOIN LATERAL regexp_match(d.description, '^job ([0-9]{1,18}) of coordinator ([0-9a-f]{16})') t(parts)
		WHERE d.classoid IN ('pg_class'::regclass, 'pg_proc'::regclass)
		UNION
		SELECT NULL, i.identity, i.job::text FROM shardfdw_internal.imports() i) x(node, identity, job)
	WHERE x.identity = ANY (predecessors) OR is_member AND x.node IS NOT NULL AND x.identity <> ALL (shardfdw_internal.decided_identities())
		AND NOT EXISTS (SELECT FROM shardfdw.coordinators c WHERE c.identity = x.identity)
	ORDER BY x.job::bigint, x.node;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.undecided_traces(name[]) IS
	'Queries nodes, and searches here, for what jobs of predecessors have left of which this server may lack commits. Also finds what jobs of removed coordinators have left on nodes. Recovery leaves both alone. Returns a row for each job and node, and a row without a node for each job that has left objects here.';
REVOKE ALL ON FUNCTION shardfdw_internal.undecided_traces(name[]) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.remove_imports() RETURNS TABLE (node name, message text, ok boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
AS $$
DECLARE
	found record;
BEGIN
	FOR found IN
		-- If this database is a clone, it has the triggers of the original coordinator. They are of no use here, but only the original may judge them.
		SELECT x.* FROM shardfdw_internal.imports() x
		WHERE shardfdw_internal.is_owner(x.relation) AND NOT shardfdw_internal.job_is_running(x.job) AND x.identity = ANY (shardfdw_internal.decided_identities())
	LOOP
		-- Two recoveries of one table would wait for each other's locks.
		CONTINUE WHEN NOT shardfdw_internal.claim_job(found.job, 10000)
			OR NOT EXISTS (SELECT FROM shardfdw_internal.imports() x WHERE (x.relation, x.job, x.identity) = (found.relation, found.job, found.identity));
		ok := found.stage <> 'switching';
		IF found.stage = 'switching' THEN
			message := format('table %s, of job %s, which died while it cut over: if the source refuses writes to its table as moved, all rows are here: DROP TRIGGER shardfdw_import ON %1$s. If the source accepts writes: DROP TRIGGER shardfdw_import ON %1$s; TRUNCATE %1$s; and import again', found.relation, found.job);
		ELSE
			message := format('what job %s has left of its import into %s', found.job, found.relation);
			BEGIN
				IF found.stage = 'done' THEN
					PERFORM shardfdw_internal.drop_import_mark(found.relation);
				ELSE
					PERFORM shardfdw_internal.undo_import(found.relation);
				END IF;
			EXCEPTION WHEN OTHERS THEN
				ok := false;
				message := message || ': ' || SQLERRM;
			END;
		END IF;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.remove_imports() IS
	'Empties tables of the current user into which jobs were importing rows when their process died. Returns a row for each, without a node, with the error if it failed. An import that died during the cut-over is only reported.';

CREATE FUNCTION shardfdw_internal.import_source_query(schema_name name, table_name name, publication name) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- For version 10 and later. Columns that older versions lack are read through JSON.
	SELECT format('WITH given AS (SELECT %L::name AS schema_name, %L::name AS table_name, %L::name AS publication), wanted AS (SELECT publication FROM given)', schema_name, table_name, publication) || $query$
SELECT json_build_object(
	'version', current_setting('server_version_num')::integer, 'standby', pg_is_in_recovery(), 'role', current_user, 'wal_level', current_setting('wal_level'),
	'decodes', current_setting('wal_level') = 'logical' OR current_setting('effective_wal_level', true) IS NOT NULL AND current_setting('wal_level') = 'replica',
	'may_replicate', (SELECT r.rolreplication OR r.rolsuper FROM pg_roles r WHERE r.rolname = current_user),
	'may_create', has_database_privilege(current_database(), 'CREATE'),
	'slots', current_setting('max_replication_slots')::integer - (SELECT count(*) FROM pg_replication_slots),
	'senders', current_setting('max_wal_senders')::integer - (SELECT count(*) FROM pg_stat_get_wal_senders()),
	'publication', (SELECT to_json(p) FROM pg_publication p WHERE p.pubname = (TABLE wanted)),
	'published', (SELECT to_json(t) FROM pg_publication_tables t, given g WHERE t.pubname = (TABLE wanted) AND (t.schemaname, t.tablename) = (g.schema_name, g.table_name)),
	'table', (SELECT json_build_object('oid', c.oid, 'kind', c.relkind, 'persistence', c.relpersistence, 'identity', c.relreplident, 'is_parent', EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid),
			'may_select', has_table_privilege(c.oid, 'SELECT') OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')),
			'owns', pg_has_role(c.relowner, 'USAGE'), 'filtered', row_security_active(c.oid),
			-- version 10 does not replicate TRUNCATE
			'file', CASE WHEN current_setting('server_version_num')::integer < 110000 THEN pg_relation_filenode(c.oid) END,
			'columns', (SELECT json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'number', a.attnum, 'xmin', a.xmin::text,
					'generated', coalesce(to_json(a)->>'attgenerated', '') <> '', 'is_key', EXISTS (
						SELECT FROM pg_index i CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, ord)
						WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
							AND k.attnum = a.attnum AND k.ord <= coalesce(to_json(i)->>'indnkeyatts', i.indnatts::text)::integer)) ORDER BY a.attnum)
				FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, given g WHERE (n.nspname, c.relname) = (g.schema_name, g.table_name)))
FROM (SELECT) q$query$
$$;
COMMENT ON FUNCTION shardfdw_internal.import_source_query(name, name, name) IS
	'Writes the query, to be run on another server, that tells whether a table there can be imported. publication: the publication to use; null for none yet. Returns its text. The query returns settings, free slots, privileges of its role, the table and its columns, as JSON.';

CREATE FUNCTION shardfdw_internal.referring_table(relation regclass) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- only the nodes have the foreign keys of shards
	SELECT min((q.fields)[1])
	FROM (SELECT array_agg(s.node) AS nodes, array_agg(s.command) AS commands
		FROM (SELECT s.node, format('SELECT min(k.conrelid::regclass::text) FROM pg_constraint k WHERE k.contype = ''f'' AND k.confrelid IN (SELECT to_regclass(n) FROM unnest(%L::text[]) n)',
				array_agg(s.remote_name)) AS command
			FROM shardfdw_internal.shards_of(relation) s GROUP BY s.node) s) x,
		shardfdw_internal.run_commands(x.nodes, x.commands, 'write') q
$$;
COMMENT ON FUNCTION shardfdw_internal.referring_table(regclass) IS
	'Queries the nodes for foreign keys that refer to shards of a table, including its own. Returns the name of a table there with such a key, null if there is none.';

CREATE FUNCTION shardfdw_internal.check_import_here(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
	refusal CONSTANT text := format('cannot import rows into table "%s"', table_name);
	found text;
BEGIN
	IF table_name IS NULL OR NOT shardfdw_internal.is_sharded(relation) OR (SELECT count(*) FROM shardfdw_internal.shards_of(relation)) = 0 THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'sharded table');
	END IF;
	IF shardfdw_internal.has_replicas(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because its shards have replicas', HINT = 'Load it by COPY.';
	END IF;
	IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = relation AND c.relkind <> 'f') THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it has partitions that are no shards', HINT = 'Load it by COPY.';
	END IF;
	found := (SELECT i.inhparent::regclass::text FROM pg_inherits i WHERE i.inhrelid = relation);
	IF found IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because it is a partition of %s', refusal, found),
			DETAIL = 'Sessions could write to it through that table during the import.', HINT = 'ALTER TABLE ... DETACH PARTITION before, and ATTACH it when the rows are here.';
	END IF;
	PERFORM shardfdw_internal.check_conversion_owner(relation);
	PERFORM shardfdw_internal.make_schema_on_nodes(relation, s.schema_name, array_agg(DISTINCT s.node)) FROM (
		SELECT n.nspname AS schema_name, v.srvname AS node FROM shardfdw_internal.shards_of(relation) x JOIN pg_class c ON c.oid = x.shard JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server v ON v.oid = f.ftserver) s GROUP BY s.schema_name;
	IF EXISTS (SELECT FROM shardfdw.coordinators) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' while other coordinators know it',
			DETAIL = 'They would accept writes to it during the import.', HINT = 'Import before shardfdw.add_coordinator().';
	END IF;
	IF row_security_active(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because of its row security, which holds for its owner, too',
			HINT = format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY changes that.', relation);
	END IF;
	found := shardfdw_internal.referring_table(relation);
	IF found IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because table %s refers to it', refusal, found),
			DETAIL = 'If a row changes during the import, the job deletes it and inserts it again. The nodes would delete the rows that refer to it, or raise an error.', HINT = 'Make the foreign key when the rows are here.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_import_here(regclass) IS
	'Checks a requested import with the catalogs of the coordinator and its nodes. Returns nothing. Raises wrong_object_type, insufficient_privilege or feature_not_supported.';

CREATE FUNCTION shardfdw_internal.check_import_empty(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.multi_shard_statements = allow SET shardfdw.max_rows_gathered = 0 SET row_security = off
AS $$
DECLARE
	has_rows boolean;
BEGIN
	EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s)', relation) INTO has_rows;
	IF has_rows THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('cannot import rows into table "%s" because it is not empty', (SELECT c.relname FROM pg_class c WHERE c.oid = relation)),
			HINT = format('TRUNCATE %s.', relation);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_import_empty(regclass) IS
	'Checks that a table has no rows. Returns nothing. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_import_source(relation regclass, plan jsonb, source jsonb) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	online CONSTANT boolean := plan->>'mode' = 'online';
	refusal CONSTANT text := format('cannot import table %I.%I of the source', plan->>'schema', plan->>'table');
	kind CONSTANT text := source->'table'->>'kind';
	other_mode CONSTANT text := 'A copy that does not follow later changes needs none of this: mode => ''copy''.';
	generated text;
BEGIN
	IF source->>'table' IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('table %I.%I does not exist on the source', plan->>'schema', plan->>'table'),
			HINT = 'Name it: source => ''schema.table''.';
	END IF;
	IF kind NOT IN ('r', 'p') OR online AND (kind = 'p' OR (source->'table'->>'is_parent')::boolean) THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('%s because it is %s', refusal, CASE WHEN kind = 'p' THEN 'partitioned' WHEN kind = 'r' THEN 'a parent of others' ELSE 'no table' END),
			HINT = CASE WHEN kind IN ('r', 'p') THEN other_mode ELSE 'Name a table: source => ''schema.table''.' END;
	END IF;
	IF NOT (source->'table'->>'may_select')::boolean OR (source->'table'->>'filtered')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('%s because role "%s" may not read all of it', refusal, source->>'role'),
			HINT = 'It needs SELECT there, and must not be subject to row security.';
	END IF;
	IF NOT online THEN
		RETURN;
	END IF;
	IF source->'table'->>'persistence' <> 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s online because it is unlogged or temporary', refusal), HINT = other_mode;
	END IF;
	IF (source->>'standby')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s online because the server is a standby', refusal), HINT = 'Name its primary. ' || other_mode;
	END IF;
	IF NOT (source->>'decodes')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('%s online: wal_level is "%s" there', refusal, source->>'wal_level'),
			HINT = 'Set wal_level to logical there and restart it. ' || other_mode;
	END IF;
	IF NOT (source->>'may_replicate')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('%s online: role "%s" may not replicate there', refusal, source->>'role'),
			HINT = 'ALTER ROLE ... REPLICATION there. ' || other_mode;
	END IF;
	IF (source->>'slots')::integer < 2 OR (source->>'senders')::integer < 2 THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('%s online: the server has no room for two more replication slots and WAL senders', refusal),
			DETAIL = format('Free are %s slots and %s senders.', source->>'slots', source->>'senders'), HINT = 'Raise max_replication_slots or max_wal_senders there. ' || other_mode;
	END IF;
	IF NOT (source->'table'->>'owns')::boolean OR NOT (source->>'may_create')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('%s online: role "%s" %s', refusal, source->>'role', CASE WHEN (source->>'may_create')::boolean THEN 'does not own it' ELSE 'may not create anything in its database' END),
			DETAIL = 'It publishes the table''s changes, and closes it when this one takes its place.', HINT = 'Use the owner''s role, and GRANT CREATE ON DATABASE to it. ' || other_mode;
	END IF;
	IF plan->>'publication' IS NOT NULL THEN
		IF source->>'publication' IS NULL OR source->>'published' IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('publication "%s" of the source does not have table %I.%I', plan->>'publication', plan->>'schema', plan->>'table'),
				HINT = 'Leave it out to have one made for the job.';
		END IF;
		IF NOT ((source->'publication'->>'pubinsert')::boolean AND (source->'publication'->>'pubupdate')::boolean AND (source->'publication'->>'pubdelete')::boolean
				AND coalesce((source->'publication'->>'pubtruncate')::boolean, true))
			OR source->'published'->>'rowfilter' IS NOT NULL
			OR jsonb_array_length(source->'published'->'attnames') < (SELECT count(*) FROM jsonb_array_elements(source->'table'->'columns') c WHERE NOT (c->>'generated')::boolean) THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('publication "%s" of the source does not publish all changes of the table', plan->>'publication'),
				DETAIL = 'It has a row filter, a list of columns, or leaves out a kind of changes.', HINT = 'Leave it out to have one made for the job.';
		END IF;
	END IF;
	IF source->'table'->>'identity' = 'f' THEN
		IF NOT EXISTS (SELECT FROM shardfdw_internal.identity_columns(relation)) THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('cannot import rows into table %s online because it has no primary key', relation),
				DETAIL = 'The source has REPLICA IDENTITY FULL. The import then finds rows that change by a key of this table.', HINT = other_mode;
		END IF;
	ELSIF NOT EXISTS (SELECT FROM jsonb_array_elements(source->'table'->'columns') c WHERE (c->>'is_key')::boolean) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('%s online because it has no replica identity', refusal),
			HINT = 'Give it a primary key that is not deferrable, or ALTER TABLE ... REPLICA IDENTITY USING INDEX or FULL there. ' || other_mode;
	END IF;
	SELECT c->>'name' INTO generated FROM jsonb_array_elements(source->'table'->'columns') c
	WHERE ((c->>'generated')::boolean OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = c->>'name' AND a.attgenerated <> ''))
		AND CASE WHEN source->'table'->>'identity' = 'f' THEN quote_ident(c->>'name') IN (SELECT i.name FROM shardfdw_internal.identity_columns(relation) i) ELSE (c->>'is_key')::boolean END;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s online because column "%s", which tells which row a change is about, is generated', refusal, generated), HINT = other_mode;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_import_source(regclass, jsonb, jsonb) IS
	'Checks the answer of the source to import_source_query() for a requested import. Returns nothing. Raises undefined_table, undefined_object, wrong_object_type, insufficient_privilege, object_not_in_prerequisite_state or feature_not_supported.';

CREATE FUNCTION shardfdw_internal.import_columns(relation regclass, source jsonb) RETURNS TABLE (name text, is_key boolean)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT coalesce(h.name, t.name) AS name, h.type AS here, t.type AS there, coalesce(h.generated, false) AS generated_here, coalesce(t.generated, false) AS generated_there
		FROM (SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attgenerated <> '' AS generated
			  FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped) h
		FULL JOIN (SELECT c->>'name' AS name, c->>'type' AS type, (c->>'generated')::boolean AS generated FROM jsonb_array_elements(source->'table'->'columns') c) t ON t.name = h.name
		ORDER BY 1
	LOOP
		IF r.here IS NULL OR r.there IS NULL AND NOT r.generated_here THEN
			RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('column "%s" exists %s', r.name, CASE WHEN r.here IS NULL THEN 'only on the source' ELSE 'only here' END),
				HINT = 'Both tables have to have the same columns.';
		ELSIF r.generated_there AND NOT r.generated_here THEN
			RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('column "%s" is generated on the source, and not here', r.name),
				DETAIL = 'The source does not send what it generates.', HINT = 'Both tables have to have the same columns.';
		ELSIF r.here <> r.there THEN
			RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('column "%s" has type %s here and %s on the source', r.name, r.here, r.there),
				HINT = 'Both tables have to have the same columns.';
		END IF;
	END LOOP;
	RETURN QUERY SELECT c->>'name', CASE WHEN source->'table'->>'identity' = 'f'
			THEN quote_ident(c->>'name') IN (SELECT i.name FROM shardfdw_internal.identity_columns(relation) i) ELSE coalesce((c->>'is_key')::boolean, false) END
		FROM jsonb_array_elements(source->'table'->'columns') c JOIN pg_attribute a ON a.attrelid = relation AND a.attname = c->>'name' AND a.attgenerated = ''
		ORDER BY (c->>'number')::integer;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.import_columns(regclass, jsonb) IS
	'Lists the columns whose values the source sends, and which of them identify a changed row: those of its replica identity, or if that is the whole row, those of this table''s key. source: the result of import_source_query(). Raises datatype_mismatch if columns differ.';

CREATE FUNCTION shardfdw_internal.sequences_query(relation text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- sequences of identity and serial columns, and sequences that a default names
	SELECT format($query$SELECT coalesce(json_agg(json_build_object('column', a.attname, 'sequence', d.sequence, 'value', pg_sequence_last_value(d.sequence))), '[]')
		FROM (SELECT d.refobjsubid AS attnum, d.objid AS sequence FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
				AND d.refobjid = %1$L::regclass AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
			UNION SELECT f.adnum, d.refobjid FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
			WHERE f.adrelid = %1$L::regclass) d
		JOIN pg_class s ON s.oid = d.sequence AND s.relkind = 'S' JOIN pg_attribute a ON a.attrelid = %1$L::regclass AND a.attnum = d.attnum$query$, relation)
$$;
COMMENT ON FUNCTION shardfdw_internal.sequences_query(text) IS
	'Writes the query, to be run here or on another server, for the sequences of a table''s columns. Returns its text. The query returns for each column its sequence and its last value, null if unused, as JSON.';

CREATE FUNCTION shardfdw_internal.set_import_sequences(relation regclass, source jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	here jsonb;
BEGIN
	EXECUTE shardfdw_internal.sequences_query(relation::text) INTO here;
	-- a sequence that several tables use may be ahead already
	PERFORM setval(q.seqrelid::regclass, (t->>'value')::bigint)
	FROM jsonb_array_elements(here) h JOIN jsonb_array_elements(source) t ON t->>'column' = h->>'column'
	JOIN pg_sequence q ON q.seqrelid = (h->>'sequence')::oid
	WHERE t->>'value' IS NOT NULL AND (h->>'value' IS NULL OR CASE WHEN q.seqincrement > 0 THEN (h->>'value')::bigint < (t->>'value')::bigint ELSE (h->>'value')::bigint > (t->>'value')::bigint END);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.set_import_sequences(regclass, jsonb) IS
	'Sets the sequences of a table''s columns to the values of the source. source: the result of sequences_query() there. Returns nothing.';

CREATE FUNCTION shardfdw_internal.import_close_commands(schema name, relation text, place text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Statements on a parent of the table, and changes that a subscription applies, fire only row triggers.
	SELECT format($commands$CREATE SCHEMA %1$I; COMMENT ON SCHEMA %1$I IS %4$L;
		CREATE FUNCTION %1$I.moved() RETURNS trigger LANGUAGE plpgsql AS %3$L;
		CREATE TRIGGER shardfdw_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %2$s FOR EACH STATEMENT EXECUTE PROCEDURE %1$I.moved();
		ALTER TABLE %2$s ENABLE ALWAYS TRIGGER shardfdw_moved;
		CREATE TRIGGER shardfdw_moved_rows BEFORE INSERT OR UPDATE OR DELETE ON %2$s FOR EACH ROW EXECUTE PROCEDURE %1$I.moved();
		ALTER TABLE %2$s ENABLE ALWAYS TRIGGER shardfdw_moved_rows$commands$, schema, relation,
		format($body$BEGIN
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = pg_catalog.format('table "%%s" has moved to another server', TG_TABLE_NAME),
		DETAIL = %L, HINT = %L;
END$body$, format('Its rows were imported by shardfdw on %s.', place), format('Connect there. DROP SCHEMA %I CASCADE opens this table again.', schema)),
		format('Keeps writers from %s, whose rows were imported by shardfdw on %s.', relation, place))
$$;
COMMENT ON FUNCTION shardfdw_internal.import_close_commands(name, text, text) IS
	'Writes the commands that close the table of the source: triggers reject all writes. Dropping their schema opens the table again. Returns them in one text.';

CREATE FUNCTION shardfdw_internal.sums_query(relations text[], column_list text, by_md5 boolean) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT concat_ws('' '', count(*), sum(x.h >> 32), sum(x.h & 4294967295)) FROM (%s) x',
		string_agg(format('SELECT %s AS h FROM %s', format(CASE WHEN by_md5 THEN '(''x'' || substr(md5(convert_to(ROW(%s)::text, ''UTF8'')), 1, 16))::bit(64)::bigint' ELSE 'hashtextextended((ROW(%s)::text) COLLATE "C", 0)' END, column_list), r), ' UNION ALL '))
	FROM unnest(relations) r
$$;
COMMENT ON FUNCTION shardfdw_internal.sums_query(text[], text, boolean) IS
	'Writes the query for the number of rows of tables, and the sums of both halves of the rows'' hashes, which do not depend on the order. by_md5: for servers before version 11, and for servers with different encodings. Returns its text.';

CREATE FUNCTION shardfdw_internal.import_sums_queries(relation regclass, column_list text, by_md5 boolean) RETURNS TABLE (server oid, query text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.oid, shardfdw_internal.sums_query(array_agg(x.remote_name), column_list, by_md5)
	FROM shardfdw_internal.shards_of(relation) x JOIN pg_foreign_server s ON s.srvname = x.node GROUP BY s.oid
$$;
COMMENT ON FUNCTION shardfdw_internal.import_sums_queries(regclass, text, boolean) IS
	'Writes sums_query() for the shards of each node. Returns a row for each.';

CREATE FUNCTION shardfdw_internal.start_import(relation oid, plan text, conninfo text, online boolean, verify boolean) RETURNS bigint
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_start_import';
COMMENT ON FUNCTION shardfdw_internal.start_import(oid, text, text, boolean, boolean) IS
	'Starts the process of an import. Returns the number of its job. Raises insufficient_resources.';

CREATE FUNCTION shardfdw.import_table(relation regclass, conninfo text, source text DEFAULT NULL, publication name DEFAULT NULL, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off SET row_security = off
AS $$
#variable_conflict use_variable
DECLARE
	id bigint;
	names text[];
BEGIN
	PERFORM shardfdw_internal.check_isolation('import_table');
	IF relation IS NULL OR conninfo IS NULL OR mode IS NULL OR verify IS NULL OR wait IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation, conninfo, mode, verify and wait must not be null';
	END IF;
	IF mode NOT IN ('online', 'copy') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('mode "%s" is not known', mode), HINT = 'Modes are online and copy.';
	END IF;
	names := parse_ident(source);
	IF cardinality(names) > 2 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('"%s" is no name of a table', source), HINT = 'source is the name of the table on the source, with its schema or without.';
	END IF;
	IF wait THEN
		PERFORM shardfdw_internal.check_wait('import_table', NULL, 'block');
		IF mode = 'online' AND pg_current_xact_id_if_assigned() IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = 'import_table() cannot wait in a transaction that has written',
				DETAIL = 'The job would wait for this transaction, if the source is a database of this server.', HINT = 'Commit first.';
		END IF;
	END IF;
	PERFORM shardfdw_internal.check_import_here(relation);
	-- the job locks the table, not this session
	SELECT shardfdw_internal.start_import(relation, jsonb_build_object('schema', CASE WHEN cardinality(names) = 2 THEN names[1] ELSE n.nspname END,
		'table', coalesce(names[cardinality(names)], c.relname), 'publication', publication, 'mode', mode)::text, conninfo, mode = 'online', verify) INTO id
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
	IF wait THEN
		PERFORM shardfdw_internal.await_job(id);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw.import_table(regclass, text, text, name, text, boolean, boolean) IS
	'Fills an empty sharded table with the rows of a table of another server. conninfo: libpq connection string. source: name of the table there; null for the same name. publication: a publication of the source for this table; null creates one for the job. mode: online follows the changes of the source until cut_over(); copy ends when the existing rows are copied. verify: compares the rows of both tables. wait: true returns when the table follows the source or is copied, false returns immediately. A background process does the work; a rollback of this transaction does not undo it. Until the job has ended, no other session can write to the table. Only the owner of the table can call this function, and non-superusers have to give a password. Returns the number of the job. Raises an error before anything changes if the table cannot be imported.';

REVOKE ALL ON FUNCTION shardfdw.import_table(regclass, text, text, name, text, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.ask_for_cut_over(job bigint, lock boolean) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_cut_over';
COMMENT ON FUNCTION shardfdw_internal.ask_for_cut_over(bigint, boolean) IS
	'Requests the cut-over from an import job, and waits for its end. Returns nothing. Raises the error that ended the job.';

CREATE FUNCTION shardfdw.cut_over(job bigint, lock boolean DEFAULT true) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF job IS NULL OR lock IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'job and lock must not be null';
	END IF;
	PERFORM shardfdw_internal.check_wait('cut_over', NULL, 'block');
	PERFORM shardfdw_internal.ask_for_cut_over(job, lock);
END
$$;
COMMENT ON FUNCTION shardfdw.cut_over(bigint, boolean) IS
	'Ends an import that follows its source: the sharded table takes the place of the source. lock: true makes writers of the source wait until all their changes are here, and then rejects their writes by a trigger. False changes nothing on the source, and requires that no session writes there. Returns nothing, as soon as the sharded table can be written to. Raises the error that ended the job. Raises undefined_object, wrong_object_type or object_not_in_prerequisite_state for a job that does not follow a source.';
