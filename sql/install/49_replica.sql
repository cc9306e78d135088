-- Replicas of shards on other nodes.
--
-- Options of the foreign table record the placements: replica_nodes, a text[] of the nodes with the same rows, and stale_replica_nodes, a text[]
-- of disabled nodes that have missed changes. Each placement of such a shard has a table of notes, next to the shard. Triggers of the shard
-- note there the keys that a transaction changes. When the transaction commits, src/replica/ reads the notes.

CREATE FUNCTION shardfdw_internal.nodes_in_option(options text[], name text) RETURNS name[]
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce((SELECT o.option_value::name[] FROM pg_options_to_table(options) o WHERE o.option_name = nodes_in_option.name), '{}')
$$;
COMMENT ON FUNCTION shardfdw_internal.nodes_in_option(text[], text) IS
	'Returns the nodes in the option replica_nodes or stale_replica_nodes of a foreign table. Returns an empty array if the option is not set.';

CREATE FUNCTION shardfdw_internal.has_replicas(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- pg_partition_tree() would lock all partitions, and a process that works for this transaction could wait for these locks.
	WITH RECURSIVE t AS (SELECT relation::oid AS relid UNION ALL SELECT i.inhrelid FROM t JOIN pg_inherits i ON i.inhparent = t.relid)
	SELECT EXISTS (SELECT FROM t JOIN pg_foreign_table f ON f.ftrelid = t.relid
		CROSS JOIN LATERAL pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('replica_nodes', 'stale_replica_nodes'))
$$;
COMMENT ON FUNCTION shardfdw_internal.has_replicas(regclass) IS
	'Tells whether a shard, or any shard of a table, has replicas, including stale ones.';

CREATE FUNCTION shardfdw_internal.check_no_replicas(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF shardfdw_internal.has_replicas(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot %s table "%s" because its shards have replicas', action, (SELECT relname FROM pg_class WHERE oid = relation)),
			HINT = format('Make it a plain table, SELECT shardfdw.unshard_table(%L), and shard that without replicas.',
				(SELECT coalesce(a.relid, relation) FROM pg_partition_ancestors(relation) WITH ORDINALITY a(relid, n) ORDER BY a.n DESC LIMIT 1));
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_no_replicas(regclass, text) IS
	'Checks that the shards of a table have no replicas. action: the requested action, as a verb. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.shard_placements(relation regclass)
	RETURNS TABLE (shard regclass, schema_name name, shard_name name, node name, role text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT f.ftrelid::regclass, n.nspname, c.relname, p.node, p.role
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
	CROSS JOIN LATERAL (
		SELECT 0 AS ord, s.srvname AS node, 'primary' AS role
		UNION ALL SELECT u.ord, u.node, 'replica' FROM unnest(shardfdw_internal.nodes_in_option(f.ftoptions, 'replica_nodes')) WITH ORDINALITY u(node, ord)
		UNION ALL SELECT 1000 + u.ord, u.node, 'stale' FROM unnest(shardfdw_internal.nodes_in_option(f.ftoptions, 'stale_replica_nodes')) WITH ORDINALITY u(node, ord)) p
	WHERE i.inhparent = relation
	ORDER BY c.relname::text COLLATE "C", p.ord
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_placements(regclass) IS
	'Lists the placements of the shards of a table. Returns for each shard its name, and its nodes with a role: primary, replica, or stale for a replica that has missed changes.';

CREATE FUNCTION shardfdw_internal.notes_name(shard_name name) RETURNS name
	LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'shardfdw_notes_' || md5(shard_name::text)
$$;
COMMENT ON FUNCTION shardfdw_internal.notes_name(name) IS
	'Returns the name of the table that notes changed keys of a shard, and of the function of its triggers.';

CREATE FUNCTION shardfdw_internal.replica_mark(identity text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('Notes changes of a shard of coordinator %s.', identity)
$$;
COMMENT ON FUNCTION shardfdw_internal.replica_mark(text) IS
	'Writes the comment of the function that notes the changes of a placement of a shard with replicas. Returns it.';

CREATE FUNCTION shardfdw_internal.note_replica_commands(schema_name name, shard_name name, key name[]) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('CREATE UNLOGGED TABLE %2$s AS SELECT %3$s FROM ONLY %1$s WITH NO DATA; ALTER TABLE %2$s ADD xact xid8 NOT NULL DEFAULT pg_current_xact_id(); CREATE INDEX ON %2$s (xact); %7$s; GRANT SELECT ON %2$s TO PUBLIC; '
		'CREATE FUNCTION %2$s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %4$L; REVOKE ALL ON FUNCTION %2$s() FROM PUBLIC; %8$s; '
		-- the coordinator of the shard: see drop_replica_command()
		'COMMENT ON FUNCTION %2$s() IS %6$L; '
		'CREATE TRIGGER shardfdw_replica_insert AFTER INSERT ON %1$s REFERENCING NEW TABLE AS shardfdw_new FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		'CREATE TRIGGER shardfdw_replica_update AFTER UPDATE ON %1$s REFERENCING OLD TABLE AS shardfdw_old NEW TABLE AS shardfdw_new FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		'CREATE TRIGGER shardfdw_replica_delete AFTER DELETE ON %1$s REFERENCING OLD TABLE AS shardfdw_old FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		'CREATE TRIGGER shardfdw_replica_truncate BEFORE TRUNCATE ON %1$s FOR EACH STATEMENT EXECUTE FUNCTION %2$s(); '
		-- also in sessions with session_replication_role = replica
		'ALTER TABLE %1$s ENABLE ALWAYS TRIGGER shardfdw_replica_insert, ENABLE ALWAYS TRIGGER shardfdw_replica_update, ENABLE ALWAYS TRIGGER shardfdw_replica_delete, ENABLE ALWAYS TRIGGER shardfdw_replica_truncate; '
		-- once for all notes of a transaction
		'CREATE CONSTRAINT TRIGGER shardfdw_replicated AFTER INSERT ON %2$s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (%5$L <> ALL (coalesce(nullif(current_setting(''shardfdw_replica.noted'', true), ''''), ''{}'')::text[])) EXECUTE FUNCTION %2$s(); '
		'ALTER TABLE %2$s ENABLE ALWAYS TRIGGER shardfdw_replicated',
		n.shard, n.notes,
		(SELECT string_agg(format('array_agg(%1$I) AS %3$s%2$s', k.name, k.ord, x.prefix), ', ' ORDER BY x.prefix DESC, k.ord) FROM (VALUES ('o'), ('n')) x(prefix), unnest(key) WITH ORDINALITY k(name, ord)),
		format($body$
#variable_conflict use_column
DECLARE
	shard CONSTANT text := %4$L;
	noted text[];
	n bigint;
BEGIN
%5$s
	IF TG_RELID = %1$L::regclass THEN
		-- No other role may delete notes, because it could then lock their table.
		IF current_setting('shardfdw_replica.forget', true) = 'on' THEN
			DELETE FROM %1$s WHERE xact = pg_current_xact_id();
			RETURN NULL;
		END IF;
		IF EXISTS (SELECT FROM %1$s WHERE xact = pg_current_xact_id()) THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %%s was changed, and its replicas were not', shard),
				HINT = 'Change the rows of the sharded table on its coordinator.';
		END IF;
		RETURN NULL;
	END IF;
	IF TG_OP = 'TRUNCATE' THEN
		IF current_setting('shardfdw_replica.applied', true) IS DISTINCT FROM 'on' THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %%s cannot be truncated without its replicas', shard),
				HINT = 'Truncate the sharded table on its coordinator.';
		END IF;
		DELETE FROM %1$s WHERE xact = pg_current_xact_id();
		RETURN NULL;
	END IF;
	IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = TG_RELID AND NOT t.tgisinternal AND t.tgenabled <> 'D'
			AND t.tgfoid <> (SELECT own.tgfoid FROM pg_trigger own WHERE own.tgrelid = TG_RELID AND own.tgname = TG_NAME))
		OR EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = TG_RELID) OR (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = TG_RELID) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %%s has replicas, and triggers, rules or row security on its node', shard),
			DETAIL = 'What they do would not be done to the replicas.', HINT = 'Drop them, and make triggers and policies of the sharded table on its coordinator.';
	END IF;
	IF current_setting('shardfdw_replica.applied', true) = 'on' THEN
		RETURN NULL;
	END IF;
	IF TG_OP = 'INSERT' THEN
		INSERT INTO %1$s SELECT %2$s, %3$s FROM shardfdw_new HAVING count(*) > 0 RETURNING cardinality(n1) INTO n;
	ELSIF TG_OP = 'DELETE' THEN
		INSERT INTO %1$s SELECT %3$s, %2$s FROM shardfdw_old HAVING count(*) > 0 RETURNING cardinality(o1) INTO n;
	ELSE
		INSERT INTO %1$s SELECT o.*, n.* FROM (SELECT %3$s FROM shardfdw_old HAVING count(*) > 0) o, (SELECT %3$s FROM shardfdw_new) n RETURNING 2 * cardinality(n1) INTO n;
	END IF;
	IF n > 0 THEN
		PERFORM set_config('shardfdw_replica.noted_keys', (coalesce(nullif(current_setting('shardfdw_replica.noted_keys', true), '')::bigint, 0) + n)::text, true);
		noted := coalesce(nullif(current_setting('shardfdw_replica.noted', true), ''), '{}');
		IF shard <> ALL (noted) THEN
			PERFORM set_config('shardfdw_replica.noted', (noted || shard)::text, true);
		END IF;
	END IF;
	RETURN NULL;
END
$body$, n.notes, (SELECT string_agg('NULL', ', ') FROM unnest(key)), (SELECT string_agg(format('array_agg(%I)', k.name), ', ' ORDER BY k.ord) FROM unnest(key) WITH ORDINALITY k(name, ord)), n.shard,
			shardfdw_internal.note_guard(n.notes, $noted$format('shard %s', shard)$noted$, 'On the node, give the shard, its notes and their function to one role, and the schema to this role or to a superuser, under its name.')), n.shard,
		shardfdw_internal.replica_mark((shardfdw_internal.decided_identities())[1]), shardfdw_internal.revoke_command(n.notes), shardfdw_internal.revoke_command(n.notes || '()', 'FUNCTION'))
	FROM (SELECT format('%I.%I', schema_name, shard_name), format('%I.%I', schema_name, shardfdw_internal.notes_name(shard_name))) n(shard, notes)
$$;
COMMENT ON FUNCTION shardfdw_internal.note_replica_commands(name, name, name[]) IS
	'Writes the commands that create the objects which note the keys of changed rows for a placement of a shard with replicas. They also prevent a commit before the replicas have the changes. key: columns of the primary key. Returns the commands in one text.';

CREATE FUNCTION shardfdw_internal.drop_replica_command(schema_name name, shard_name name, or_skip boolean DEFAULT false) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('DO %L', format('DECLARE shard oid := pg_catalog.to_regclass(%1$L); BEGIN IF shard IS NULL THEN RETURN; END IF; '
		-- the name may belong to a table of another role
		'IF NOT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid '
		'WHERE c.oid = shard AND f.oid = pg_catalog.to_regprocedure(%3$L) AND c.relowner = ALL (ARRAY(SELECT f.proowner UNION ALL SELECT n.relowner FROM pg_catalog.pg_class n WHERE n.oid = pg_catalog.to_regclass(%2$L)))) THEN %4$s; END IF; '
		-- The coordinator does not need a table that is left, so another coordinator may own it by now.
		'IF %5$L::pg_catalog.bool AND pg_catalog.obj_description(pg_catalog.to_regprocedure(%3$L), ''pg_proc'') <> ALL (%6$L::pg_catalog.text[]) THEN '
		'RAISE WARNING USING MESSAGE = pg_catalog.format(''table %%s is not dropped because it is a shard of another coordinator'', %1$L), DETAIL = pg_catalog.obj_description(pg_catalog.to_regprocedure(%3$L), ''pg_proc''), HINT = ''If no coordinator needs it, drop it on the node.''; RETURN; END IF; '
		'PERFORM pg_catalog.set_config(''client_min_messages'', ''warning'', true); DROP TABLE %1$s; DROP TABLE IF EXISTS %2$s; DROP FUNCTION %3$s; '
		-- another session may have renamed the schema
		'IF EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = shard) THEN RAISE EXCEPTION USING ERRCODE = ''serialization_failure'', MESSAGE = pg_catalog.format(''table %%s has been renamed by another session'', %1$L), HINT = ''Try again.''; END IF; END',
		n.shard, n.notes, n.notes || '()', CASE WHEN or_skip THEN 'RETURN' ELSE format('RAISE EXCEPTION USING ERRCODE = ''insufficient_privilege'', '
			'MESSAGE = pg_catalog.format(''table %%s is not dropped because it is not a replica of a shard'', %1$L), DETAIL = ''No function of the owner of the table notes its changes.'', HINT = ''Drop or rename it on the node.''', n.shard) END,
		or_skip, ARRAY(SELECT shardfdw_internal.replica_mark(i) FROM unnest(shardfdw_internal.decided_identities()) i)))
	FROM (SELECT format('%I.%I', schema_name, shard_name), format('%I.%I', schema_name, shardfdw_internal.notes_name(shard_name))) n(shard, notes)
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_replica_command(name, name, boolean) IS
	'Writes the command that drops a placement of a shard with replicas, if it exists, and the objects that note its changes. or_skip: leaves a relation unchanged that is not a placement, and with a WARNING a placement of another coordinator. Returns its text. The command raises insufficient_privilege for a table whose changes no function of its owner notes.';

CREATE FUNCTION shardfdw_internal.copy_shard_rows(shard regclass, node name) RETURNS bigint
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_copy_shard_rows';
COMMENT ON FUNCTION shardfdw_internal.copy_shard_rows(regclass, name) IS
	'Copies the rows of a shard from its node into the table of its name on another node, in this transaction. Returns the number of rows. Raises insufficient_privilege if the caller does not own the shard, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.set_shard_node(shard regclass, node name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_set_shard_node';
COMMENT ON FUNCTION shardfdw_internal.set_shard_node(regclass, name) IS
	'Changes the node of a locked shard in the catalog. Returns nothing. Raises insufficient_privilege if the caller does not own the shard.';

CREATE FUNCTION shardfdw_internal.settle_node(node name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_settle_node';
COMMENT ON FUNCTION shardfdw_internal.settle_node(name) IS
	'Waits until the transactions that this server has prepared on a node so far are committed or rolled back there. Returns nothing. Raises object_in_use if no session is going to end one of them, and errors of the node.';

CREATE FUNCTION shardfdw_internal.set_replica_nodes(shard regclass, replica_nodes name[], stale_replica_nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	options CONSTANT text[] := (SELECT f.ftoptions FROM pg_foreign_table f WHERE f.ftrelid = shard);
	command text;
BEGIN
	SELECT string_agg(CASE WHEN x.value <> '{}' THEN format('%s %s %L', CASE WHEN x.is_set THEN 'SET' ELSE 'ADD' END, x.name, x.value::text) ELSE 'DROP ' || x.name END, ', ') INTO command
	FROM (SELECT v.name, v.value, EXISTS (SELECT FROM pg_options_to_table(options) o WHERE o.option_name = v.name) AS is_set
		  FROM (VALUES ('replica_nodes', replica_nodes), ('stale_replica_nodes', stale_replica_nodes)) v(name, value)) x
	WHERE x.value <> '{}' OR x.is_set;
	IF command IS NOT NULL THEN
		EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (%s)', shard, command);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.set_replica_nodes(regclass, name[], name[]) IS
	'Records which nodes have replicas of a shard. Returns nothing. Raises insufficient_privilege if the caller does not own the shard.';

CREATE FUNCTION shardfdw_internal.check_shard_replicable(relation regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refusal CONSTANT text := format('cannot make replicas of the shards of table "%s"', (SELECT relname FROM pg_class WHERE oid = relation));
	r record;
BEGIN
	PERFORM shardfdw_internal.check_no_peers('replicas of shards', 'make');
	IF (SELECT c.relispartition FROM pg_class c WHERE c.oid = relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it is a partition';
	END IF;
	IF shardfdw_internal.is_unlogged(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it is unlogged',
			DETAIL = 'A node that crashes would lose the rows that the others have.';
	END IF;
	SELECT i.indexrelid INTO r FROM pg_index i WHERE i.indrelid = relation AND i.indisprimary;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it has no primary key',
			DETAIL = 'Changed rows are known by it.';
	END IF;
	SELECT a.attname INTO r FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::smallint[], i.indclass::oid[]) k(attnum, class)
	JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum JOIN pg_type t ON t.oid = a.atttypid JOIN pg_opclass c ON c.oid = k.class
	WHERE i.indrelid = relation AND i.indisprimary AND (t.typarray = 0 OR NOT c.opcdefault) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because of column "%s" of its primary key', refusal, r.attname),
			DETAIL = 'It is an array, or has another operator class than the default one of its type.';
	END IF;
	SELECT k.conname INTO r FROM pg_constraint k WHERE k.contype = 'f' AND (k.conrelid = relation OR k.confrelid = relation) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because of foreign key "%s"', refusal, r.conname),
			HINT = 'Drop it first.';
	END IF;
	SELECT a.attname INTO r FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'money'::regtype LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because column "%s" has type money', refusal, r.attname),
			DETAIL = 'Servers write its values by their own settings.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_shard_replicable(regclass) IS
	'Checks that the shards of a table can have replicas. Returns nothing. Raises feature_not_supported with the reason.';

CREATE FUNCTION shardfdw_internal.check_replication_factor(replication_factor integer, relation regclass, colocate_with regclass, mode text) RETURNS integer
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	had CONSTANT bigint := (SELECT 1 + max(x.n) FROM (SELECT count(*) FILTER (WHERE p.role <> 'primary') AS n FROM shardfdw_internal.shard_placements(colocate_with) p GROUP BY p.shard) x);
BEGIN
	IF replication_factor NOT BETWEEN 1 AND 16 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'replication_factor must be between 1 and 16';
	END IF;
	IF replication_factor <> had THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('table %s, with which it is to be colocated, has its shards on %s nodes each', colocate_with, had),
			HINT = 'Leave replication_factor out.';
	END IF;
	replication_factor := coalesce(replication_factor, had, 1);
	IF replication_factor > 1 AND mode = 'online' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('cannot shard table "%s" online with replicas', (SELECT relname FROM pg_class WHERE oid = relation)),
			HINT = 'With mode => ''block'', others wait until all rows are on the nodes.';
	END IF;
	RETURN replication_factor;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_replication_factor(integer, regclass, regclass, text) IS
	'Checks on how many nodes each shard is stored. Null means the number of colocate_with, or 1. Returns the number. Raises invalid_parameter_value and feature_not_supported.';

CREATE FUNCTION shardfdw_internal.choose_replicas(placement name[], nodes name[], replication_factor integer, colocate_with regclass) RETURNS text[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	candidates name[];
	closed name[];
	stale_node name;
	n integer;
BEGIN
	IF colocate_with IS NOT NULL THEN
		stale_node := (SELECT min(p.node::text) FROM shardfdw_internal.shard_placements(colocate_with) p WHERE p.role = 'stale');
		IF stale_node IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
				MESSAGE = format('cannot colocate with "%s" because replicas of it are stale', colocate_with),
				HINT = format('Enable the node first: SELECT shardfdw.enable_node(%L).', stale_node);
		END IF;
		-- in the order of the remainders, as in hash_placement()
		RETURN ARRAY(SELECT shardfdw_internal.nodes_in_option(f.ftoptions, 'replica_nodes')::text
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_foreign_table f ON f.ftrelid = c.oid
			CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, 0), '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$') AS b(bound)
			WHERE i.inhparent = colocate_with ORDER BY b.bound[2]::integer);
	END IF;
	candidates := ARRAY(SELECT x.node FROM unnest(coalesce(nodes, shardfdw_internal.accepting_nodes())) WITH ORDINALITY x(node, ord) GROUP BY x.node ORDER BY min(x.ord));
	n := cardinality(candidates);
	IF replication_factor > n THEN
		closed := ARRAY(SELECT x.node FROM unnest(shardfdw_internal.usable_nodes()) WITH ORDINALITY x(node, ord)
			WHERE x.node <> ALL (candidates) AND NOT coalesce(shardfdw_internal.node_option(x.node, 'accepts_shards')::boolean, true) ORDER BY x.ord);
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('replication_factor is %s, and there are only %s nodes', replication_factor, n),
			DETAIL = CASE WHEN closed <> '{}' THEN format('Nodes that do not accept shards: %s.', array_to_string(closed, ', ')) ELSE '' END,
			HINT = CASE WHEN closed <> '{}' THEN format('ALTER SERVER %I OPTIONS (SET accepts_shards ''true'') changes that.', closed[1]) ELSE 'Add a node with shardfdw.add_node(), or use a smaller replication_factor.' END;
	END IF;
	-- The replicas of the shards of one node are spread over all other nodes, which share its work when the node fails.
	RETURN ARRAY(SELECT ARRAY(SELECT candidates[1 + (array_position(candidates, p.node) - 1 + 1 + ((p.ord - 1) / n + k) % (n - 1)) % n] FROM generate_series(0, replication_factor - 2) k)::text
		FROM unnest(placement) WITH ORDINALITY p(node, ord) ORDER BY p.ord);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.choose_replicas(name[], name[], integer, regclass) IS
	'Chooses the nodes of replicas. placement: the node of each shard. replication_factor: number of nodes of each shard, including that node. Returns for each shard the other nodes, as an array in text form. Raises invalid_parameter_value or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.own_replicas(shards regclass[], nodes name[]) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(q) FROM (
		SELECT array_agg(c.node ORDER BY c.ord) AS nodes, array_agg(c.shard::regclass::text ORDER BY c.ord) AS labels, array_agg(shardfdw_internal.give_command(c.name, (q.fields)[1]) ORDER BY c.ord) AS commands
		FROM (SELECT array_agg(f.node ORDER BY f.ord) AS nodes, array_agg(format('SELECT pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c WHERE c.oid = %L::pg_catalog.regclass', f.name) ORDER BY f.ord) AS commands
			FROM (SELECT s.ord, v.srvname AS node, format('%I.%I', n.nspname, c.relname) AS name
				FROM unnest(shards) WITH ORDINALITY s(shard, ord) JOIN pg_foreign_table f ON f.ftrelid = s.shard JOIN pg_foreign_server v ON v.oid = f.ftserver
				JOIN pg_class c ON c.oid = s.shard JOIN pg_namespace n ON n.oid = c.relnamespace) f) a
		CROSS JOIN LATERAL shardfdw_internal.run_commands(a.nodes, a.commands, 'write') q
		JOIN (SELECT s.ord, s.shard, s.node, format('%I.%I', n.nspname, c.relname) AS name
			FROM unnest(shards, nodes) WITH ORDINALITY s(shard, node, ord) JOIN pg_class c ON c.oid = s.shard JOIN pg_namespace n ON n.oid = c.relnamespace) c ON c.ord = q.command
		-- The superuser of the primary's node must not choose a role of another node.
		WHERE shardfdw_internal.owns_shards((SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.shard), c.node, (q.fields)[1])) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q
$$;
COMMENT ON FUNCTION shardfdw_internal.own_replicas(regclass[], name[]) IS
	'Changes the owner of replicas of some shards to the role that owns the primary, if owns_shards() accepts this role for the table, the role exists on the node, and the caller may give tables to it there. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.make_placements(relation regclass, shards regclass[], nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	schema_name CONSTANT name := shardfdw_internal.shards_schema(relation);
	names CONSTANT name[] := ARRAY(SELECT c.relname FROM unnest(shards) WITH ORDINALITY s(oid, ord) JOIN pg_class c ON c.oid = s.oid ORDER BY s.ord);
	distinct_nodes CONSTANT name[] := ARRAY(SELECT DISTINCT n FROM unnest(nodes) n);
	index_first CONSTANT boolean := shardfdw_internal.index_before_rows(relation);
	table_options text;
BEGIN
	PERFORM shardfdw_internal.check_no_left_shard(schema_name, names, nodes);
	PERFORM shardfdw_internal.prepare_nodes(relation, 'copy', distinct_nodes);
	PERFORM shardfdw_internal.make_schema_on_nodes(relation, schema_name, distinct_nodes);
	PERFORM shardfdw_internal.make_tables_on_nodes(relation, schema_name, names, nodes);
	-- The rows come from the primaries of these shards: other nodes may be down.
	table_options := shardfdw_internal.shard_storage_options(relation, shards[1]);
	IF table_options IS NOT NULL THEN
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, names, nodes, ARRAY['ALTER TABLE '], ARRAY[format(' SET (%s)', table_options)]);
	END IF;
	IF index_first THEN
		PERFORM shardfdw_internal.index_shards(relation, names, nodes);
	END IF;
	PERFORM shardfdw_internal.check_owner_code(relation, 'copy');
	PERFORM shardfdw_internal.check_owner_code_on_nodes(relation, 'copy', schema_name, names, nodes);
	FOR i IN 1 .. cardinality(shards)
	LOOP
		PERFORM shardfdw_internal.copy_shard_rows(shards[i], nodes[i]);
	END LOOP;
	IF NOT index_first THEN
		PERFORM shardfdw_internal.index_shards(relation, names, nodes);
	END IF;
	PERFORM shardfdw_internal.note_placements(relation, shards, nodes);
	PERFORM shardfdw_internal.own_replicas(shards, nodes);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_placements(regclass, regclass[], name[]) IS
	'Creates replicas of some shards of a table, one for each given node. The table must be locked. Returns nothing. Raises insufficient_privilege as check_owner_code() does, and errors of the nodes.';

CREATE FUNCTION shardfdw_internal.note_placements(relation regclass, shards regclass[], nodes name[]) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(q) FROM (
		SELECT array_agg(s.node ORDER BY s.ord) AS nodes, array_agg(s.shard::regclass::text ORDER BY s.ord) AS labels,
			array_agg(shardfdw_internal.note_replica_commands(n.nspname, c.relname, k.columns) ORDER BY s.ord) AS commands
		FROM unnest(shards, nodes) WITH ORDINALITY s(shard, node, ord) JOIN pg_class c ON c.oid = s.shard JOIN pg_namespace n ON n.oid = c.relnamespace,
			(SELECT array_agg(a.attname ORDER BY k.ord) AS columns FROM pg_index i CROSS JOIN LATERAL unnest((i.indkey::smallint[])[0:i.indnkeyatts - 1]) WITH ORDINALITY k(attnum, ord)
			 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum WHERE i.indrelid = relation AND i.indisprimary) k) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q
$$;
COMMENT ON FUNCTION shardfdw_internal.note_placements(regclass, regclass[], name[]) IS
	'Runs note_replica_commands() for some placements of shards of a table. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.own_notes(relation regclass, nodes name[] DEFAULT NULL) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(q) FROM (
		SELECT array_agg(p.node) AS nodes, array_agg(p.shard::text) AS labels, array_agg(format('DO %L', format(
			'DECLARE owner oid := (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = %1$L::pg_catalog.regclass); notes oid := pg_catalog.to_regclass(%2$L); '
			'BEGIN IF notes IS NULL OR owner = ALL (ARRAY(SELECT n.relowner FROM pg_catalog.pg_class n WHERE n.oid = notes UNION ALL SELECT f.proowner FROM pg_catalog.pg_proc f WHERE f.oid = pg_catalog.to_regprocedure(%3$L))) THEN RETURN; END IF; '
			-- An object of another role is not given away: it is created again.
			'IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = %1$L::pg_catalog.regclass AND t.tgfoid = pg_catalog.to_regprocedure(%3$L)) THEN '
			'RAISE EXCEPTION USING ERRCODE = ''insufficient_privilege'', MESSAGE = pg_catalog.format(''function %%s belongs to another role than table %%s and does not note its changes'', %3$L, %1$L); END IF; '
			'PERFORM pg_catalog.set_config(''client_min_messages'', ''warning'', true); DROP TABLE %2$s; DROP FUNCTION %3$s CASCADE; EXECUTE %4$L; EXECUTE %5$L || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(owner)); EXECUTE %6$L || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(owner)); END',
			format('%I.%I', p.schema_name, p.shard_name), n.notes, n.notes || '()', shardfdw_internal.note_replica_commands(p.schema_name, p.shard_name, k.columns),
			format('ALTER TABLE %s OWNER TO ', n.notes), format('ALTER FUNCTION %s() OWNER TO ', n.notes)))) AS commands
		FROM shardfdw_internal.shard_placements(relation) p CROSS JOIN LATERAL (SELECT format('%I.%I', p.schema_name, shardfdw_internal.notes_name(p.shard_name)) AS notes) n,
			(SELECT array_agg(a.attname ORDER BY k.ord) AS columns FROM pg_index i CROSS JOIN LATERAL unnest((i.indkey::smallint[])[0:i.indnkeyatts - 1]) WITH ORDINALITY k(attnum, ord)
			 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum WHERE i.indrelid = relation AND i.indisprimary) k
		WHERE p.role <> 'stale' AND (nodes IS NULL OR p.node = ANY (nodes))) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q
$$;
COMMENT ON FUNCTION shardfdw_internal.own_notes(regclass, name[]) IS
	'Creates the objects that note changes of a table''s shards again if they do not belong to the roles that own the shards. nodes: null for all nodes. Returns nothing. Raises errors of nodes, and insufficient_privilege if another object has the name.';

CREATE FUNCTION shardfdw_internal.make_replicas(relation regclass, placed text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	primaries record;
	replicas record;
	one record;
BEGIN
	PERFORM shardfdw_internal.check_shard_replicable(relation);
	SELECT array_agg(x.shard) AS shards, array_agg(x.node) AS nodes INTO primaries
	FROM (SELECT f.ftrelid::regclass AS shard, s.srvname AS node, 1 + b.bound[2]::integer AS number
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
		CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, 0), '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$') AS b(bound)
		WHERE i.inhparent = relation ORDER BY b.bound[2]::integer) x;
	SELECT array_agg(u.shard) AS shards, array_agg(c.node) AS nodes INTO replicas
	FROM unnest(primaries.shards) WITH ORDINALITY u(shard, number) CROSS JOIN LATERAL unnest(placed[u.number]::name[]) c(node);
	PERFORM shardfdw_internal.make_placements(relation, replicas.shards, replicas.nodes);
	PERFORM shardfdw_internal.note_placements(relation, primaries.shards, primaries.nodes);
	FOR one IN SELECT u.shard, placed[u.number]::name[] AS replicas FROM unnest(primaries.shards) WITH ORDINALITY u(shard, number)
	LOOP
		PERFORM shardfdw_internal.set_replica_nodes(one.shard, one.replicas, '{}');
	END LOOP;
	PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation]);
	PERFORM shardfdw_internal.own_notes(relation);
	-- The function that notes changes makes its checks.
	PERFORM count(q) FROM (SELECT array_agg(p.node) AS nodes, array_agg(format('DELETE FROM ONLY %I.%I WHERE false', p.schema_name, p.shard_name)) AS commands, array_agg(p.shard::text) AS labels
		FROM shardfdw_internal.shard_placements(relation) p) x CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_replicas(regclass, text[]) IS
	'Creates replicas of the shards of a locked table on other nodes. placed: for each remainder an array of nodes in text form. Returns nothing. Raises an error if the shards cannot have replicas, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.apply_replicas() RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_apply_replicas';
COMMENT ON FUNCTION shardfdw_internal.apply_replicas() IS
	'Sends the changes of this transaction in shards with replicas to the replicas, as its commit would. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.replicated_tables() RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT i.inhparent::regclass FROM pg_foreign_table f JOIN pg_inherits i ON i.inhrelid = f.ftrelid
	CROSS JOIN LATERAL pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('replica_nodes', 'stale_replica_nodes')
$$;
COMMENT ON FUNCTION shardfdw_internal.replicated_tables() IS
	'Lists the tables whose shards have replicas, also stale ones.';

CREATE FUNCTION shardfdw_internal.tables_with_replicas(node name, roles text[]) RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT x.relation FROM shardfdw_internal.replicated_tables() x(relation)
	WHERE EXISTS (SELECT FROM shardfdw_internal.shard_placements(x.relation) p WHERE p.node = tables_with_replicas.node AND p.role = ANY (roles))
	ORDER BY x.relation::oid
$$;
COMMENT ON FUNCTION shardfdw_internal.tables_with_replicas(name, text[]) IS
	'Lists the tables whose shards have replicas and that have placements in one of these roles on a node, see shard_placements(). Returns them by OID.';

CREATE FUNCTION shardfdw_internal.lock_replicas(relation regclass, readers boolean DEFAULT false, reference_readers boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
BEGIN
	IF NOT (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', (SELECT c.relname FROM pg_class c WHERE c.oid = relation));
	END IF;
	PERFORM shardfdw_internal.lock_table(relation, CASE shardfdw_internal.is_reference(relation) WHEN true THEN CASE WHEN reference_readers THEN 'ACCESS EXCLUSIVE' ELSE 'SHARE ROW EXCLUSIVE' END
		ELSE CASE WHEN readers THEN 'ACCESS EXCLUSIVE' ELSE 'EXCLUSIVE' END END);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_replicas(regclass, boolean, boolean) IS
	'Locks a reference table or a table with replicas of shards against writers until the transaction ends. readers: also locks a table with replicas of shards against readers. reference_readers: the same for a reference table. Locks only on this coordinator and queries no node. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_node_name(node name) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_node_name.node IS NULL OR NOT EXISTS (SELECT FROM shardfdw.nodes n WHERE n.node = check_node_name.node) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('node "%s" does not exist', node), HINT = 'The view shardfdw.nodes lists the nodes.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_node_name(name) IS
	'Checks that a node exists. Returns nothing. Raises undefined_object.';

CREATE FUNCTION shardfdw_internal.take_replicas_turn(relations regclass[], is_shared boolean DEFAULT false) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_take_replicas_turn';
COMMENT ON FUNCTION shardfdw_internal.take_replicas_turn(regclass[], boolean) IS
	'Waits until no other session locks tables with replicas of shards or (unless is_shared) creates such a table. Prevents other sessions from doing so until the transaction ends. Without relations only waits. Returns nothing. Raises insufficient_privilege if the caller does not own the tables.';

CREATE FUNCTION shardfdw_internal.turn_of_tables(node name, roles text[]) RETURNS regclass[]
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	listed regclass[] := '{}';
	found regclass[];
BEGIN
	-- another session may have created one before the lock was granted
	LOOP
		PERFORM shardfdw_internal.take_replicas_turn(listed);
		found := ARRAY(SELECT t FROM shardfdw_internal.tables_with_replicas(node, roles) t);
		IF found <@ listed THEN
			RETURN found;
		END IF;
		listed := found;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.turn_of_tables(name, text[]) IS
	'Does what take_replicas_turn() does for the tables of tables_with_replicas(). Returns these tables as they are after the wait. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.lock_all_replicas(relations regclass[], readers boolean DEFAULT false, reference_readers boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	lock_timeout CONSTANT text := current_setting('lock_timeout');
	-- In ms, for all locks except the first: shorter than deadlock_timeout of another session that waits for the first lock.
	patience CONSTANT integer := greatest(10, extract(epoch FROM current_setting('deadlock_timeout')::interval) * 500);
	began timestamptz;
	ordered regclass[] := relations;
	relation regclass;
	is_first boolean;
BEGIN
	IF relations <> '{}' THEN
		-- Otherwise sessions that wait for several such calls in turn would find a deadlock.
		PERFORM shardfdw_internal.take_replicas_turn(relations);
	END IF;
	-- A transaction may write to the tables in another order. So only the first lock is waited for long. If another lock is
	-- not available soon, all locks are released, and that lock becomes the first.
	LOOP
		BEGIN
			is_first := true;
			FOREACH relation IN ARRAY ordered
			LOOP
				PERFORM shardfdw_internal.lock_replicas(relation, readers, reference_readers);
				began := CASE WHEN is_first THEN clock_timestamp() ELSE began END;
				is_first := false;
				PERFORM set_config('lock_timeout', greatest(1, patience - extract(epoch FROM clock_timestamp() - began) * 1000)::integer::text, true);
			END LOOP;
			PERFORM set_config('lock_timeout', lock_timeout, true);
			RETURN;
		EXCEPTION WHEN undefined_table THEN
			ordered := array_remove(ordered, relation);
		WHEN lock_not_available OR deadlock_detected THEN
			-- a deadlock at the first lock is caused by locks that the transaction held before
			IF is_first THEN
				RAISE;
			END IF;
			ordered := relation || array_remove(ordered, relation);
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_all_replicas(regclass[], boolean, boolean) IS
	'Does what lock_replicas() does for several tables, one session after the other. Skips dropped tables. Avoids deadlocks with transactions that use the tables in another order. Returns nothing. Raises insufficient_privilege, and lock_not_available after lock_timeout.';

CREATE FUNCTION shardfdw_internal.answering_nodes(nodes name[]) RETURNS name[]
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(q.node), '{}') FROM shardfdw_internal.run_commands(nodes, array_fill('SELECT 1'::text, ARRAY[cardinality(nodes)]), 'read', false) q
	WHERE nodes <> '{}' AND q.ok
$$;
COMMENT ON FUNCTION shardfdw_internal.answering_nodes(name[]) IS
	'Queries nodes and returns those that answer.';

CREATE FUNCTION shardfdw_internal.tables_with_nodes(relations regclass[]) RETURNS regclass[]
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kept regclass[] := '{}';
	relation regclass;
	missing record;
BEGIN
	FOREACH relation IN ARRAY relations
	LOOP
		SELECT p.shard, p.node INTO missing FROM shardfdw_internal.shard_placements(relation) p
		WHERE p.role <> 'stale' AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = p.node) LIMIT 1;
		IF FOUND THEN
			RAISE WARNING USING ERRCODE = 'undefined_object', MESSAGE = format('table %s is left out: %s', relation,
				format('node "%s" of a replica of shard %s does not exist', missing.node, missing.shard));
		ELSE
			kept := kept || relation;
		END IF;
	END LOOP;
	RETURN kept;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.tables_with_nodes(regclass[]) IS
	'Leaves tables out whose option replica_nodes names a missing node, each with a WARNING. Returns the other tables.';

CREATE FUNCTION shardfdw_internal.warn_unchanged(node name, shards regclass[], reason text, hint text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF shards <> '{}' THEN
		RAISE WARNING USING
			MESSAGE = format('%s shards stay as they are on node "%s" because %s, %s among them', cardinality(shards), node, reason, shards[1]), HINT = hint;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.warn_unchanged(name, regclass[], text, text) IS
	'Reports a WARNING that disable_node() or enable_node() has skipped shards. reason: why. Returns nothing.';

CREATE FUNCTION shardfdw_internal.warn_missing_shards(node name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	missing text[];
BEGIN
	SELECT array_agg((q.fields)[1]) INTO missing
	FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[format('SELECT t FROM pg_catalog.unnest(%L::text[]) t WHERE pg_catalog.to_regclass(t) IS NULL',
		ARRAY(SELECT e.remote_name FROM shardfdw_internal.expected_shards(node) e WHERE e.parent IS NOT NULL)::text)], 'write') q WHERE q.fields IS NOT NULL;
	IF missing IS NOT NULL THEN
		RAISE WARNING USING MESSAGE = format('%s shards are not on node "%s", %s among them', cardinality(missing), node, missing[1]),
			DETAIL = 'The node has lost them, and there is no replica of them in step.',
			HINT = 'Restore these tables there from a backup, or drop the sharded tables. Where another node has replicas, and is back, shardfdw.disable_node() goes on with these.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.warn_missing_shards(name) IS
	'Reports a WARNING for shards that are missing on a node that is their primary or their only placement. Returns nothing. Raises errors of the node.';

-- Not dumped: the rows describe nodes of this coordinator only.
CREATE TABLE shardfdw_internal.left_shard (
	server name NOT NULL,
	schema_name name NOT NULL,
	shard_name name NOT NULL,
	PRIMARY KEY (server, schema_name, shard_name)
);
REVOKE ALL ON shardfdw_internal.left_shard FROM PUBLIC;
-- type name, as in pg_class
GRANT SELECT ON shardfdw_internal.left_shard TO PUBLIC;
COMMENT ON TABLE shardfdw_internal.left_shard IS
	'Stale replicas that remain on a disabled node because their shards were dropped, or moved from there, while the node was disabled.';
COMMENT ON COLUMN shardfdw_internal.left_shard.server IS 'Name of the node.';
COMMENT ON COLUMN shardfdw_internal.left_shard.schema_name IS 'Name of the schema on the node.';
COMMENT ON COLUMN shardfdw_internal.left_shard.shard_name IS 'Name of the table on the node.';

CREATE FUNCTION shardfdw_internal.check_no_left_shard(schema_name name, shards name[], nodes name[]) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	l record;
BEGIN
	SELECT s.shard, s.node INTO l FROM unnest(shards, nodes) s(shard, node)
	WHERE EXISTS (SELECT FROM shardfdw_internal.left_shard x WHERE x.server = s.node AND x.schema_name = schema_name AND x.shard_name = s.shard) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_table', MESSAGE = format('node "%s" still has table %I.%I', l.node, schema_name, l.shard),
			DETAIL = 'It was a shard of a table that was dropped, or moved from there, while the node was disabled.',
			HINT = format('Enable the node, which drops what is left there: SELECT shardfdw.enable_node(%L).', l.node);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_no_left_shard(name, name[], name[]) IS
	'Checks that nodes do not have stale replicas of dropped shards with the names of new shards. Returns nothing. Raises duplicate_table.';

CREATE FUNCTION shardfdw_internal.write_left_shard(shard regclass, node name) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	INSERT INTO shardfdw_internal.left_shard SELECT p.node, p.schema_name, p.shard_name
	FROM pg_inherits i CROSS JOIN LATERAL shardfdw_internal.shard_placements(i.inhparent) p
	WHERE i.inhrelid = write_left_shard.shard AND p.shard = write_left_shard.shard AND p.node = write_left_shard.node AND p.role = 'stale'
	ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION shardfdw_internal.write_left_shard(regclass, name) IS
	'Records that the stale replica of a shard remains on its node when the shard is dropped, or moved from there. Returns nothing.';
REVOKE ALL ON FUNCTION shardfdw_internal.write_left_shard(regclass, name) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.note_left_shard(shard regclass, node name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_note_left_shard';
COMMENT ON FUNCTION shardfdw_internal.note_left_shard(regclass, name) IS
	'Runs write_left_shard() for the owner of the shard. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.take_left_shards(node name) RETURNS text[]
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	names text[];
	questions text[];
	kept text[] := '{}';
	commands text[];
	r record;
BEGIN
	SELECT array_agg(format('%I.%I', l.schema_name, l.shard_name)), array_agg(format('SELECT pg_catalog.obj_description(pg_catalog.to_regprocedure(%L), ''pg_proc'')', format('%I.%I()', l.schema_name, shardfdw_internal.notes_name(l.shard_name))))
	INTO names, questions FROM shardfdw_internal.left_shard l WHERE l.server = node;
	IF names IS NULL THEN
		RETURN '{}';
	END IF;
	-- A predecessor may have made a new table of that name in a commit that is not known here.
	FOR r IN SELECT names[q.command] AS name, c.identity
		FROM shardfdw_internal.run_commands(array_fill(node, ARRAY[cardinality(questions)]), questions, 'write') q
		JOIN shardfdw_internal.coordinator c ON (q.fields)[1] = shardfdw_internal.replica_mark(c.identity)
		WHERE c.taken_over_at IS NOT NULL AND c.identity <> ALL (shardfdw_internal.decided_identities())
	LOOP
		kept := kept || r.name;
		RAISE WARNING USING MESSAGE = format('table %s is not dropped because commits of predecessor "%s" may be missing here', r.name, r.identity),
			DETAIL = format('It is left on node "%s", and shards of that name cannot be created there.', node),
			HINT = format('If no commit is missing: SELECT shardfdw.resolve_transaction(%L, ''rollback''). Then: SELECT shardfdw.enable_node(%L).', r.identity, node);
	END LOOP;
	WITH taken AS (
		DELETE FROM shardfdw_internal.left_shard l WHERE l.server = node AND format('%I.%I', l.schema_name, l.shard_name) <> ALL (kept) RETURNING l.*)
	SELECT coalesce(array_agg(shardfdw_internal.drop_replica_command(t.schema_name, t.shard_name, true)), '{}') INTO commands
	-- If another shard of that name is on this node, it was created after the leftover had been dropped.
	FROM taken t WHERE NOT EXISTS (SELECT FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_server s ON s.oid = f.ftserver
		WHERE n.nspname = t.schema_name AND c.relname = t.shard_name
			AND t.server = ANY (s.srvname || shardfdw_internal.nodes_in_option(f.ftoptions, 'replica_nodes') || shardfdw_internal.nodes_in_option(f.ftoptions, 'stale_replica_nodes')));
	RETURN commands;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.take_left_shards(name) IS
	'Writes the commands that drop stale replicas of dropped or moved shards on a node, and removes their records. If commits of the predecessor that made a replica may be missing, keeps its record and reports a WARNING. Returns the commands. Raises errors of the node.';
REVOKE ALL ON FUNCTION shardfdw_internal.take_left_shards(name) FROM PUBLIC;

-- Not dumped: the rows describe the servers that are nodes now.
CREATE TABLE shardfdw_internal.node_position (
	server name NOT NULL,
	process integer NOT NULL,
	of_replicas boolean NOT NULL,
	system_identifier bigint NOT NULL,
	database oid NOT NULL,
	timeline integer NOT NULL,
	lsn pg_lsn NOT NULL,
	PRIMARY KEY (server, process, of_replicas)
) WITH (fillfactor = 50);
REVOKE ALL ON shardfdw_internal.node_position FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.node_position IS
	'WAL positions of nodes up to which changes of shards with replicas and of reference tables are committed. Sessions do not connect to a node that is behind. Never change it manually.';
COMMENT ON COLUMN shardfdw_internal.node_position.server IS 'Name of the node.';
COMMENT ON COLUMN shardfdw_internal.node_position.process IS 'Number of the process that committed. Each process has a separate row.';
COMMENT ON COLUMN shardfdw_internal.node_position.of_replicas IS 'True for shards with replicas, false for reference tables.';
COMMENT ON COLUMN shardfdw_internal.node_position.system_identifier IS 'System identifier of the node''s server. 0 if not known.';
COMMENT ON COLUMN shardfdw_internal.node_position.database IS 'OID of the database there. 0 if not known.';
COMMENT ON COLUMN shardfdw_internal.node_position.timeline IS 'Timeline of the node''s server.';
COMMENT ON COLUMN shardfdw_internal.node_position.lsn IS 'Position on that timeline up to which the process has committed.';

CREATE FUNCTION shardfdw_internal.forget_position(node name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_forget_position';
COMMENT ON FUNCTION shardfdw_internal.forget_position(name) IS
	'Removes the recorded WAL position of a node: for shards with replicas, if the node has only stale placements; for reference tables, if there is no such server. Returns nothing.';

CREATE FUNCTION shardfdw_internal.forget_reference_position(node name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_forget_reference_position';
COMMENT ON FUNCTION shardfdw_internal.forget_reference_position(name) IS
	'Removes the WAL position of a node that was recorded for reference tables. The caller then compares all replicas on the node. Returns nothing.';
REVOKE ALL ON FUNCTION shardfdw_internal.forget_reference_position(name) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.note_dropped_reference() RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_note_dropped_reference';
COMMENT ON FUNCTION shardfdw_internal.note_dropped_reference() IS
	'Records that this transaction drops the replicas of a reference table. If no reference table is left at its commit, the commit removes the WAL positions of nodes that are recorded for reference tables. Returns nothing.';

CREATE FUNCTION shardfdw.confirm_node(node name) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_confirm_node';
COMMENT ON FUNCTION shardfdw.confirm_node(name) IS
	'Confirms that a node has all changes that were committed there, so that sessions connect to it again. Call it for a node with replicas of shards or reference tables whose server was replaced, upgraded, promoted or restored. Records the present WAL position of the node. compare_replicas() shows whether the node''s replicas are equal to their primaries. Returns nothing. Raises undefined_object, and errors of the node.';
REVOKE ALL ON FUNCTION shardfdw.confirm_node(name) FROM PUBLIC;

CREATE FUNCTION shardfdw.disable_node(node name) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	relations regclass[];
	answering name[];
	p record;
	promoted name[] := '{}';
	kept regclass[] := '{}';
	chosen name;
	n bigint := 0;
BEGIN
	PERFORM shardfdw_internal.check_isolation('disable_node');
	PERFORM shardfdw_internal.check_node_name(node);
	PERFORM shardfdw_internal.apply_replicas();
	relations := shardfdw_internal.tables_with_nodes(shardfdw_internal.turn_of_tables(node, '{primary,replica}'));
	-- open the needed connections before writers wait for the locks
	answering := shardfdw_internal.answering_nodes(ARRAY(SELECT DISTINCT x.node FROM unnest(relations) r CROSS JOIN LATERAL shardfdw_internal.shard_placements(r) x
		WHERE x.node <> node AND x.role <> 'stale'));
	PERFORM shardfdw_internal.lock_all_replicas(relations);
	answering := shardfdw_internal.answering_nodes(answering);
	FOR p IN SELECT x.shard, max(x.node) FILTER (WHERE x.role = 'primary') AS home,
			coalesce(array_agg(x.node) FILTER (WHERE x.role = 'replica'), '{}') AS replicas, coalesce(array_agg(x.node) FILTER (WHERE x.role = 'stale'), '{}') AS stale
		FROM unnest(relations) r CROSS JOIN LATERAL shardfdw_internal.shard_placements(r) x GROUP BY x.shard
		HAVING bool_or(x.node = node AND x.role <> 'stale') ORDER BY x.shard::oid
	LOOP
		-- the new primary of the shard
		chosen := (SELECT u.node FROM unnest(p.home || p.replicas) WITH ORDINALITY u(node, ord) WHERE u.node <> node AND u.node = ANY (answering) ORDER BY u.ord LIMIT 1);
		IF chosen IS NULL THEN
			kept := kept || p.shard;
			CONTINUE;
		END IF;
		IF p.home = node THEN
			PERFORM shardfdw_internal.set_shard_node(p.shard, chosen);
			promoted := promoted || chosen;
			PERFORM shardfdw_internal.set_replica_nodes(p.shard, array_remove(p.replicas, chosen), p.stale || node);
		ELSE
			PERFORM shardfdw_internal.set_replica_nodes(p.shard, array_remove(p.replicas, node), p.stale || node);
		END IF;
		n := n + 1;
	END LOOP;
	IF n = 0 AND kept <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('cannot disable node "%s" because no other node that answers has the rows of shard %s', node, kept[1]),
			HINT = 'Enable another node that has a replica of it first.';
	END IF;
	PERFORM shardfdw_internal.forget_position(node);
	-- Commit what the node committed and these nodes have only prepared. Otherwise other nodes might have to be waited for.
	FOR chosen IN SELECT DISTINCT u FROM unnest(promoted) u
	LOOP
		PERFORM shardfdw_internal.settle_server(chosen);
		PERFORM shardfdw_internal.settle_node(chosen);
	END LOOP;
	PERFORM shardfdw_internal.warn_unchanged(node, kept, 'no other node that answers has their rows', 'They can be written when a node that has their rows answers.');
	RETURN n;
END
$$;
COMMENT ON FUNCTION shardfdw.disable_node(name) IS
	'Disables a node for shards that have replicas: marks the node''s placements as stale, and makes a replica the primary where the node was the primary. Does not connect to the node. If no other answering node has the rows of a shard, the shard stays unchanged and a WARNING is reported. Waits for sessions that write to the tables. Returns the number of shards that no longer use the node. Raises object_not_in_prerequisite_state if there are no such shards, and insufficient_privilege if the caller does not own the tables.';
REVOKE ALL ON FUNCTION shardfdw.disable_node(name) FROM PUBLIC;

CREATE FUNCTION shardfdw.enable_node(node name) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	relations regclass[] := ARRAY(SELECT t FROM shardfdw_internal.tables_with_replicas(node, '{stale}') t);
	-- for an owner of tables, other tables stay unchanged
	equips CONSTANT boolean := has_function_privilege('shardfdw_internal.forget_reference_position(name)', 'EXECUTE');
	outdated regclass[] := '{}';
	relation regclass;
	shards regclass[];
	kept regclass[] := '{}';
	homes name[];
	home name;
	commands text[];
	p record;
	refused text;
	refused_detail text;
	refused_hint text;
	n bigint := 0;
BEGIN
	PERFORM shardfdw_internal.check_isolation('enable_node');
	PERFORM shardfdw_internal.check_node_name(node);
	PERFORM shardfdw_internal.apply_replicas();
	-- compared from here on
	IF equips AND shardfdw_internal.answering_nodes(ARRAY[node]) = '{}' THEN
		PERFORM shardfdw_internal.forget_reference_position(node);
	END IF;
	-- Transactions that are committed here and still prepared there count, too. A transaction prepared on the node keeps its old tables.
	IF equips OR relations <> '{}' THEN
		PERFORM count(r) FROM shardfdw.recover_prepared_transactions() r;
		PERFORM shardfdw_internal.settle_node(node);
	END IF;
	IF equips THEN
		PERFORM shardfdw_internal.lock_node_list();
		PERFORM shardfdw_internal.check_new_node(node, false);
		outdated := ARRAY(SELECT o.relation FROM shardfdw_internal.outdated_references(node, ARRAY(SELECT r FROM shardfdw_internal.reference_tables() r), true) o);
		PERFORM shardfdw_internal.lock_schemas(r) FROM unnest(outdated) r;
	END IF;
	relations := shardfdw_internal.tables_with_nodes(shardfdw_internal.turn_of_tables(node, '{stale}'));
	-- open the needed connections before writers wait for the locks
	homes := shardfdw_internal.answering_nodes(ARRAY(SELECT DISTINCT x.node FROM unnest(relations) r CROSS JOIN LATERAL shardfdw_internal.shard_placements(r) x WHERE x.role = 'primary'));
	-- A reader that waited on the node for the new replica would have a snapshot that is older than its rows. So readers wait here.
	PERFORM shardfdw_internal.lock_all_replicas(outdated || relations, reference_readers => true);
	IF outdated <> '{}' THEN
		-- LOCK TABLE would also lock the replicas on nodes, in another transaction than this one.
		PERFORM shardfdw_internal.run_commands(x.peers, array_fill(format('SELECT shardfdw_internal.lock_replicas(r, reference_readers => true) FROM unnest(%L::regclass[]) r', outdated::text[]), ARRAY[cardinality(x.peers)]), 'write')
		FROM shardfdw_internal.peers() x(peers) WHERE x.peers <> '{}';
	END IF;
	IF equips THEN
		PERFORM shardfdw_internal.equip_node(node, outdated, NOT EXISTS (SELECT FROM pg_foreign_server s CROSS JOIN LATERAL pg_options_to_table(s.srvoptions) o
			WHERE s.srvname = node AND o.option_name = 'partial_aggregates' AND NOT o.option_value::boolean));
		-- so that the node takes part in the commit and its WAL position is noted, even if no replica differs
		PERFORM shardfdw_internal.run_commands(ARRAY[node], ARRAY['SELECT'], 'write');
	END IF;
	-- all tables, for superusers
	IF has_function_privilege('shardfdw_internal.take_left_shards(name)', 'EXECUTE') THEN
		commands := shardfdw_internal.take_left_shards(node);
	END IF;
	IF commands <> '{}' THEN
		PERFORM shardfdw_internal.run_commands(array_fill(node, ARRAY[cardinality(commands)]), commands, 'write');
	END IF;
	homes := shardfdw_internal.answering_nodes(homes);
	-- Changes that are committed here and still prepared there are copied, too. A transaction prepared on the node keeps its old tables.
	IF relations <> '{}' THEN
		FOREACH home IN ARRAY homes || node
		LOOP
			PERFORM shardfdw_internal.settle_server(home);
			PERFORM shardfdw_internal.settle_node(home);
		END LOOP;
	END IF;
	FOREACH relation IN ARRAY relations
	LOOP
		SELECT array_agg(x.shard ORDER BY x.shard::oid) FILTER (WHERE o.node = ANY (homes)), array_agg(shardfdw_internal.drop_replica_command(x.schema_name, x.shard_name) ORDER BY x.shard::oid) FILTER (WHERE o.node = ANY (homes)),
			kept || coalesce(array_agg(x.shard) FILTER (WHERE o.node <> ALL (homes)), '{}') INTO shards, commands, kept
		FROM shardfdw_internal.shard_placements(relation) x JOIN shardfdw_internal.shard_placements(relation) o ON o.shard = x.shard AND o.role = 'primary' WHERE x.node = node AND x.role = 'stale';
		CONTINUE WHEN shards IS NULL;
		-- An error caused by the owner of one table does not keep other tables from getting their replicas.
		BEGIN
			PERFORM shardfdw_internal.check_shard_owners(relation, node);
			PERFORM shardfdw_internal.run_commands(array_fill(node, ARRAY[cardinality(shards)]), commands, 'write');
			PERFORM shardfdw_internal.make_placements(relation, shards, array_fill(node, ARRAY[cardinality(shards)]));
			FOR p IN SELECT x.shard, coalesce(array_agg(x.node) FILTER (WHERE x.role = 'replica'), '{}') AS replicas, coalesce(array_agg(x.node) FILTER (WHERE x.role = 'stale'), '{}') AS stale
				FROM shardfdw_internal.shard_placements(relation) x WHERE x.shard = ANY (shards) GROUP BY x.shard
			LOOP
				PERFORM shardfdw_internal.set_replica_nodes(p.shard, p.replicas || node, array_remove(p.stale, node));
			END LOOP;
			PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation], ARRAY[node]);
			-- including the primaries, so that they take part in the commit and their WAL positions are noted
			PERFORM shardfdw_internal.own_notes(relation, homes || node);
			n := n + cardinality(shards);
		EXCEPTION WHEN insufficient_privilege THEN
			GET STACKED DIAGNOSTICS refused = MESSAGE_TEXT, refused_detail = PG_EXCEPTION_DETAIL, refused_hint = PG_EXCEPTION_HINT;
			RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('replicas of table %s stay stale: %s', relation, refused), DETAIL = refused_detail, HINT = refused_hint;
		END;
	END LOOP;
	IF n = 0 AND refused IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = refused, DETAIL = refused_detail, HINT = refused_hint;
	END IF;
	IF n = 0 AND kept <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('cannot enable node "%s" because the primary of shard %s does not answer', node, kept[1]);
	END IF;
	PERFORM shardfdw_internal.warn_unchanged(node, kept, 'their primaries do not answer', 'Enable the node again when these nodes are back.');
	IF equips THEN
		PERFORM shardfdw_internal.warn_missing_shards(node);
	END IF;
	RETURN n;
END
$$;
COMMENT ON FUNCTION shardfdw.enable_node(name) IS
	'Enables a disabled node: creates its stale replicas again from the primaries. Also drops replicas on the node whose shards were dropped or moved while the node was disabled. Shards whose primary does not answer, and tables that raise insufficient_privilege, stay stale and a WARNING is reported. Waits for sessions that write to the tables, and blocks writers until the transaction ends; readers continue. Returns the number of shards. Raises insufficient_privilege if the caller does not own the tables, object_not_in_prerequisite_state if no primary answers, and errors of nodes.';
REVOKE ALL ON FUNCTION shardfdw.enable_node(name) FROM PUBLIC;

CREATE FUNCTION shardfdw.move_replica(shard regclass, source name, target name) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	shards CONSTANT regclass[] := ARRAY(SELECT g FROM shardfdw_internal.shard_group(shard) g ORDER BY g::oid);
	one regclass;
	relation regclass;
	node name;
	reads boolean;				-- may others read it on source?
	p record;
BEGIN
	PERFORM shardfdw_internal.check_isolation('move_replica');
	IF shard IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'shard must not be null';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = shard) THEN
		PERFORM shardfdw_internal.raise_other_kind(shard, 'shard');
	END IF;
	PERFORM shardfdw_internal.check_node_name(source);
	PERFORM shardfdw_internal.check_node_name(target);
	IF NOT EXISTS (SELECT FROM unnest(shards) s WHERE shardfdw_internal.has_replicas(s)) THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('%s is no shard with replicas', shard),
			HINT = 'shardfdw.move_shard() moves shards that have none.';
	END IF;
	PERFORM shardfdw_internal.apply_replicas();
	-- All locks in one step: a transaction that waits for a stronger lock than it holds could deadlock with itself.
	reads := EXISTS (SELECT FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = ANY (shards) AND s.srvname = source);
	-- open the needed connections before sessions wait for the locks
	PERFORM shardfdw_internal.answering_nodes(ARRAY(SELECT target UNION SELECT x.node FROM pg_inherits i CROSS JOIN LATERAL shardfdw_internal.shard_placements(i.inhparent) x
		WHERE i.inhrelid = ANY (shards) AND x.shard = i.inhrelid AND x.role <> 'stale'));
	PERFORM shardfdw_internal.lock_all_replicas(ARRAY(SELECT DISTINCT i.inhparent::regclass FROM pg_inherits i WHERE i.inhrelid = ANY (shards)), reads);
	FOREACH one IN ARRAY shards
	LOOP
		relation := (SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = one);
		SELECT max(x.node) FILTER (WHERE x.role = 'primary') AS home, coalesce(array_agg(x.node) FILTER (WHERE x.role = 'replica'), '{}') AS replicas,
			coalesce(array_agg(x.node) FILTER (WHERE x.role = 'stale'), '{}') AS stale, max(x.role) FILTER (WHERE x.node = source) AS role,
			bool_or(x.node = target) AS is_there, max(x.schema_name) AS schema_name, max(x.shard_name) AS shard_name INTO p
		FROM shardfdw_internal.shard_placements(relation) x WHERE x.shard = one;
		IF p.role IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s is not on node "%s"', one, source),
				HINT = 'The view shardfdw.shards lists where it is.';
		END IF;
		IF p.is_there THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s is already on node "%s"', one, target);
		END IF;
		IF p.role = 'primary' AND p.replicas = '{}' THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('no other node has the rows of shard %s', one),
				HINT = 'Enable another node that has a replica of it first.';
		END IF;
		IF p.role = 'primary' AND NOT reads THEN
			RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = format('node "%s" has become the primary of shard %s', source, one),
				HINT = 'Try again.';
		END IF;
		PERFORM shardfdw_internal.check_shard_owners(one);
		FOR node IN SELECT DISTINCT n FROM unnest(p.home || p.replicas || target) n
		LOOP
			PERFORM shardfdw_internal.settle_server(node);
			PERFORM shardfdw_internal.settle_node(node);
		END LOOP;
		PERFORM shardfdw_internal.make_placements(relation, ARRAY[one], ARRAY[target]);
		IF p.role = 'primary' THEN
			-- The new placement is read if no node that had the shard answers. Transactions prepared there are then waited for.
			PERFORM shardfdw_internal.set_shard_node(one, p.replicas[1]);
		END IF;
		IF p.role = 'stale' THEN
			PERFORM shardfdw_internal.note_left_shard(one, source);
		END IF;
		PERFORM shardfdw_internal.set_replica_nodes(one, array_remove(CASE WHEN p.role = 'primary' THEN p.replicas[2:] ELSE p.replicas END, source) || target, array_remove(p.stale, source));
		IF p.role <> 'stale' THEN
			PERFORM shardfdw_internal.run_commands(ARRAY[source], ARRAY[shardfdw_internal.drop_replica_command(p.schema_name, p.shard_name)], 'write');
		END IF;
		PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation], ARRAY[target]);
		PERFORM shardfdw_internal.own_notes(relation, ARRAY[target, p.home]);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.move_replica(regclass, name, name) IS
	'Moves a node''s placement of a shard with replicas to another node in this transaction, together with the shards of colocated tables that have the same keys. source: a node that has the shard as primary, as replica, or stale. If source is the primary, a replica becomes the primary. A stale placement is left on source until enable_node() drops it. Waits for sessions that write to the tables, and blocks writers. If source is the primary, also waits for readers and blocks them. Returns nothing. Raises object_not_in_prerequisite_state, insufficient_privilege if the caller does not own the tables, and errors of nodes.';
REVOKE ALL ON FUNCTION shardfdw.move_replica(regclass, name, name) FROM PUBLIC;

CREATE FUNCTION shardfdw.compare_replicas(relation regclass) RETURNS TABLE (shard regclass, node name, role text, row_count bigint, checksum numeric, is_equal boolean)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	place name;
BEGIN
	IF compare_replicas.relation IS NULL OR NOT shardfdw_internal.is_sharded(compare_replicas.relation) THEN
		PERFORM shardfdw_internal.raise_other_kind(compare_replicas.relation, 'sharded table');
	END IF;
	PERFORM shardfdw_internal.apply_replicas();
	-- open the needed connections before writers wait for the locks
	PERFORM FROM (SELECT array_agg(DISTINCT p.node) FROM shardfdw_internal.shard_placements(compare_replicas.relation) p WHERE p.role <> 'stale') x(nodes)
	CROSS JOIN LATERAL shardfdw_internal.read_as_owner(x.nodes, array_fill('SELECT 1'::text, ARRAY[cardinality(x.nodes)]), 'read', true, NULL,
		array_fill(compare_replicas.relation, ARRAY[cardinality(x.nodes)])) q;
	PERFORM shardfdw_internal.lock_all_replicas(ARRAY[compare_replicas.relation]);
	FOR place IN SELECT DISTINCT p.node FROM shardfdw_internal.shard_placements(compare_replicas.relation) p WHERE p.role <> 'stale'
	LOOP
		PERFORM shardfdw_internal.settle_node(place);
	END LOOP;
	RETURN QUERY
	WITH placed AS MATERIALIZED (
		SELECT p.*, row_number() OVER () AS number FROM shardfdw_internal.shard_placements(compare_replicas.relation) p WHERE p.role <> 'stale'
	), answers AS MATERIALIZED (
		SELECT q.command, (q.fields)[1]::bigint AS n, (q.fields)[2]::numeric AS hash
		FROM (SELECT array_agg(p.node ORDER BY p.number) AS nodes, array_agg(p.shard::text ORDER BY p.number) AS labels,
				array_agg(shardfdw_internal.checksum_query(compare_replicas.relation, p.schema_name, p.shard_name, true) ORDER BY p.number) AS commands
			  FROM placed p) x
		CROSS JOIN LATERAL shardfdw_internal.read_as_owner(x.nodes, x.commands, 'read', true, x.labels, array_fill(compare_replicas.relation, ARRAY[cardinality(x.nodes)])) q
	)
	SELECT p.shard, p.node, p.role, a.n, a.hash, (a.n, a.hash) = (h.n, h.hash)
	FROM placed p JOIN answers a ON a.command = p.number
	JOIN placed o ON o.shard = p.shard AND o.role = 'primary' JOIN answers h ON h.command = o.number
	ORDER BY p.number;
END
$$;
COMMENT ON FUNCTION shardfdw.compare_replicas(regclass) IS
	'Compares the replicas of a table''s shards with their primaries, row by row. Writers wait until the comparison has ended. Returns one row per shard and node, without stale replicas: the number of rows, a sum of the hashes of the rows, and whether both are equal to those of the primary. Raises insufficient_privilege if the caller does not own the table, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.inspect_replicas(nodes name[], compare_rows boolean) RETURNS TABLE (node name, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	tables CONSTANT regclass[] := ARRAY(SELECT t FROM shardfdw_internal.replicated_tables() t);
	relation regclass;
BEGIN
	RETURN QUERY SELECT p.node, 'warning', format('replicas of %s shards are stale, %s among them', count(*), (array_agg(p.shard::text ORDER BY p.shard::text))[1])
	FROM unnest(tables) t(relation) CROSS JOIN LATERAL shardfdw_internal.shard_placements(t.relation) p WHERE p.role = 'stale' GROUP BY p.node ORDER BY p.node::text COLLATE "C";
	IF has_table_privilege('shardfdw_internal.left_shard', 'SELECT') THEN
		RETURN QUERY SELECT l.server, 'warning', format('replicas of %s dropped or moved shards are still there; enable_node() drops them', count(*))
		FROM shardfdw_internal.left_shard l JOIN pg_foreign_server s ON s.srvname = l.server GROUP BY l.server ORDER BY l.server::text COLLATE "C";
	END IF;
	-- the triggers and the function of note_replica_commands()
	RETURN QUERY SELECT q.node, 'error', CASE WHEN q.ok THEN format('what notes changes of shard %s is missing or disabled', x.shards[q.command]) ELSE q.message END
	FROM (SELECT array_agg(p.node) AS nodes, array_agg(p.shard) AS shards, array_agg(format(
			'SELECT count(*) FROM pg_trigger g WHERE g.tgenabled = ''A'' AND (g.tgrelid = to_regclass(%1$L) AND starts_with(g.tgname::text, ''shardfdw_replica_'') OR g.tgrelid = to_regclass(%2$L) AND g.tgname = ''shardfdw_replicated'') AND g.tgfoid = to_regproc(%2$L)',
			format('%I.%I', p.schema_name, p.shard_name), format('%I.%I', p.schema_name, shardfdw_internal.notes_name(p.shard_name)))) AS commands
		  FROM unnest(tables) t(relation) CROSS JOIN LATERAL shardfdw_internal.shard_placements(t.relation) p WHERE p.role <> 'stale' AND p.node = ANY (nodes)) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'read', false) q
	WHERE x.nodes IS NOT NULL AND (NOT q.ok OR (q.fields)[1] <> '5') AND NOT shardfdw_internal.is_gone(x.shards[q.command]) ORDER BY q.command;
	IF compare_rows THEN
		FOREACH relation IN ARRAY tables
		LOOP
			CONTINUE WHEN NOT coalesce((SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation), false)
				OR EXISTS (SELECT FROM shardfdw_internal.shard_placements(relation) p WHERE p.role <> 'stale' AND p.node <> ALL (nodes));
			BEGIN
				RETURN QUERY SELECT c.node, 'error', format('the replica of shard %s has other rows than its primary', c.shard) FROM shardfdw.compare_replicas(relation) c WHERE NOT c.is_equal;
			EXCEPTION WHEN insufficient_privilege OR undefined_object OR active_sql_transaction THEN
				RETURN QUERY VALUES (NULL::name, 'warning', format('replicas of shards of %s: not compared: %s', relation, SQLERRM));
			END;
		END LOOP;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_replicas(name[], boolean) IS
	'Finds stale replicas of shards, and placements on answering nodes whose changes would not be noted. With compare_rows also finds replicas that differ. Returns a row for each, with status warning or error.';
