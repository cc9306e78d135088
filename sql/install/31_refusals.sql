-- Checks whether a table can be sharded, or turned into a plain table again.

CREATE FUNCTION shardfdw_internal.is_sharded(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc)
	FROM pg_inherits i
	JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
	LEFT JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
	LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver
	LEFT JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
	WHERE i.inhparent = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.is_sharded(regclass) IS
	'Tells whether a table is sharded: partitioned, and all of its partitions are foreign tables of the wrapper. Returns false for anything else.';

CREATE FUNCTION shardfdw_internal.is_at_home(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM pg_class c JOIN pg_class h ON h.relnamespace = c.relnamespace AND h.relname = 'shardfdw_home' AND h.relkind = 'p'
		WHERE c.oid = relation AND c.relkind IN ('p', 'f'))
$$;
COMMENT ON FUNCTION shardfdw_internal.is_at_home(regclass) IS
	'Tells whether a table, or the table of a shard, is in a schema that shard_schema() moved to a node.';

CREATE FUNCTION shardfdw_internal.check_not_at_home(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	SELECT c.relname, n.nspname INTO r FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.oid = relation AND shardfdw_internal.is_at_home(relation);
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot %s table "%s" because all tables of schema "%s" are on one node', action, r.relname, r.nspname),
			HINT = format('SELECT shardfdw.unshard_schema(%L) brings them back together.', quote_ident(r.nspname));
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_not_at_home(regclass, text) IS
	'Checks that a table is not in a schema that shard_schema() moved to a node. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.is_gone(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- For a dropped relation, whatever the snapshot shows, regclass prints only the number, and a dash for 0.
	SELECT relation = 0 OR relation::text = relation::oid::text
$$;
COMMENT ON FUNCTION shardfdw_internal.is_gone(regclass) IS
	'Tells whether a relation has been dropped since a list of relations was read. Loops over such a list without locks skip dropped relations.';

CREATE FUNCTION shardfdw_internal.lock_table(relation regclass, lock_mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name CONSTANT text := relation;
BEGIN
	IF shardfdw_internal.is_gone(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
	EXECUTE format('LOCK TABLE %s IN %s MODE', name, lock_mode);
	-- The command may have waited, and the name may belong to another table by then.
	IF to_regclass(name) IS DISTINCT FROM relation THEN
		RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = format('table %s has been renamed or dropped by another session', name), HINT = 'Try again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_table(regclass, text) IS
	'Locks a table, and its shards on their nodes, until the transaction ends, as LOCK TABLE does. Returns nothing. Raises undefined_table for a dropped table, and serialization_failure if the name now belongs to another table.';

CREATE FUNCTION shardfdw_internal.raise_other_kind(relation regclass, kind text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF relation IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation must not be null';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
		MESSAGE = format('"%s" is not a %s', (SELECT c.relname FROM pg_class c WHERE c.oid = relation), kind);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.raise_other_kind(regclass, text) IS
	'Reports that a relation has the wrong kind for a function. Never returns. Raises null_value_not_allowed, undefined_table if there is no such relation, or else wrong_object_type.';

CREATE FUNCTION shardfdw_internal.obstacle(condition text, message text, detail text, hint text)
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT $1, $2, $3, $4
$$;
COMMENT ON FUNCTION shardfdw_internal.obstacle(text, text, text, text) IS
	'Returns its arguments as a row. The row describes why a table cannot be replaced by another. condition: name of the SQLSTATE, or warning if the table can be replaced. detail and hint may be null.';

CREATE FUNCTION shardfdw_internal.raise_obstacle(condition text, message text, detail text, hint text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF condition = 'warning' THEN
		RAISE WARNING USING MESSAGE = message, DETAIL = detail, HINT = hint;
	ELSIF detail IS NOT NULL AND hint IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = condition, MESSAGE = message, DETAIL = detail, HINT = hint;
	ELSIF hint IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = condition, MESSAGE = message, HINT = hint;
	ELSE
		RAISE EXCEPTION USING ERRCODE = condition, MESSAGE = message;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.raise_obstacle(text, text, text, text) IS
	'Raises a row of obstacle() as an error or a warning. Returns nothing.';

CREATE FUNCTION shardfdw_internal.check_replaceable_kind(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	refusal CONSTANT text := format('cannot %s table "%s"', action, (SELECT relname FROM pg_class WHERE oid = relation));
BEGIN
	SELECT t.*, n.nspname INTO c FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace WHERE t.oid = relation;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
	IF c.oid < 16384 OR c.nspname IN ('pg_catalog', 'information_schema', 'pg_toast') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('%s because it is a system table', refusal);
	END IF;
	IF NOT pg_has_role(c.relowner, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', c.relname);
	END IF;
	IF c.relkind NOT IN ('r', 'p') THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('"%s" is not a table', c.relname);
	END IF;
	IF c.relpersistence = 't' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = refusal || ' because it is temporary', HINT = 'Shard a permanent table.';
	END IF;
	IF c.reloftype <> 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it is a typed table', refusal),
			HINT = format('Cut it loose first: ALTER TABLE %s NOT OF.', relation);
	END IF;
	-- A partition that is itself partitioned can be given shards.
	IF (EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation) AND NOT (c.relkind = 'p' AND action = 'shard'))
		OR (c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = relation)) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it %s', refusal, CASE
				WHEN c.relispartition THEN 'is a partition'
				WHEN EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation) THEN 'inherits from another table'
				ELSE 'has child tables' END),
			HINT = CASE WHEN c.relispartition THEN 'Detach it first.' ELSE 'End the inheritance first, with ALTER TABLE ... NO INHERIT.' END;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_replaceable_kind(regclass, text) IS
	'Checks that another table can replace a table: a user table, permanent or unlogged, without inheritance, and owned by the caller. Returns nothing. Raises wrong_object_type, feature_not_supported or insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.shard_together_call(constraint_oid oid) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE key AS (
		SELECT k.conrelid, k.confrelid, a.attname AS name FROM pg_constraint k
		CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY u(attnum, fattnum, ord)
		JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum
		JOIN pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = u.fattnum
		WHERE k.oid = constraint_oid AND (k.conrelid <> k.confrelid OR u.attnum = u.fattnum)
		-- A key column with the same name in all tables is likely to be the tenant.
		ORDER BY a.attname <> f.attname, u.ord LIMIT 1
	), together(relid) AS (
		SELECT unnest(ARRAY[k.conrelid, k.confrelid]) FROM key k
		UNION
		SELECT x.relid FROM together t
		JOIN pg_constraint c ON c.contype = 'f' AND t.relid IN (c.conrelid, c.confrelid)
		JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey) AND a.attname = (SELECT k.name FROM key k)
		CROSS JOIN LATERAL unnest(ARRAY[c.conrelid, c.confrelid]) x(relid)
		WHERE (SELECT r.relkind FROM pg_class r WHERE r.oid = x.relid) = 'r' AND NOT shardfdw_internal.is_reference(x.relid)
	)
	SELECT format('SELECT shardfdw.shard_tables(%L, %L)', (SELECT array_agg(DISTINCT t.relid::regclass::text COLLATE "C") FROM together t), k.name) FROM key k
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_together_call(oid) IS
	'Writes the call that shards the two tables of a foreign key, together with the tables that are connected to them by foreign keys with the same column. Returns null for a foreign key of a table to itself that does not pair a column with itself.';

CREATE FUNCTION shardfdw_internal.not_null_obstacles(relation regclass, refusal text)
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.* FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('%s because NOT NULL constraint "%s" is not valid', refusal, k.conname),
		format('Column "%s" may have nulls, which the tables on the nodes do not accept.', a.attname),
		format('Validate it first, ALTER TABLE %1$s VALIDATE CONSTRAINT %2$I, or drop it, ALTER TABLE %1$s ALTER %3$I DROP NOT NULL.', relation, k.conname, a.attname)) o
	WHERE k.conrelid = relation AND k.contype = 'n' AND NOT k.convalidated ORDER BY a.attnum
$$;
COMMENT ON FUNCTION shardfdw_internal.not_null_obstacles(regclass, text) IS
	'Finds the NOT NULL constraints of a table that are NOT VALID. refusal: beginning of the message. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw_internal.constraint_obstacles(relation regclass, action text)
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refusal CONSTANT text := format('cannot %s table "%s"', action, (SELECT c.relname FROM pg_class c WHERE c.oid = relation));
BEGIN
	RETURN QUERY SELECT o.*
	FROM pg_constraint k
	CROSS JOIN LATERAL (SELECT k.conrelid::regclass AS from_table, k.confrelid::regclass AS to_table) t
	CROSS JOIN LATERAL (SELECT CASE WHEN action = 'shard' AND NOT shardfdw_internal.is_reference(t.from_table)
			AND (SELECT c.relkind FROM pg_class c WHERE c.oid = t.to_table) = 'r' THEN shardfdw_internal.shard_together_call(k.oid) END AS together) x
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('%s because of foreign key "%s" from %s to %s', refusal, k.conname, t.from_table, t.to_table),
		'A foreign key cannot be checked across nodes.',
		format(CASE WHEN x.together IS NULL THEN 'Drop it first: %2$s.'
			WHEN t.from_table = relation AND t.to_table <> relation
			THEN 'Shard both in one call, %1$s, or make %3$s a reference table: SELECT shardfdw.create_reference_table(%4$L).'
			ELSE 'Shard them in one call, %1$s, or drop it: %2$s.' END,
			x.together, format('ALTER TABLE %s DROP CONSTRAINT %I', t.from_table, k.conname), t.to_table, t.to_table)) o
	-- Find referencing keys through pg_depend: pg_constraint has no index for them.
	WHERE k.contype = 'f' AND k.oid IN (SELECT k2.oid FROM pg_constraint k2 WHERE k2.conrelid = relation
			UNION ALL SELECT d.objid FROM pg_depend d WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = relation AND d.classid = 'pg_constraint'::regclass)
		-- Shards can refer to the replicas of a reference table.
		AND NOT (k.conrelid = relation AND shardfdw_internal.is_reference(k.confrelid)
			AND (SELECT c.relkind FROM pg_class c WHERE c.oid = relation) = 'r')
	ORDER BY k.conrelid <> relation, k.conname::text COLLATE "C";

	RETURN QUERY SELECT o.* FROM pg_constraint k
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('%s because of exclusion constraint "%s"', refusal, k.conname),
		'An exclusion constraint cannot be checked across nodes.',
		format('Drop it first: ALTER TABLE %s DROP CONSTRAINT %I.', relation, k.conname)) o
	WHERE k.contype = 'x' AND k.conrelid = relation
	ORDER BY k.conname::text COLLATE "C";

	-- In pg_node_tree, a Var with attribute number 0 is a whole row, and a negative number is a system column.
	RETURN QUERY SELECT o.* FROM (
		SELECT format('constraint "%s"', k.conname), k.conbin::text FROM pg_constraint k WHERE k.conrelid = relation AND k.contype = 'c'
		UNION ALL SELECT format('index "%s"', c.relname), concat(i.indexprs, i.indpred) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = relation
		UNION ALL SELECT format('generated column "%s"', a.attname), d.adbin::text FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
			WHERE d.adrelid = relation AND a.attgenerated <> '') x(what, tree)
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('%s because %s uses a whole row or a system column', refusal, x.what),
		'A shard has another row type and another table OID than the table.',
		'Drop it first, or name the columns in it.') o
	WHERE action = 'shard' AND x.tree ~ ':varattno (0|-[0-9]+) '
	ORDER BY x.what COLLATE "C";

	IF action = 'shard' THEN
		RETURN QUERY SELECT * FROM shardfdw_internal.not_null_obstacles(relation, refusal);
	END IF;

	RETURN QUERY SELECT o.* FROM pg_trigger t
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('%s because of trigger "%s"', refusal, t.tgname),
		CASE WHEN t.tgconstraint <> 0 THEN 'Foreign tables cannot have constraint triggers.'
			ELSE 'Triggers on foreign tables cannot have transition tables.' END,
		format('Drop it first: DROP TRIGGER %I ON %s.', t.tgname, relation)) o
	WHERE t.tgrelid = relation AND NOT t.tgisinternal
		-- left by a job whose process died; the next job removes them
		AND NOT (action = 'shard' AND t.tgfoid = coalesce(to_regproc(shardfdw_internal.conversion_name(relation, 'note')), 0))
		AND (t.tgconstraint <> 0 OR t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL)
	ORDER BY t.tgname::text COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.constraint_obstacles(regclass, text) IS
	'Finds the constraints, indexes, generated columns and triggers of a table that the table in its place cannot have. action: shard or unshard. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw_internal.dependent_obstacles(relation regclass, action text)
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refusal CONSTANT text := format('cannot %s table "%s"', action, (SELECT c.relname FROM pg_class c WHERE c.oid = relation));
BEGIN
	-- Other objects that depend on the table or its row type would be dropped with the old table.
	RETURN QUERY SELECT o.* FROM (SELECT DISTINCT CASE d.classid WHEN 'pg_rewrite'::regclass
			THEN (SELECT CASE WHEN w.ev_class = relation OR w.rulename <> '_RETURN' THEN pg_describe_object(d.classid, d.objid, 0)
					ELSE pg_describe_object('pg_class'::regclass, w.ev_class, 0) END FROM pg_rewrite w WHERE w.oid = d.objid)
			ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END AS what
	FROM pg_depend d
	WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = relation)
			-- an array, so that the index of pg_depend is used: the catalog is large
			OR (d.refclassid = 'pg_type'::regclass AND d.refobjid = ANY (ARRAY(
				SELECT unnest(ARRAY[t.oid, t.typarray]) FROM pg_class c JOIN pg_type t ON t.oid = c.reltype WHERE c.oid = relation))))
		AND d.deptype IN ('n', 'a', 'i')
		AND NOT (d.classid = 'pg_type'::regclass AND d.deptype = 'i')
		-- constraint_obstacles() finds foreign keys of other tables
		AND NOT (d.classid = 'pg_constraint'::regclass AND EXISTS
			(SELECT FROM pg_constraint k WHERE k.oid = d.objid AND (k.conrelid = relation OR k.contype = 'f')))
		AND NOT (d.classid = 'pg_attrdef'::regclass AND EXISTS
			(SELECT FROM pg_attrdef a WHERE a.oid = d.objid AND a.adrelid = relation))
		AND NOT (d.classid = 'pg_trigger'::regclass AND EXISTS
			(SELECT FROM pg_trigger t WHERE t.oid = d.objid AND t.tgrelid = relation))
		AND NOT (d.classid = 'pg_policy'::regclass AND EXISTS
			(SELECT FROM pg_policy p WHERE p.oid = d.objid AND p.polrelid = relation))
		AND NOT (d.classid = 'pg_class'::regclass AND (d.objid = relation OR EXISTS
			(SELECT FROM pg_class o WHERE o.oid = d.objid AND o.relkind IN ('i', 'I', 'S', 't'))))
		AND NOT (d.classid = 'pg_class'::regclass AND EXISTS
			(SELECT FROM pg_inherits i WHERE i.inhrelid = d.objid AND i.inhparent = relation))
		AND NOT (d.classid = 'pg_rewrite'::regclass AND EXISTS
			(SELECT FROM pg_rewrite w JOIN shardfdw_internal.dependent_views(relation) v ON w.ev_class = v AND w.rulename = '_RETURN' WHERE w.oid = d.objid))
		AND NOT (d.classid = 'pg_publication_rel'::regclass AND EXISTS
			(SELECT FROM shardfdw_internal.publications_of(relation) r WHERE r.oid = d.objid))
		AND d.classid <> 'pg_statistic_ext'::regclass) x
	CROSS JOIN LATERAL shardfdw_internal.obstacle('dependent_objects_still_exist',
		format('%s because %s depends on it', refusal, x.what), NULL, 'Drop it first, and make it again afterwards.') o
	ORDER BY x.what;

	RETURN QUERY SELECT o.* FROM shardfdw_internal.dependent_views(relation) v JOIN pg_class c ON c.oid = v
	CROSS JOIN LATERAL shardfdw_internal.obstacle('insufficient_privilege', format('%s because its view %s has another owner', refusal, v), NULL,
		format('Do it as a role that is a member of %I, too.', pg_get_userbyid(c.relowner))) o
	WHERE NOT pg_has_role(c.relowner, 'USAGE');

	RETURN QUERY SELECT o.* FROM (SELECT v, pg_get_userbyid(c.relowner) AS owner, r.rolsuper,
			(SELECT min(n.node::text COLLATE "C") FROM shardfdw.nodes n WHERE NOT EXISTS
				(SELECT FROM pg_user_mappings u WHERE u.srvname = n.node AND u.umuser IN (0, c.relowner))) AS node
		FROM shardfdw_internal.dependent_views(relation) v JOIN pg_class c ON c.oid = v JOIN pg_roles r ON r.oid = c.relowner
		WHERE action = 'shard' AND r.rolname <> current_user
			AND NOT coalesce((SELECT x.option_value::boolean FROM pg_options_to_table(c.reloptions) x WHERE x.option_name = 'security_invoker'), false)) x
	CROSS JOIN LATERAL shardfdw_internal.obstacle('warning',
		format('view %s will fail because its owner "%s" has no user mapping for node "%s"', x.v, x.owner, x.node),
		'Nodes are read as the owner of the view.',
		CASE WHEN x.rolsuper THEN 'CREATE USER MAPPING makes it.' ELSE format('SELECT shardfdw.add_user(%L) makes it.', x.owner) END
			|| ' Or give the view another owner.') o
	WHERE x.node IS NOT NULL;

	-- CREATE VIEW calls the input functions of types, which evaluate the constraints of domains.
	RETURN QUERY SELECT o.* FROM (
		WITH RECURSIVE types(view, oid) AS (
			SELECT v, d.refobjid FROM shardfdw_internal.dependent_views(relation) v JOIN pg_rewrite w ON w.ev_class = v
			JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_type'::regclass
			UNION
			SELECT t.view, d.refobjid FROM types t JOIN pg_type y ON y.oid = t.oid
			JOIN pg_depend d ON (d.classid, d.objid) IN (('pg_type'::regclass, y.oid), ('pg_class'::regclass, y.typrelid)) AND d.refclassid = 'pg_type'::regclass
		)
		SELECT DISTINCT ON (t.view) t.view, y.oid::regtype AS type, r.rolname FROM types t JOIN pg_type y ON y.oid = t.oid JOIN pg_roles r ON r.oid = y.typowner
		WHERE NOT r.rolsuper AND r.rolname <> current_user ORDER BY t.view, y.typname::text COLLATE "C") x
	CROSS JOIN LATERAL shardfdw_internal.obstacle('insufficient_privilege',
		format('%s because view %s uses type %s of role "%s"', refusal, x.view, x.type, x.rolname),
		format('Making the view again could run code of that role with the rights of "%s".', current_user),
		CASE WHEN shardfdw_internal.is_owner(x.view) THEN 'Drop it first, and make it again afterwards.'
			ELSE format('Do it as the owner of the view: SET ROLE %I.', (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = x.view)) END) o;

	RETURN QUERY SELECT o.* FROM shardfdw_internal.dependent_views(relation) v
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported', format('%s because view %s reads ONLY this table', refusal, v),
		'The rows of a sharded table are in its partitions, which ONLY leaves out.', 'Drop it first, and make it again afterwards.') o
	-- pg_get_viewdef() would lock all relations of the view until the transaction ends.
	WHERE EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = v AND w.rulename = '_RETURN' AND w.ev_action::text ~ format(':relid %s [^{}]*:inh false', relation::oid));

	RETURN QUERY SELECT o.* FROM shardfdw_internal.dependent_views(relation) v JOIN pg_class c ON c.oid = v JOIN pg_namespace n ON n.oid = c.relnamespace
	CROSS JOIN LATERAL shardfdw_internal.obstacle('insufficient_privilege', format('%s because its view %s is in schema "%s", where you cannot create objects', refusal, v, n.nspname), NULL,
		format('Get the privilege: GRANT CREATE ON SCHEMA %I TO %I.', n.nspname, current_user)) o
	WHERE NOT has_schema_privilege(n.oid, 'CREATE');

	RETURN QUERY SELECT o.* FROM pg_depend d
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported', format('%s because it belongs to an extension', refusal), NULL, NULL) o
	WHERE d.classid = 'pg_class'::regclass AND d.objid = relation AND d.deptype = 'e';

	RETURN QUERY SELECT o.* FROM shardfdw_internal.obstacle('feature_not_supported', format('%s because a subscription writes to it', refusal),
		'The subscription would not have the table that takes its place.',
		'Drop the subscription, or take the table out of the publication and run ALTER SUBSCRIPTION ... REFRESH PUBLICATION.') o
	WHERE EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = relation);

	-- A subscriber would miss all later changes. A plain table stays in its publications: see publication_commands().
	RETURN QUERY SELECT o.* FROM shardfdw_internal.publications_of(relation) p
	CROSS JOIN LATERAL shardfdw_internal.obstacle('dependent_objects_still_exist',
		format('%s because publication "%s" sends its changes', refusal, p.name), 'The rows and their changes would be on nodes, and the publication would send no change of them.',
		format('Take the table out of it, ALTER PUBLICATION %I DROP TABLE %s, and publish the shards on the nodes.', p.name, relation)) o
	WHERE action = 'shard';

	RETURN QUERY SELECT o.* FROM shardfdw_internal.publications_of(relation) p
	CROSS JOIN LATERAL shardfdw_internal.obstacle('insufficient_privilege', format('%s because its publication "%s" has another owner', refusal, p.name), NULL,
		format('Do it as a role that is a member of %I, too.', pg_get_userbyid(p.owner))) o
	WHERE action = 'unshard' AND NOT pg_has_role(p.owner, 'USAGE');

	-- Publications that have the table without naming it: of all tables, of a schema, of a table above this one.
	RETURN QUERY SELECT o.* FROM (SELECT string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname::text COLLATE "C") AS names FROM pg_publication p
		WHERE action = 'shard' AND (p.puballtables OR EXISTS (SELECT FROM (SELECT relation::oid AS oid UNION SELECT pg_partition_ancestors(relation)) t
			WHERE EXISTS (SELECT FROM pg_publication_namespace n JOIN pg_class c ON c.relnamespace = n.pnnspid WHERE n.pnpubid = p.oid AND c.oid = t.oid)
				OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = t.oid AND t.oid <> relation)))) x
	CROSS JOIN LATERAL shardfdw_internal.obstacle('warning',
		format('publication %s does not publish changes of table "%s" any more', x.names, (SELECT c.relname FROM pg_class c WHERE c.oid = relation)),
		'The rows and their changes are on nodes.',
		format('Publish the shards on the nodes, or undo this: SELECT shardfdw.unshard_table(%L).', relation)) o
	WHERE x.names IS NOT NULL;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.dependent_obstacles(regclass, text) IS
	'Finds the objects that depend on a table or its row type and would be dropped with it, and an extension, a subscription and publications that have the table. action: shard or unshard. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw_internal.check_no_conversion(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	job bigint;
BEGIN
	SELECT x.job INTO job FROM shardfdw_internal.conversions() x JOIN pg_class c ON c.oid = x.successor JOIN pg_class t ON t.oid = x.relation AND t.relowner = c.relowner
	WHERE x.relation = check_no_conversion.relation AND shardfdw_internal.job_is_running(x.job);
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_in_use',
			MESSAGE = format('cannot %s table "%s" because job %s works on it', action, (SELECT relname FROM pg_class WHERE oid = relation), job),
			HINT = format('Wait for it (SELECT shardfdw.wait_job(%1$s)) or cancel it (SELECT shardfdw.cancel_job(%1$s)).', job);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_no_conversion(regclass, text) IS
	'Checks that no job of another process works on a table. Returns nothing. Raises object_in_use.';

CREATE FUNCTION shardfdw_internal.check_obstacles(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.raise_obstacle(o.condition, o.message, o.detail, o.hint) FROM shardfdw_internal.constraint_obstacles(relation, action) o;
	PERFORM shardfdw_internal.raise_obstacle(o.condition, o.message, o.detail, o.hint) FROM shardfdw_internal.dependent_obstacles(relation, action) o;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_obstacles(regclass, text) IS
	'Raises the first obstacle of constraint_obstacles() and dependent_obstacles() as an error. Returns nothing.';

CREATE FUNCTION shardfdw_internal.check_replaceable(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.check_replaceable_kind(relation, action);
	PERFORM shardfdw_internal.check_no_conversion(relation, action);
	PERFORM shardfdw_internal.check_obstacles(relation, action);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_replaceable(regclass, text) IS
	'Checks that no property of a table would be lost if another table replaced it. Returns nothing. Raises feature_not_supported, dependent_objects_still_exist, object_in_use or insufficient_privilege with the name of the obstacle.';

CREATE FUNCTION shardfdw_internal.key_default_reason(relation regclass, attnum smallint) RETURNS text
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_key_default_reason';
COMMENT ON FUNCTION shardfdw_internal.key_default_reason(regclass, smallint) IS
	'Tells why shards cannot have the default of a column. Shards need the default if a foreign key sets it. Returns a sentence, null if they can have it.';

CREATE FUNCTION shardfdw_internal.default_obstacles(constraint_oid oid, action text)
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.* FROM pg_constraint k
	CROSS JOIN LATERAL unnest(CASE WHEN k.confupdtype = 'd' THEN k.conkey ELSE coalesce(k.confdelsetcols, k.conkey) END) c(attnum)
	JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.attnum
	CROSS JOIN LATERAL shardfdw_internal.key_default_reason(k.conrelid, a.attnum) x(reason)
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('cannot %s because foreign key "%s" of %s sets column "%s" to its default', action, k.conname, k.conrelid::regclass, a.attname),
		x.reason, 'Give the column a constant default, or make the foreign key again with SET NULL.') o
	WHERE k.oid = constraint_oid AND 'd' IN (k.confdeltype, k.confupdtype) AND x.reason IS NOT NULL
	ORDER BY a.attnum
$$;
COMMENT ON FUNCTION shardfdw_internal.default_obstacles(oid, text) IS
	'Finds the columns that a foreign key sets to a default that shards cannot have. action: what is refused. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw_internal.check_key_default(constraint_oid oid, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.raise_obstacle(o.condition, o.message, o.detail, o.hint) FROM shardfdw_internal.default_obstacles(constraint_oid, action) o;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_key_default(oid, text) IS
	'Checks that shards can have the defaults that a foreign key sets. action: what is rejected otherwise. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.key_types(relation regclass, key_columns smallint[]) RETURNS TABLE (column_name name, type oid)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE parts AS (
		SELECT a.attname, a.atttypid AS type FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum = ANY (key_columns)
		UNION
		SELECT p.attname, inner_type FROM parts p
		JOIN pg_type t ON t.oid = p.type
		CROSS JOIN LATERAL (
			SELECT nullif(t.typbasetype, 0) AS inner_type UNION ALL
			SELECT nullif(t.typelem, 0) UNION ALL
			SELECT g.rngsubtype FROM pg_range g WHERE g.rngtypid = t.oid UNION ALL
			SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) x
		WHERE inner_type IS NOT NULL)
	SELECT p.attname, p.type FROM parts p
$$;
COMMENT ON FUNCTION shardfdw_internal.key_types(regclass, smallint[]) IS
	'Finds the types of key columns and the types that they consist of: base types of domains, and elements of arrays, ranges and composite types. Returns each column with each of its types.';

CREATE FUNCTION shardfdw_internal.key_obstacles(relation regclass, key_columns smallint[])
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
	key_text CONSTANT text := (SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum = ANY (key_columns));
BEGIN
	RETURN QUERY SELECT o.* FROM pg_index i
	JOIN pg_class x ON x.oid = i.indexrelid
	LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = relation
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('cannot shard table "%s" because %s "%s" does not include the shard key (%s)', table_name,
			CASE k.contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique constraint' ELSE 'unique index' END,
			coalesce(k.conname, x.relname), key_text),
		'Uniqueness can be checked only within a shard.',
		'Add the shard key to it, drop it, or choose another shard key.') o
	WHERE i.indrelid = relation AND i.indisunique
		AND NOT key_columns <@ (i.indkey::smallint[])[0:i.indnkeyatts - 1]
	ORDER BY i.indisprimary DESC, x.relname::text COLLATE "C";

	RETURN QUERY SELECT o.* FROM pg_constraint k
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('cannot shard table "%s" because foreign key "%s" would change the shard key', table_name, k.conname),
		'The row would not belong to its shard any more.',
		'Make it again without that action, or with the columns that are to become null: ON DELETE SET NULL (column).') o
	WHERE k.conrelid = relation AND k.contype = 'f' AND k.confrelid <> relation
		AND (k.confdeltype IN ('n', 'd') AND coalesce(k.confdelsetcols, k.conkey) && key_columns
			-- Rows of a reference table change independently of the shards.
			OR (k.confupdtype IN ('n', 'd') OR k.confupdtype = 'c' AND shardfdw_internal.is_reference(k.confrelid)) AND k.conkey && key_columns)
	ORDER BY k.conname::text COLLATE "C";

	RETURN QUERY SELECT o.* FROM pg_constraint k
	CROSS JOIN LATERAL shardfdw_internal.default_obstacles(k.oid, format('shard table "%s"', table_name)) o
	WHERE k.conrelid = relation AND k.contype = 'f' AND k.confrelid <> relation
	ORDER BY k.conname::text COLLATE "C";

	-- The hash of an enum value or of a reg* value is the hash of an OID. A restored dump has other OIDs, so rows
	-- would be looked up in the wrong shards. With other strategies than hash, the key may have these types.
	RETURN QUERY SELECT o.* FROM shardfdw_internal.key_types(relation, key_columns) p JOIN pg_type t ON t.oid = p.type
	CROSS JOIN LATERAL shardfdw_internal.obstacle('feature_not_supported',
		format('column "%s" of table "%s" cannot be the shard key', p.column_name, table_name),
		format('The hash of a value of %s is not the same in a restored database.', CASE t.typtype WHEN 'e' THEN 'enum ' ELSE 'type ' END || format_type(p.type, NULL)),
		'Choose another shard key, or partition the table by LIST.') o
	WHERE (t.typtype = 'e' OR t.typnamespace = 'pg_catalog'::regnamespace AND t.typname LIKE 'reg%')
		AND NOT EXISTS (SELECT FROM pg_partitioned_table b WHERE b.partrelid = relation AND b.partstrat <> 'h');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.key_obstacles(regclass, smallint[]) IS
	'Finds what prevents columns from being the shard key of a table: unique keys without them, foreign keys that change them, defaults that shards cannot have, and values whose hash is not the same in a restored database. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw_internal.check_key(relation regclass, key_columns smallint[]) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.raise_obstacle(o.condition, o.message, o.detail, o.hint) FROM shardfdw_internal.key_obstacles(relation, key_columns) o;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_key(regclass, smallint[]) IS
	'Checks that columns can be the shard key of a table. Returns nothing. Raises feature_not_supported for the first row of key_obstacles().';
