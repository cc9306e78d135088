-- What functions and sub-selects see of the statement that calls them: of sharded tables what they see of plain ones.
-- The statements are in sql/diff/nested.sql. t/write_nested.pl compares random ones.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set statements :srcdir '/sql/diff/nested.sql'
SET client_min_messages = warning;
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA nested_plain;
CREATE SCHEMA nested_sharded;
SELECT format($x$
	SET search_path = %1$s;
	CREATE TABLE t (k int PRIMARY KEY, grp int, v int);
	CREATE TABLE one (k int PRIMARY KEY, grp int, v int);
	CREATE FUNCTION stable_count(int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t WHERE grp = $1); END';
	CREATE FUNCTION stable_one(int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM one WHERE grp = $1';
	CREATE FUNCTION volatile_count() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
	CREATE FUNCTION volatile_max() RETURNS int LANGUAGE sql AS 'SELECT max(v) FROM t';
	CREATE FUNCTION changes_t(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = 0 WHERE k = $1; RETURN 1; END';
$x$, schema) FROM unnest('{nested_plain,nested_sharded}'::text[]) AS schema \gexec
SELECT shardfdw.shard_table('t', 'k', shards => 4);
SELECT shardfdw.shard_table('one', 'k', shards => 1);

\set ECHO all
SET search_path = nested_plain;
\set ECHO queries
\i :statements
-- rows that a function changes while the statement is about to
UPDATE t SET v = changes_t(k % 8 + 1) WHERE k < 9;
DELETE FROM t WHERE changes_t(k) = 1;
SET search_path = nested_sharded;
\i :statements
UPDATE t SET v = changes_t(k % 8 + 1) WHERE k < 9;
DELETE FROM t WHERE changes_t(k) = 1;

-- what nodes cannot show is refused
BEGIN;
INSERT INTO t VALUES (40, 1, 1);
UPDATE t SET v = 0 RETURNING stable_count(k % 2);
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM t;
INSERT INTO t VALUES (40, 1, 1);
FETCH c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k;
FETCH c;
DELETE FROM t;
FETCH ALL FROM c;
ROLLBACK;
UPDATE t SET k = k + 100, v = volatile_count();
MERGE INTO t USING generate_series(1, 9) AS s (k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, 0, volatile_count());
MERGE INTO t USING generate_series(1, 9) AS s (k) ON t.k = s.k AND s.k = 9 WHEN NOT MATCHED AND volatile_count() > 0 THEN INSERT VALUES (s.k, 0, 0);
DROP SCHEMA nested_plain, nested_sharded CASCADE;
