-- Shards a table while other sessions read and write it: the steps of the job. src/move/conversion.c has their order and transactions.
--
-- The job creates these objects in the schema of the table, owned by its owner, with the OID of the table in their names.
-- Table shardfdw_new_* replaces the table. It is sharded here, and plain in 49_unshard_online.sql.
-- Table shardfdw_changed_* has the keys of changed rows.
-- Function shardfdw_note_* is the function of the triggers that write these keys.
-- Each of the three has a comment with the job and the coordinator, so that recovery finds a leftover by any one of them.
-- Only the process that holds the lock of the job may drop them.

CREATE FUNCTION shardfdw_internal.conversion_name(relation oid, kind text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%I.%I', n.nspname, format('shardfdw_%s_%s', kind, relation))
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.conversion_name(oid, text) IS
	'Returns the qualified and quoted name of an object that a job creates for a table that it shards: new, changed or note. Null if the table does not exist.';

CREATE FUNCTION shardfdw_internal.conversion_objects()
	RETURNS TABLE (kind text, object oid, owner oid, schema oid, relation oid, job bigint, definition text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A clone of another coordinator's database contains that coordinator's objects, until the clone takes over.
	-- Any user can create a table with such a name and any number.
	SELECT x.parts[1], o.object, o.owner, o.schema, (x.parts[2]::bigint % 4294967296)::oid, n.note[1]::bigint, n.note[3]
	FROM (SELECT c.oid, c.relowner, c.relnamespace, c.relname, '^shardfdw_(new|changed)_([0-9]{1,10})$', obj_description(c.oid, 'pg_class')
		  FROM pg_class c WHERE c.relname >= 'shardfdw_' AND c.relname < 'shardfdw`' AND c.relkind IN ('p', 'r')
		  UNION ALL
		  SELECT p.oid, p.proowner, p.pronamespace, p.proname, '^shardfdw_(note)_([0-9]{1,10})$', obj_description(p.oid, 'pg_proc')
		  FROM pg_proc p WHERE p.proname >= 'shardfdw_note_' AND p.proname < 'shardfdw_note`' AND p.prorettype = 'trigger'::regtype) o(object, owner, schema, name, pattern, comment)
	CROSS JOIN LATERAL regexp_match(o.name, o.pattern) x(parts)
	CROSS JOIN LATERAL regexp_match(o.comment, '^job ([0-9]{1,18}) of coordinator ([0-9a-f]+)(?:, definition ([0-9a-f]+))?$') n(note)
	WHERE x.parts IS NOT NULL AND n.note[2] = ANY (shardfdw_internal.decided_identities())
		-- Any user can also write the comment, so the journal must have the job, and the job must be one of the owner.
		AND EXISTS (SELECT FROM shardfdw.jobs j JOIN pg_roles r ON r.oid = o.owner
			WHERE j.id = n.note[1]::bigint AND j.kind IN ('shard', 'unshard') AND (r.rolname = j.role OR r.rolsuper)
				AND shardfdw_internal.job_works_on(j.id, j.kind, (x.parts[2]::bigint % 4294967296)::oid))
$$;
COMMENT ON FUNCTION shardfdw_internal.conversion_objects() IS
	'Lists the objects that jobs of the journal have created for tables that they shard or unshard online. An object counts only if its owner is the role of the job or a superuser. Returns for each object its type (new, changed or note), OID, owner, schema, the OID of the table, which may be dropped, and the number of the job. For new also returns the result of conversion_definition() when the job began.';

CREATE FUNCTION shardfdw_internal.conversions() RETURNS TABLE (successor regclass, relation oid, job bigint, definition text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.object::regclass, o.relation, o.job, o.definition FROM shardfdw_internal.conversion_objects() o WHERE o.kind = 'new'
$$;
COMMENT ON FUNCTION shardfdw_internal.conversions() IS
	'Lists the tables that will replace tables which jobs shard or unshard online. Returns for each the OID of the replaced table, which may be dropped, the number of the job, and the result of conversion_definition() when the job began.';

CREATE FUNCTION shardfdw_internal.identity_columns(relation regclass) RETURNS TABLE (name text, type text, equals text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT quote_ident(a.attname), format_type(coalesce(nullif(y.typbasetype, 0), y.oid), -1), format('OPERATOR(%I.%s)', n.nspname, o.oprname)
	FROM (SELECT i.indexrelid, i.indkey::smallint[] AS columns, i.indclass::oid[] AS classes, i.indnkeyatts FROM pg_index i
		  WHERE i.indrelid = relation AND i.indisunique AND (i.indisvalid OR shardfdw_internal.is_sharded(relation)) AND i.indpred IS NULL AND i.indexprs IS NULL
			AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1]) AND NOT a.attnotnull)
		  ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid LIMIT 1) i
	CROSS JOIN generate_series(0, i.indnkeyatts - 1) k
	JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = i.columns[k]
	JOIN pg_type y ON y.oid = a.atttypid
	JOIN pg_opclass g ON g.oid = i.classes[k]
	-- A key WITHOUT OVERLAPS has a GiST operator class with && instead of =, so use the equality operator of the type.
	JOIN pg_opclass c ON c.opcmethod = (SELECT a.oid FROM pg_am a WHERE a.amname = 'btree')
		AND CASE WHEN g.opcmethod = c.opcmethod THEN c.oid = g.oid ELSE c.opcdefault AND c.opcintype = g.opcintype END
	JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype AND m.amopstrategy = 3
	JOIN pg_operator o ON o.oid = m.amopopr
	JOIN pg_namespace n ON n.oid = o.oprnamespace
	ORDER BY k
$$;
COMMENT ON FUNCTION shardfdw_internal.identity_columns(regclass) IS
	'Finds the columns that identify rows of a table: those of the primary key, or of the smallest unique key without nulls. Returns in order their quoted names, types (for domains the base type) and equality operators. Returns no row if there is no such key.';

CREATE FUNCTION shardfdw_internal.conversion_definition(relation regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT md5(jsonb_build_array(
		(SELECT array_agg(t) FROM shardfdw_internal.shard_table_commands(relation) t),
		(SELECT to_jsonb(t) FROM shardfdw_internal.shard_key_commands(relation) t),
		(SELECT array_agg(t) FROM shardfdw_internal.identity_columns(relation) t),
		(SELECT array_agg(ARRAY[d.adnum::text, pg_get_expr(d.adbin, d.adrelid)] ORDER BY d.adnum) FROM pg_attrdef d WHERE d.adrelid = relation),
		-- xmin: a rewrite (ALTER TYPE ... USING) fires no triggers, and a parent that existed only for a while allows writes without triggers.
		(SELECT array_agg(ARRAY[a.attidentity::text, a.xmin::text] ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0),
		(SELECT array_agg(ARRAY[s.shard::oid::text, s.node, s.remote_name, s.bounds]) FROM shardfdw_internal.shards_of(relation) s),
		(SELECT ARRAY[c.relowner::text, c.relname, c.relnamespace::text, c.relpersistence::text] FROM pg_class c WHERE c.oid = relation))::text)
$$;
COMMENT ON FUNCTION shardfdw_internal.conversion_definition(regclass) IS
	'Describes everything that the shards of a table are built from, including its owner. Returns a text that stays equal as long as none of it changes.';

CREATE FUNCTION shardfdw_internal.check_conversion_owner(relation regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	owns_name boolean;
BEGIN
	-- The new objects belong to the owner of the table, who could add triggers, and the job writes to them.
	IF NOT shardfdw_internal.is_owner(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('cannot work on table "%s" online with the rights of another role than its owner', (SELECT relname FROM pg_class WHERE oid = relation)),
			HINT = format('SET ROLE %I.', (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation));
	END IF;
	-- A function of the current user will write to one of them by name.
	EXECUTE 'SELECT ' || shardfdw_internal.own_name_condition(relation::text) INTO owns_name;
	IF NOT owns_name THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('cannot work on table "%s" online because its schema belongs to another role', (SELECT relname FROM pg_class WHERE oid = relation)),
			HINT = 'Give the schema and the table to one role, or use mode => ''block''.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_conversion_owner(regclass) IS
	'Checks that the current user itself owns the table, not only a role that the user is a member of, and that the user or a superuser owns the schema of the table. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_followable(relation regclass, verb text, other_mode text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refusal CONSTANT text := format('cannot %s table "%s" online', verb, (SELECT relname FROM pg_class WHERE oid = relation));
BEGIN
	-- a node that crashes would lose rows without a note
	IF shardfdw_internal.is_unlogged(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it is unlogged', HINT = other_mode;
	END IF;
	IF NOT EXISTS (SELECT FROM shardfdw_internal.identity_columns(relation)) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it has no primary key',
			DETAIL = 'The job finds rows that change by their key. A unique key of columns that are not null does as well.', HINT = other_mode;
	END IF;
	IF row_security_active(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because of its row security, which holds for its owner, too',
			HINT = format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY changes that.', relation);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_followable(regclass, text, text) IS
	'Checks that changes of a table can be followed by its key. verb: shard or unshard. other_mode: hint of errors. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.check_conversion(relation regclass, key name, colocate_with regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	key_columns smallint[];
	refusal CONSTANT text := format('cannot shard table "%s" online', (SELECT relname FROM pg_class WHERE oid = relation));
	other_mode CONSTANT text := 'With mode => ''block'', others wait until all rows are on the nodes.';
BEGIN
	PERFORM shardfdw_internal.check_shardable(relation, false);
	PERFORM shardfdw_internal.check_conversion_owner(relation);
	IF (SELECT c.relkind FROM pg_class c WHERE c.oid = relation) = 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it is partitioned', DETAIL = 'It has no rows yet, so no session waits.', HINT = 'Use mode => ''block''.';
	END IF;
	key_columns := shardfdw_internal.key_columns(relation, shardfdw_internal.choose_key(relation, key));
	PERFORM shardfdw_internal.check_key(relation, key_columns);
	PERFORM shardfdw_internal.check_followable(relation, 'shard', other_mode);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_conversion(regclass, name, regclass) IS
	'Checks that a table can be sharded online. Returns nothing. Raises an error for the first obstacle.';

CREATE FUNCTION shardfdw_internal.conversion_servers(plan jsonb) RETURNS SETOF oid
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.oid FROM pg_foreign_server s WHERE s.srvname IN (SELECT jsonb_array_elements_text(plan->'nodes')) ORDER BY s.oid
$$;
COMMENT ON FUNCTION shardfdw_internal.conversion_servers(jsonb) IS
	'Lists the servers in a plan of shard_online() or unshard_online(). Returns their OIDs in order.';

CREATE FUNCTION shardfdw_internal.lock_for_conversion(relation regclass, lock_mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF shardfdw_internal.conversion_name(relation, 'new') IS NULL THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'table');
	END IF;
	PERFORM shardfdw_internal.check_conversion_owner(relation);
	PERFORM shardfdw_internal.lock_table(relation, lock_mode);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_for_conversion(regclass, text) IS
	'Locks the table of a job until the transaction ends. Returns nothing. Raises undefined_table if it was dropped, and insufficient_privilege if it has another owner.';

CREATE FUNCTION shardfdw_internal.own_conversions(relation oid DEFAULT NULL) RETURNS TABLE (relation oid, job bigint)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Only with the privileges of their owners, who could choose names that make the job drop other tables on nodes.
	SELECT DISTINCT o.relation, o.job FROM shardfdw_internal.conversion_objects() o
	WHERE (o.relation = $1 OR $1 IS NULL) AND pg_get_userbyid(o.owner) = current_user
$$;
COMMENT ON FUNCTION shardfdw_internal.own_conversions(oid) IS
	'Lists the jobs that have created objects of the current user for a table. Null means any table. Returns the OID of the table, which may be dropped, and the number of the job. The job may be running: see claim_job().';

CREATE FUNCTION shardfdw_internal.conversion_owners() RETURNS SETOF oid
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT o.owner FROM shardfdw_internal.conversion_objects() o ORDER BY 1
$$;
COMMENT ON FUNCTION shardfdw_internal.conversion_owners() IS
	'Lists the owners of the objects that jobs have created for tables. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.claim_conversion(job bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- recovery holds the lock only while it waits for a node
	IF NOT shardfdw_internal.claim_job(job, 40000) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('what job %s has left is being removed by another session', job), HINT = 'Try again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.claim_conversion(bigint) IS
	'Takes the lock of an ended job until the transaction ends. Waits for another session that removes the leftovers of the job. Returns nothing. Raises object_in_use.';

CREATE FUNCTION shardfdw_internal.drop_conversion_table(object oid) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('DROP TABLE %s', object::regclass);
	-- The command may have waited, and the name may belong to another table by then.
	IF EXISTS (SELECT FROM pg_class c WHERE c.oid = object) THEN
		RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = format('table %s has been renamed by another session', object::regclass), HINT = 'Try again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_conversion_table(oid) IS
	'Drops a table by its OID. Returns nothing. Raises serialization_failure, which undoes the drop, if the name belonged to another table.';

CREATE FUNCTION shardfdw_internal.clear_conversion_shards(relation oid, job bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off SET lock_timeout = '500ms'
AS $$
DECLARE
	part record;
	failed record;
BEGIN
	FOR part IN SELECT o.object::regclass AS name, o.kind FROM shardfdw_internal.conversion_objects() o JOIN pg_class c ON c.oid = o.object AND c.relkind = 'p'
		WHERE o.kind <> 'note' AND (o.relation, o.job) = ($1, $2) AND pg_get_userbyid(o.owner) = current_user
	LOOP
		-- a transaction prepared there may be the one that creates the shards
		PERFORM shardfdw_internal.settle_server(x.node) FROM (SELECT DISTINCT s.node FROM shardfdw_internal.shards_of(part.name) s) x;
		-- One transaction for each shard: a session that writes to several waits for one of them at a time. As long as the
		-- triggers of a shard stay, its writers need the table where the triggers note keys.
		SELECT q.sqlstate, q.message INTO failed
		FROM (SELECT array_agg(s.node ORDER BY s.shard) AS nodes, array_agg(s.shard::text ORDER BY s.shard) AS labels,
				array_agg('SET LOCAL lock_timeout = ''500ms''; '
					|| CASE part.kind WHEN 'changed' THEN format('DROP FUNCTION IF EXISTS %s() CASCADE; ', shardfdw_internal.note_function_of(s.remote_name)) ELSE '' END
					|| format('DROP TABLE IF EXISTS %s', s.remote_name) ORDER BY s.shard) AS commands
			  FROM shardfdw_internal.shards_of(part.name) s) x
		CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'settle', false, x.labels) q
		WHERE x.nodes IS NOT NULL AND NOT q.ok LIMIT 1;
		IF FOUND THEN
			RAISE EXCEPTION USING ERRCODE = coalesce(failed.sqlstate, 'internal_error'), MESSAGE = failed.message;
		END IF;
		PERFORM shardfdw_internal.drop_conversion_table(part.name);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.clear_conversion_shards(oid, bigint) IS
	'Removes the shards that a job has created for a table, and the objects that note changes on nodes, each in a separate transaction. Then removes their foreign tables here. The caller holds the lock of the job. Returns nothing. Raises lock_not_available, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.unnote_conversion(relation oid, job bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off SET lock_timeout = '500ms'
AS $$
DECLARE
	note regprocedure;
	t record;
BEGIN
	FOR note IN SELECT o.object FROM shardfdw_internal.conversion_objects() o
		WHERE o.kind = 'note' AND (o.relation, o.job) = ($1, $2) AND pg_get_userbyid(o.owner) = current_user
	LOOP
		FOR t IN SELECT g.tgrelid::regclass AS name, g.tgname FROM pg_trigger g WHERE g.tgfoid = note
		LOOP
			PERFORM shardfdw_internal.lock_to_clear(t.name);
			EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.name);
		END LOOP;
		EXECUTE format('DROP FUNCTION %s', note);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.unnote_conversion(oid, bigint) IS
	'Removes the triggers of a job that note changes of a table, and their function. The table is then as it was before, and no node is needed. The caller holds the lock of the job. Returns nothing. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.clear_conversion_tables(relation oid, job bigint) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off SET lock_timeout = '500ms'
AS $$
	SELECT shardfdw_internal.drop_conversion_table(o.object) FROM shardfdw_internal.conversion_objects() o JOIN pg_class c ON c.oid = o.object AND c.relkind = 'r'
	WHERE o.kind <> 'note' AND (o.relation, o.job) = ($1, $2) AND pg_get_userbyid(o.owner) = current_user
$$;
COMMENT ON FUNCTION shardfdw_internal.clear_conversion_tables(oid, bigint) IS
	'Removes the plain tables that a job has created for a table. The caller holds the lock of the job. Returns nothing. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.unnote_conversions(relation oid) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.claim_conversion(x.job), shardfdw_internal.unnote_conversion(x.relation, x.job) FROM shardfdw_internal.own_conversions(relation) x
$$;
COMMENT ON FUNCTION shardfdw_internal.unnote_conversions(oid) IS
	'Removes the objects that note changes for the jobs of own_conversions(). Returns nothing. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.undo_conversions(relation oid) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.claim_conversion(x.job), shardfdw_internal.clear_conversion_shards(x.relation, x.job),
		shardfdw_internal.unnote_conversion(x.relation, x.job), shardfdw_internal.clear_conversion_tables(x.relation, x.job)
	FROM shardfdw_internal.own_conversions(relation) x
$$;
COMMENT ON FUNCTION shardfdw_internal.undo_conversions(oid) IS
	'Removes all leftovers of the jobs of own_conversions(). Returns nothing. Raises object_in_use, lock_not_available, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.remove_conversion_shards() RETURNS TABLE (node name, message text, ok boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record;
BEGIN
	FOR found IN SELECT x.relation, x.job FROM shardfdw_internal.own_conversions() x
	LOOP
		CONTINUE WHEN NOT shardfdw_internal.claim_job(found.job, 0);
		BEGIN
			PERFORM shardfdw_internal.clear_conversion_shards(found.relation, found.job);
			RETURN QUERY SELECT NULL::name, format('what job %s has left', found.job), true
			WHERE NOT EXISTS (SELECT FROM shardfdw_internal.own_conversions(found.relation) x WHERE x.job = found.job);
		EXCEPTION WHEN OTHERS THEN
			RETURN QUERY VALUES (NULL::name, format('what job %s has left: %s', found.job, SQLERRM), false);
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.remove_conversion_shards() IS
	'Removes the shards, on nodes and here, that were left by jobs of the current user which were to shard or unshard a table, and whose process ended. Holds no lock on tables that clients use while it waits for nodes. Returns a row, without a node, for each job without further leftovers, and for each error.';

CREATE FUNCTION shardfdw_internal.remove_conversions() RETURNS TABLE (node name, message text, ok boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record;
BEGIN
	FOR found IN SELECT x.relation, x.job FROM shardfdw_internal.own_conversions() x
	LOOP
		CONTINUE WHEN NOT shardfdw_internal.claim_job(found.job, 0);
		message := format('what job %s has left', found.job);
		BEGIN
			-- If a node does not answer, writers must still stop noting their changes.
			PERFORM shardfdw_internal.unnote_conversion(found.relation, found.job);
			BEGIN
				PERFORM shardfdw_internal.clear_conversion_tables(found.relation, found.job);
			EXCEPTION WHEN OTHERS THEN
				RETURN QUERY VALUES (NULL::name, message || ': ' || SQLERRM, false);
			END;
		EXCEPTION WHEN OTHERS THEN
			RETURN QUERY VALUES (NULL::name, message || ': ' || SQLERRM, false);
		END;
		-- shards that could not be removed have been reported already
		IF NOT EXISTS (SELECT FROM shardfdw_internal.own_conversions(found.relation) x WHERE x.job = found.job) THEN
			RETURN QUERY VALUES (NULL::name, message, true);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.remove_conversions() IS
	'Removes here, after remove_conversion_shards(), the other leftovers of jobs of the current user which were to shard or unshard a table, and whose process ended. Returns a row, without a node, for each job without further leftovers, and for each error.';

CREATE FUNCTION shardfdw_internal.refuse_change_of_conversion_seen() RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	-- event triggers also fire while the functions of the extension are created
	IF NOT EXISTS (SELECT FROM pg_class WHERE relname ~ '^shardfdw_new_[0-9]{1,10}$') THEN
		RETURN;
	END IF;
	-- Found by its triggers: the command may have changed the name, owner or schema of the table.
	SELECT c.relname, x.job, j.running INTO r
	FROM shardfdw_internal.conversions() x JOIN pg_class c ON c.oid = x.relation JOIN pg_class s ON s.oid = x.successor
	CROSS JOIN LATERAL (SELECT shardfdw_internal.job_is_running(x.job)) j(running)
	WHERE (j.running OR NOT EXISTS (SELECT FROM shardfdw.jobs j WHERE j.id = x.job AND j.pid = pg_backend_pid()))
		AND EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid = x.relation AND p.proname = 'shardfdw_note_' || x.relation
			AND p.pronamespace = s.relnamespace AND p.proowner = s.relowner)
		AND EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = s.relnamespace AND d.command_tag = 'ALTER SCHEMA'
			OR d.classid = 'pg_constraint'::regclass AND d.objid IN (SELECT k.oid FROM pg_constraint k WHERE k.conrelid = x.relation)
			OR d.classid = 'pg_class'::regclass AND d.objid IN (SELECT x.relation UNION ALL SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = x.relation
				UNION ALL SELECT q.objid FROM pg_depend q WHERE q.refclassid = 'pg_class'::regclass AND q.refobjid = x.relation AND q.classid = 'pg_class'::regclass AND q.deptype = 'i'))
	LIMIT 1;
	IF FOUND AND r.running THEN
		RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('the definition of table "%s" cannot be changed while job %s works on it', r.relname, r.job),
			HINT = format('Wait for it (SELECT shardfdw.wait_job(%s)) or cancel it (SELECT shardfdw.cancel_job(%1$s)).', r.job);
	ELSIF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('the definition of table "%s" cannot be changed before it is recovered from job %s', r.relname, r.job),
			HINT = 'SELECT * FROM shardfdw.recover_prepared_transactions() removes what the job has left.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.refuse_change_of_conversion_seen() IS
	'Does what refuse_change_of_conversion() does, for the snapshot of the calling query. Returns nothing.';

CREATE FUNCTION shardfdw_internal.refuse_change_of_conversion() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_check_event_now';
COMMENT ON FUNCTION shardfdw_internal.refuse_change_of_conversion() IS
	'Rejects changes of the definition of a table that a job shards or unshards. Such a change would make writers or the job fail. Raises object_in_use.';

CREATE EVENT TRIGGER shardfdw_refuse_change_of_conversion ON ddl_command_end
	WHEN TAG IN ('ALTER TABLE', 'ALTER INDEX', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'COMMENT', 'CREATE INDEX')
	EXECUTE FUNCTION shardfdw_internal.refuse_change_of_conversion();
ALTER EVENT TRIGGER shardfdw_refuse_change_of_conversion ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER shardfdw_refuse_change_of_conversion IS
	'Protects the definition of tables that jobs shard or unshard.';

CREATE FUNCTION shardfdw_internal.refuse_drop_of_successor_seen() RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	-- event triggers also fire while the functions of the extension are created
	IF NOT EXISTS (SELECT FROM pg_event_trigger_dropped_objects() d WHERE d.address_names[2] ~ '^shardfdw_(new|changed|note)_[0-9]{1,10}$') THEN
		RETURN;
	END IF;
	-- one object is dropped while another one still exists
	SELECT d.address_names[2] AS object_name, d.object_type, o.relation::regclass INTO r
	FROM pg_event_trigger_dropped_objects() d
	CROSS JOIN LATERAL regexp_match(d.address_names[2], '^shardfdw_(?:new|changed|note)_([0-9]{1,10})$') x(parts)
	JOIN pg_namespace n ON n.nspname = d.schema_name
	JOIN shardfdw_internal.conversion_objects() o ON o.schema = n.oid AND o.relation::text = x.parts[1]
	WHERE d.object_type IN ('table', 'function') AND NOT shardfdw_internal.holds_job(o.job) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = format('%s "%s" belongs to a job that works on table %s', r.object_type, r.object_name, r.relation),
			HINT = 'It goes with the job: shardfdw.cancel_job(). What a crash has left is removed by SELECT * FROM shardfdw.recover_prepared_transactions().';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.refuse_drop_of_successor_seen() IS
	'Does what refuse_drop_of_successor() does, for the snapshot of the calling query. Returns nothing.';

CREATE FUNCTION shardfdw_internal.refuse_drop_of_successor() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_check_event_now';
COMMENT ON FUNCTION shardfdw_internal.refuse_drop_of_successor() IS
	'Rejects dropping one of the objects that a job has created for a table while another one of them exists. Raises dependent_objects_still_exist.';

CREATE EVENT TRIGGER shardfdw_refuse_drop_of_successor ON sql_drop WHEN TAG IN ('DROP TABLE', 'DROP FUNCTION', 'DROP ROUTINE', 'DROP OWNED', 'DROP SCHEMA')
	EXECUTE FUNCTION shardfdw_internal.refuse_drop_of_successor();
ALTER EVENT TRIGGER shardfdw_refuse_drop_of_successor ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER shardfdw_refuse_drop_of_successor IS
	'Protects the objects that recovery of a table needs after a job was interrupted.';

CREATE FUNCTION shardfdw_internal.note_function_commands(note text, notes text, columns text, job bigint, doing text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('CREATE FUNCTION %1$s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %2$L; REVOKE ALL ON FUNCTION %1$s() FROM PUBLIC; %3$s', note, format($body$
#variable_conflict use_column
BEGIN
%5$s
	IF TG_OP = 'TRUNCATE' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = pg_catalog.format('table "%%s" cannot be truncated while job %3$s %4$s it', TG_TABLE_NAME),
			HINT = 'Wait for it (SELECT shardfdw.wait_job(%3$s)) or cancel it (SELECT shardfdw.cancel_job(%3$s)).';
	END IF;
	IF TG_OP <> 'INSERT' THEN
		INSERT INTO %1$s SELECT %2$s FROM shardfdw_old;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO %1$s SELECT %2$s FROM shardfdw_new;
	END IF;
	RETURN NULL;
END
$body$, notes, columns, job, doing,
		shardfdw_internal.note_guard(notes, $noted$format('table %I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME)$noted$, format('Cancel the job: SELECT shardfdw.cancel_job(%s).', job))), shardfdw_internal.revoke_command(note || '()', 'FUNCTION'))
$$;
COMMENT ON FUNCTION shardfdw_internal.note_function_commands(text, text, text, bigint, text) IS
	'Writes the commands that create the trigger function that notes the keys of changed rows. notes: the table for the keys. columns: of the key. doing: what the job does to the table, as one word. Returns the commands in one text.';

CREATE FUNCTION shardfdw_internal.note_trigger_commands(relation text, note text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('CREATE TRIGGER shardfdw_note_insert AFTER INSERT ON %1$s REFERENCING NEW TABLE AS shardfdw_new FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		'CREATE TRIGGER shardfdw_note_update AFTER UPDATE ON %1$s REFERENCING OLD TABLE AS shardfdw_old NEW TABLE AS shardfdw_new FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		'CREATE TRIGGER shardfdw_note_delete AFTER DELETE ON %1$s REFERENCING OLD TABLE AS shardfdw_old FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		'CREATE TRIGGER shardfdw_note_truncate BEFORE TRUNCATE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		-- also in sessions with session_replication_role = replica
		'ALTER TABLE %1$s ENABLE ALWAYS TRIGGER shardfdw_note_insert, ENABLE ALWAYS TRIGGER shardfdw_note_update, ENABLE ALWAYS TRIGGER shardfdw_note_delete, ENABLE ALWAYS TRIGGER shardfdw_note_truncate',
		relation, note)
$$;
COMMENT ON FUNCTION shardfdw_internal.note_trigger_commands(text, text) IS
	'Writes the commands that create the triggers of a table that note the keys of changed rows with a function. Returns the commands in one text.';

CREATE FUNCTION shardfdw_internal.mark_conversion(relation regclass, job bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	mark CONSTANT text := format('job %s of coordinator %s', job, (SELECT i.identity FROM shardfdw_internal.coordinator_identity() i));
BEGIN
	EXECUTE format('COMMENT ON TABLE %s IS %L', shardfdw_internal.conversion_name(relation, 'new'), format('%s, definition %s', mark, shardfdw_internal.conversion_definition(relation)));
	EXECUTE format('COMMENT ON TABLE %s IS %L', shardfdw_internal.conversion_name(relation, 'changed'), mark);
	EXECUTE format('COMMENT ON FUNCTION %s() IS %L', shardfdw_internal.conversion_name(relation, 'note'), mark);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.mark_conversion(regclass, bigint) IS
	'Comments on the objects that a job has created for a table, so that recovery finds each of them. Returns nothing.';

CREATE FUNCTION shardfdw_internal.begin_conversion(relation regclass, plan jsonb, id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	key CONSTANT name := plan->>'key';
	placement CONSTANT name[] := ARRAY(SELECT jsonb_array_elements_text(plan->'nodes'));
	colocate_with CONSTANT regclass := (plan->>'colocate_with')::oid;
	shards CONSTANT integer := cardinality(placement);
	schema_name name;
	table_name name;
	successor text;
	changed text;
	note text;
	columns text;
	table_options text[];
BEGIN
	-- Left by a job whose process died: no such job runs, because this job holds the lock of the table.
	PERFORM shardfdw_internal.undo_conversions(relation);
	-- the definition must not change until all objects are created
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS SHARE');
	SELECT n.nspname, c.relname INTO schema_name, table_name
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
	PERFORM shardfdw_internal.check_conversion(relation, key, colocate_with);
	PERFORM shardfdw_internal.hold_shards(colocate_with);
	IF colocate_with IS NOT NULL AND shardfdw_internal.choose_placement(NULL, NULL, colocate_with) <> placement THEN
		RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = format('shards of %s have been moved', colocate_with), HINT = 'Try again.';
	END IF;
	successor := shardfdw_internal.conversion_name(relation, 'new');
	changed := shardfdw_internal.conversion_name(relation, 'changed');
	note := shardfdw_internal.conversion_name(relation, 'note');
	columns := (SELECT string_agg(i.name, ', ') FROM shardfdw_internal.identity_columns(relation) i);

	PERFORM shardfdw_internal.make_objects_on_nodes(relation, placement);
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	PERFORM shardfdw_internal.partition_table(relation, key, successor);
	EXECUTE shardfdw_internal.revoke_command(successor);
	PERFORM shardfdw_internal.check_colocatable(successor::regclass, colocate_with);
	EXECUTE shardfdw_internal.storage_options_query(relation::text) INTO table_options;
	PERFORM shardfdw_internal.make_shards(successor::regclass, shardfdw_internal.shard_names(table_name, shards), shardfdw_internal.hash_bounds(shards), placement, table_options);

	-- unlogged: a crash may empty the table, but a crash also ends the job
	EXECUTE format('CREATE UNLOGGED TABLE %s AS SELECT %s FROM ONLY %s WITH NO DATA', changed, columns, relation);
	EXECUTE shardfdw_internal.revoke_command(changed);
	EXECUTE shardfdw_internal.note_function_commands(note, changed, columns, id, 'shards');
	PERFORM shardfdw_internal.mark_conversion(relation, id);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.begin_conversion(regclass, jsonb, bigint) IS
	'First step of shard_table() online: creates empty shards and the objects that note changed keys. id: of the job. Returns nothing. Raises an error for the first obstacle.';

CREATE FUNCTION shardfdw_internal.run_on_conversion(relation regclass, placement name[], prefixes text[], suffixes text[], object_names name[], object_kinds text[]) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.run_on_new_shards(n.nspname, s.names, placement, prefixes, suffixes, object_names, object_kinds, s.names)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	CROSS JOIN LATERAL (SELECT shardfdw_internal.shard_names(c.relname, cardinality(placement))) s(names)
	WHERE c.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.run_on_conversion(regclass, name[], text[], text[], name[], text[]) IS
	'Does what run_on_new_shards() does, for the shards that will replace a plain table. Returns nothing. Raises errors of the nodes.';

CREATE FUNCTION shardfdw_internal.refer_conversion(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	prefixes text[];
	suffixes text[];
BEGIN
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS SHARE');
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	-- Validated after the switch: rows that are missing now are still to be applied.
	SELECT array_agg(format('SET LOCAL lock_timeout = %L; ', current_setting('lock_timeout')) || k.prefix), array_agg(k.suffix || CASE WHEN k.suffix LIKE '% NOT VALID' OR k.prefix LIKE 'COMMENT %' THEN '' ELSE ' NOT VALID' END) INTO prefixes, suffixes
	FROM shardfdw_internal.reference_key_commands(relation) k;
	IF prefixes IS NOT NULL THEN
		PERFORM shardfdw_internal.run_on_conversion(relation, ARRAY(SELECT jsonb_array_elements_text(plan->'nodes')), prefixes, suffixes, array_fill(NULL::name, ARRAY[cardinality(prefixes)]), array_fill(NULL::text, ARRAY[cardinality(prefixes)]));
		IF array_to_string(suffixes, ' ') LIKE '% SET DEFAULT%' THEN
			PERFORM shardfdw_internal.set_key_defaults(s.relation, ARRAY(SELECT x.shard FROM shardfdw_internal.shards_of(s.relation) x))
			FROM to_regclass(shardfdw_internal.conversion_name(relation, 'new')) s(relation);
		END IF;
	END IF;
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.refer_conversion(regclass, jsonb) IS
	'Fourth step of shard_table() online: creates the foreign keys to reference tables on the shards, and the defaults that these keys set. Returns 0. Raises lock_not_available, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.check_conversion_unchanged(relation regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM shardfdw_internal.conversions() x WHERE x.relation = $1 AND x.successor = to_regclass(shardfdw_internal.conversion_name($1, 'new'))
		AND x.definition = shardfdw_internal.conversion_definition($1)) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('the definition of table "%s" has been changed since the job began', (SELECT relname FROM pg_class WHERE oid = relation)), HINT = 'Start again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_conversion_unchanged(regclass) IS
	'Checks that the definition of a table has not changed since its new shards were created. Returns nothing. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.note_conversion(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	note CONSTANT text := shardfdw_internal.conversion_name(relation, 'note');
BEGIN
	-- waits for all transactions that have written without the triggers
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'SHARE ROW EXCLUSIVE');
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	EXECUTE shardfdw_internal.note_trigger_commands(relation::text, note);
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.note_conversion(regclass, jsonb) IS
	'Does the second step of shard_table() online: after its commit, every change of the table records the keys of the changed rows. Returns 0. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.check_conversion_noted(relation regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = relation AND g.tgenabled = 'A' AND g.tgfoid = to_regproc(shardfdw_internal.conversion_name(relation, 'note'))) <> 4 THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('triggers of table "%s" have been dropped or disabled while it was sharded', (SELECT relname FROM pg_class WHERE oid = relation)),
			DETAIL = 'Changes that they were to note may be lost.', HINT = 'Start again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_conversion_noted(regclass) IS
	'Checks that the objects that note changes of a table that is sharded online exist. Returns nothing. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.copy_conversion(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off
AS $$
DECLARE
	column_list CONSTANT text := shardfdw_internal.insertable_columns(relation);
	copied bigint;
BEGIN
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS SHARE');
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM ONLY %s', shardfdw_internal.conversion_name(relation, 'new'), column_list, column_list, relation);
	GET DIAGNOSTICS copied = ROW_COUNT;
	-- Indexes are built after the rows are loaded, which is faster.
	PERFORM shardfdw_internal.run_on_conversion(relation, ARRAY(SELECT jsonb_array_elements_text(plan->'nodes')), array_agg(k.prefix), array_agg(k.suffix), array_agg(k.object_name), array_agg(k.object_kind))
	FROM shardfdw_internal.shard_index_commands(relation) k;
	RETURN copied;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.copy_conversion(regclass, jsonb) IS
	'Third step of shard_table() online: copies the rows to the shards, and then creates keys and indexes. Returns the number of rows. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.changed_rows_query(relation regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- One condition for all keys that differ only in the last column, unless that is an array. Names may contain placeholders of format().
	SELECT format($query$WITH x AS MATERIALIZED (SELECT %s * FROM %s LIMIT 1000)
		SELECT (SELECT count(*) FROM x), %s, (SELECT string_agg(g.condition, ' OR ') FROM (SELECT format(%L, %s) AS condition FROM x GROUP BY %s) g)$query$,
		CASE WHEN n.is_plain THEN 'ctid,' END, n.name, CASE WHEN n.is_plain THEN '(SELECT array_agg(x.ctid)::text FROM x)' ELSE 'NULL' END,
		format('(%s)', string_agg(i.subject || CASE WHEN i.by_one THEN ' %L::' || i.type ELSE ' ANY (%L::' || i.type || '[])' END, ' AND ' ORDER BY i.number)),
		string_agg(format(CASE WHEN i.by_one THEN 'x.%s::text' ELSE 'array_agg(x.%s::text)::text' END, i.name), ', ' ORDER BY i.number),
		format('(%s)', coalesce(string_agg(format('x.%s::text', i.name), ', ' ORDER BY i.number) FILTER (WHERE i.by_one), '')))
	FROM (SELECT i.name, replace(format('%s %s', i.name, i.equals), '%', '%%') AS subject, replace(i.type, '%', '%%') AS type, i.number,
			-- an array of arrays would be flattened
			i.number < count(*) OVER () OR i.type LIKE '%[]' AS by_one
		  FROM shardfdw_internal.identity_columns(relation) WITH ORDINALITY i(name, type, equals, number)) i,
		-- ctids of several tables are not comparable
		(SELECT x.name, EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass(x.name) AND c.relkind = 'r') FROM shardfdw_internal.conversion_name(relation, 'changed') x(name)) n(name, is_plain)
	GROUP BY n.name, n.is_plain
$$;
COMMENT ON FUNCTION shardfdw_internal.changed_rows_query(regclass) IS
	'Writes the query for some of the keys that were noted while a table is sharded. Returns its text. The query returns the number of keys, the ctids of the notes as text (null if the notes are sharded), and a condition that is true for rows with these keys.';

CREATE FUNCTION shardfdw_internal.follow_changes(relation regclass) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off
	-- keys are written as text, and read again
	SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET extra_float_digits = 3 SET lc_monetary = 'C' SET bytea_output = 'hex'
AS $$
DECLARE
	successor CONSTANT text := shardfdw_internal.conversion_name(relation, 'new');
	column_list CONSTANT text := shardfdw_internal.insertable_columns(relation);
	is_sharded CONSTANT boolean := shardfdw_internal.is_sharded(relation);
	noted bigint;
	places text;
	condition text;
BEGIN
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS SHARE');
	PERFORM shardfdw_internal.check_owner_code(relation, CASE WHEN is_sharded THEN 'unshard' ELSE 'shard' END);
	EXECUTE shardfdw_internal.changed_rows_query(relation) INTO noted, places, condition;
	IF noted > 0 THEN
		-- Older versions of these rows do not matter: the query returns what the table contains in this snapshot. On nodes, the
		-- rows and notes of a key are on one node, so in one snapshot.
		EXECUTE format('DELETE FROM %s WHERE %s', successor, condition);
		EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s %s WHERE %s', successor, column_list, column_list, CASE WHEN NOT is_sharded THEN 'ONLY' END, relation, condition);
		EXECUTE format('DELETE FROM %s WHERE %s', shardfdw_internal.conversion_name(relation, 'changed'), CASE WHEN places IS NULL THEN condition ELSE format('ctid = ANY (%L::tid[])', places) END);
	END IF;
	RETURN noted;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.follow_changes(regclass) IS
	'Step of shard_table() and unshard_table() online: takes some noted keys, and replaces the rows with these keys in the new table by the present rows of the table. All reads of a server must use one snapshot. Returns the number of notes taken, or if the notes are sharded, a lower bound of it. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.validation_conversion(relation regclass, plan jsonb) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT pg_catalog.count(*) FROM shardfdw_internal.run_commands(%L::pg_catalog.name[], %L::pg_catalog.text[], ''write'', labels => %L::pg_catalog.text[])', x.nodes, x.commands, x.labels)
	FROM (SELECT array_agg(s.node) AS nodes, array_agg(format('ALTER TABLE %s VALIDATE CONSTRAINT %I', s.remote_name, k.conname)) AS commands, array_agg(s.shard::text) AS labels
		  FROM shardfdw_internal.shards_of(to_regclass(shardfdw_internal.conversion_name(relation, 'new'))) s
		  JOIN pg_constraint k ON k.conrelid = relation AND k.contype = 'f' AND k.convalidated AND shardfdw_internal.is_reference(k.confrelid)) x
	WHERE x.nodes IS NOT NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.validation_conversion(regclass, jsonb) IS
	'Writes the commands that validate foreign keys of the shards after the switch. Returns them in one text, null if there are none.';

CREATE FUNCTION shardfdw_internal.referenced_conversion(relation regclass, plan jsonb) RETURNS SETOF oid
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT k.confrelid FROM pg_constraint k WHERE k.conrelid = relation AND k.contype = 'f' AND k.confrelid <> relation ORDER BY 1
$$;
COMMENT ON FUNCTION shardfdw_internal.referenced_conversion(regclass, jsonb) IS
	'Lists the tables to which a table refers by foreign keys. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.lock_conversion(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.lock_schemas(relation);
	PERFORM shardfdw_internal.check_conversion_owner(relation);
	PERFORM shardfdw_internal.lock_with_views(relation);
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS EXCLUSIVE');
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_conversion(regclass, jsonb) IS
	'Step of shard_table() online: locks the table in ACCESS EXCLUSIVE mode until the transaction ends. Returns 0. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.exchange_tables(relation regclass, successor regclass, commands text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
	views jsonb;
	command text;
BEGIN
	EXECUTE format('COMMENT ON TABLE %s IS NULL', successor);
	EXECUTE format('ALTER TABLE %s RENAME TO %I', relation, format('shardfdw_old_%s', relation::oid));
	EXECUTE format('ALTER TABLE %s RENAME TO %I', successor, table_name);
	PERFORM shardfdw_internal.take_sequences(relation, successor);
	views := shardfdw_internal.drop_replaced_table(relation, successor);
	FOREACH command IN ARRAY commands
	LOOP
		EXECUTE command;
	END LOOP;
	PERFORM shardfdw_internal.fill_views(views, successor);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.exchange_tables(regclass, regclass, text[]) IS
	'Replaces a table by another one: moves its sequences, drops it, and runs commands that use the old name for the new table. Returns nothing. Raises dependent_objects_still_exist, and errors of the commands.';

CREATE FUNCTION shardfdw_internal.switch_conversion(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	successor CONSTANT regclass := shardfdw_internal.conversion_name(relation, 'new')::regclass;
	changed CONSTANT text := shardfdw_internal.conversion_name(relation, 'changed');
	note CONSTANT text := shardfdw_internal.conversion_name(relation, 'note');
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
	is_changed boolean;
	commands text[];
	command text;
BEGIN
	PERFORM shardfdw_internal.lock_conversion(relation, plan);
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	PERFORM shardfdw_internal.check_conversion_noted(relation);
	EXECUTE format('SELECT EXISTS (SELECT FROM %s)', changed) INTO is_changed;
	IF is_changed THEN
		RAISE EXCEPTION 'changes of table "%" have not been followed', table_name;
	END IF;
	FOREACH command IN ARRAY ARRAY['insert', 'update', 'delete', 'truncate']
	LOOP
		EXECUTE format('DROP TRIGGER shardfdw_note_%s ON %s', command, relation);
	END LOOP;
	EXECUTE format('DROP FUNCTION %s()', note);
	EXECUTE format('DROP TABLE %s', changed);
	PERFORM shardfdw_internal.check_replaceable(relation, 'shard');

	-- Write down the whole definition of the old table before the table loses its name.
	commands := ARRAY(SELECT * FROM shardfdw_internal.parent_index_commands(relation, true)) || ARRAY(SELECT * FROM shardfdw_internal.successor_commands(relation));
	PERFORM shardfdw_internal.exchange_tables(relation, successor, commands);
	-- Only now, because privileges may have been granted on the old table until it was locked.
	PERFORM shardfdw_internal.grant_on_nodes(ARRAY[successor]);
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.switch_conversion(regclass, jsonb) IS
	'Last step of shard_table() online: replaces the table by the sharded one. The shards have all rows of the table, and the table is locked. Roles get their privileges on the shards. Returns 0. Raises an error if the definition has changed, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.start_conversion(relation oid, plan text) RETURNS bigint
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_start_conversion';
COMMENT ON FUNCTION shardfdw_internal.start_conversion(oid, text) IS
	'Starts the process that shards or unshards a table online. The process makes all checks itself. Returns the number of the job. Raises insufficient_resources.';

CREATE FUNCTION shardfdw_internal.shard_online(relation regclass, key name, shards integer, nodes name[], colocate_with regclass, wait boolean) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET row_security = off
AS $$
DECLARE
	id bigint;
BEGIN
	IF wait THEN
		PERFORM shardfdw_internal.check_wait('shard_table', NULL, 'block');
	END IF;
	PERFORM shardfdw_internal.check_conversion(relation, key, colocate_with);
	id := shardfdw_internal.start_conversion(relation, jsonb_build_object('key', shardfdw_internal.choose_key(relation, key),
		'nodes', shardfdw_internal.choose_placement(shards, nodes, colocate_with), 'colocate_with', colocate_with::oid)::text);
	IF wait THEN
		PERFORM shardfdw_internal.await_job(id);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_online(regclass, name, integer, name[], regclass, boolean) IS
	'Does what shard_table() does with mode online. Returns the number of the job. Raises an error if the table cannot be sharded, and the error that has ended the job.';
