-- A key whose collation takes different strings for equal, grouped and joined under others (R4).
-- Without ICU in the server there is nothing to compare. See sql/diff/harness.sql.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\set f :dir '/setup.sql'
\o /dev/null
\i :f
SET client_min_messages = warning;
DO $$
BEGIN
	CREATE COLLATION diff.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN feature_not_supported THEN
	NULL;
END $$;
SELECT count(*) > 0 AS icu FROM pg_collation WHERE collname = 'nocase' \gset
\if :icu
SELECT * FROM shardfdw.run_on_nodes('CREATE COLLATION diff.nocase (provider = icu, locale = ''und-u-ks-level2'', deterministic = false)');
\set f :dir '/icu_tables.sql'
\set schema diff_plain
\set shards 0
\i :f
\set schema diff_one
\set shards 1
\i :f
\set schema diff_seven
\set shards 7
\i :f
\set queries `cat "$PG_ABS_SRCDIR"/sql/diff/icu.sql`
\else
\set queries ''
\endif
RESET client_min_messages;
\o
\set ECHO all
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
