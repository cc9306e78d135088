-- Expressions of the result that nodes compute: the same values as on a plain table, and fewer bytes.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
SET client_min_messages = warning;
SET TimeZone = 'UTC';
\set f :dir '/pair.sql'
\i :f
\set ECHO all
SET client_min_messages = warning;
SET shardfdw.query_per_node = off;
CREATE SCHEMA plain;
CREATE SCHEMA sharded;
CREATE TYPE pair.mood AS ENUM ('sad', 'ok');
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS pair; CREATE TYPE pair.mood AS ENUM (''sad'', ''ok'')');
CREATE TABLE plain.t (k int PRIMARY KEY, i int, n numeric, f float8, s text, c char(4), d date, ts timestamptz, iv interval, j jsonb, a int[], m pair.mood, b bool);
CREATE TABLE plain.o (k int PRIMARY KEY, x int, s text);
CREATE TABLE sharded.t (LIKE plain.t INCLUDING ALL);
CREATE TABLE sharded.o (LIKE plain.o INCLUDING ALL);
SELECT shardfdw.shard_table('sharded.t', 'k', shards => 5);
SELECT shardfdw.shard_table('sharded.o', 'k', colocate_with => 'sharded.t');
INSERT INTO plain.t SELECT g, nullif(g % 7, 3), g / 7.0, g / 3.0, nullif(repeat('Text ', g % 4) || g, 'Text 5'), 'c' || g % 3, date '2024-01-31' + g, timestamptz '2024-03-31 00:30:00+00' + g * interval '7 hour',
	g * interval '1 mon -2 day 3 hour', jsonb_build_object('name', 'n' || g, 'list', jsonb_build_array(g, NULL, 'x')), ARRAY[g, NULL, -g], (ARRAY['sad', 'ok', NULL])[1 + g % 3]::pair.mood, nullif(g % 5, 0) > 2
FROM generate_series(1, 60) g;
INSERT INTO plain.t (k) VALUES (100);
INSERT INTO plain.o SELECT g * 2, g % 4, repeat('o', g % 9) FROM generate_series(1, 40) g;
INSERT INTO sharded.t SELECT * FROM plain.t;
INSERT INTO sharded.o SELECT * FROM plain.o;
ANALYZE plain.t, plain.o;
ANALYZE sharded.t;
ANALYZE sharded.o;

-- same: N rows, and the remote query's columns
CREATE FUNCTION pair.columns(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
		result := result || coalesce(' | ' || substring(line FROM 'Remote SQL: SELECT (.*?) FROM '), '');
	END LOOP;
	RETURN result;
END $$;
CREATE FUNCTION pair.same_result(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text := pair.attempt('plain', statement || ' /* returning */');
	b text := pair.attempt('sharded', statement || ' /* returning */');
BEGIN
	IF a <> b THEN
		RETURN 'DIFFERENT: ' || a || ' / ' || b;
	END IF;
	PERFORM set_config('search_path', 'sharded, pair, public', true);
	RETURN split_part(a, ':', 1) || pair.columns(statement);
END $$;
\pset format unaligned
\pset tuples_only on
-- one by one
CREATE TABLE pair.exprs (n serial, e text);
INSERT INTO pair.exprs (e) SELECT unnest(ARRAY['i + 1', '-n', 'n * f::numeric', 'f / 3', 'abs(i)', 'i::bigint * 3000000000', 'round(n, 2)', 'n::float4', 'f::text', 'sqrt(k)', 'i # 5', 'upper(s)', 's || c', 'length(c)', 'c || ''x''',
	'substring(s FROM 2 FOR 3)', 's LIKE ''T%''', 's ~ ''t+''', 's = c', 's < c', 's COLLATE "C" < c', 'position(''x'' IN s)', 'md5(s)', 'lower(s) COLLATE "C"', 'CASE WHEN i > 3 THEN s WHEN b THEN ''b'' ELSE c END', 'coalesce(i, k)', 'nullif(s, '''')',
	'i IS NULL', 'i IS DISTINCT FROM 2', 'greatest(i, k)', 'b AND i > 2', 'NOT b', 'd + 1', 'd - date ''2024-02-29''', 'ts + iv', 'date_trunc(''day'', ts)', 'date_trunc(''day'', ts, ''Asia/Tokyo'')', 'extract(hour FROM ts)',
	'ts AT TIME ZONE ''Asia/Tokyo''', 'iv * 2', 'age(ts, timestamptz ''2024-01-01'')', 'd::timestamp', 'd::timestamptz', 'd::text', 'to_char(ts, ''Day'')', 'j ->> ''name''', 'j -> ''list'' -> 0', 'j #>> ''{list,2}''', 'jsonb_array_length(j -> ''list'')',
	'a[1]', 'a || k', 'a[1:2]', 'array_length(a, 1)', 'k = ANY (a)', 'ARRAY[k, i]', 'm = ''ok''', 'm::text', 'ROW(k, s)', 'random() < 2', 'pg_typeof(k)::text', 'now() > ts', 's::varchar(3)', 'format(''%s-%s'', k, s)', 'concat(s, ts)', 'k::oid::regclass',
	't.tableoid = 0', 'ctid IS NULL', 'current_user = s', 'nextval(''pair.seq'') > 0', 'pair.own(k)', 'unnest(a)', 't::text', '(SELECT 1)', '(SELECT x FROM o WHERE o.k = t.k)']);
CREATE SEQUENCE pair.seq;
CREATE FUNCTION pair.own(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 * 2; END';
SELECT e, replace(pair.same_result(format('SELECT k, %s FROM t', e)), 'returned 61 | (k)::integer, ', '') FROM pair.exprs WHERE e NOT IN ('t::text', 'ROW(k, s)') ORDER BY n;
SELECT e, split_part(pair.same_result(format('SELECT k, %s FROM t', e)), '|', 1) FROM pair.exprs WHERE e IN ('t::text', 'ROW(k, s)') ORDER BY n;
SELECT pair.same_result($$SELECT k, s, j ->> 'name' FROM t WHERE i > 2 AND length(s) > 3$$);
SELECT pair.same_result($$SELECT t.k + o.x, t.s || o.s, o.x FROM t JOIN o USING (k)$$);
SELECT pair.same_result($$SELECT t.k, coalesce(o.x, -1), o.s || t.s, o.k IS NULL FROM t LEFT JOIN o ON o.k = t.k$$);
SELECT pair.same_result($$SELECT coalesce(t.k, o.k) + 1, t.i + o.x FROM t FULL JOIN o USING (k)$$);
SELECT pair.same_result($$SELECT i + 1 FROM t UNION ALL SELECT x * 2 FROM o$$);
SELECT pair.same_result($$SELECT q.l, q.k FROM (SELECT k, length(s) AS l FROM t OFFSET 0) q WHERE q.l > 4$$);
SELECT pair.same_result($$WITH w AS MATERIALIZED (SELECT k, upper(s) AS u FROM t) SELECT w.u, o.s FROM w JOIN o ON o.x = w.k$$);
SELECT pair.same_result($$SELECT x.k, (SELECT o.s || x.s FROM o WHERE o.k = x.k) FROM t x$$);
SELECT pair.same_result($$SELECT x.k, y.z FROM t x, LATERAL (SELECT o.x + x.i AS z FROM o WHERE o.k = x.k OFFSET 0) y$$);
SELECT pair.same_result($$SELECT k, now() > ts, ts > current_date - 20000, i + (SELECT count(*) FROM o) FROM t$$);
SELECT pair.same_result($$SELECT i / (k - 1) FROM t$$);
SELECT pair.same_result($$SELECT (k / (k - 1))::smallint + 32767::smallint FROM t WHERE k > 1$$);
-- not by nodes: what they may compute in another way, what is needed as it is, nothing to compute
SELECT pair.same_result($$SELECT k, random() < 2, i + (random() * 0)::int FROM t$$);
SELECT pair.same_result($$SELECT k, s::varchar, 1, 'x'::text, NULL::int FROM t$$);
SELECT pair.same_result($$SELECT k, unnest(a) + 1 FROM t$$);
SELECT pair.same_result($$SELECT k, i + 1, upper(s) FROM t ORDER BY k$$);
SELECT pair.same_result($$SELECT count(*) FROM (SELECT 1 / (k - 1) AS e FROM t OFFSET 0) q$$);
SELECT pair.same_result($$SELECT i + 1, count(*) * 2, max(s) || 'x' FROM t GROUP BY i$$);
SELECT split_part(pair.same_result($$SELECT upper(s) FROM t FOR UPDATE$$), '|', 1);
-- wide results of narrow columns
SELECT pair.same_result($$SELECT i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8 FROM t$$);
-- statements that have others compute for them
SELECT pair.same($$INSERT INTO t (k, s, i) SELECT k + 1000, upper(s), x + 1 FROM o$$);
SELECT pair.same($$UPDATE t SET s = q.u FROM (SELECT k, lower(s) || '!' AS u FROM o OFFSET 0) q WHERE q.k = t.k$$);
SELECT pair.same($$DELETE FROM t WHERE k IN (SELECT k + 1000 FROM o)$$);
SET search_path = sharded, pair;
PREPARE p(int, text) AS SELECT k + $1, s || $2 FROM t WHERE k < 5 ORDER BY t.k;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(10, 'x');
EXECUTE p(NULL, 'y');
RESET plan_cache_mode;
CREATE VIEW barrier WITH (security_barrier) AS SELECT k, upper(s) AS u FROM t WHERE k < 4;
SELECT u || '-' FROM barrier WHERE length(u) > 1 ORDER BY 1;
BEGIN;
DECLARE c CURSOR FOR SELECT k * 2, md5(s) FROM t;
SELECT count(*) FROM pair.columns('SELECT k * 2, md5(s) FROM t');
FETCH 0 FROM c;
MOVE ALL IN c;
UPDATE t SET s = 'changed' WHERE k = 1;
SELECT k, s || '.' FROM t WHERE k < 3 AND length(s) > 6 ORDER BY k;
ROLLBACK;
-- settings that the text of values follows
SET DateStyle = 'German, DMY';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = -5;
SELECT d + 1, ts + interval '1 day', iv * 2, f / 3 FROM t WHERE k < 3 ORDER BY t.k;
RESET DateStyle;
RESET IntervalStyle;
RESET extra_float_digits;
RESET search_path;
DROP SCHEMA plain, sharded, pair CASCADE;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA pair CASCADE');
