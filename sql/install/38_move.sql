-- Moves and splits of shards: which shards belong together, checks, and the commands that create a shard again on another node.

CREATE FUNCTION shardfdw_internal.shard_group(shard regclass) RETURNS SETOF regclass
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_shard_group';
COMMENT ON FUNCTION shardfdw_internal.shard_group(regclass) IS
	'Lists a shard and the shards of colocated tables with the same bounds, which have to stay on one node. Returns them by OID, or no row if the relation is not a shard.';

CREATE FUNCTION shardfdw_internal.moving_tables(shard regclass)
	RETURNS TABLE (relation regclass, parent regclass, owner oid, node name, server oid, name text, remote_name text, remote_schema name, remote_table name, adopted boolean)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT g.relation, i.inhparent::regclass, c.relowner, s.srvname, s.oid, format('%I.%I', n.nspname, c.relname),
		format('%I.%I', o.schema_name, o.table_name), o.schema_name, o.table_name, (o.schema_name, o.table_name) <> (n.nspname, c.relname)
	FROM shardfdw_internal.shard_group(shard) g(relation)
	JOIN pg_class c ON c.oid = g.relation
	JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_inherits i ON i.inhrelid = c.oid
	JOIN pg_foreign_table f ON f.ftrelid = c.oid
	JOIN pg_foreign_server s ON s.oid = f.ftserver
	CROSS JOIN LATERAL (
		SELECT coalesce((SELECT x.option_value FROM pg_options_to_table(f.ftoptions) x WHERE x.option_name = 'schema_name'), n.nspname)::name AS schema_name,
			coalesce((SELECT x.option_value FROM pg_options_to_table(f.ftoptions) x WHERE x.option_name = 'table_name'), c.relname)::name AS table_name) o
	ORDER BY c.oid
$$;
COMMENT ON FUNCTION shardfdw_internal.moving_tables(regclass) IS
	'Lists the tables that move with a shard. Returns each shard, its table, owner and node, and its names here and on the node. adopted: whether these names differ.';

CREATE FUNCTION shardfdw_internal.job_token() RETURNS text
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_job_token';
COMMENT ON FUNCTION shardfdw_internal.job_token() IS
	'Returns the random part of the names of the job that this process runs: 8 hexadecimal digits.';

CREATE FUNCTION shardfdw_internal.job_schema(id bigint, number integer DEFAULT 1) RETURNS name
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Otherwise a role could create schemas with the names of the next jobs.
	SELECT concat('shardfdw_', i.identity, '_', id, '_', shardfdw_internal.job_token(), '_' || nullif(number, 1))::name FROM shardfdw_internal.coordinator_identity() i
$$;
COMMENT ON FUNCTION shardfdw_internal.job_schema(bigint, integer) IS
	'Returns the name of a schema that a job creates on nodes, in the process of the job. number: 1 for the first schema. The publication and the slots of the job have the name of the first schema. By this name, recovery recognizes the objects of this coordinator. The job has a schema for the new tables of each schema of its shards, because tables and indexes of two schemas may have the same names.';

CREATE FUNCTION shardfdw_internal.revoke_command(name text, kind text DEFAULT 'TABLE') RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shardfdw_revoke_command';
COMMENT ON FUNCTION shardfdw_internal.revoke_command(text, text) IS
	'Writes the command that revokes the privileges that default privileges gave other roles on a new object. name: qualified and quoted. kind: TABLE, SCHEMA or FUNCTION. Returns its text.';

CREATE FUNCTION shardfdw_internal.moving_table_query(relation text, staging text, new_name text, renames jsonb, move_group text[], references_here text[]) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Names are substituted in the first line only, so that format() does not interpret their contents.
	SELECT format('WITH relation AS (SELECT %L::text), staging AS (SELECT %L::text), new_name AS (SELECT %L::text), renames AS (SELECT %L::jsonb), move_group AS (SELECT %L::text[]), reference AS (SELECT %L::text[]),',
		relation, staging, new_name, renames, move_group, references_here) || $query$
t AS (
	SELECT c.*, n.nspname, format('%I.%I', n.nspname, c.relname) AS old_name, (TABLE new_name) AS name, (TABLE renames) IS NOT NULL AS is_renamed FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.oid = to_regclass((TABLE relation))
), a AS (
	SELECT a.*, y.typstorage, y.typcollation, quote_ident(a.attname) AS name,
		-- the element type of an array, because the binary format of arrays contains its OID
		NOT EXISTS (SELECT FROM pg_type x WHERE x.oid IN (y.oid, y.typelem)
			AND (x.oid >= 16384 OR x.typsend = 0 OR x.typreceive = 0 OR x.typname ~ '^reg' OR x.typname IN ('money', 'xml', 'record'))) AS is_binary
	FROM t JOIN pg_attribute a ON a.attrelid = t.oid JOIN pg_type y ON y.oid = a.atttypid WHERE a.attnum > 0 AND NOT a.attisdropped
), k AS (
	-- a foreign key to a table that is also renamed refers to its new name
	SELECT k.*, replace(pg_get_constraintdef(k.oid), format(' REFERENCES %s(', r.key), format(' REFERENCES %s(', r.value)) AS definition
	FROM t JOIN pg_constraint k ON k.conrelid = t.oid LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_namespace n ON n.oid = f.relnamespace
	CROSS JOIN LATERAL (SELECT coalesce(y.key, '') AS key, coalesce(y.value, '') AS value
		FROM (SELECT quote_ident(n.nspname) || '.' || quote_ident(f.relname)) x(name) LEFT JOIN jsonb_each_text((TABLE renames)->'tables') y ON y.key = x.name) r
), i AS (
	SELECT i.*, x.relname, x.relam, x.reltablespace, k.oid AS conid, k.conname, k.definition, pg_get_indexdef(i.indexrelid) AS text, m.new_name,
		format('CREATE %sINDEX %I ON %s USING ', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, x.relname, t.old_name) AS prefix
	FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class x ON x.oid = i.indexrelid
	LEFT JOIN k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')
	CROSS JOIN LATERAL (SELECT CASE WHEN t.is_renamed THEN coalesce((TABLE renames)->'objects'->>x.relname,
		CASE WHEN octet_length(x.relname || ((TABLE renames)->>'suffix')) < 64 THEN x.relname ELSE left(md5(x.relname), 16) END || ((TABLE renames)->>'suffix')) ELSE x.relname END AS new_name) m
	WHERE i.indisvalid
), s AS (
	-- the name and the table are at both ends of the definition
	SELECT s.oid, d.definition, d.prefix, d.suffix, CASE WHEN t.is_renamed THEN coalesce((TABLE renames)->'objects'->>s.stxname,
		CASE WHEN octet_length(s.stxname || ((TABLE renames)->>'suffix')) < 64 THEN s.stxname ELSE left(md5(s.stxname), 16) END || ((TABLE renames)->>'suffix')) ELSE s.stxname END AS new_name, n.nspname
	FROM t JOIN pg_statistic_ext s ON s.stxrelid = t.oid JOIN pg_namespace n ON n.oid = s.stxnamespace
	CROSS JOIN LATERAL (SELECT pg_get_statisticsobjdef(s.oid) AS definition, format('CREATE STATISTICS %I.%I', n.nspname, s.stxname) AS prefix, ' FROM ' || t.old_name AS suffix) d
)
-- checks
SELECT 'problem', 0, 'does not exist on node %s' WHERE NOT EXISTS (SELECT FROM t)
UNION ALL SELECT 'problem', 0, 'is no ordinary table on node %s' FROM t WHERE t.relkind <> 'r' OR t.relispartition
UNION ALL SELECT 'problem', 0, 'inherits, or is inherited from, on node %s' FROM t WHERE EXISTS (SELECT FROM pg_inherits h WHERE t.oid IN (h.inhrelid, h.inhparent))
UNION ALL SELECT 'problem', 0, 'is in a tablespace of its own on node %s' FROM t WHERE t.reltablespace <> 0 OR EXISTS (SELECT FROM i WHERE i.reltablespace <> 0)
UNION ALL SELECT 'problem', 0, 'has another access method than heap on node %s' FROM t JOIN pg_am m ON m.oid = t.relam WHERE m.amname <> 'heap'
UNION ALL SELECT 'problem', 0, 'has rules or is in views on node %s' FROM t WHERE EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = t.oid)
	OR EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.classid = 'pg_rewrite'::regclass)
UNION ALL SELECT 'problem', 0, format('is used by %s on node %%s', pg_describe_object(d.classid, d.objid, d.objsubid))
	FROM t JOIN pg_type y ON y.oid = t.reltype JOIN pg_depend d ON d.deptype = 'n' AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.classid = 'pg_proc'::regclass
		OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray))
UNION ALL SELECT 'problem', 0, 'is in publication ' || quote_ident(p.pubname) || ' of node %s' FROM t JOIN pg_publication_rel r ON r.prrelid = t.oid
	JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname !~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'
UNION ALL SELECT 'problem', 0, 'has a sequence or an identity column on node %s' FROM t WHERE EXISTS (SELECT FROM a WHERE a.attidentity <> '')
	OR EXISTS (SELECT FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid)
UNION ALL SELECT 'problem', 0, format('has foreign key %s to %s on node %%s, which is neither moved with it nor a reference table', quote_ident(k.conname), k.confrelid::regclass)
	FROM k JOIN pg_class f ON f.oid = k.confrelid JOIN pg_namespace n ON n.oid = f.relnamespace
	WHERE k.contype = 'f' AND jsonb_build_array(n.nspname, f.relname)::text <> ALL ((TABLE move_group) || (TABLE reference))
UNION ALL SELECT 'problem', 0, format('is referred to by foreign key %s of %s on node %%s, which is not moved with it', quote_ident(f.conname), f.conrelid::regclass)
	FROM t JOIN pg_constraint f ON f.confrelid = t.oid AND f.contype = 'f' JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE jsonb_build_array(n.nspname, c.relname)::text <> ALL ((TABLE move_group) || '{}'::text[])
UNION ALL SELECT 'problem', 0, 'has triggers on node %s' FROM t WHERE t.is_renamed AND EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = t.oid AND NOT g.tgisinternal AND NOT EXISTS (SELECT FROM pg_proc f WHERE f.oid = g.tgfoid AND f.proname = 'moved' AND f.pronamespace::regnamespace::text ~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'))
UNION ALL SELECT 'problem', 0, format('needs the name %s, which is taken on node %%s', x.name) FROM t,
	(SELECT t.name FROM t UNION ALL SELECT format('%I.%I', t.nspname, i.new_name) FROM t, i) x WHERE t.is_renamed AND (to_regclass(x.name) IS NOT NULL OR x.name = t.name AND to_regtype(x.name) IS NOT NULL)
UNION ALL SELECT 'problem', 0, format('has statistics object %s on node %%s, whose definition cannot be read', s.new_name) FROM s WHERE NOT starts_with(s.definition, s.prefix) OR right(s.definition, length(s.suffix)) <> s.suffix
UNION ALL SELECT 'problem', 0, 'is not the property of the role that is used on node %s' FROM t WHERE NOT pg_has_role(t.relowner, 'USAGE')
-- facts about the table
UNION ALL SELECT 'fact_columns', 0, coalesce((SELECT string_agg(a.name, ', ' ORDER BY a.attnum) FROM a WHERE a.attgenerated = ''), '') FROM t
UNION ALL SELECT 'fact_binary', 0, CASE WHEN (SELECT bool_and(a.is_binary) FROM a WHERE a.attgenerated = '') THEN 't' ELSE 'f' END FROM t
UNION ALL SELECT 'fact_identity', 0, t.relreplident::text FROM t
UNION ALL SELECT 'fact_identified', 0, CASE WHEN t.relreplident = 'f' OR t.relreplident = 'i' AND EXISTS (SELECT FROM i WHERE i.indisreplident)
	OR t.relreplident = 'd' AND EXISTS (SELECT FROM i WHERE i.indisprimary AND i.indimmediate) THEN 't' ELSE 'f' END FROM t
UNION ALL SELECT 'fact_oid', 0, t.oid::text FROM t
UNION ALL SELECT 'fact_names', 0, coalesce((SELECT jsonb_agg(DISTINCT jsonb_build_object('kind', y.kind, 'schema', n.nspname, 'name', y.name, 'arguments', y.arguments))
	FROM (SELECT 'pg_class'::regclass, t.oid UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM i UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM k
		UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM s UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef d WHERE d.adrelid = t.oid) x(classid, objid)
	JOIN pg_depend d ON d.classid = x.classid AND d.objid = x.objid
	CROSS JOIN LATERAL (SELECT 'function', p.pronamespace, p.proname, to_jsonb(p.proargtypes::oid[]) FROM pg_proc p WHERE d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
		UNION ALL SELECT 'operator', o.oprnamespace, o.oprname, '[]' FROM pg_operator o WHERE d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
		UNION ALL SELECT 'type', y.typnamespace, y.typname, '[]' FROM pg_type y WHERE d.refclassid = 'pg_type'::regclass AND y.oid = d.refobjid) y(kind, namespace, name, arguments)
	JOIN pg_namespace n ON n.oid = y.namespace), '[]')::text FROM t
UNION ALL SELECT 'fact_expressions', 0, CASE WHEN EXISTS (SELECT FROM i WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) OR EXISTS (SELECT FROM s) THEN 't' ELSE 'f' END FROM t
-- which roles may use the target schema, and its owner
UNION ALL SELECT 'schema', 0, jsonb_build_array(n.nspname, pg_get_userbyid(n.nspowner), coalesce((SELECT jsonb_agg(jsonb_build_array(x.privilege_type, CASE WHEN x.grantee <> 0 THEN pg_get_userbyid(x.grantee) END, x.is_grantable))
	FROM aclexplode(n.nspacl) x WHERE x.grantee <> n.nspowner), '[]'))::text FROM t JOIN pg_namespace n ON n.oid = t.relnamespace
-- the table in its staging schema
UNION ALL SELECT 'table', 1, format('CREATE %sTABLE %s (%s)%s', CASE t.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, (TABLE staging),
	concat_ws(', ', (SELECT string_agg(concat_ws(' ', a.name, format_type(a.atttypid, a.atttypmod),
			CASE a.attcompression WHEN 'p' THEN 'COMPRESSION pglz' WHEN 'l' THEN 'COMPRESSION lz4' END,
			CASE WHEN a.attcollation <> a.typcollation THEN (SELECT format('COLLATE %I.%I', cn.nspname, co.collname) FROM pg_collation co
				JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END,
			CASE a.attgenerated WHEN 's' THEN format('GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
				WHEN 'v' THEN format('GENERATED ALWAYS AS (%s) VIRTUAL', pg_get_expr(d.adbin, d.adrelid))
				ELSE 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
			CASE WHEN a.attnotnull THEN 'NOT NULL' END), ', ' ORDER BY a.attnum) FROM a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum),
		(SELECT string_agg(format('CONSTRAINT %I %s', k.conname, k.definition), ', ' ORDER BY k.conname) FROM k WHERE k.contype = 'c' AND k.convalidated)),
	(SELECT ' WITH (' || string_agg(format('%s%I = %L', o.parts[1], o.parts[2], o.parts[3]), ', ') || ')' FROM (
		SELECT regexp_match(x, '^(toast\.)?([^=]*)=(.*)$') AS parts FROM unnest(coalesce(t.reloptions, '{}')
			|| ARRAY(SELECT 'toast.' || o FROM pg_class z, unnest(z.reloptions) o WHERE z.oid = t.reltoastrelid)) x) o)) FROM t
UNION ALL SELECT 'table', 2, format('ALTER TABLE %s ALTER COLUMN %s SET STORAGE %s', (TABLE staging), a.name,
	CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END) FROM a WHERE a.attstorage <> a.typstorage
UNION ALL SELECT 'table', 3, format('ALTER TABLE %s ALTER COLUMN %s SET STATISTICS %s', (TABLE staging), a.name, to_jsonb(a)->>'attstattarget')
	FROM a WHERE (to_jsonb(a)->>'attstattarget')::integer >= 0
UNION ALL SELECT 'table', 4, format('ALTER TABLE %s ALTER COLUMN %s SET (%s)', (TABLE staging), a.name,
	(SELECT string_agg(format('%I = %L', o.option_name, o.option_value), ', ') FROM pg_options_to_table(a.attoptions) o))
	FROM a WHERE a.attoptions IS NOT NULL
UNION ALL SELECT 'table', 5, format('COMMENT ON TYPE %s IS %L', (TABLE staging), obj_description(t.reltype, 'pg_type')) FROM t WHERE obj_description(t.reltype, 'pg_type') IS NOT NULL
-- objects that are created after the rows are loaded
UNION ALL SELECT 'index', 10, CASE WHEN i.conid IS NOT NULL THEN format('ALTER TABLE %s ADD CONSTRAINT %I %s', (TABLE staging), i.new_name, i.definition)
	ELSE format('CREATE %sINDEX %I ON %s USING %s', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, i.new_name, (TABLE staging), substr(i.text, length(i.prefix) + 1)) END FROM i
UNION ALL SELECT 'index', 11, format('ALTER INDEX %s.%I ALTER COLUMN %s SET STATISTICS %s', split_part((TABLE staging), '.', 1), i.new_name, x.attnum, to_jsonb(x)->>'attstattarget')
	FROM i JOIN pg_attribute x ON x.attrelid = i.indexrelid AND (to_jsonb(x)->>'attstattarget')::integer >= 0 WHERE i.conid IS NULL
UNION ALL SELECT 'index', 12, format('ALTER TABLE %s ADD CONSTRAINT %I %s', (TABLE staging), k.conname, k.definition) FROM k WHERE k.contype = 'c' AND NOT k.convalidated
UNION ALL SELECT 'index', 13, format('ALTER TABLE %s CLUSTER ON %I', (TABLE staging), i.new_name) FROM i WHERE i.indisclustered
UNION ALL SELECT 'index', 14, format('ALTER TABLE %s REPLICA IDENTITY %s', (TABLE staging), CASE t.relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING'
	ELSE (SELECT format('USING INDEX %I', i.new_name) FROM i WHERE i.indisreplident) END) FROM t
	WHERE t.relreplident IN ('f', 'n') OR t.relreplident = 'i' AND EXISTS (SELECT FROM i WHERE i.indisreplident)
-- while the schema contains only the tables of the job
UNION ALL SELECT 'index', 15, format('COMMENT ON INDEX %s.%I IS %L', split_part((TABLE staging), '.', 1), i.new_name, obj_description(i.indexrelid, 'pg_class')) FROM i WHERE obj_description(i.indexrelid, 'pg_class') IS NOT NULL
UNION ALL SELECT 'index', 16, format('CREATE STATISTICS %I.%I%s FROM %s', s.nspname, s.new_name,
	substr(s.definition, length(s.prefix) + 1, length(s.definition) - length(s.prefix) - length(s.suffix)), (TABLE staging)) FROM s
-- objects that are created when the table has its final name
UNION ALL SELECT 'finish', 20, format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', t.name, k.conname, k.definition, CASE WHEN k.convalidated THEN ' NOT VALID' ELSE '' END)
	FROM t, k WHERE k.contype = 'f'
UNION ALL SELECT 'finish', 21, pg_get_triggerdef(g.oid) FROM t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal AND NOT EXISTS (SELECT FROM pg_proc f WHERE f.oid = g.tgfoid AND f.proname = 'moved' AND f.pronamespace::regnamespace::text ~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$')
UNION ALL SELECT 'finish', 22, format('ALTER TABLE %s %s TRIGGER %I', t.name, CASE g.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, g.tgname)
	FROM t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal AND g.tgenabled <> 'O' AND NOT EXISTS (SELECT FROM pg_proc f WHERE f.oid = g.tgfoid AND f.proname = 'moved' AND f.pronamespace::regnamespace::text ~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$')
UNION ALL SELECT 'finish', 23, concat_ws(' ', format('CREATE POLICY %I ON %s', p.polname, t.name), CASE WHEN p.polpermissive THEN 'AS PERMISSIVE' ELSE 'AS RESTRICTIVE' END,
		CASE p.polcmd WHEN 'r' THEN 'FOR SELECT' WHEN 'a' THEN 'FOR INSERT' WHEN 'w' THEN 'FOR UPDATE' WHEN 'd' THEN 'FOR DELETE' ELSE 'FOR ALL' END,
		'TO ' || (SELECT string_agg(CASE x WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x)) END, ', ') FROM unnest(p.polroles) x),
		'USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', 'WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')')
	FROM t JOIN pg_policy p ON p.polrelid = t.oid
UNION ALL SELECT 'finish', 24, format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.name) FROM t WHERE t.relrowsecurity
UNION ALL SELECT 'finish', 25, format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t.name) FROM t WHERE t.relforcerowsecurity
UNION ALL SELECT 'finish', 27, format('COMMENT ON COLUMN %s.%s IS %L', t.name, a.name, col_description(t.oid, a.attnum)) FROM t, a WHERE col_description(t.oid, a.attnum) IS NOT NULL
UNION ALL SELECT 'finish', 27, format('COMMENT ON CONSTRAINT %I ON %s IS %L', coalesce((SELECT i.new_name FROM i WHERE i.conid = k.oid), k.conname), t.name, obj_description(k.oid, 'pg_constraint')) FROM t, k WHERE obj_description(k.oid, 'pg_constraint') IS NOT NULL
UNION ALL SELECT CASE x.grantee WHEN 0 THEN 'finish' ELSE 'grant' END, 28, CASE x.grantee WHEN 0 THEN x.command ELSE jsonb_build_array(x.command, x.role)::text END
	FROM (SELECT g.grantee, pg_get_userbyid(g.grantee) AS role, format('GRANT %s%s ON %s TO %s%s', g.privilege_type, coalesce(' (' || g.attname || ')', ''), t.name,
			CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END, CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS command
		FROM t CROSS JOIN LATERAL (SELECT x.grantee, x.privilege_type, x.is_grantable, NULL AS attname FROM aclexplode(t.relacl) x
			UNION ALL SELECT x.grantee, x.privilege_type, x.is_grantable, a.name FROM a, aclexplode(a.attacl) x) g WHERE g.grantee <> t.relowner) x
-- Last, because the new owner may be a role that we are not a member of.
UNION ALL SELECT 'owner', 30, jsonb_build_array(format('ALTER TABLE %s OWNER TO %I', t.name, pg_get_userbyid(t.relowner)), pg_get_userbyid(t.relowner))::text FROM t WHERE pg_get_userbyid(t.relowner) <> current_user
UNION ALL SELECT 'comment', 31, format('COMMENT ON TABLE %s IS %s', t.name, coalesce(quote_literal(d.comment), 'NULL'))
	-- without the mark of a job that has left it there
	FROM t LEFT JOIN LATERAL (SELECT obj_description(t.oid, 'pg_class') AS comment) d ON d.comment !~ '^shardfdw_[0-9a-f]{16}_[0-9]+_[0-9a-f]{8}$'
-- Validated after the switch, when other sessions continue. Rows that violate the key did so before.
UNION ALL SELECT 'validate', 40, k.conname::text FROM t, k WHERE k.contype = 'f' AND k.convalidated
ORDER BY 2, 3$query$
$$;
COMMENT ON FUNCTION shardfdw_internal.moving_table_query(text, text, text, jsonb, text[], text[]) IS
	'Writes the query, to be run on a node, that describes a shard so that it can be created again. The query returns obstacles, facts about the shard, and the commands that create it, first under the name staging, then new_name. renames: null if the shard keeps its name. Otherwise a JSON object with the new names of tables that foreign keys refer to (tables) and of indexes and statistics (objects), and what is appended to the names of other indexes and statistics (suffix). move_group: the tables that move together. references_here: the reference tables. Each element is the text of a JSON array of schema and name, which no setting changes. Returns the text of the query. The query returns the kind of each part, its position, and its text.';

CREATE FUNCTION shardfdw_internal.checked_part(command text, staging text, name text, referred text[]) RETURNS text
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_checked_part';
COMMENT ON FUNCTION shardfdw_internal.checked_part(text, text, text, text[]) IS
	'Checks a command from a node that creates a table on another node. It must be a single command that creates the table or an object of the table, and may name only this table. Its foreign keys may refer only to the tables in referred. Returns the command. Raises protocol_violation for anything else.';

CREATE FUNCTION shardfdw_internal.checked_columns(columns text) RETURNS text
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_checked_columns';
COMMENT ON FUNCTION shardfdw_internal.checked_columns(text) IS
	'Parses a list of columns from a node. Returns their quoted names. Raises protocol_violation for anything else.';

CREATE FUNCTION shardfdw_internal.moving_command(part text, answer text, staging text, name text, referred text[]) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Commands about objects that may be missing there are built here.
	SELECT CASE WHEN part IN ('grant', 'owner') THEN format('DO %L', format('BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN %s; END IF; END',
				answer::jsonb->>1, shardfdw_internal.checked_part(answer::jsonb->>0, staging, name, referred)))
		-- A schema that the extension created for a schema of the coordinator, that is empty, and that was given to no other role.
		WHEN part = 'schema' THEN format('DO %L', format('DECLARE g record; BEGIN '
				'IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = %1$L AND pg_catalog.pg_get_userbyid(n.nspowner) IN (current_user, %3$L) '
				'AND pg_catalog.pg_has_role(n.nspowner, ''USAGE'') AND pg_catalog.obj_description(n.oid, ''pg_namespace'') = %4$s '
				'AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refclassid = ''pg_catalog.pg_namespace''::pg_catalog.regclass AND d.refobjid = n.oid)) THEN '
				'FOR g IN SELECT DISTINCT CASE WHEN x.grantee <> 0 THEN pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(x.grantee)) ELSE ''PUBLIC'' END AS role '
				'FROM pg_catalog.pg_namespace n CROSS JOIN pg_catalog.aclexplode(n.nspacl) x WHERE n.nspname = %1$L AND x.grantee <> n.nspowner LOOP '
				'EXECUTE pg_catalog.format(''REVOKE ALL ON SCHEMA %%I FROM %%s CASCADE'', %1$L, g.role); END LOOP; '
				'FOR g IN SELECT x->>0 AS privilege, x->>1 AS role, (x->>2)::boolean AS grantable FROM pg_catalog.jsonb_array_elements(%2$L::jsonb) x '
				'WHERE x->>0 IN (''USAGE'', ''CREATE'') AND (x->>1 IS NULL OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = x->>1)) LOOP '
				'EXECUTE pg_catalog.format(''GRANT %%s ON SCHEMA %%I TO %%s%%s'', g.privilege, %1$L, coalesce(pg_catalog.quote_ident(g.role), ''PUBLIC''), CASE WHEN g.grantable THEN '' WITH GRANT OPTION'' ELSE '''' END); END LOOP; '
				'IF EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = %3$L AND r.rolname <> current_user) THEN ALTER SCHEMA %1$I OWNER TO %3$I; END IF; END IF; '
				'EXCEPTION WHEN insufficient_privilege THEN RAISE WARNING USING MESSAGE = SQLERRM; END',
				(parse_ident(name))[1], answer::jsonb->2, answer::jsonb->>1, substring(shardfdw_internal.schema_command('') FROM ' IS (.*)$')))
		WHEN part = 'validate' THEN shardfdw_internal.validating_command(name, answer, false)
		ELSE shardfdw_internal.checked_part(answer, staging, name, referred) END
$$;
COMMENT ON FUNCTION shardfdw_internal.moving_command(text, text, text, text, text[]) IS
	'Builds a command for the target of a move from the source''s answer to moving_table_query(), and checks it with checked_part(). staging, name, referred: as for checked_part(). Returns the command. Raises protocol_violation.';

CREATE FUNCTION shardfdw_internal.raise_unknown_part(part text, name text) RETURNS text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'protocol_violation', MESSAGE = format('a node has answered with something that does not make table %s', name), DETAIL = format('It is called "%s".', part);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.raise_unknown_part(text, text) IS
	'Rejects a node''s answer about a table that is to be moved. Raises protocol_violation.';

CREATE FUNCTION shardfdw_internal.moving_questions(shards regclass[], id bigint, pieces integer, at text[])
	RETURNS TABLE (relation regclass, node name, question text, staging text, name text, is_first boolean)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.relation, m.node,
		shardfdw_internal.moving_table_query(m.remote_name, n.staging, n.name,
			CASE WHEN pieces > 1 OR cardinality(shards) > 1 THEN shardfdw_internal.piece_renames(shards, m.relation, pieces, at, p.number) END,
			(SELECT array_agg(jsonb_build_array(x.remote_schema, x.remote_table)::text) FROM shardfdw_internal.job_tables(shards) x), ARRAY(SELECT jsonb_build_array(n.nspname, c.relname)::text FROM shardfdw_internal.reference_tables() r
				JOIN pg_class c ON c.oid = r JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY c.oid)),
		n.staging, n.name, m.is_first
	FROM shardfdw_internal.job_tables(shards) m JOIN shardfdw_internal.shard_pieces(shards, pieces, at) p ON p.relation = m.relation
	CROSS JOIN LATERAL (SELECT format('%I.%I', shardfdw_internal.job_schema(moving_questions.id, m.schema_number), p.name), format('%I.%I', m.remote_schema, p.name)) n(staging, name)
	ORDER BY m.relation::oid, p.number
$$;
COMMENT ON FUNCTION shardfdw_internal.moving_questions(regclass[], bigint, integer, text[]) IS
	'Lists the queries for the source node about all tables that move with the shards, for each new piece. Returns moving_table_query(), the names of the table until the switch and after it, and whether it belongs to the first of the shards, in order.';

CREATE FUNCTION shardfdw_internal.moving_parts(shards regclass[], id bigint, pieces integer, at text[])
	RETURNS TABLE (relation regclass, part text, command text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	relations regclass[];
	nodes name[];
	commands text[];
	stagings text[];
	names text[];
	first boolean[];
	referred text[];
BEGIN
	SELECT array_agg(m.relation ORDER BY m.ordinality), array_agg(m.node ORDER BY m.ordinality), array_agg(m.question ORDER BY m.ordinality),
		array_agg(m.staging ORDER BY m.ordinality), array_agg(m.name ORDER BY m.ordinality), array_agg(m.is_first ORDER BY m.ordinality)
	INTO relations, nodes, commands, stagings, names, first FROM shardfdw_internal.moving_questions(shards, id, pieces, at) WITH ORDINALITY m;
	referred := names || ARRAY(SELECT format('%I.%I', n.nspname, c.relname) FROM shardfdw_internal.reference_tables() r JOIN pg_class c ON c.oid = r JOIN pg_namespace n ON n.oid = c.relnamespace);
	RETURN QUERY SELECT relations[q.command], CASE (q.fields)[1] WHEN 'grant' THEN 'finish' ELSE (q.fields)[1] END, CASE
		-- the last occurrence: text before it may contain names
		WHEN (q.fields)[1] = 'problem' THEN regexp_replace((q.fields)[3], '^(.*) node %s', '\1 node ' || replace(quote_ident(q.node), '\', '\\'))
		WHEN (q.fields)[1] IN ('schema', 'table', 'index', 'finish', 'grant', 'owner', 'comment', 'validate') THEN
			shardfdw_internal.moving_command((q.fields)[1], (q.fields)[3], stagings[q.command], names[q.command], referred)
		WHEN (q.fields)[1] = 'fact_columns' THEN shardfdw_internal.checked_columns((q.fields)[3])
		WHEN (q.fields)[1] = 'fact_oid' THEN (q.fields)[3]::oid::text
		-- these strings are compared byte by byte
		WHEN (q.fields)[1] IN ('fact_binary', 'fact_identity', 'fact_identified', 'fact_expressions', 'fact_names') THEN (q.fields)[3]
		ELSE shardfdw_internal.raise_unknown_part((q.fields)[1], names[q.command]) END
	FROM (SELECT r.*, bool_or((r.fields)[1] = 'problem') OVER () AS has_problem FROM shardfdw_internal.run_commands(nodes, commands, 'autocommit') WITH ORDINALITY r) q
	-- If a check fails, return only that failure. For several shards that become one, the first shard reports it.
	WHERE q.fields IS NOT NULL AND (NOT q.has_problem OR (q.fields)[1] = 'problem') AND (first[q.command] OR (q.fields)[1] = 'problem' OR starts_with((q.fields)[1], 'fact_')) ORDER BY q.ordinality;
	RETURN QUERY SELECT p.relation, p.part, p.command FROM shardfdw_internal.piece_parts(shards, id, pieces, at) p;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.moving_parts(regclass[], bigint, integer, text[]) IS
	'Runs moving_table_query() on the source node for all tables that move with the shards, for each new piece. Returns for each shard its parts in order, and the parts of piece_parts(). Raises errors of the node.';

CREATE FUNCTION shardfdw_internal.check_recovered(shards regclass[], done text, may_run boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m record;
BEGIN
	SELECT g.shard, o.relation::regclass AS relation, o.job INTO m
	FROM (SELECT s AS shard, x.parent FROM unnest(shards) s CROSS JOIN LATERAL shardfdw_internal.moving_tables(s) x) g
	JOIN shardfdw_internal.conversion_objects() o ON o.object = g.parent
	WHERE NOT may_run OR NOT shardfdw_internal.job_is_running(o.job) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s cannot be %s before table %s is recovered from job %s', m.shard, done, m.relation, m.job),
			HINT = 'SELECT * FROM shardfdw.recover_prepared_transactions() removes what the job has left.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_recovered(regclass[], text, boolean) IS
	'Checks that no ended job has left tables that are colocated with the shards. may_run: also accepts jobs that still run and whose end the caller waits for; false rejects them. done: the requested action, as the word that follows "cannot be" in messages. Returns nothing. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_group_here(shard regclass, mode text, done text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	m record;
BEGIN
	IF mode NOT IN ('online', 'block') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('invalid mode "%s"', mode), HINT = 'Valid modes are "online" and "block".';
	END IF;
	IF NOT EXISTS (SELECT FROM shardfdw_internal.moving_tables(shard)) THEN
		PERFORM shardfdw_internal.raise_other_kind(shard, 'shard');
	END IF;
	PERFORM shardfdw_internal.check_recovered(ARRAY[shard], done, true);
	FOR m IN SELECT * FROM shardfdw_internal.moving_tables(shard)
	LOOP
		IF shardfdw_internal.has_replicas(m.relation) THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('shard %s cannot be %s: shard %s has replicas', shard, done, m.relation);
		END IF;
		IF NOT pg_has_role(m.owner, 'USAGE') THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', (SELECT c.relname FROM pg_class c WHERE c.oid = m.parent)),
				DETAIL = CASE WHEN m.relation <> shard THEN format('Its shard %s is %s together with %s.', m.relation, done, shard) ELSE format('Shard %s is a part of it.', shard) END;
		END IF;
		IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = m.relation AND NOT t.tgisinternal AND t.tgparentid = 0) THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s cannot be %s: the shard itself has triggers on the coordinator', m.relation, done);
		END IF;
		PERFORM shardfdw_internal.check_shard_owners(m.relation);
		PERFORM shardfdw_internal.check_owner_code(m.parent, CASE done WHEN 'moved' THEN 'move' WHEN 'merged' THEN 'merge' ELSE done END);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_group_here(regclass, text, text) IS
	'Checks what the coordinator knows about a shard and the shards that move with it. done: the requested action, as the word that follows "cannot be" in messages. Returns nothing. Raises invalid_parameter_value, wrong_object_type, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_move_here(shard regclass, node name, mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	m record;
BEGIN
	IF shard IS NULL OR node IS NULL OR mode IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'shard, node, mode, verify and wait must not be null';
	END IF;
	PERFORM shardfdw_internal.check_group_here(shard, mode, 'moved');
	PERFORM shardfdw_internal.check_accepts(shardfdw_internal.usable_nodes(ARRAY[node]));
	SELECT x.relation INTO m FROM shardfdw_internal.moving_tables(shard) x WHERE x.node = node LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s is on node "%s" already', m.relation, node);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_move_here(regclass, name, text) IS
	'Checks a requested move with the catalogs of the coordinator. Returns nothing. Raises null_value_not_allowed, invalid_parameter_value, wrong_object_type, undefined_object, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.ask_for_move(node name) RETURNS jsonb
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- The start time identifies a server, and all roles may read it.
	SELECT (q.fields)[1]::jsonb FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[$query$SELECT jsonb_build_object(
		'database', concat_ws(' ', current_database(), extract(epoch FROM pg_postmaster_start_time())),
		'wal_level', current_setting('wal_level'),
		'decodes', current_setting('wal_level') = 'logical' OR current_setting('effective_wal_level', true) IS NOT NULL AND current_setting('wal_level') = 'replica',
		'may_replicate', (SELECT r.rolreplication OR r.rolsuper FROM pg_roles r WHERE r.rolname = current_user),
		'slots', current_setting('max_replication_slots')::integer - (SELECT count(*) FROM pg_replication_slots),
		'senders', current_setting('max_wal_senders')::integer - (SELECT count(*) FROM pg_stat_get_wal_senders()),
		'prepared', current_setting('max_prepared_transactions'),
		'may_create', has_database_privilege(current_database(), 'CREATE'),
		'role', current_user,
		'encoding', getdatabaseencoding(),
		'is_standby', pg_is_in_recovery())$query$], 'autocommit') q
$$;
COMMENT ON FUNCTION shardfdw_internal.ask_for_move(name) IS
	'Queries a node for the conditions under which shards can be moved from it or to it. Returns settings, free replication slots and WAL senders, and the role used there with its privileges. Raises errors of the node.';

CREATE FUNCTION shardfdw_internal.check_job_nodes(shards regclass[], source name, target name, mode text, done text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	decides CONSTANT boolean := current_setting('shardfdw.commit_protocol') = '2pc';
	here CONSTANT jsonb := shardfdw_internal.ask_for_move(source);
	there CONSTANT jsonb := CASE WHEN source = target THEN here ELSE shardfdw_internal.ask_for_move(target) END;
BEGIN
	IF source <> target AND here->>'database' = there->>'database' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('nodes "%s" and "%s" are the same database', source, target);
	END IF;
	IF (here->>'is_standby')::boolean OR (there->>'is_standby')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('node "%s" is a standby', CASE WHEN (here->>'is_standby')::boolean THEN source ELSE target END);
	END IF;
	IF NOT (here->>'may_create')::boolean OR NOT (there->>'may_create')::boolean THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('role "%s" may not create schemas on node "%s"', CASE WHEN (here->>'may_create')::boolean THEN there->>'role' ELSE here->>'role' END, CASE WHEN (here->>'may_create')::boolean THEN target ELSE source END),
			DETAIL = 'Each job has a schema on its nodes until it ends.',
			HINT = 'Grant that role CREATE on the database there.';
	END IF;
	IF decides AND here->>'prepared' = '0' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('prepared transactions are disabled on node "%s"', source),
			HINT = 'Set max_prepared_transactions there to a nonzero value.';
	END IF;
	IF mode = 'online' THEN
		IF NOT (here->>'decodes')::boolean THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s cannot be %s online: wal_level is "%s" on node "%s"', shards[1], done, here->>'wal_level', source),
				HINT = 'Set wal_level to logical there and restart it, or let writers wait all the time: mode => ''block''.';
		END IF;
		IF NOT (here->>'may_replicate')::boolean THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('shard %s cannot be %s online: role "%s" may not replicate on node "%s"', shards[1], done, here->>'role', source),
				HINT = 'ALTER ROLE ... REPLICATION there, or let writers wait all the time: mode => ''block''.';
		END IF;
		IF (here->>'slots')::integer < 2 OR (here->>'senders')::integer < 2 THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s cannot be %s online: node "%s" has no room for two more replication slots and WAL senders', shards[1], done, source),
				DETAIL = format('Free are %s slots and %s senders.', here->>'slots', here->>'senders'),
				HINT = 'Raise max_replication_slots or max_wal_senders there, or let writers wait all the time: mode => ''block''.';
		END IF;
	END IF;
	-- The target computes indexes and generated columns again.
	PERFORM shardfdw_internal.check_owner_code_on_nodes(m.parent, CASE done WHEN 'moved' THEN 'move' WHEN 'merged' THEN 'merge' ELSE done END, m.remote_schema, ARRAY[m.remote_table], ARRAY[source])
	FROM shardfdw_internal.job_tables(shards) m;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_job_nodes(regclass[], name, name, text, text) IS
	'Checks settings and privileges on the nodes for a requested job. done: moved, split or merged. Returns nothing. Raises object_not_in_prerequisite_state or insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_move_nodes(shard regclass, source name, target name, mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	taken record;
BEGIN
	PERFORM shardfdw_internal.check_job_nodes(ARRAY[shard], source, target, mode, 'moved');
	SELECT m.remote_name AS name, (q.fields)[1] = 't' AS is_old INTO taken FROM shardfdw_internal.moving_tables(shard) WITH ORDINALITY m(relation, parent, owner, node, server, name, remote_name, remote_schema, remote_table, adopted, ord)
	JOIN shardfdw_internal.run_commands(ARRAY(SELECT target FROM shardfdw_internal.moving_tables(shard)),
		ARRAY(SELECT format('SELECT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname = ''shardfdw_moved'') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname, c.relname) = (%L, %L)', x.remote_schema, x.remote_table)
			FROM shardfdw_internal.moving_tables(shard) x ORDER BY x.relation::oid), 'autocommit') q ON q.command = m.ord AND q.fields IS NOT NULL
	LIMIT 1;
	IF FOUND THEN
		-- A job of another coordinator may still have to drop it.
		PERFORM shardfdw_internal.run_commands(ARRAY[target], ARRAY[c.command], 'autocommit')
		FROM (SELECT shardfdw_internal.turn_command(jsonb_build_object('tables', jsonb_agg(jsonb_build_object('side', 'target', 'name', m.remote_name, 'schema', m.remote_schema, 'table', m.remote_table)))) AS command
			FROM shardfdw_internal.moving_tables(shard) m) c WHERE c.command IS NOT NULL;
		RAISE EXCEPTION USING ERRCODE = 'duplicate_table', MESSAGE = format('relation %s exists on node "%s" already', taken.name, target),
			HINT = CASE WHEN taken.is_old THEN 'An earlier job has left it. SELECT * FROM shardfdw.recover_prepared_transactions() removes it, or shows why it is still needed.'
				ELSE 'Drop or rename it there, if it is not needed.' END;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_move_nodes(regclass, name, name, text) IS
	'Checks the nodes for a requested move: as check_job_nodes() does, and whether names exist already on the target. Returns nothing. Raises object_not_in_prerequisite_state, insufficient_privilege, object_in_use or duplicate_table.';
