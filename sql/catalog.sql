-- What users may depend on: every function of schema shardfdw with its arguments, every view with its columns.
-- t/declare_reference_pages.pl holds the same against docs/reference.md.
\pset format unaligned
SELECT p.proname AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result,
	has_function_privilege('public', p.oid, 'EXECUTE') AS for_all
FROM pg_proc p WHERE p.pronamespace = 'shardfdw'::regnamespace ORDER BY p.proname COLLATE "C", 2;
SELECT c.relname AS name, c.relkind AS kind, string_agg(format('%s %s', a.attname, format_type(a.atttypid, NULL)), ', ' ORDER BY a.attnum) AS columns,
	has_table_privilege('public', c.oid, 'SELECT') AS for_all
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'shardfdw'::regnamespace GROUP BY c.oid ORDER BY c.relname COLLATE "C";
-- The rest is the extension's own business: nobody finds it by \df or \d shardfdw.*, and those who call public functions may run it.
SELECT n.nspname, has_schema_privilege('public', n.oid, 'USAGE') AS usage, has_schema_privilege('public', n.oid, 'CREATE') AS "create",
	(SELECT count(*) > 0 FROM pg_proc p WHERE p.pronamespace = n.oid) AS functions, (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'S')) AS tables
FROM pg_namespace n WHERE n.nspname ~ '^shardfdw' ORDER BY n.nspname COLLATE "C";
-- What others than superusers may not call.
SELECT p.oid::regprocedure AS internal FROM pg_proc p
WHERE p.pronamespace = 'shardfdw_internal'::regnamespace AND NOT has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY p.oid::regprocedure::text COLLATE "C";
