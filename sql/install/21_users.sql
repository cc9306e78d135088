-- Users of the nodes: roles of the same names there, mappings, and the rights that they have here.

CREATE FUNCTION shardfdw_internal.scram_secret(password text) RETURNS text
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_scram_secret';
COMMENT ON FUNCTION shardfdw_internal.scram_secret(text) IS
	'Computes the SCRAM verifier that a server stores for a password, so that nodes and their logs do not see the password. Returns the verifier.';

CREATE FUNCTION shardfdw_internal.same_schema_condition(schema regnamespace, node name) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('EXISTS (SELECT FROM (%s) o(owner, is_other), pg_catalog.pg_namespace s WHERE s.nspname = %L AND pg_catalog.pg_has_role(s.nspowner, ''USAGE'') AND (o.owner IN (%L, %L) OR (NOT o.is_other AND %s)))',
		shardfdw_internal.schema_owner_query(s.nspname), s.nspname, r.rolname,
		CASE WHEN has_server_privilege(r.oid, node, 'USAGE') THEN shardfdw_internal.role_on_node(r.oid, node) END,
		CASE WHEN r.rolsuper THEN 'true' ELSE 'pg_catalog.obj_description(s.oid, ''pg_namespace'') = ' || substring(shardfdw_internal.schema_command('') FROM ' IS (.*)$') END)
	FROM pg_namespace s JOIN pg_database d ON d.datname = current_database()
	JOIN pg_roles r ON r.oid = CASE s.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE s.nspowner END
	WHERE s.oid = same_schema_condition.schema
$$;
COMMENT ON FUNCTION shardfdw_internal.same_schema_condition(regnamespace, name) IS
	'Writes the condition, to be evaluated on a node, under which a privilege on a schema here may also be granted on the schema of that name there. The current user must have the rights of its owner there. That owner must be the owner of the schema here: the role of the same name, or the remote user of its user mapping if it has USAGE on the node. Otherwise that owner must be the current user or a superuser, and either a superuser owns the schema here, or the extension made the schema there. Returns the text.';

CREATE FUNCTION shardfdw_internal.grants_on_nodes(relations regclass[]) RETURNS TABLE (node name, role name, command text, condition text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH placed AS (
		SELECT r.relation, s.shard, s.node, s.remote_name
		FROM unnest(relations) r(relation) CROSS JOIN LATERAL pg_partition_tree(r.relation) t CROSS JOIN LATERAL shardfdw_internal.shards_of(t.relid) s
		WHERE NOT t.isleaf
		UNION ALL
		SELECT r.relation, p.shard, p.node, format('%I.%I', p.schema_name, p.shard_name)
		FROM unnest(relations) r(relation) CROSS JOIN LATERAL pg_partition_tree(r.relation) t CROSS JOIN LATERAL shardfdw_internal.shard_placements(t.relid) p
		WHERE NOT t.isleaf AND p.role = 'replica'
		UNION ALL
		SELECT r.relation, NULL::regclass, n.node, format('%I.%I', s.nspname, c.relname)
		FROM unnest(relations) r(relation) JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace s ON s.oid = c.relnamespace CROSS JOIN shardfdw.nodes n
		WHERE shardfdw_internal.is_reference(r.relation)
	), named AS (
		-- A role that may read a table may read its partitions through the table.
		SELECT r.relation, r.relation AS oid FROM unnest(relations) r(relation)
		UNION
		SELECT r.relation, a.relid FROM unnest(relations) r(relation) CROSS JOIN LATERAL pg_partition_ancestors(r.relation) a
	), rights AS (
		SELECT t.relation, x.grantee, format('GRANT %s ON TABLE %%s TO %%s%s', x.privilege_type, CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END) AS form
		-- Triggers run on the coordinator, see src/ddl/statement/ddl_grant.c.
		FROM named t JOIN pg_class c ON c.oid = t.oid CROSS JOIN LATERAL aclexplode(c.relacl) x WHERE x.grantee <> c.relowner AND x.privilege_type <> 'TRIGGER'
		UNION
		SELECT t.relation, x.grantee, format('GRANT %s (%s) ON TABLE %%s TO %%s%s', x.privilege_type, replace(quote_ident(a.attname), '%', '%%'), CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END)
		FROM named t JOIN pg_class c ON c.oid = t.oid JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped CROSS JOIN LATERAL aclexplode(a.attacl) x
		WHERE x.grantee <> c.relowner
		UNION ALL
		-- A role of add_user() connects as the role of the same name, and owns there what it owns here.
		SELECT c.oid, c.relowner,
			-- ALTER TABLE would wait for sessions that use the shard, also if the owner stays.
			'IF EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = %1$L::pg_catalog.regclass AND c.relowner <> %2$L::pg_catalog.regrole) THEN ALTER TABLE %1$s OWNER TO %2$s; END IF'
		FROM pg_class c WHERE c.oid = ANY (relations) AND EXISTS (
			SELECT FROM pg_user_mappings u CROSS JOIN LATERAL pg_options_to_table(u.umoptions) o WHERE u.umuser = c.relowner AND o.option_name = 'on_all_nodes' AND o.option_value::boolean)
	)
	SELECT p.node, CASE WHEN r.grantee <> 0 THEN pg_get_userbyid(r.grantee) END,
		format(r.form, p.remote_name, CASE WHEN r.grantee <> 0 THEN quote_ident(pg_get_userbyid(r.grantee)) ELSE 'PUBLIC' END), NULL
	FROM placed p JOIN rights r ON r.relation = p.relation
	UNION ALL
	SELECT DISTINCT p.node, g.role, format('IF %s THEN GRANT %s ON SCHEMA %I TO %s; END IF', l.condition, x.privilege_type, s.nspname, coalesce(quote_ident(g.role), 'PUBLIC')), l.condition
	FROM placed p CROSS JOIN LATERAL unnest(ARRAY[p.relation, p.shard]) u(oid) JOIN pg_class c ON c.oid = u.oid JOIN pg_namespace s ON s.oid = c.relnamespace
	-- PUBLIC never needs CREATE on nodes.
	CROSS JOIN LATERAL aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) x
	CROSS JOIN LATERAL (SELECT CASE WHEN x.grantee <> 0 THEN pg_get_userbyid(x.grantee) END AS role) g
	-- Existing privileges are not granted again.
	CROSS JOIN LATERAL (SELECT format('(SELECT %s AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(n.nspacl) g WHERE g.privilege_type = %L AND g.grantee = coalesce((SELECT a.oid FROM pg_catalog.pg_roles a WHERE a.rolname = %L), 0)) '
			'FROM pg_catalog.pg_namespace n WHERE n.nspname = %4$L AND (%3$L IS NULL OR EXISTS (SELECT FROM pg_catalog.pg_roles a WHERE a.rolname = %3$L)))',
			shardfdw_internal.same_schema_condition(s.oid, p.node), x.privilege_type, g.role, s.nspname) AS condition) l
	WHERE (x.grantee <> 0 OR x.privilege_type = 'USAGE') AND (u.oid = p.relation OR s.nspname = (parse_ident(p.remote_name))[1]);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.grants_on_nodes(regclass[]) IS
	'Writes the commands that grant roles on nodes the privileges on shards, replicas and their schemas that roles of the same names have here. Privileges on a partitioned table also apply to its partitions. Returns each command with its node and role, null for PUBLIC. For a schema, also returns the query that tells on the node whether the privilege is missing.';

CREATE FUNCTION shardfdw_internal.grant_tables_on_nodes(relations regclass[], only_nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- Without the lock, two concurrent GRANTs on the same schema fail.
	IF EXISTS (SELECT FROM (SELECT array_agg(x.node) AS nodes, array_agg('SELECT ' || x.conditions) AS commands
				FROM (SELECT g.node, string_agg(format('(%s)', g.condition), ' OR ') AS conditions FROM shardfdw_internal.grants_on_nodes(relations) g
					WHERE g.condition IS NOT NULL AND (only_nodes IS NULL OR g.node = ANY (only_nodes)) GROUP BY g.node) x HAVING count(*) > 0) a
			CROSS JOIN LATERAL shardfdw_internal.run_commands(a.nodes, a.commands, 'write') q WHERE (q.fields)[1] = 't') THEN
		PERFORM shardfdw_internal.lock_new_objects(ARRAY(SELECT DISTINCT g.node FROM shardfdw_internal.grants_on_nodes(relations) g WHERE only_nodes IS NULL OR g.node = ANY (only_nodes)));
	END IF;
	PERFORM shardfdw_internal.run_commands(array_agg(c.node), array_agg(format('DO %L', format('BEGIN %s END', c.body))), 'write')
	FROM (SELECT g.node, string_agg(CASE WHEN g.role IS NULL THEN g.commands ELSE format('IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN %s END IF;', g.role, g.commands) END, ' ') AS body
		FROM (SELECT x.node, x.role, string_agg(x.command || ';', ' ' ORDER BY x.command LIKE 'IF EXISTS%', x.command COLLATE "C") AS commands
			FROM shardfdw_internal.grants_on_nodes(relations) x WHERE only_nodes IS NULL OR x.node = ANY (only_nodes) GROUP BY x.node, x.role) g
		GROUP BY g.node) c
	HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.grant_tables_on_nodes(regclass[], name[]) IS
	'Runs the commands of grants_on_nodes() on their nodes, in this transaction. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.is_error_of_table(code text) RETURNS boolean
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT code ~ '^(0A|2|3|42|44|55000|HV|P0|XX)'
$$;
COMMENT ON FUNCTION shardfdw_internal.is_error_of_table(text) IS
	'Tells whether an SQLSTATE is that of an error that one table can cause, so that a function over all tables leaves the table out. Errors of nodes and connections have others.';

CREATE FUNCTION shardfdw_internal.grant_on_nodes(relations regclass[], only_nodes name[] DEFAULT NULL, skip_failing boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	r regclass;
	theirs regclass[] := '{}';
BEGIN
	FOREACH r IN ARRAY relations
	LOOP
		BEGIN
			PERFORM shardfdw_internal.check_shard_owners(r, n) FROM unnest(coalesce(only_nodes, ARRAY[NULL::name])) n;
			theirs := theirs || r;
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('rights on table %s are not given to roles on nodes: %s', r, SQLERRM);
		END;
	END LOOP;
	BEGIN
		PERFORM shardfdw_internal.grant_tables_on_nodes(theirs, only_nodes);
	EXCEPTION WHEN OTHERS THEN
		IF NOT skip_failing OR NOT shardfdw_internal.is_error_of_table(SQLSTATE) THEN
			RAISE;
		END IF;
		-- One table of an owner must not stop an administrator, so the tables are tried one by one.
		FOREACH r IN ARRAY theirs
		LOOP
			BEGIN
				PERFORM shardfdw_internal.grant_tables_on_nodes(ARRAY[r], only_nodes);
			EXCEPTION WHEN OTHERS THEN
				IF NOT shardfdw_internal.is_error_of_table(SQLSTATE) THEN
					RAISE;
				END IF;
				theirs := array_remove(theirs, r);
				RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('rights on table %s are not given to roles on nodes: %s', r, SQLERRM);
			END;
		END LOOP;
	END;
	FOREACH r IN ARRAY theirs
	LOOP
		-- A change that an owner made on a node does not revoke privileges of other roles.
		BEGIN
			IF EXISTS (SELECT FROM shardfdw_internal.shard_placements(r) p WHERE p.role <> 'primary') THEN
				PERFORM shardfdw_internal.own_notes(r, only_nodes);
			END IF;
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('what notes changes of table %s is not given to the owners of its shards: %s', r, SQLERRM);
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.grant_on_nodes(regclass[], name[], boolean) IS
	'Grants roles that exist on nodes the privileges on shards, replicas and their schemas that roles of the same names have here. Owners that were added by add_user() become the owners there. Skips tables that check_shard_owners() rejects, with a WARNING. skip_failing: also skips tables for which a node raises an error about the table, with a WARNING. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.tables_on_nodes() RETURNS regclass[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN ARRAY(SELECT p.partrelid::regclass FROM pg_partitioned_table p WHERE EXISTS (SELECT FROM shardfdw_internal.shards_of(p.partrelid))
		UNION SELECT pg_partition_root(s.relation) FROM shardfdw.shards s
		UNION SELECT r FROM shardfdw_internal.reference_tables() r);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.tables_on_nodes() IS
	'Lists the tables that have shards or replicas on nodes: sharded tables, reference tables, and the root table of several levels. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.roles_to_make(role oid) RETURNS SETOF pg_roles
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE member AS (
		SELECT r.oid FROM pg_roles r WHERE r.oid = role
		UNION
		SELECT g.oid FROM member x JOIN pg_auth_members m ON m.member = x.oid JOIN pg_roles g ON g.oid = m.roleid
		-- Other predefined roles allow access to the server itself.
		WHERE g.oid >= 16384 OR g.rolname IN ('pg_read_all_data', 'pg_write_all_data')
	)
	SELECT r.* FROM member m JOIN pg_roles r ON r.oid = m.oid
$$;
COMMENT ON FUNCTION shardfdw_internal.roles_to_make(oid) IS
	'Lists a role and the roles that it is a member of, directly or not, without those predefined roles that allow access to the server. Returns them.';

CREATE FUNCTION shardfdw_internal.role_mark() RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'Made by shardfdw for a role of the coordinator.'
$$;
COMMENT ON FUNCTION shardfdw_internal.role_mark() IS
	'Returns the comment that add_user() gives to roles that it creates on nodes.';

CREATE FUNCTION shardfdw_internal.role_check_commands(role oid) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A role that may create roles here may have chosen the name of any role of the nodes.
	SELECT format($c$DECLARE taken record; BEGIN
		SELECT r.rolname, x.rights INTO taken FROM pg_catalog.pg_roles r
			JOIN pg_catalog.jsonb_to_recordset(%1$L) h(name pg_catalog.name, is_role boolean, rolcreaterole boolean, rolcreatedb boolean, rolreplication boolean, rolbypassrls boolean, members pg_catalog.name[])
				ON h.name = r.rolname
			CROSS JOIN LATERAL (SELECT CASE
				WHEN EXISTS (SELECT FROM pg_catalog.pg_roles s WHERE s.rolsuper AND pg_catalog.pg_has_role(r.oid, s.oid, 'MEMBER')) THEN 'the rights of a superuser'
				WHEN r.rolcreaterole AND NOT h.rolcreaterole THEN 'CREATEROLE'
				WHEN r.rolcreatedb AND NOT h.rolcreatedb THEN 'CREATEDB'
				WHEN r.rolreplication AND NOT h.rolreplication THEN 'REPLICATION'
				WHEN r.rolbypassrls AND NOT h.rolbypassrls THEN 'BYPASSRLS'
				ELSE coalesce(
					(SELECT pg_catalog.format('the rights of role "%%s"', s.rolname) FROM pg_catalog.pg_roles s
						WHERE s.oid <> r.oid AND s.rolname <> ALL (%2$L::pg_catalog.name[]) AND pg_catalog.pg_has_role(r.oid, s.oid, 'MEMBER') ORDER BY s.rolname LIMIT 1),
					CASE WHEN NOT h.is_role AND pg_catalog.shobj_description(r.oid, 'pg_authid') IS DISTINCT FROM %3$L
						AND EXISTS (SELECT FROM pg_catalog.pg_shdepend d WHERE d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND d.refobjid = r.oid AND d.deptype IN ('o', 'a', 'r'))
						AND EXISTS (SELECT FROM pg_catalog.unnest(h.members) m WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members a
							JOIN pg_catalog.pg_roles n ON n.oid = a.member WHERE a.roleid = r.oid AND n.rolname = m))
						THEN 'objects or privileges' END) END) x(rights)
			WHERE x.rights IS NOT NULL ORDER BY NOT h.is_role, r.rolname LIMIT 1;
		IF FOUND THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = pg_catalog.format('role "%%s" has %%s on the node, and not here', taken.rolname, taken.rights),
				HINT = CASE taken.rights WHEN 'objects or privileges'
					THEN pg_catalog.format('Give one of the two roles another name. If both are the same, grant role "%%s" to its members on the node.', taken.rolname)
					ELSE 'Give one of the two roles another name.' END;
		END IF; END;$c$,
		(SELECT jsonb_agg(jsonb_build_object('name', r.rolname, 'is_role', r.oid = role, 'rolcreaterole', r.rolcreaterole, 'rolcreatedb', r.rolcreatedb,
			'rolreplication', r.rolreplication, 'rolbypassrls', r.rolbypassrls, 'members', (SELECT coalesce(jsonb_agg(n.rolname), '[]') FROM pg_auth_members m
				JOIN shardfdw_internal.roles_to_make(role) n ON n.oid = m.member WHERE m.roleid = r.oid)))
			FROM shardfdw_internal.roles_to_make(role) r WHERE r.oid >= 16384),
		ARRAY(SELECT g.rolname FROM pg_roles g WHERE pg_has_role(role, g.oid, 'MEMBER')), shardfdw_internal.role_mark())
$$;
COMMENT ON FUNCTION shardfdw_internal.role_check_commands(oid) IS
	'Writes the PL/pgSQL commands that check the roles on a node that have the names of a role and of the roles that it is a member of. They raise insufficient_privilege for a role that has more rights than the role of that name here: an attribute, a membership, or, if role_commands() would add a member, objects and privileges of a role that add_user() has not created. Returns the commands.';

CREATE FUNCTION shardfdw_internal.role_commands(role oid, secret text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('DO %L', format('BEGIN %s %s %s %s END',
		shardfdw_internal.role_check_commands(role),
		string_agg(format('IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN CREATE ROLE %I %s %s%s; COMMENT ON ROLE %2$I IS %6$L; END IF;', x.rolname, x.rolname,
			CASE WHEN x.oid = role THEN 'LOGIN' ELSE 'NOLOGIN' END, CASE WHEN x.rolinherit THEN 'INHERIT' ELSE 'NOINHERIT' END,
			CASE WHEN x.oid = role THEN ' PASSWORD ' || quote_literal(secret) END, shardfdw_internal.role_mark()), ' ') FILTER (WHERE x.oid >= 16384),
		(SELECT string_agg(format('IF NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members m WHERE m.roleid = %1$L::pg_catalog.regrole AND m.member = %2$L::pg_catalog.regrole) THEN GRANT %1$s TO %2$s; END IF;',
				quote_ident(g.rolname), quote_ident(y.rolname)), ' ')
		 FROM shardfdw_internal.roles_to_make(role) y JOIN pg_auth_members m ON m.member = y.oid JOIN shardfdw_internal.roles_to_make(role) g ON g.oid = m.roleid),
		-- The role that gives it tables has to be a member, unless it is a superuser.
		(SELECT format('IF NOT (CASE WHEN pg_catalog.current_setting(''server_version_num'')::pg_catalog.int4 < 160000 THEN pg_catalog.pg_has_role(%1$L, ''MEMBER'') ELSE pg_catalog.pg_has_role(%1$L, ''SET'') END)'
					' THEN BEGIN GRANT %1$I TO CURRENT_USER; EXCEPTION WHEN insufficient_privilege THEN NULL; END; END IF;', r.rolname)
		 FROM pg_roles r WHERE r.oid = role)))
	FROM shardfdw_internal.roles_to_make(role) x
$$;
COMMENT ON FUNCTION shardfdw_internal.role_commands(oid, text) IS
	'Writes the command that creates a role on a node if it is missing, after role_check_commands(). The command also creates the roles that it is a member of, the memberships, and a membership of the role that runs the command. secret: the stored form of the password, null for none. Returns the command.';

CREATE FUNCTION shardfdw_internal.make_user(role name, nodes name[], secret text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	command CONSTANT text := shardfdw_internal.role_commands((SELECT r.oid FROM pg_roles r WHERE r.rolname = role), secret);
	node name;
	other record;
BEGIN
	-- A shared role has the rights of all roles that are mapped to it.
	SELECT m.srvname, m.usename, r.rolname INTO other
	FROM pg_user_mappings m CROSS JOIN LATERAL pg_options_to_table(m.umoptions) o JOIN pg_roles me ON me.rolname = role
	JOIN LATERAL shardfdw_internal.roles_to_make(me.oid) r ON r.rolname = o.option_value
	WHERE m.srvname = ANY (nodes) AND o.option_name = 'user' AND m.umuser <> r.oid
	ORDER BY r.rolname, m.srvname, m.usename LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('role "%s" of node "%s" is the remote user of role "%s"', other.rolname, other.srvname, other.usename),
			HINT = 'Give the role here another name, or change the user mapping of the other role.';
	END IF;
	-- One node at a time, each committed: nodes may be databases of one server, where two of our transactions would wait for each other.
	FOREACH node IN ARRAY nodes
	LOOP
		PERFORM shardfdw_internal.run_commands(ARRAY[node], ARRAY[command], 'secret');
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_user(name, name[], text) IS
	'Creates a role on nodes with role_commands(), committed immediately. Returns nothing. Raises insufficient_privilege if another role is mapped to a role of that name, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.map_user(role name, server name, options text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.make_server(ARRAY[format('DROP USER MAPPING IF EXISTS FOR %I SERVER %I', role, server),
		format('CREATE USER MAPPING FOR %I SERVER %I OPTIONS (%s)', role, server,
			(SELECT string_agg(format('%I %L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)), ', ') FROM unnest(options) o))]);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.map_user(name, name, text[]) IS
	'Creates the user mapping of a role for a server, and replaces an existing mapping. options: in the format of the catalog. Returns nothing. Raises core''s errors, without the password.';

CREATE FUNCTION shardfdw.add_user(role name, nodes name[] DEFAULT NULL, password text DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	r record;
	server name;
	secret text := shardfdw_internal.scram_secret(password);
	options text[];
	is_everywhere CONSTANT boolean := nodes IS NULL;
BEGIN
	PERFORM shardfdw_internal.check_isolation('add_user');
	IF role IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null';
	END IF;
	SELECT x.oid, x.rolsuper, x.rolcanlogin INTO r FROM pg_roles x WHERE x.rolname = role;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('role "%s" does not exist', role),
			HINT = format('CREATE ROLE %I LOGIN makes it; with several coordinators, on each of them.', role);
	END IF;
	IF r.rolsuper THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('cannot add superuser "%s" to nodes', role),
			DETAIL = 'It may do everything here, and would need a superuser on each node.',
			HINT = 'CREATE USER MAPPING gives it the role of your user mapping, or another role.';
	END IF;
	PERFORM shardfdw_internal.lock_node_list();
	nodes := shardfdw_internal.usable_nodes(nodes);
	IF password IS NULL AND has_table_privilege('pg_authid', 'SELECT') THEN
		-- The keys of the client match the same verifier.
		SELECT a.rolpassword INTO secret FROM pg_authid a WHERE a.oid = r.oid AND starts_with(a.rolpassword, 'SCRAM-SHA-256$');
	END IF;
	options := array_remove(ARRAY['user=' || role, 'password=' || password, CASE WHEN is_everywhere THEN 'on_all_nodes=true' END,
		CASE WHEN password IS NULL AND secret IS NOT NULL AND current_setting('server_version_num')::integer >= 180000 THEN 'use_scram_passthrough=true' END], NULL);

	PERFORM shardfdw_internal.make_user(role, nodes, secret);
	FOR server IN
		SELECT n FROM unnest(nodes) n
		-- Keep the present password unless a new one is given.
		WHERE password IS NOT NULL OR NOT EXISTS (SELECT FROM pg_user_mappings u WHERE u.srvname = n AND u.umuser = r.oid)
	LOOP
		PERFORM shardfdw_internal.map_user(role, server, options);
	END LOOP;
	FOR server IN SELECT c.name FROM shardfdw.coordinators c WHERE is_everywhere ORDER BY c.name::text COLLATE "C"
	LOOP
		EXECUTE format('GRANT USAGE ON FOREIGN SERVER %I TO %I', server, role);
		CONTINUE WHEN password IS NULL AND EXISTS (SELECT FROM pg_user_mappings u WHERE u.srvname = server AND u.umuser = r.oid);
		PERFORM shardfdw_internal.map_user(role, server, array_remove(options, 'on_all_nodes=true'));
	END LOOP;
	PERFORM shardfdw_internal.grant_on_nodes(shardfdw_internal.tables_on_nodes(), nodes, true);
	IF NOT r.rolcanlogin THEN
		RAISE NOTICE USING MESSAGE = format('role "%s" cannot log in', role), HINT = 'Its members use its user mappings after SET ROLE. Members that log in without SET ROLE need add_user(), too.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw.add_user(name, name[], text) IS
	'Lets a role use nodes: creates the role on the nodes with its memberships, creates its user mappings here, and grants it on the nodes the privileges that it has here on tables and schemas. nodes: null for all nodes, including nodes that add_node() adds later. With several coordinators, null also creates the user mappings and grants USAGE for the other coordinators. password: for the user mappings, and for the role on nodes where the role is created. Null keeps existing user mappings, and gives a new role the SCRAM verifier that the role has here. Call the function again to bring memberships and privileges up to date. Roles on nodes are created immediately and remain if the transaction is rolled back. Returns nothing. Raises undefined_object, feature_not_supported for superusers, and errors of nodes.';
REVOKE ALL ON FUNCTION shardfdw.add_user(name, name[], text) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.add_users_to(node name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	u record;
	password text;
BEGIN
	PERFORM shardfdw_internal.lock_servers(ARRAY[node]);
	FOR u IN
		-- Only superusers can see options of user mappings of other roles.
		SELECT DISTINCT ON (m.umuser) m.umuser, m.usename, m.umoptions, m.srvname = node AS is_mapped
		FROM pg_user_mappings m JOIN shardfdw.nodes n ON n.node = m.srvname
		WHERE m.umuser <> 0 AND EXISTS (SELECT FROM pg_options_to_table(m.umoptions) o WHERE o.option_name = 'on_all_nodes' AND o.option_value::boolean)
			AND (m.srvname = node OR NOT EXISTS (SELECT FROM pg_user_mappings x WHERE x.srvname = node AND x.umuser = m.umuser))
		ORDER BY m.umuser, m.srvname <> node, m.srvname::text COLLATE "C"
	LOOP
		password := (SELECT o.option_value FROM pg_options_to_table(u.umoptions) o WHERE o.option_name = 'password');
		PERFORM shardfdw_internal.make_user(u.usename, ARRAY[node], coalesce(shardfdw_internal.scram_secret(password),
			(SELECT a.rolpassword FROM pg_authid a WHERE a.oid = u.umuser AND starts_with(a.rolpassword, 'SCRAM-SHA-256$'))));
		IF NOT u.is_mapped THEN
			PERFORM shardfdw_internal.map_user(u.usename, node, u.umoptions);
		END IF;
	END LOOP;
	PERFORM shardfdw_internal.grant_on_nodes(ARRAY(SELECT r FROM shardfdw_internal.reference_tables() r), ARRAY[node], true);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.add_users_to(name) IS
	'Creates on a node the users that add_user() added for all nodes and that the node does not have, and grants roles the privileges on replicas of reference tables that they have here. Returns nothing. Raises errors of the node.';
