-- Groupings: which the nodes compute whole, which in part, which not at all; and that the results are right.
\set VERBOSITY terse
SET client_min_messages = warning;
SET shardfdw.enable_router = off;  -- statements on one shard are planned here, too
CREATE SCHEMA pgr;
SET search_path = pgr;

\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all


SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS pgr; CREATE TYPE pgr.mood AS ENUM (''sad'', ''happy'')') WHERE NOT ok;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE l (k bigint, g int, i2 int2, i4 int, i8 bigint, n numeric, f4 float4, f8 float8, iv interval, s text, ts timestamptz, m mood, b bool, a int[]);
INSERT INTO l SELECT i, i % 5, i % 7, i % 11, i * 10000000000, i * 1.25, i, i / 4.0, (i % 3) * interval '1 hour', 's' || i % 4,
	timestamptz '2024-01-01 UTC' + i * interval '5 hours', CASE WHEN i % 2 = 0 THEN 'sad' ELSE 'happy' END::mood, i % 2 = 0, ARRAY[i % 3]
FROM generate_series(1, 200) i;
INSERT INTO l (k, g) VALUES (201, NULL), (202, 9);
INSERT INTO l (k, g, n, f8) VALUES (203, 10, 'NaN', 'Infinity'), (204, 10, 1, 1);
CREATE TABLE t (LIKE l);
SELECT shardfdw.shard_table('t', 'k', 3);
INSERT INTO t SELECT * FROM l;

-- in part: transition states travel, Finalize Aggregate combines them
SELECT plan('SELECT g, count(*), count(i4), sum(i2), sum(i4), sum(i8), sum(n), sum(f4), sum(f8) FROM t GROUP BY g');
SELECT plan('SELECT g, avg(i2), avg(i4), avg(i8), avg(n), avg(f4), avg(f8) FROM t GROUP BY g');
SELECT plan('SELECT g, min(s), max(ts), bool_and(b), bool_or(b), every(b), bit_and(i4), bit_or(i8), bit_xor(i2), min(a) FROM t GROUP BY g');
SELECT plan('SELECT stddev(f8), var_pop(f4) FROM t');
SELECT plan('SELECT g, stddev(i8) FROM t GROUP BY g');
SELECT plan('SELECT count(*) FILTER (WHERE i4 > 3) FROM t HAVING sum(i8) > 0');
SELECT plan('SELECT g + 1, (g + 1) * 2, sum(i4) + 1 FROM t GROUP BY g + 1 HAVING max(i4) > 3');
SELECT plan('SELECT date_trunc(''month'', ts), m, count(*) FROM t GROUP BY 1, 2');
SELECT plan('SELECT g FROM t GROUP BY g');
SELECT plan('SELECT ''x''::text, 1, count(*) FROM t GROUP BY 1, 2');
SELECT plan('SELECT now(), count(*) FROM t GROUP BY 1');
SELECT plan('SELECT g, count(m) FROM t GROUP BY g');
-- without statistics grouping is taken to save much, whatever default estimates say
SELECT bool_or(line LIKE '%Foreign Scan%GROUP BY g, i2, i4') AS on_nodes
FROM plan('SELECT g, i2, i4, sum(n), avg(n), sum(n * i8), avg(n * 2), sum(n + 1), avg(n / 3) FROM t WHERE n > 3 GROUP BY g, i2, i4') line;

-- whole: by the key, or from one shard
SELECT plan('SELECT k, g, count(*), count(DISTINCT i4), string_agg(s, '','' ORDER BY s) FROM t GROUP BY g, k HAVING count(*) > 0');
SELECT plan('SELECT k, sum(i4) FROM t GROUP BY k HAVING sum(i4) > random() - 1');
SELECT plan('SELECT g, array_agg(i4) FROM t WHERE k = 5 GROUP BY g');
SELECT plan('SELECT stddev(i8) FROM t WHERE k = 5');

-- not at all: no partial state, evaluated here, a set twice, a condition that stays here
SELECT plan('SELECT g, json_agg(i4) FROM t GROUP BY g');
SELECT plan('SELECT g, mode() WITHIN GROUP (ORDER BY i4) FROM t GROUP BY g');
SELECT plan('SELECT max(m) FROM t');
SELECT plan('SELECT sum(i4) FROM t WHERE random() >= 0');
SELECT plan('SELECT sum(random()) > 0 FROM t');
SELECT plan('SELECT g, count(*) FROM t GROUP BY GROUPING SETS ((g), (g))');
SELECT plan('SELECT to_char(ts, ''YYYY''), count(*) FROM t GROUP BY 1');
SET shardfdw.enable_partial_aggregate = off;
SELECT plan('SELECT g, count(*) FROM t GROUP BY g');
RESET shardfdw.enable_partial_aggregate;

-- sorted when hashing is not wanted
SET enable_hashagg = off;
SELECT plan('SELECT g, count(*) FROM t GROUP BY g');
SELECT g, count(*), sum(i8), avg(n) FROM t GROUP BY g ORDER BY g;
RESET enable_hashagg;

-- the same results, the plain table's rows less the sharded table's and the other way round
CREATE FUNCTION pgr.same(query text) RETURNS TABLE (side text, "row" text) LANGUAGE plpgsql AS $$
DECLARE
	plain text := regexp_replace(query, '\mt\M', 'l', 'g');
BEGIN
	RETURN QUERY EXECUTE format('WITH p AS MATERIALIZED (SELECT x::text AS r FROM (%1$s) x), q AS MATERIALIZED (SELECT x::text AS r FROM (%2$s) x)
		(SELECT ''plain'', r FROM (TABLE p EXCEPT ALL TABLE q) a) UNION ALL (SELECT ''sharded'', r FROM (TABLE q EXCEPT ALL TABLE p) b) ORDER BY 1, 2', plain, query);
END $$;
SELECT * FROM same('SELECT g, count(*), count(i4), sum(i2), sum(i4), sum(i8), sum(n), sum(f4), sum(f8), sum(iv) FROM t GROUP BY g');
SELECT * FROM same('SELECT g, avg(i2), avg(i4), avg(i8), avg(n), avg(f4), avg(f8), avg(iv) FROM t GROUP BY g');
SELECT * FROM same('SELECT g, round(stddev(f8)::numeric, 6), round(var_samp(f4)::numeric, 4) FROM t WHERE g < 9 GROUP BY g');
SELECT * FROM same('SELECT g, min(s), max(ts), bool_and(b), bool_or(b), every(b), bit_and(i4), bit_or(i8), bit_xor(i2), min(a) FROM t GROUP BY g');
SELECT * FROM same('SELECT count(*), sum(i4), avg(n), min(s), avg(iv) FROM t WHERE k < 0');
SELECT * FROM same('SELECT 1 AS one, count(*) FROM t WHERE k < 0 GROUP BY 1');
SELECT * FROM same('SELECT current_date AS d, count(*) FROM t WHERE k < 0 GROUP BY 1');
SELECT * FROM same('SELECT current_date AS d, ''x''::text AS x, count(*) FROM t GROUP BY 1, 2');
SELECT * FROM same('SELECT date_trunc(''month'', ts) AS m, extract(day FROM ts) AS d, m AS e, count(*) FROM t GROUP BY 1, 2, 3');
SELECT * FROM same('SELECT CASE i4 WHEN 1 THEN ''a'' WHEN 2 THEN s ELSE ''z'' END AS c, count(*) FROM t GROUP BY 1');
SELECT * FROM same('SELECT g + 1 AS x, (g + 1) * 2 AS y, sum(i4) + 1 AS z FROM t GROUP BY g + 1 HAVING max(i4) > 3 AND sum(i8) / 2 > 5');
SELECT * FROM same('SELECT k, count(DISTINCT i4), string_agg(s, '','' ORDER BY s) FROM t GROUP BY k');
SELECT * FROM same('SELECT count(*) FILTER (WHERE i4 > 3), sum(i4) FILTER (WHERE false), avg(n) FILTER (WHERE g = 3) FROM t');
SELECT * FROM same('SELECT g, count(*) FROM t WHERE g = 3 GROUP BY g');
SELECT * FROM same('SELECT l2.g, x.c FROM (VALUES (1), (2)) l2 (g), LATERAL (SELECT count(*) AS c FROM t WHERE t.g = l2.g) x');
SELECT * FROM same('SELECT DISTINCT ON (c) c, g FROM (SELECT g, count(*) AS c FROM t GROUP BY g) x ORDER BY c, g');
SELECT * FROM same('SELECT sum(c) OVER (ORDER BY g), g FROM (SELECT g, count(*) AS c FROM t GROUP BY g) x');
SELECT * FROM same('SELECT g, sum(count(*)) OVER (ORDER BY g) FROM t GROUP BY g');
SET TimeZone = 'Asia/Tokyo';
SELECT * FROM same('SELECT date_trunc(''day'', ts) AS d, ts::date AS e, count(*) FROM t GROUP BY 1, 2');
RESET TimeZone;
PREPARE p(int, text) AS SELECT g + $1, CASE WHEN s = $2 THEN $2 ELSE '-' END COLLATE "C", $2, count(*) FROM t WHERE i4 > $1 GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT 4;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(2, 's1');
RESET plan_cache_mode;
SET search_path = public;
DROP SCHEMA pgr CASCADE;
