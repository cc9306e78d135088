-- User-defined aggregates: copies of them, of their functions and of their partial aggregates on all nodes.
--
-- On a node, a copy must do what the original does here, and no other role may control it. So a copy is
-- created as the remote user of the aggregate's owner, even if another role adds a node. Bodies may name
-- only built-in objects. Existing objects stay unchanged unless they are such copies.

CREATE FUNCTION shardfdw_internal.partial_aggregate_name(aggregate name) RETURNS name
	LANGUAGE c STRICT IMMUTABLE AS 'MODULE_PATHNAME', 'shardfdw_partial_aggregate_name';
COMMENT ON FUNCTION shardfdw_internal.partial_aggregate_name(name) IS
	'Gives the name of the partial aggregate of a user''s aggregate, which is in the same schema. A long name is cut, with a part of its hash added.';

CREATE FUNCTION shardfdw_internal.attach_partial_aggregate(aggregate regprocedure, partial_aggregate regprocedure) RETURNS void
	LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_attach_partial_aggregate';
COMMENT ON FUNCTION shardfdw_internal.attach_partial_aggregate(regprocedure, regprocedure) IS
	'Makes a partial aggregate depend on its aggregate, so that both are dropped together. Returns nothing. Raises insufficient_privilege if the caller or the owner of the partial aggregate does not own the aggregate, invalid_parameter_value for a function that is not a partial aggregate of it.';

CREATE FUNCTION shardfdw.undistribute_aggregate(aggregate regprocedure) RETURNS integer
	LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_undistribute_aggregate';
COMMENT ON FUNCTION shardfdw.undistribute_aggregate(regprocedure) IS
	'Drops the partial aggregates of a user-defined aggregate here, so that the coordinator gathers rows to compute it. Returns the number of dropped partial aggregates. Raises insufficient_privilege if the caller owns neither the aggregate, nor one of its functions, nor the schema of one of them.';

CREATE FUNCTION shardfdw_internal.support_functions(aggregate oid) RETURNS SETOF oid
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT f.oid FROM pg_aggregate a
	CROSS JOIN LATERAL (VALUES (a.aggtransfn::oid), (a.aggfinalfn::oid), (a.aggcombinefn::oid), (a.aggserialfn::oid), (a.aggdeserialfn::oid)) f(oid)
	WHERE a.aggfnoid = aggregate AND f.oid <> 0
$$;
COMMENT ON FUNCTION shardfdw_internal.support_functions(oid) IS
	'Lists the functions that an aggregate is made of, without those of moving aggregates.';

-- Names are searched as words, including comments and literals. A false match is better than a missed one.
CREATE FUNCTION shardfdw_internal.obstacle_in_body(function oid) RETURNS text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p pg_proc;
	body text;
	words text[];
	calls text[];
	arguments text[];
	reads_tables boolean;
	found_name text;
BEGIN
	SELECT * INTO p FROM pg_proc WHERE oid = function;
	body := coalesce(pg_get_function_sqlbody(function), p.prosrc);
	words := ARRAY(SELECT DISTINCT w FROM (
		SELECT lower(m[1]) AS w FROM regexp_matches(body, '([[:alpha:]_][[:alnum:]_$]*)', 'g') m
		UNION ALL SELECT m[1] FROM regexp_matches(body, '"([^"]+)"', 'g') m) x);
	calls := ARRAY(SELECT DISTINCT w FROM (
		SELECT lower(m[1]) AS w FROM regexp_matches(body, '([[:alpha:]_][[:alnum:]_$]*)\s*\(', 'g') m
		UNION ALL SELECT m[1] FROM regexp_matches(body, '"([^"]+)"\s*\(', 'g') m) x);
	arguments := coalesce(p.proargnames, '{}');
	reads_tables := words && '{from,join,using,update,insert,delete,merge,table,copy,truncate,lock}';

	SELECT f.proname INTO found_name FROM pg_proc f
	WHERE f.oid >= 16384 AND f.proname = ANY (calls) AND f.prokind <> 'p' LIMIT 1;
	IF found_name IS NULL AND reads_tables THEN
		SELECT c.relname INTO found_name FROM pg_class c
		WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S') AND c.relname = ANY (words) AND c.relname <> ALL (arguments)
			AND (c.oid >= 16384 OR p.provolatile <> 'i') LIMIT 1;
	END IF;
	IF found_name IS NULL THEN
		SELECT t.typname INTO found_name FROM pg_type t
		WHERE t.oid >= 16384 AND t.typname = ANY (words) AND t.typname <> ALL (arguments)
			AND t.typtype <> 'c' AND t.typelem = 0 LIMIT 1;
	END IF;
	IF found_name IS NULL THEN
		SELECT o.oprname INTO found_name FROM pg_operator o
		WHERE o.oid >= 16384 AND strpos(body, o.oprname) > 0 AND o.oprleft < 16384 AND o.oprright < 16384 LIMIT 1;
	END IF;
	IF found_name IS NOT NULL THEN
		RETURN format('function %s mentions "%s", which nodes may lack', function::regprocedure, found_name);
	END IF;

	-- Few authors declare functions IMMUTABLE. A body that names only immutable functions is immutable.
	IF p.provolatile <> 'i' THEN
		SELECT f.proname INTO found_name FROM pg_proc f
		WHERE f.proname = ANY (calls) AND f.provolatile <> 'i' LIMIT 1;
		IF found_name IS NULL THEN
			SELECT w INTO found_name FROM unnest(words) w
			WHERE w IN ('current_date', 'current_time', 'current_timestamp', 'localtime', 'localtimestamp', 'current_user', 'current_role',
						'session_user', 'user', 'current_schema', 'current_catalog', 'execute', 'perform', 'date', 'time', 'timestamp',
						'timestamptz', 'timetz', 'interval', 'money', 'at') OR starts_with(w, 'reg') LIMIT 1;
		END IF;
		IF found_name IS NOT NULL THEN
			RETURN format('function %s is not declared IMMUTABLE and mentions "%s"', function::regprocedure, found_name);
		END IF;
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.obstacle_in_body(oid) IS
	'Tells why a function in SQL or PL/pgSQL could behave differently on a node: its body names objects of this database, or contains words that make its result depend on more than its arguments. Returns null if nothing is found.';

CREATE FUNCTION shardfdw_internal.obstacle_to_replicas(aggregate oid) RETURNS text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	a pg_aggregate;
	p pg_proc;
	f record;
	obstacle text;
	-- All superusers count as one role.
	owners oid[] := ARRAY(SELECT r.oid FROM pg_roles r, pg_roles me WHERE me.rolname = current_user AND (r.oid = me.oid OR (r.rolsuper AND me.rolsuper)));
BEGIN
	SELECT * INTO a FROM pg_aggregate WHERE aggfnoid = aggregate;
	SELECT * INTO p FROM pg_proc WHERE oid = aggregate;
	IF a.aggtranstype >= 16384 OR p.prorettype >= 16384 OR EXISTS (SELECT FROM unnest(p.proargtypes) t WHERE t >= 16384) THEN
		RETURN 'one of its types is not built in';
	ELSIF a.aggtranstype = 'internal'::regtype AND a.aggserialfn = 0 THEN
		RETURN 'its state is internal and has no serialization function';
	ELSIF p.proacl IS NOT NULL THEN
		RETURN 'not everybody may execute it';
	ELSIF p.proowner <> ALL (owners) THEN
		RETURN 'it belongs to another role';
	END IF;

	FOR f IN
		SELECT x.oid, x.proowner, x.prolang, x.prosecdef, x.provolatile, x.proacl, l.lanname,
			EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = x.oid
					AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e') AS of_extension
		FROM pg_proc x JOIN pg_language l ON l.oid = x.prolang
		WHERE x.oid IN (SELECT shardfdw_internal.support_functions(aggregate))
	LOOP
		IF f.oid < 16384 THEN
			CONTINUE WHEN f.provolatile = 'i';
			RETURN format('function %s is not immutable', f.oid::regprocedure);
		ELSIF f.prosecdef THEN
			RETURN format('function %s is SECURITY DEFINER', f.oid::regprocedure);
		ELSIF f.proacl IS NOT NULL THEN
			RETURN format('not everybody may execute function %s', f.oid::regprocedure);
		ELSIF f.of_extension OR f.lanname = 'internal' THEN
			CONTINUE WHEN f.provolatile = 'i';
			RETURN format('function %s is not immutable', f.oid::regprocedure);
		ELSIF f.proowner <> ALL (owners) THEN
			RETURN format('function %s belongs to another role', f.oid::regprocedure);
		ELSIF f.lanname NOT IN ('sql', 'plpgsql') THEN
			RETURN format('function %s is in language %s', f.oid::regprocedure, f.lanname);
		END IF;
		obstacle := shardfdw_internal.obstacle_in_body(f.oid);
		IF obstacle IS NOT NULL THEN
			RETURN obstacle;
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.obstacle_to_replicas(oid) IS
	'Tells why a user-defined aggregate with a combine function cannot be copied to nodes by the current user: its types, owners, privileges or languages, or names in its functions. Returns null if it can be copied.';

CREATE FUNCTION shardfdw_internal.aggregate_definition(aggregate oid, as_partial boolean) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH f AS (
		SELECT x.oid, format('%I.%I', n.nspname, x.proname) AS name
		FROM pg_proc x JOIN pg_namespace n ON n.oid = x.pronamespace
		WHERE x.oid IN (SELECT shardfdw_internal.support_functions(aggregate)))
	SELECT format('CREATE AGGREGATE %I.%I(%s) (%s)', n.nspname, CASE WHEN as_partial THEN shardfdw_internal.partial_aggregate_name(p.proname) ELSE p.proname END,
		pg_get_function_identity_arguments(p.oid), array_to_string(ARRAY[
			'SFUNC = ' || (SELECT name FROM f WHERE oid = a.aggtransfn),
			'STYPE = ' || format_type(a.aggtranstype, NULL),
			CASE WHEN a.aggtransspace > 0 THEN 'SSPACE = ' || a.aggtransspace END,
			CASE WHEN NOT as_partial THEN 'FINALFUNC = ' || (SELECT name FROM f WHERE oid = a.aggfinalfn)
				WHEN a.aggtranstype = 'internal'::regtype THEN 'FINALFUNC = ' || (SELECT name FROM f WHERE oid = a.aggserialfn) END,
			CASE WHEN a.aggfinalextra AND NOT as_partial THEN 'FINALFUNC_EXTRA' END,
			CASE WHEN as_partial AND a.aggtranstype <> 'internal'::regtype THEN NULL
				WHEN NOT as_partial AND a.aggfinalfn = 0 THEN NULL
				ELSE 'FINALFUNC_MODIFY = ' || CASE WHEN as_partial THEN 'READ_WRITE' WHEN a.aggfinalmodify = 'r' THEN 'READ_ONLY'
											  WHEN a.aggfinalmodify = 's' THEN 'SHAREABLE' ELSE 'READ_WRITE' END END,
			'COMBINEFUNC = ' || (SELECT name FROM f WHERE oid = a.aggcombinefn),
			'SERIALFUNC = ' || (SELECT name FROM f WHERE oid = a.aggserialfn),
			'DESERIALFUNC = ' || (SELECT name FROM f WHERE oid = a.aggdeserialfn),
			'INITCOND = ' || quote_literal(a.agginitval),
			'PARALLEL = ' || CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END], ', '))
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE a.aggfnoid = aggregate
$$;
COMMENT ON FUNCTION shardfdw_internal.aggregate_definition(oid, boolean) IS
	'Writes the CREATE AGGREGATE command of an aggregate, without the parts for moving aggregates and sort operators; or the command of its partial aggregate.';

CREATE FUNCTION shardfdw_internal.copy_command(aggregate oid) RETURNS text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	-- the comment that identifies a copy
	mark CONSTANT text := 'Copy of the coordinator''s, made by shardfdw.';
	steps text := '';
	names text[] := '{}';
	r record;
	schema_owner text;
BEGIN
	FOR r IN SELECT DISTINCT n.nspname FROM pg_namespace n JOIN pg_proc p ON p.pronamespace = n.oid
		WHERE p.oid >= 16384 AND (p.oid = aggregate OR p.oid IN (SELECT shardfdw_internal.support_functions(aggregate)))
	LOOP
		steps := steps || format('IF pg_catalog.to_regnamespace(%L) IS NULL THEN %s; END IF; ', format('%I', r.nspname), shardfdw_internal.schema_command(r.nspname));
		-- The owner of a schema can replace what is in it.
		EXECUTE shardfdw_internal.schema_owner_query(r.nspname) INTO schema_owner;
		steps := steps || format('IF EXISTS (SELECT FROM (%s) s(owner, is_other) WHERE s.is_other AND s.owner <> %L) '
			'THEN RAISE EXCEPTION ''schema %% belongs to another role'', %L; END IF; ', shardfdw_internal.schema_owner_query(r.nspname), schema_owner, quote_ident(r.nspname));
	END LOOP;

	-- functions: existing and equal, a copy to be replaced, or new
	FOR r IN
		SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) AS signature,
			format('%I.%I(%s)', n.nspname, p.proname, (SELECT string_agg(format_type(t, NULL), ',' ORDER BY ord) FROM unnest(p.proargtypes) WITH ORDINALITY x(t, ord))) AS name,
			pg_get_functiondef(p.oid) AS definition,
			(SELECT format('%L', ARRAY[e.extname::text, e.extversion]) FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
			 WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e') AS extension
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE p.oid >= 16384 AND p.oid IN (SELECT shardfdw_internal.support_functions(aggregate))
	LOOP
		names := names || r.name;
		steps := steps || format('this := pg_catalog.to_regprocedure(%L); ', r.name);
		IF r.extension IS NOT NULL THEN
			steps := steps || format('IF NOT EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid '
				'WHERE d.classid = ''pg_catalog.pg_proc''::pg_catalog.regclass AND d.objid = this AND d.refclassid = ''pg_catalog.pg_extension''::pg_catalog.regclass '
				'AND ARRAY[e.extname::text, e.extversion] = %s::text[]) THEN RAISE EXCEPTION ''function %% of the same extension is missing'', %L; END IF; ', r.extension, r.name);
		ELSE
			steps := steps || format('IF this IS NULL OR pg_catalog.obj_description(this, ''pg_proc'') = %L THEN EXECUTE %L; COMMENT ON FUNCTION %s IS %L; '
				'ELSIF pg_catalog.pg_get_functiondef(this) <> %L THEN RAISE EXCEPTION ''there is another function %%'', %L; END IF; ',
				mark, r.definition, r.signature, mark, r.definition, r.name);
		END IF;
	END LOOP;

	-- the aggregate, then its partial aggregate
	FOR r IN
		SELECT t.as_partial, format('%I.%I(%s)', n.nspname, x.name, pg_get_function_identity_arguments(p.oid)) AS signature,
			format('%I.%I(%s)', n.nspname, x.name, (SELECT string_agg(format_type(a, NULL), ',' ORDER BY ord) FROM unnest(p.proargtypes) WITH ORDINALITY y(a, ord))) AS name,
			shardfdw_internal.aggregate_definition(p.oid, t.as_partial) AS definition,
			EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
					AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e') AND NOT t.as_partial AS of_extension
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		CROSS JOIN (VALUES (false), (true)) t(as_partial)
		CROSS JOIN LATERAL (SELECT CASE WHEN t.as_partial THEN shardfdw_internal.partial_aggregate_name(p.proname) ELSE p.proname END AS name) x
		WHERE p.oid = aggregate
		ORDER BY t.as_partial
	LOOP
		names := names || r.name;
		steps := steps || format('this := pg_catalog.to_regprocedure(%L); ', r.name);
		IF r.of_extension THEN
			steps := steps || format('IF this IS NULL THEN RAISE EXCEPTION ''aggregate %% is missing'', %L; END IF; ', r.name);
		ELSE
			steps := steps || format('IF this IS NOT NULL THEN '
				'IF pg_catalog.obj_description(this, ''pg_proc'') IS DISTINCT FROM %L THEN RAISE EXCEPTION ''there is another aggregate %%'', %L; END IF; '
				'DROP AGGREGATE %s; END IF; %s; COMMENT ON AGGREGATE %s IS %L; ',
				mark, r.name, r.signature, r.definition, r.signature, mark);
		END IF;
	END LOOP;

	-- The owner of a function can change what the function does. A superuser may do that anyway.
	RETURN format('DO %L', 'DECLARE this pg_catalog.oid; BEGIN ' || steps || format(
		'IF EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_roles r ON r.oid = p.proowner '
		'WHERE p.oid = ANY (%L::pg_catalog.regprocedure[]) AND r.rolname <> current_user AND NOT r.rolsuper) '
		'THEN RAISE EXCEPTION ''one of its functions belongs to another role''; END IF; END', names::text));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.copy_command(oid) IS
	'Writes the command that creates or replaces, on a node, the copies of a user-defined aggregate, of its functions and of its partial aggregate. The command raises an error, and changes nothing, if the node has other objects with these names.';

CREATE FUNCTION shardfdw_internal.partial_aggregate_nodes() RETURNS name[]
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(n.node ORDER BY n.node::text COLLATE "C"), '{}')
	FROM shardfdw.nodes n JOIN pg_foreign_server s ON s.srvname = n.node
	WHERE EXISTS (SELECT FROM pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'partial_aggregates' AND o.option_value::boolean)
$$;
COMMENT ON FUNCTION shardfdw_internal.partial_aggregate_nodes() IS
	'Lists the nodes of the cluster that have partial aggregates.';

CREATE FUNCTION shardfdw_internal.copy_aggregate_as_owner(aggregate regprocedure, nodes name[], mode text) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	obstacle text := shardfdw_internal.obstacle_to_replicas(aggregate);
BEGIN
	IF obstacle IS NULL AND EXISTS (SELECT FROM unnest(nodes) n WHERE NOT has_server_privilege(n, 'USAGE')) THEN
		obstacle := CASE mode WHEN 'write' THEN 'USAGE on all nodes is needed' ELSE 'USAGE on the node is needed' END;
	END IF;
	-- A commit that no node can prepare would fail the whole command of the user.
	IF obstacle IS NULL AND mode = 'write' AND current_setting('shardfdw.commit_protocol', true) IS DISTINCT FROM '1pc' THEN
		SELECT format('node "%s" has no max_prepared_transactions', q.node) INTO obstacle
		FROM shardfdw_internal.run_commands(nodes, array_fill('SELECT current_setting(''max_prepared_transactions'')'::text, ARRAY[cardinality(nodes)]), 'read', true) q
		WHERE (q.fields)[1] = '0' LIMIT 1;
	END IF;
	IF obstacle IS NULL AND mode = 'write' THEN
		EXECUTE shardfdw_internal.aggregate_definition(aggregate, true);
		PERFORM shardfdw_internal.attach_partial_aggregate(aggregate, format('%I.%I(%s)', n.nspname, shardfdw_internal.partial_aggregate_name(p.proname),
				(SELECT string_agg(format_type(t, NULL), ',' ORDER BY ord) FROM unnest(p.proargtypes) WITH ORDINALITY x(t, ord)))::regprocedure)
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = aggregate;
	END IF;
	IF obstacle IS NULL THEN
		PERFORM shardfdw_internal.run_commands(nodes, array_fill(shardfdw_internal.copy_command(aggregate), ARRAY[cardinality(nodes)]), mode, true);
	END IF;
	RETURN obstacle;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.copy_aggregate_as_owner(regprocedure, name[], text) IS
	'Does what copy_aggregate() does, with the rights and the user mappings of the current user. mode: write also creates the partial aggregate here; autocommit only copies. Returns what prevents it, or null.';

CREATE FUNCTION shardfdw_internal.copy_aggregate(aggregate regprocedure, nodes name[], mode text) RETURNS text
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_copy_aggregate';
COMMENT ON FUNCTION shardfdw_internal.copy_aggregate(regprocedure, name[], text) IS
	'Copies a user''s aggregate to nodes, with the rights and the user mappings of its owner, in a security-restricted operation. If both the owner and the caller are superusers, uses the rights and the user mappings of the caller. mode: as in copy_aggregate_as_owner(). Returns what prevents it, or null. An aggregate whose owner is not the caller or one of the caller''s roles is not copied.';

CREATE FUNCTION shardfdw.distribute_aggregate(aggregate regprocedure) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	nodes name[] := shardfdw_internal.partial_aggregate_nodes();
	p pg_proc;
	schema text;
	obstacle text;
BEGIN
	SELECT * INTO p FROM pg_proc WHERE oid = aggregate;
	SELECT n.nspname INTO schema FROM pg_namespace n WHERE n.oid = p.pronamespace;

	-- An old partial aggregate belongs to an old definition.
	PERFORM shardfdw.undistribute_aggregate(aggregate);

	IF nodes = '{}' OR NOT EXISTS (SELECT FROM shardfdw_internal.user_aggregates() u WHERE u.aggregate = distribute_aggregate.aggregate) THEN
		RETURN false;
	END IF;
	-- Without the lock, a node that is added now would be missed, and an old version of a function could be copied.
	IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
		obstacle := 'copies on the nodes need transaction isolation level READ COMMITTED';
	ELSE
		obstacle := shardfdw_internal.copy_aggregate(aggregate, nodes, 'write');
	END IF;
	IF obstacle IS NULL THEN
		-- the node no longer lacks it
		PERFORM shardfdw_internal.set_node_option(s.srvname, 'missing_partial_aggregates', nullif(array_remove(o.option_value::text[],
				format('%I.%I', schema, shardfdw_internal.partial_aggregate_name(p.proname))), '{}')::text)
		FROM pg_foreign_server s CROSS JOIN LATERAL pg_options_to_table(s.srvoptions) o
		WHERE s.srvname = ANY (nodes) AND o.option_name = 'missing_partial_aggregates' AND pg_has_role(s.srvowner, 'USAGE')
			AND format('%I.%I', schema, shardfdw_internal.partial_aggregate_name(p.proname)) = ANY (o.option_value::text[]);
	ELSE
		RAISE NOTICE USING MESSAGE = format('aggregate %s is not computed by the nodes', aggregate),
			DETAIL = obstacle,
			HINT = 'Over sharded tables it works on gathered rows.';
	END IF;
	RETURN obstacle IS NULL;
END
$$;
COMMENT ON FUNCTION shardfdw.distribute_aggregate(regprocedure) IS
	'Lets nodes compute a user-defined aggregate. Creates its partial aggregate here, and copies of both aggregates and of their functions on all nodes, in this transaction. An event trigger calls this function for each CREATE AGGREGATE. Returns whether nodes can compute the aggregate; if not, a NOTICE reports the reason.';

CREATE FUNCTION shardfdw_internal.user_aggregates() RETURNS TABLE (aggregate regprocedure, partial_aggregate regprocedure)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT p.oid::regprocedure, (
			SELECT d.objid::regprocedure FROM pg_depend d JOIN pg_aggregate t ON t.aggfnoid = d.objid
			WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = d.classid AND d.refobjid = p.oid AND d.deptype = 'a' LIMIT 1)
	FROM pg_aggregate a
	JOIN pg_proc p ON p.oid = a.aggfnoid
	JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE p.oid >= 16384 AND a.aggkind = 'n' AND a.aggcombinefn <> 0
		AND n.nspname <> 'shardfdw_internal' AND NOT starts_with(n.nspname, 'pg_') AND NOT starts_with(p.proname, 'shardfdw_partial_')
$$;
COMMENT ON FUNCTION shardfdw_internal.user_aggregates() IS
	'Lists the users'' aggregates that have a combine function, with their partial aggregate: null where nodes do not compute them.';

CREATE FUNCTION shardfdw_internal.aggregates_of_seen(classid oid, objid oid) RETURNS SETOF oid
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- the aggregate itself, or aggregates that use the function, extension or schema
	SELECT p.oid
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
	WHERE p.oid >= 16384 AND a.aggcombinefn <> 0 AND p.pronamespace <> 'shardfdw_internal'::regnamespace AND (
		($1 = 'pg_proc'::regclass AND (p.oid = $2 OR
			($2 IN (a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn) AND NOT starts_with(p.proname, 'shardfdw_partial_'))))
		OR ($1 = 'pg_extension'::regclass AND EXISTS (
			SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = $1 AND d.refobjid = $2 AND d.deptype = 'e'))
		OR ($1 = 'pg_namespace'::regclass AND NOT starts_with(p.proname, 'shardfdw_partial_') AND (p.pronamespace = $2 OR EXISTS (
			SELECT FROM shardfdw_internal.support_functions(p.oid) s JOIN pg_proc f ON f.oid = s WHERE f.pronamespace = $2))))
$$;
COMMENT ON FUNCTION shardfdw_internal.aggregates_of_seen(oid, oid) IS
	'Does what aggregates_of() does, by what the statement''s snapshot shows. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.aggregates_of(classid oid, objid oid) RETURNS oid[]
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_aggregates_of';
COMMENT ON FUNCTION shardfdw_internal.aggregates_of(oid, oid) IS
	'Finds the users'' aggregates, and partial aggregates, that a change of a function, extension or schema concerns, whenever the transaction began. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.follow_aggregates() RETURNS event_trigger
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	r record;
BEGIN
	FOR c IN SELECT x.classid, x.objid FROM pg_event_trigger_ddl_commands() x
		WHERE NOT x.in_extension AND x.classid IN ('pg_proc'::regclass, 'pg_extension'::regclass, 'pg_namespace'::regclass)
	LOOP
		FOR r IN
			-- An aggregate that this transaction does not see cannot be checked, so its partial aggregate is dropped.
			SELECT u.oid AS aggregate, coalesce(starts_with(p.proname, 'shardfdw_partial_'), false) AS is_partial, p.proargtypes, p.pronamespace, p.proname, p.proowner
			FROM unnest(shardfdw_internal.aggregates_of(c.classid, c.objid)) u(oid) LEFT JOIN pg_proc p ON p.oid = u.oid
		LOOP
			IF NOT r.is_partial THEN
				PERFORM shardfdw.distribute_aggregate(r.aggregate);
			ELSE
				-- a restored dump creates the partial aggregate itself
				PERFORM shardfdw_internal.attach_partial_aggregate(b.oid, r.aggregate) FROM pg_proc b
				WHERE b.pronamespace = r.pronamespace AND b.proargtypes = r.proargtypes AND b.prokind = 'a' AND shardfdw_internal.partial_aggregate_name(b.proname) = r.proname
					AND pg_has_role(b.proowner, 'USAGE') AND b.proowner = r.proowner AND b.oid <> r.aggregate AND NOT EXISTS (
						SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = r.aggregate AND d.refclassid = d.classid AND d.refobjid = b.oid AND d.deptype = 'a');
			END IF;
		END LOOP;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.follow_aggregates() IS
	'Updates partial aggregates and the copies on nodes after changes of aggregates and their functions here. Raises no error if nodes refuse.';

CREATE FUNCTION shardfdw_internal.drop_replicas() RETURNS event_trigger
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mark CONSTANT text := 'Copy of the coordinator''s, made by shardfdw.';
	nodes name[];
	dropped record;
	command text;
BEGIN
	FOR dropped IN
		SELECT a.schema_name, a.object_name, a.address_args AS args, t.address_names[2] AS partial_aggregate_name
		FROM (SELECT x.schema_name, x.address_names[2] AS object_name, x.address_args FROM pg_event_trigger_dropped_objects() x
			  WHERE x.object_type = 'aggregate') a
		JOIN pg_event_trigger_dropped_objects() t ON t.object_type = 'aggregate' AND t.schema_name = a.schema_name
			AND t.address_args = a.address_args AND t.address_names[2] = shardfdw_internal.partial_aggregate_name(a.object_name)
	LOOP
		nodes := shardfdw_internal.partial_aggregate_nodes();
		EXIT WHEN nodes = '{}';
		command := format('DO %L', format(
			'DECLARE f pg_catalog.oid; functions pg_catalog.oid[]; a text; BEGIN '
			'FOREACH a IN ARRAY %L::text[] LOOP '
			'IF pg_catalog.obj_description(pg_catalog.to_regprocedure(a), ''pg_proc'') = %L THEN '
			'SELECT functions || ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn]::pg_catalog.oid[] INTO functions '
			'FROM pg_catalog.pg_aggregate WHERE aggfnoid = pg_catalog.to_regprocedure(a); '
			'EXECUTE pg_catalog.format(''DROP AGGREGATE %%s'', a); END IF; END LOOP; '
			'FOREACH f IN ARRAY coalesce(functions, ''{}'') LOOP '
			'IF pg_catalog.obj_description(f, ''pg_proc'') = %L THEN '
			'BEGIN EXECUTE pg_catalog.format(''DROP FUNCTION %%s'', f::pg_catalog.regprocedure); EXCEPTION WHEN OTHERS THEN NULL; END; END IF; END LOOP; END',
			ARRAY[format('%I.%I(%s)', dropped.schema_name, dropped.partial_aggregate_name, array_to_string(dropped.args, ',')),
				  format('%I.%I(%s)', dropped.schema_name, dropped.object_name, array_to_string(dropped.args, ','))]::text, mark, mark));
		BEGIN
			PERFORM shardfdw_internal.run_commands(nodes, array_fill(command, ARRAY[cardinality(nodes)]), 'write', true);
		EXCEPTION WHEN OTHERS THEN
			RAISE NOTICE USING MESSAGE = format('copies of aggregate %I.%I stay on nodes', dropped.schema_name, dropped.object_name),
				DETAIL = SQLERRM;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_replicas() IS
	'Drops the copies on nodes of an aggregate that is dropped here, and those of its functions that nothing else uses there. Raises nothing when that fails.';

CREATE EVENT TRIGGER shardfdw_follow_aggregates ON ddl_command_end
	WHEN TAG IN ('CREATE AGGREGATE', 'ALTER AGGREGATE', 'CREATE FUNCTION', 'ALTER FUNCTION', 'ALTER ROUTINE', 'CREATE EXTENSION', 'ALTER EXTENSION', 'ALTER SCHEMA')
	EXECUTE FUNCTION shardfdw_internal.follow_aggregates();
COMMENT ON EVENT TRIGGER shardfdw_follow_aggregates IS
	'Lets nodes compute the aggregates that users create.';
CREATE EVENT TRIGGER shardfdw_drop_replicas ON sql_drop
	WHEN TAG IN ('DROP AGGREGATE', 'DROP FUNCTION', 'DROP ROUTINE', 'DROP SCHEMA', 'DROP OWNED', 'DROP EXTENSION', 'DROP TYPE')
	EXECUTE FUNCTION shardfdw_internal.drop_replicas();
COMMENT ON EVENT TRIGGER shardfdw_drop_replicas IS
	'Drops the copies on nodes of aggregates that are dropped here.';
