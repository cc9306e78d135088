-- Partial aggregates: their result is the transition state of another aggregate, here and on nodes.
--
-- Built-in aggregates with the same transition function have the same state, and share a partial aggregate.

CREATE FUNCTION shardfdw_internal.builtin_partial_aggregates()
	RETURNS TABLE (name name, args text, internal boolean, definition text, sample text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t.name, t.args, t.internal,
		format('CREATE AGGREGATE shardfdw_internal.%I(%s) (SFUNC = pg_catalog.%I, STYPE = %s, COMBINEFUNC = pg_catalog.%I%s%s%s, PARALLEL = SAFE)',
			   t.name, t.args, t.transfn, t.state, t.combinefn,
			   CASE WHEN t.space > 0 THEN format(', SSPACE = %s', t.space) END,
			   CASE WHEN t.initval IS NOT NULL THEN format(', INITCOND = %L', t.initval) END,
			   CASE WHEN t.internal THEN format(', SERIALFUNC = pg_catalog.%I, DESERIALFUNC = pg_catalog.%I, FINALFUNC = pg_catalog.%I',
												t.serialfn, t.deserialfn, t.serialfn) END),
		-- the state of a few values, for comparison with the state of a node
		format('SELECT %s FROM unnest(%L::%s[]) v',
			   format(CASE WHEN t.internal THEN 'encode(%s, ''hex'')' ELSE '(%s)::text' END,
					  format('shardfdw_internal.%I(%s)', t.name, array_to_string(array_fill(
						  CASE t.first_arg WHEN 'anyarray' THEN 'ARRAY[v, 7]' ELSE 'v' END, ARRAY[t.nargs]), ', '))),
			   s.elements, s.type)
	FROM (SELECT DISTINCT ON (name, p.proargtypes)
			format('partial_%s', f.proname)::name AS name,
			(SELECT string_agg(format_type(x.type, NULL), ', ' ORDER BY x.ord) FROM unnest(p.proargtypes) WITH ORDINALITY x(type, ord)) AS args,
			a.aggtranstype = 'internal'::regtype AS internal, format_type(a.aggtranstype, NULL) AS state,
			f.proname AS transfn, a.aggtransspace AS space, a.agginitval AS initval,
			(SELECT proname FROM pg_proc WHERE oid = a.aggcombinefn) AS combinefn,
			(SELECT proname FROM pg_proc WHERE oid = a.aggserialfn) AS serialfn,
			(SELECT proname FROM pg_proc WHERE oid = a.aggdeserialfn) AS deserialfn,
			format_type(p.proargtypes[0], NULL) AS first_arg, p.pronargs::integer AS nargs
		FROM pg_aggregate a
		JOIN pg_proc p ON p.oid = a.aggfnoid
		JOIN pg_proc f ON f.oid = a.aggtransfn
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.oid < 10000 AND a.aggkind = 'n' AND a.aggcombinefn <> 0
			AND (a.aggfinalfn <> 0 OR a.aggtranstype = 'internal'::regtype)
			AND (a.aggtranstype <> 'internal'::regtype OR a.aggserialfn <> 0)
			AND octet_length(f.proname) <= 55
			-- removed in version 17, where pg_upgrade would fail on its partial aggregate
			AND f.proname <> 'interval_accum'
		ORDER BY name, p.proargtypes, p.oid) t
	LEFT JOIN (VALUES
		('smallint', 'smallint', '{1,-3,NULL,32767}'),
		('integer', 'integer', '{1,-3,NULL,2147483647}'),
		('bigint', 'bigint', '{1,-3,NULL,9223372036854775807,9223372036854775807}'),
		('numeric', 'numeric', '{1.50,-30000000000.000001,NULL,NaN,Infinity}'),
		('real', 'real', '{1.5,-3,NULL}'),
		('double precision', 'double precision', '{1.5,-3,NULL}'),
		('interval', 'interval', '{"1 month 2 days",NULL,"-3 hours"}'),
		('text', 'text', '{a,NULL,bc}'),
		('bytea', 'bytea', '{"\\x00",NULL,"\\x6162"}'),
		('anynonarray', 'integer', '{1,NULL,-3}'),
		-- without NULLs: their bitmap has unused bytes
		('anyarray', 'integer', '{1,5,-3}')) s(arg, type, elements) ON s.arg = t.first_arg
	ORDER BY t.name
$$;
COMMENT ON FUNCTION shardfdw_internal.builtin_partial_aggregates() IS
	'Lists the partial aggregates that the built-in aggregates of this server need. Returns name, argument types, whether the state is internal, the command that makes it in schema shardfdw_internal (which has to be there), and a query for the state of a few values (null when no values are known).';

CREATE FUNCTION shardfdw_internal.make_local_partial_aggregates() RETURNS integer
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t record;
	n integer := 0;
BEGIN
	FOR t IN SELECT b.name, b.args, b.definition FROM shardfdw_internal.builtin_partial_aggregates() b
	LOOP
		CONTINUE WHEN EXISTS (SELECT FROM pg_depend d
			WHERE d.classid = 'pg_proc'::regclass AND d.objid = to_regprocedure(format('shardfdw_internal.%I(%s)', t.name, t.args))
				AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e');
		-- This server may have been a node of another coordinator: its partial aggregates are replaced.
		IF to_regprocedure(format('shardfdw_internal.%I(%s)', t.name, t.args)) IS NOT NULL THEN
			EXECUTE format('DROP AGGREGATE shardfdw_internal.%I(%s)', t.name, t.args);
		END IF;
		EXECUTE t.definition;
		EXECUTE format('COMMENT ON AGGREGATE shardfdw_internal.%I(%s) IS %L', t.name, t.args,
			'Returns the transition state of the aggregates that share it, in the form in which it is sent.');
		-- after CREATE EXTENSION: a new major version that has more of them
		IF NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass
				AND d.objid = to_regprocedure(format('shardfdw_internal.%I(%s)', t.name, t.args)) AND d.deptype = 'e') THEN
			EXECUTE format('ALTER EXTENSION shardfdw ADD AGGREGATE shardfdw_internal.%I(%s)', t.name, t.args);
		END IF;
		n := n + 1;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_local_partial_aggregates() IS
	'Creates the partial aggregates that are missing on the coordinator, for example after pg_upgrade to a major version with more aggregates. Returns the number of created aggregates. Raises insufficient_privilege for roles that are not superusers.';
REVOKE ALL ON FUNCTION shardfdw_internal.make_local_partial_aggregates() FROM PUBLIC;

DO $$
BEGIN
	PERFORM shardfdw_internal.make_local_partial_aggregates();
END
$$;

CREATE FUNCTION shardfdw_internal.set_node_option(node name, option text, value text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	present boolean := EXISTS (SELECT FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
							   WHERE s.srvname = set_node_option.node AND o.option_name = option);
BEGIN
	IF value IS NOT NULL THEN
		EXECUTE format('ALTER SERVER %I OPTIONS (%s %I %L)', node, CASE WHEN present THEN 'SET' ELSE 'ADD' END, option, value);
	ELSIF present THEN
		EXECUTE format('ALTER SERVER %I OPTIONS (DROP %I)', node, option);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.set_node_option(name, text, text) IS
	'Sets an option of a node''s server. Null removes the option. Returns nothing. Raises the errors of ALTER SERVER.';

CREATE FUNCTION shardfdw_internal.find_missing_partial_aggregates(node name) RETURNS text[]
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET array_nulls = on
AS $$
#variable_conflict use_variable
DECLARE
	results text[];
	missing text[] := '{}';
	internals text[] := '{}';
	here text;
	there text;
	b record;
BEGIN
	-- A role that could change a partial aggregate later could run SQL as any role that aggregates.
	SELECT array_agg((q.fields)[1]) INTO results
	FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[$q$
		SELECT p.oid::pg_catalog.regprocedure FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = 'shardfdw_internal' AND p.prokind = 'a' AND p.proname ~ '^partial_'
			AND (p.proowner = current_user::pg_catalog.regrole OR (SELECT rolsuper FROM pg_catalog.pg_roles WHERE oid = p.proowner))
			AND (n.nspowner = current_user::pg_catalog.regrole OR (SELECT rolsuper FROM pg_catalog.pg_roles WHERE oid = n.nspowner))
			AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(n.nspacl) x WHERE x.privilege_type = 'CREATE' AND x.grantee <> n.nspowner)
			AND EXISTS (SELECT FROM pg_catalog.aclexplode(n.nspacl) x WHERE x.privilege_type = 'USAGE' AND x.grantee = 0)$q$],
		'autocommit', true) q;

	FOR b IN SELECT x.name, x.args, x.internal, x.sample FROM shardfdw_internal.builtin_partial_aggregates() x
		WHERE to_regprocedure(format('shardfdw_internal.%I(%s)', x.name, x.args)) IS NOT NULL
	LOOP
		IF format('shardfdw_internal.%I(%s)', b.name, replace(b.args, ', ', ',')) = ANY (results) AND b.sample IS NOT NULL THEN
			-- The state must have the same bytes here and there, whatever the major version and the machine are.
			EXECUTE b.sample INTO here;
			SELECT CASE WHEN q.ok THEN (q.fields)[1] END INTO there
			FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[b.sample], 'autocommit', false) q;
			IF there = here THEN
				CONTINUE;
			END IF;
		END IF;
		missing := missing || format('shardfdw_internal.%I', b.name);
		IF b.internal THEN
			internals := internals || format('shardfdw_internal.%I', b.name);
		END IF;
	END LOOP;
	IF cardinality(internals) = (SELECT count(*) FROM shardfdw_internal.builtin_partial_aggregates() x WHERE x.internal) THEN
		missing := ARRAY['internal'] || ARRAY(SELECT l FROM unnest(missing) l WHERE l <> ALL (internals));
	END IF;

	RETURN missing;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.find_missing_partial_aggregates(name) IS
	'Queries a node for the partial aggregates of built-in aggregates. The node aggregates a few values, and the bytes must be the same as here. Returns the missing or different aggregates, in the format of option missing_partial_aggregates. Raises the error of a node that does not answer.';

CREATE FUNCTION shardfdw_internal.make_partial_aggregates(node name) RETURNS integer
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	missing text[];
	n integer;
	b record;
	obstacle text;
	made text := '';
BEGIN
	PERFORM shardfdw_internal.check_isolation('make_partial_aggregates');
	IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
		PERFORM shardfdw_internal.make_local_partial_aggregates();
	END IF;

	-- An existing partial aggregate is kept if it is safe: it belongs to a trusted role, as the next query checks.
	FOR b IN SELECT x.name, x.args, x.definition FROM shardfdw_internal.builtin_partial_aggregates() x
	LOOP
		made := made || format('IF pg_catalog.to_regprocedure(%L) IS NULL THEN '
			'BEGIN %s; EXECUTE %L; EXCEPTION WHEN OTHERS THEN NULL; END; END IF; ',
			format('shardfdw_internal.%I(%s)', b.name, b.args), b.definition,
			format('GRANT EXECUTE ON FUNCTION shardfdw_internal.%I(%s) TO PUBLIC', b.name, b.args));
	END LOOP;
	PERFORM shardfdw_internal.run_commands(ARRAY[node], ARRAY[format('DO %L', 'BEGIN '
		'IF pg_catalog.to_regnamespace(''shardfdw_internal'') IS NULL THEN '
		'BEGIN CREATE SCHEMA shardfdw_internal; ' || shardfdw_internal.revoke_command('shardfdw_internal', 'SCHEMA') || '; GRANT USAGE ON SCHEMA shardfdw_internal TO PUBLIC; '
		'EXCEPTION WHEN OTHERS THEN RETURN; END; END IF; ' || made || 'END')], 'autocommit', true);

	missing := shardfdw_internal.find_missing_partial_aggregates(node);
	n := (SELECT count(*) FROM shardfdw_internal.builtin_partial_aggregates() x WHERE format('shardfdw_internal.%I', x.name) <> ALL (missing)
		  AND NOT (x.internal AND 'internal' = ANY (missing)));
	PERFORM shardfdw_internal.set_node_option(node, 'partial_aggregates', (n > 0)::text);

	-- User-defined aggregates: first those that the other nodes have, then those that no node has.
	FOR b IN SELECT x.aggregate, x.partial_aggregate FROM shardfdw_internal.user_aggregates() x WHERE n > 0 ORDER BY x.partial_aggregate IS NULL, x.aggregate::text COLLATE "C"
	LOOP
		IF b.partial_aggregate IS NULL THEN
			PERFORM shardfdw.distribute_aggregate(b.aggregate);
			CONTINUE;
		END IF;
		obstacle := shardfdw_internal.copy_aggregate(b.aggregate, ARRAY[node], 'autocommit');
		IF obstacle IS NOT NULL THEN
			RAISE NOTICE USING MESSAGE = format('aggregate %s is not computed by node "%s"', b.aggregate, node), DETAIL = obstacle;
			missing := missing || (SELECT format('%I.%I', s.nspname, p.proname)
								   FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace WHERE p.oid = b.partial_aggregate);
		END IF;
	END LOOP;
	PERFORM shardfdw_internal.set_node_option(node, 'missing_partial_aggregates', CASE WHEN n > 0 THEN nullif(missing, '{}')::text END);
	RETURN n;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_partial_aggregates(name) IS
	'Creates partial aggregates on a node, if the caller''s role there may do so, and copies of user-defined aggregates with the rights of their owners. Records in the server options partial_aggregates and missing_partial_aggregates which ones the node has. Call it again after the node''s major version or the rights of the role have changed. Returns the number of partial aggregates of built-in aggregates on the node. Raises the error of a node that does not answer.';
REVOKE ALL ON FUNCTION shardfdw_internal.make_partial_aggregates(name) FROM PUBLIC;

CREATE FUNCTION shardfdw.refresh_node(node name) RETURNS integer
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.check_isolation('refresh_node');
	PERFORM shardfdw_internal.check_node_name(refresh_node.node);
	RETURN shardfdw_internal.make_partial_aggregates(refresh_node.node);
END
$$;
COMMENT ON FUNCTION shardfdw.refresh_node(name) IS
	'Finds out which aggregates a node can compute. Call it after the node''s major version, or the privileges of the caller''s role there, have changed. Creates missing partial aggregates of built-in and user-defined aggregates, and records which ones the node has. Returns the number of partial aggregates of built-in aggregates on the node. Raises undefined_object, and the error of a node that does not answer.';
REVOKE ALL ON FUNCTION shardfdw.refresh_node(name) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.inspect_partial_aggregates(nodes name[]) RETURNS TABLE (node name, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	missing text[];
	noted text[];
	gone text;
	total integer := (SELECT count(*) FROM shardfdw_internal.builtin_partial_aggregates());
BEGIN
	FOREACH node IN ARRAY nodes
	LOOP
		IF node <> ALL (shardfdw_internal.partial_aggregate_nodes()) THEN
			status := 'warning';
			detail := format('none: SELECT shardfdw.refresh_node(%L)', node);
			RETURN NEXT;
			CONTINUE;
		END IF;
		SELECT coalesce((SELECT o.option_value::text[] FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o
						 WHERE s.srvname = inspect_partial_aggregates.node AND o.option_name = 'missing_partial_aggregates'), '{}') INTO noted;
		missing := shardfdw_internal.find_missing_partial_aggregates(node);
		-- the node must have what the options say
		SELECT string_agg(format('shardfdw_internal.%I', b.name), ', ') INTO gone FROM shardfdw_internal.builtin_partial_aggregates() b
		WHERE (format('shardfdw_internal.%I', b.name) = ANY (missing) OR (b.internal AND 'internal' = ANY (missing)))
			AND NOT (format('shardfdw_internal.%I', b.name) = ANY (noted) OR (b.internal AND 'internal' = ANY (noted)));
		SELECT concat_ws(', ', gone, string_agg((q.fields)[1], ', ')) INTO gone
		FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[format(
			'SELECT t FROM pg_catalog.unnest(%L::text[]) t WHERE pg_catalog.to_regprocedure(t) IS NULL',
			ARRAY(SELECT u.partial_aggregate::text FROM shardfdw_internal.user_aggregates() u JOIN pg_proc p ON p.oid = u.partial_aggregate JOIN pg_namespace n ON n.oid = p.pronamespace
				  WHERE format('%I.%I', n.nspname, p.proname) <> ALL (noted))::text)], 'autocommit', true) q;
		status := CASE WHEN gone <> '' THEN 'error' ELSE 'ok' END;
		detail := CASE WHEN gone <> '' THEN format('missing, or of another form: %s; SELECT shardfdw.refresh_node(%L)', gone, node)
			WHEN noted = '{}' THEN format('all %s', total) ELSE format('without %s', array_to_string(noted, ', ')) END;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_partial_aggregates(name[]) IS
	'Compares the partial aggregates that nodes have with the options of their servers. Returns one row per node: error if one is missing, warning if none were created. Raises the error of a node that does not answer.';
