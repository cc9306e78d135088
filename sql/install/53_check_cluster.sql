-- Checks whether the servers of a cluster belong to one moment, as after a restore.

CREATE FUNCTION shardfdw_internal.compare_references_of_peers() RETURNS TABLE (coordinator name, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off
AS $$
#variable_conflict use_column
DECLARE
	peers CONSTANT name[] := shardfdw_internal.peers();
	relation regclass;
BEGIN
	IF peers = '{}' THEN
		RETURN;
	END IF;
	FOR relation IN SELECT * FROM shardfdw_internal.reference_tables()
	LOOP
		BEGIN
			-- writers on any coordinator wait
			PERFORM shardfdw_internal.lock_table(relation, 'SHARE');
			RETURN QUERY SELECT d.node, 'error', format('reference table %s: %s', relation, d.detail) FROM shardfdw_internal.different_replicas(relation, peers, true) d;
		EXCEPTION WHEN insufficient_privilege OR undefined_object OR active_sql_transaction OR undefined_table THEN
			CONTINUE WHEN shardfdw_internal.is_gone(relation);
			RETURN QUERY SELECT p, 'warning', format('reference table %s: not compared: %s', relation, SQLERRM) FROM unnest(peers) p;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.compare_references_of_peers() IS
	'Compares the rows of reference tables on the other coordinators with those here, under a SHARE lock of each. Returns a row for each that differs or could not be compared.';

CREATE FUNCTION shardfdw_internal.broken_keys_query(relations text[]) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A cast of a user-defined type may be a function of its owner. Operators of foreign keys belong to superusers, as operator classes do.
	SELECT format($query$SELECT k.conname, k.conrelid::regclass, k.confrelid::regclass, CASE WHEN bool_and(a.atttypid < 16384 OR o.oprright = a.atttypid
			OR (SELECT p.typtype = 'p' FROM pg_type p WHERE p.oid = o.oprright) OR (SELECT d.typtype = 'd' AND d.typbasetype < 16384 FROM pg_type d WHERE d.oid = a.atttypid)) THEN format('SELECT count(*) FROM ONLY %%s f TABLESAMPLE system (100) WHERE %%s AND NOT EXISTS (SELECT FROM ONLY %%s p TABLESAMPLE system (100) WHERE %%s)',
		k.conrelid::regclass, string_agg(format('f.%%I IS NOT NULL', a.attname), ' AND '), k.confrelid::regclass, string_agg(format('p.%%I OPERATOR(%%I.%%s) f.%%I', b.attname, s.nspname, o.oprname, a.attname), ' AND ')) END
, r.ord
		FROM unnest(%L::text[]) WITH ORDINALITY r(name, ord) JOIN pg_constraint k ON k.conrelid = to_regclass(r.name) AND k.contype = 'f' AND k.convalidated
		CROSS JOIN LATERAL unnest(k.conkey, k.confkey, k.conpfeqop) u(attnum, refnum, operator) JOIN pg_operator o ON o.oid = u.operator JOIN pg_namespace s ON s.oid = o.oprnamespace
		JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = u.refnum
		GROUP BY k.oid, k.conname, k.conrelid, k.confrelid, r.ord ORDER BY 2, 1$query$, relations)
$$;
COMMENT ON FUNCTION shardfdw_internal.broken_keys_query(text[]) IS
	'Writes the query, to be run on a node, for the foreign keys of tables there, by their qualified names. Returns its text; the query returns name, table, table referred to, a query that counts the rows that refer to nothing, null where that would call a cast of a user, and the number of the table.';

CREATE FUNCTION shardfdw_internal.inspect_foreign_keys(nodes name[]) RETURNS TABLE (node name, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	keys record;
	nkeys bigint;
	here record;
BEGIN
	FOREACH node IN ARRAY nodes
	LOOP
		SELECT array_agg(e.parent) AS parents, array_agg(e.remote_name) AS names INTO here FROM shardfdw_internal.expected_shards(node) e WHERE e.parent IS NOT NULL;
		SELECT array_agg((q.fields)[1]) FILTER (WHERE (q.fields)[4] IS NOT NULL) AS names, array_agg((q.fields)[2]) FILTER (WHERE (q.fields)[4] IS NOT NULL) AS relations,
			array_agg((q.fields)[3]) FILTER (WHERE (q.fields)[4] IS NOT NULL) AS referenced, array_agg((q.fields)[4]) FILTER (WHERE (q.fields)[4] IS NOT NULL) AS queries,
			array_agg(here.parents[(q.fields)[5]::integer]) FILTER (WHERE (q.fields)[4] IS NOT NULL) AS parents,
			array_agg(format('foreign key %s of %s is not checked: it compares by a cast of a user-defined type', (q.fields)[1], (q.fields)[2])) FILTER (WHERE (q.fields)[4] IS NULL) AS unchecked INTO keys
		FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[shardfdw_internal.broken_keys_query(coalesce(here.names, '{}'))], 'read') q WHERE q.fields IS NOT NULL;
		RETURN QUERY SELECT node, 'warning', u FROM unnest(keys.unchecked) u;
		nkeys := coalesce(cardinality(keys.names), 0);
		CONTINUE WHEN nkeys = 0;
		-- each node runs only queries that it has built itself
		BEGIN
			RETURN QUERY
			SELECT node, CASE WHEN q.sqlstate = '42501' THEN 'warning' ELSE 'error' END, CASE
				WHEN q.sqlstate = '42501' THEN format('foreign key %s of %s is not checked: %s', keys.names[q.command], keys.relations[q.command], q.message)
				WHEN NOT q.ok THEN q.message
				ELSE format('%s rows of %s refer to nothing in %s (foreign key %s)', (q.fields)[1], keys.relations[q.command], keys.referenced[q.command], keys.names[q.command]) END
			FROM shardfdw_internal.read_as_owner(array_fill(node, ARRAY[nkeys::integer]), keys.queries, 'read', false, NULL, keys.parents) q
			WHERE NOT q.ok OR (q.fields)[1] <> '0';
			IF NOT FOUND THEN
				RETURN QUERY VALUES (node, 'ok', format('%s foreign keys hold', nkeys));
			END IF;
		EXCEPTION WHEN insufficient_privilege OR undefined_object OR active_sql_transaction OR undefined_table THEN
			RETURN QUERY VALUES (node, 'warning', format('%s foreign keys are not checked: %s', nkeys, SQLERRM));
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_foreign_keys(name[]) IS
	'Counts the rows of shards that refer to rows which their node does not have, for each validated foreign key there. Returns an error for each such key, a warning for each that cannot be checked, and a row for each node all of whose other keys hold.';

CREATE FUNCTION shardfdw.check_cluster(level text DEFAULT 'definitions', restore_point text DEFAULT NULL)
	RETURNS TABLE (node name, check_name text, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
	-- these queries are long and used only once
	SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	nodes CONSTANT name[] := shardfdw_internal.granted_nodes();
	compare_rows CONSTANT boolean := coalesce(level = 'rows', false);
	reachable name[] := '{}';
	i record;
BEGIN
	IF level IS NULL OR level NOT IN ('definitions', 'rows') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('level "%s" is not known', level), HINT = 'Levels are definitions and rows.';
	END IF;
	IF check_cluster.restore_point IS NOT NULL THEN
		RETURN QUERY SELECT c.node, 'restore point', CASE WHEN c.restored THEN 'ok' ELSE 'error' END, c.detail
		FROM shardfdw_internal.check_restored(check_cluster.restore_point) c;
	END IF;
	RETURN QUERY SELECT c.node, 'coordinator', c.status, c.detail FROM shardfdw_internal.inspect_identity(NULL) c;
	IF nodes = '{}' THEN
		RETURN;
	END IF;
	IF compare_rows THEN
		RETURN QUERY SELECT p.node, 'transactions', 'error', concat_ws(': ', p.gid, p.action) FROM shardfdw.recover_prepared_transactions(true) p;
		IF NOT FOUND THEN
			RETURN QUERY VALUES (NULL::name, 'transactions', 'ok', 'nothing is undecided');
		END IF;
	END IF;
	RETURN QUERY SELECT p.coordinator, 'definitions', p.status, p.detail FROM shardfdw_internal.compare_coordinators(shardfdw_internal.peers()) p;
	IF compare_rows THEN
		RETURN QUERY SELECT p.coordinator, 'reference tables', p.status, p.detail FROM shardfdw_internal.compare_references_of_peers() p;
	END IF;
	RETURN QUERY SELECT s.node, 'schemas', s.status, s.detail FROM shardfdw_internal.inspect_schemas() s;
	FOR i IN SELECT * FROM shardfdw_internal.inspect_nodes(nodes)
	LOOP
		IF i.check_name = 'connect' AND i.status = 'ok' THEN
			reachable := reachable || i.node;
		END IF;
		RETURN QUERY VALUES (i.node, i.check_name, i.status, i.detail);
	END LOOP;
	RETURN QUERY SELECT c.node, 'coordinator', c.status, c.detail FROM shardfdw_internal.inspect_identity(reachable) c;
	RETURN QUERY SELECT t.* FROM shardfdw_internal.inspect_tables(reachable, compare_rows) t;
	IF compare_rows THEN
		RETURN QUERY SELECT k.node, 'foreign keys', k.status, k.detail FROM shardfdw_internal.inspect_foreign_keys(reachable) k;
	END IF;
	RETURN QUERY SELECT c.node, 'replicas', c.status, c.detail FROM shardfdw_internal.inspect_replicas(reachable, compare_rows) c;
	RETURN QUERY SELECT p.node, 'partial aggregates', p.status, p.detail FROM shardfdw_internal.inspect_partial_aggregates(reachable) p;
END
$$;
COMMENT ON FUNCTION shardfdw.check_cluster(text, text) IS
	'Checks that this server is not a clone of the coordinator, and checks every node that the caller may use. For each node, checks that it can be reached, that no other coordinator has taken it over, and its version, encoding, locale, max_prepared_transactions, clock and partial aggregates. Compares shards, replicas, and the types and functions that they need with the definitions here. Checks that reference tables have the same number of rows, and that replicas of shards are not stale. level: "definitions" makes these checks. "rows" also checks that all servers belong to one moment, as after a restore. Then no transaction may be undecided or lost on a node, and the foreign keys of shards must hold. Reference tables must have equal rows on all nodes and coordinators. Replicas of shards must have equal rows; only tables of the caller are compared. restore_point: also checks that all servers were restored to this target. Null checks no restore point. Returns one row per check, with status ok, warning or error. Shards and replicas without findings share one row. Records default collations in the options of servers that the caller owns. Raises no error for a node that does not answer.';
