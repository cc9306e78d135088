-- A key whose collation takes different strings for equal, grouped and joined under others (R4).
-- Without ICU in the server there is nothing to compare. See sql/diff/harness.sql.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\set f :dir '/setup.sql'
\o /dev/null
\i :f
SELECT count(*) > 0 AS icu FROM pg_collation WHERE collprovider = 'i' \gset
\if :icu
SET client_min_messages = warning;
CREATE COLLATION diff.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
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
RESET client_min_messages;
\set queries `cat "$PG_ABS_SRCDIR"/sql/diff/icu.sql`
\else
\set queries ''
\endif
\o
\set ECHO all
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
