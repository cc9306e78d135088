-- What a statement says is what nodes do: multi-column assignments, rules, merged columns of joins, INSERT of no column.
-- Each statement runs on sharded tables and on plain ones. A line of the result: "as plain", or how both differ.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA stx;
CREATE SCHEMA stx_plain;
SELECT format($f$
	SET search_path = %1$s;
	CREATE TYPE mood AS ENUM ('low', 'high');
	CREATE TABLE t (k int, b bigint, n numeric(8,2), s varchar(4), m mood, a int[]);
	CREATE TABLE u (k int, v int, c numeric);
	CREATE TABLE big (k bigint, v int);
	CREATE TABLE r (k int PRIMARY KEY, v int);
	CREATE TABLE log (k int, v int);
	CREATE TABLE local (k int, n numeric);
	INSERT INTO t SELECT i, i * 10, i / 3.0, 's' || i, CASE WHEN i %% 2 = 0 THEN 'low' ELSE 'high' END::mood, ARRAY[i, i] FROM generate_series(1, 12) i;
	INSERT INTO u SELECT i %% 10, i, i / 7.0 FROM generate_series(1, 25) i;
	INSERT INTO big SELECT i, -i FROM generate_series(4, 8) i;
	INSERT INTO r SELECT i, i * 100 FROM generate_series(1, 6) i;
	INSERT INTO local SELECT i, i + 0.125 FROM generate_series(3, 9) i
$f$, x) FROM unnest('{stx,stx_plain}'::text[]) x \gexec
SET search_path = stx;
SELECT shardfdw.shard_table('t', 'k', shards => 4);
SELECT shardfdw.shard_table('u', 'k', colocate_with => 't');
SELECT shardfdw.shard_table('big', 'k', shards => 3);
SELECT shardfdw.create_reference_table('r') \g /dev/null
SELECT format($f$
	SET search_path = %1$s;
	CREATE VIEW v AS SELECT k, n, b FROM t WHERE k < 9;
	CREATE VIEW checked AS SELECT k, v FROM u WHERE v > 0 WITH CHECK OPTION;
	CREATE FUNCTION sum_of(int) RETURNS bigint RETURN (SELECT sum(v) FROM u WHERE k = $1);
	CREATE FUNCTION all_of(int) RETURNS SETOF u BEGIN ATOMIC SELECT * FROM u WHERE k = $1; END
$f$, x) FROM unnest('{stx,stx_plain}'::text[]) x \gexec
SET search_path = stx;

-- What a statement does in a schema: rows that it returns, and then the rows of all tables. It is undone.
CREATE FUNCTION stx.outcome(place text, statement text, OUT result text, OUT contents text[]) LANGUAGE plpgsql AS $$
DECLARE
	row record;
	rows text[] := '{}';
	outer_path text := current_setting('search_path');
BEGIN
	PERFORM set_config('search_path', place, true);
	BEGIN
		IF statement ~* '^(select|execute)|returning' THEN
			FOR row IN EXECUTE statement LOOP
				rows := rows || row::text;
			END LOOP;
		ELSE
			EXECUTE statement;
		END IF;
		result := ARRAY(SELECT x FROM unnest(rows) x ORDER BY x COLLATE "C")::text;
		contents := ARRAY(SELECT x FROM (SELECT 't' || t::text FROM t UNION ALL SELECT 'u' || u::text FROM u
			UNION ALL SELECT 'log' || log::text FROM log UNION ALL SELECT 'big' || big::text FROM big) q(x) ORDER BY x COLLATE "C");
		RAISE EXCEPTION 'undone' USING ERRCODE = 'STX01';
	EXCEPTION
		WHEN SQLSTATE 'STX01' THEN NULL;
		WHEN others THEN result := SQLSTATE || ' ' || SQLERRM;
	END;
	PERFORM set_config('search_path', outer_path, true);
END $$;
CREATE FUNCTION stx.same(statements text[]) RETURNS TABLE (statement text, result text) LANGUAGE sql AS $$
	SELECT x.statement, CASE WHEN s IS NOT DISTINCT FROM p THEN 'as plain' || COALESCE(': ' || substring(s.result, '^(\w{5}) '), '')
		ELSE format('plain: %s, %s; sharded: %s, %s', p.result, ARRAY(SELECT unnest(p.contents) EXCEPT ALL SELECT unnest(s.contents)),
			s.result, ARRAY(SELECT unnest(s.contents) EXCEPT ALL SELECT unnest(p.contents))) END
	FROM unnest(statements) WITH ORDINALITY x(statement, i), outcome('stx', x.statement) s, outcome('stx_plain', x.statement) p ORDER BY x.i
$$;
CREATE FUNCTION stx.top_of_plan(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF) ' || statement INTO line;
	RETURN line;
END $$;

-- Multi-column assignments: with casts for all columns, some and none; pushed down or not; in any order of columns.
SELECT * FROM same(ARRAY[
	'UPDATE t SET (b) = (SELECT count(*) FROM u WHERE u.k = t.k) RETURNING *',
	'UPDATE t SET (n) = (SELECT count(*) FROM u WHERE u.k = t.k) RETURNING *',
	'UPDATE t SET (n) = (SELECT n FROM local WHERE local.k = t.k)',
	'UPDATE t SET (n) = (SELECT 7.777) WHERE k = 3 RETURNING *',
	'UPDATE t SET (n) = (SELECT max(c) FROM u WHERE u.k = t.k) WHERE k = 3 RETURNING *',
	'UPDATE t SET (n) = (SELECT max(c) FROM u WHERE u.k = 3) WHERE k = 3 RETURNING *',
	'UPDATE t SET (b, n) = (SELECT count(*) + 1.5, sum(v) FROM u WHERE u.k = t.k)',
	'UPDATE t SET (n, b) = (SELECT count(*) + 1.5, sum(v) FROM u WHERE u.k = t.k)',
	'UPDATE t SET (n, b) = (SELECT count(*) + 1.5, sum(v) FROM u WHERE u.k = 4) WHERE k = 4',
	'UPDATE t SET (b, n) = (SELECT count(*) + 1.5, sum(v) FROM u WHERE u.k = 4) WHERE k = 4',
	'UPDATE t SET (b, s) = (SELECT c, v FROM u WHERE u.k = t.k ORDER BY v LIMIT 1), n = k + 0.5',
	'UPDATE t SET (b, s) = (SELECT c, v FROM u WHERE u.k = t.k ORDER BY v LIMIT 1), n = k + 0.5 WHERE k = 5',
	'UPDATE t SET (b) = (SELECT max(c) FROM u WHERE u.k = t.k), (n, s) = (SELECT min(c), min(v) FROM u WHERE u.k = t.k)',
	'UPDATE t SET (n, s) = (SELECT min(c), min(v) FROM u WHERE u.k = t.k), (b) = (SELECT max(c) FROM u WHERE u.k = t.k)',
	'UPDATE t SET (n, s) = (SELECT min(c), min(v) FROM u WHERE u.k = 2), (b) = (SELECT max(c) FROM u WHERE u.k = 2) WHERE k = 2',
	'UPDATE t SET (b) = (SELECT max(c) FROM u WHERE u.k = 2), (n, s) = (SELECT min(c), min(v) FROM u WHERE u.k = 2) WHERE k = 2',
	'UPDATE t SET (m, b) = (SELECT x.m, x.b FROM t x WHERE x.k = t.k + 1)',
	'UPDATE t SET (a[1], b) = (SELECT v, c FROM u WHERE u.k = t.k ORDER BY v LIMIT 1)',
	'UPDATE t SET (a[1], b) = (SELECT v, c FROM u WHERE u.k = 6 ORDER BY v LIMIT 1) WHERE k = 6',
	'UPDATE t SET (b, n) = (SELECT v, v FROM r WHERE r.k = t.k) WHERE k < 7',
	'UPDATE t SET (b, n) = (SELECT DISTINCT count(*) OVER (), 1.005 FROM u WHERE u.k = t.k)',
	'UPDATE t SET (b, n) = (SELECT v, c FROM u WHERE u.k = t.k UNION SELECT 1, 2 WHERE false LIMIT 1) WHERE k = 11',
	'UPDATE t SET (b, n) = (SELECT v, c FROM u WHERE u.k = t.k)',
	'UPDATE t SET (b, n) = (1, 2.555)',
	'UPDATE t SET (b) = ROW(k + 1.5)',
	'UPDATE t SET (k) = (SELECT t.k + 100)',
	'UPDATE v SET (n, b) = (SELECT sum(v), count(*) FROM u WHERE u.k = v.k) RETURNING *',
	'UPDATE v SET (b) = (SELECT sum(c) FROM u WHERE u.k = v.k) WHERE k = 5 RETURNING *',
	'UPDATE checked SET (v) = (SELECT count(*) - 1 FROM t WHERE t.k = checked.k)',
	'WITH w AS (UPDATE t SET (b) = (SELECT max(c) FROM u WHERE u.k = t.k) RETURNING k, b) INSERT INTO log SELECT k, b FROM w RETURNING *',
	'WITH w AS (UPDATE t SET (b) = (SELECT max(c) FROM u WHERE u.k = 3) WHERE k = 3 RETURNING k, b) INSERT INTO log SELECT k, b FROM w RETURNING *']);
-- The sub-select is pushed down.
SELECT top_of_plan('UPDATE t SET (b) = (SELECT count(*) FROM u WHERE u.k = t.k)');
ALTER TABLE stx_plain.big ADD PRIMARY KEY (k);
ALTER TABLE big ADD PRIMARY KEY (k);
SELECT * FROM same(ARRAY[
	'INSERT INTO big VALUES (4, 1), (50, 2) ON CONFLICT (k) DO UPDATE SET (v) = (SELECT excluded.v + 2.5)',
	'INSERT INTO big VALUES (4, 1) ON CONFLICT (k) DO UPDATE SET (v) = (SELECT excluded.v + 2.5)',
	'INSERT INTO big VALUES (4, 1), (50, 2) ON CONFLICT (k) DO UPDATE SET (v) = (SELECT max(n) FROM local)',
	'INSERT INTO big SELECT i, i FROM generate_series(3, 5) i ON CONFLICT (k) DO UPDATE SET (v) = (SELECT count(*) FROM t) RETURNING *',
	'MERGE INTO big USING local ON big.k = local.k WHEN MATCHED THEN UPDATE SET (v) = (SELECT max(n) FROM local)',
	'MERGE INTO big USING local ON big.k = local.k WHEN MATCHED THEN UPDATE SET (v) = (SELECT local.n * 2)',
	'MERGE INTO big USING (SELECT 5) s(k) ON big.k = s.k AND big.k = 5 WHEN MATCHED THEN UPDATE SET (v) = (SELECT 2.5)',
	'MERGE INTO big USING local ON big.k = local.k WHEN MATCHED THEN UPDATE SET v = 1']);

-- Rules: INSERT with a condition, as one row, several rows, prepared, from a sub-select, with DO ALSO.
SELECT format('CREATE RULE bad AS ON INSERT TO %1$s.u WHERE new.v < 0 DO INSTEAD INSERT INTO %1$s.log VALUES (new.k, new.v);
	CREATE RULE nothing AS ON INSERT TO %1$s.t WHERE new.b IS NULL DO INSTEAD NOTHING;
	CREATE RULE also AS ON INSERT TO %1$s.t WHERE new.b > 50 DO ALSO INSERT INTO %1$s.log VALUES (new.k, new.b);
	CREATE RULE old AS ON UPDATE TO %1$s.u WHERE old.v > 20 DO INSTEAD INSERT INTO %1$s.log VALUES (old.k, new.v);
	CREATE RULE gone AS ON DELETE TO %1$s.u WHERE old.v > 20 DO INSTEAD NOTHING', x) FROM unnest('{stx,stx_plain}'::text[]) x \gexec
SELECT * FROM same(ARRAY[
	'INSERT INTO u VALUES (1, -1)', 'INSERT INTO u VALUES (1, 1)', 'INSERT INTO u (k) VALUES (1)',
	'INSERT INTO u VALUES (1, -1), (1, 1), (1, -2)', 'INSERT INTO u VALUES (1, -1), (2, 2), (3, -3)',
	'INSERT INTO u SELECT k, -b FROM t', 'INSERT INTO u SELECT k, b FROM t WHERE k = 3', 'INSERT INTO u SELECT 201, -5', 'INSERT INTO u SELECT 201, 5',
	'INSERT INTO u SELECT k, v - 10 FROM u', 'INSERT INTO u SELECT k, v - 10 FROM u WHERE k = 5',
	'INSERT INTO t (k) VALUES (9)', 'INSERT INTO t (k, b) VALUES (9, 9)', 'INSERT INTO t (k, b) VALUES (9, 99)', 'INSERT INTO t (k, b) VALUES (9, 99), (10, NULL), (9, 1)',
	'INSERT INTO t SELECT k, v * 10 FROM u', 'INSERT INTO t (k, b) SELECT k, NULL FROM u WHERE k = 3',
	'UPDATE u SET v = v + 1', 'UPDATE u SET v = v + 1 WHERE k = 5', 'DELETE FROM u', 'DELETE FROM u WHERE k = 5',
	'WITH w AS (INSERT INTO u VALUES (1, -1)) SELECT 1']);
PREPARE ins (int, int) AS INSERT INTO u VALUES ($1, $2);
BEGIN;
EXECUTE ins (1, -1);
EXECUTE ins (1, 1);
EXECUTE ins (1, -2);
SELECT * FROM log;
SELECT count(*) FROM u;
ROLLBACK;
SELECT format('DROP RULE bad ON %1$s.u; DROP RULE nothing ON %1$s.t; DROP RULE also ON %1$s.t; DROP RULE old ON %1$s.u; DROP RULE gone ON %1$s.u',
	x) FROM unnest('{stx,stx_plain}'::text[]) x \gexec

-- Merged columns of joins: core prints a name for the target's column that cannot be read again.
SELECT * FROM same(ARRAY[
	'UPDATE t SET b = u.k FROM u FULL JOIN t t2 USING (k) WHERE t2.k = t.k',
	'UPDATE t SET b = u.k FROM u FULL JOIN t t2 USING (k) WHERE t2.k = t.k AND t.k = 3',
	'DELETE FROM t USING u FULL JOIN t t2 USING (k) WHERE t2.k = t.k AND u.v > 3',
	'DELETE FROM t USING u NATURAL FULL JOIN t t2 WHERE t2.k = t.k AND t.k = 4 RETURNING t.*',
	'UPDATE t SET b = t2.b + 1 FROM u LEFT JOIN t t2 USING (k) WHERE u.k = t.k AND t.k = 4',
	'UPDATE t SET b = big.v FROM t t2 LEFT JOIN big USING (k) WHERE t2.k = t.k AND big.k = 5',
	'UPDATE t SET b = t2.b + 1 FROM u JOIN t t2 USING (k) WHERE u.k = t.k',
	'SELECT k, u.v, t2.b FROM u FULL JOIN t t2 USING (k) WHERE k = 3',
	'SELECT t.b, (SELECT max(u.k) FROM u FULL JOIN t t2 USING (k) WHERE k = t.k) FROM t WHERE t.k = 3',
	'SELECT k, count(*) FROM u FULL JOIN t USING (k) FULL JOIN t t3 USING (k) GROUP BY k',
	'INSERT INTO u SELECT k, max(u.v) FROM u FULL JOIN t USING (k) WHERE k = 3 GROUP BY k']);

-- INSERT of no column.
SELECT * FROM same(ARRAY[
	'INSERT INTO u DEFAULT VALUES', 'INSERT INTO u DEFAULT VALUES RETURNING *', 'INSERT INTO u VALUES (DEFAULT, DEFAULT)', 'INSERT INTO u VALUES (DEFAULT, DEFAULT), (DEFAULT, DEFAULT)',
	'INSERT INTO t DEFAULT VALUES RETURNING *', 'WITH w AS (INSERT INTO u DEFAULT VALUES RETURNING *) SELECT * FROM w']);
-- In a sharded schema a statement needs no key.
CREATE SCHEMA stx_home;
CREATE TABLE stx_home.u (k int PRIMARY KEY, v int);
CREATE TABLE stx_home.w (k int, v int);
SELECT shardfdw.shard_schema('stx_home');
INSERT INTO stx_home.w DEFAULT VALUES RETURNING *;
MERGE INTO stx_home.w USING (SELECT 1 AS i) s ON w.k = s.i WHEN NOT MATCHED THEN INSERT DEFAULT VALUES;
SELECT * FROM stx_home.w;

-- Functions with bodies in SQL, of which RETURN is one.
SELECT * FROM same(ARRAY['SELECT sum_of(3), sum_of(k) FROM t WHERE k = 4', 'SELECT sum_of(k) FROM r', 'SELECT * FROM all_of(3)',
	'SELECT k FROM u WHERE k = 3 ORDER BY v FETCH FIRST (1 + 1) ROWS WITH TIES', 'SELECT * FROM (SELECT k FROM u WHERE k = 3 ORDER BY k FETCH FIRST 1 ROWS WITH TIES) x']);

DROP SCHEMA stx, stx_plain, stx_home CASCADE;
