-- Partial states of built-in aggregates: by partial aggregates, by algebra where nodes have none, or not at all.
\set VERBOSITY terse
SET client_min_messages = error;
CREATE SCHEMA pgt;
SET search_path = pgt;
SET shardfdw.query_per_node = off;
SET extra_float_digits = -3;
SET intervalstyle = postgres;
CREATE TABLE p (id int, k int, i2 smallint, i4 int, i8 bigint, n numeric, f4 real, f8 float8, iv interval);
INSERT INTO p
SELECT g, g % 9, g % 77 - 30, g * 7919 % 1000 - 500,
	CASE WHEN g % 9 = 8 THEN NULL ELSE (g * 7919 % 1000 - 500) * 9223372036854775::bigint END,
	CASE g % 9 WHEN 0 THEN round(g * 1.37, g % 5) WHEN 1 THEN -g * 1e30 WHEN 2 THEN g * 1e-20 WHEN 3 THEN 0.000
		WHEN 4 THEN CASE WHEN g % 7 = 0 THEN 'NaN'::numeric ELSE g END WHEN 5 THEN CASE WHEN g % 7 = 0 THEN 'Infinity'::numeric ELSE g END
		WHEN 6 THEN CASE WHEN g % 7 = 0 THEN '-Infinity'::numeric WHEN g % 11 = 0 THEN 'Infinity' ELSE g END
		WHEN 7 THEN CASE WHEN g % 2 = 0 THEN NULL ELSE 10000::numeric END END,
	g % 13 - 6.5, CASE WHEN g % 9 = 4 THEN NULL ELSE sqrt(g) END,
	CASE WHEN g % 5 > 0 THEN make_interval(months => g % 13 - 6, days => -g, secs => g * 1.1) END
FROM generate_series(1, 900) g;
INSERT INTO p VALUES (901, 10, NULL, NULL, 9223372036854775807, 1e1000, 'NaN', 'Infinity', NULL),
	(902, 10, 32767, 2147483647, 9223372036854775807, 1e-1000, NULL, 'Infinity', NULL), (903, 10, -32768, -2147483648, 9223372036854775807, NULL, 1, '-Infinity', NULL),
	(904, 11, NULL, NULL, -9223372036854775808, -0.0, '-0', NULL, NULL), (905, 11, NULL, NULL, -9223372036854775808, 0.00000, 0, NULL, NULL);
CREATE TABLE t (LIKE p);
SELECT shardfdw.shard_table('t', 'id', 5);
INSERT INTO t SELECT * FROM p;

CREATE FUNCTION plan(query text) RETURNS TABLE (plan text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query
	LOOP
		plan := substring(line from '^ *(?:->  )?((?:Finalize )?(?:Hash|Group)?Aggregate)');
		plan := coalesce(plan, substring(line from 'Remote SQL: (.*)'));
		IF plan IS NOT NULL THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END
$$;
-- rows of one that the other lacks, as text: equal numerics may print differently
CREATE FUNCTION same(query text) RETURNS TABLE (which text, line text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('WITH a AS MATERIALIZED (SELECT x::text FROM (%s) x), b AS MATERIALIZED (SELECT x::text FROM (%s) x) '
		'(SELECT ''sharded'', x FROM a EXCEPT ALL SELECT ''sharded'', x FROM b) UNION ALL (SELECT ''plain'', x FROM b EXCEPT ALL SELECT ''plain'', x FROM a)',
		query, regexp_replace(query, '\mt\M', 'p', 'g'));
END
$$;
CREATE TABLE queries (q text);
INSERT INTO queries VALUES
	('SELECT k, sum(i2), avg(i2), sum(i4), avg(i4), sum(i8), avg(i8), sum(n), avg(n), sum(iv), avg(iv) FROM t GROUP BY k'),
	('SELECT k, sum(i8), avg(i2), avg(i4), avg(n) FROM t GROUP BY k'),
	('SELECT k, avg(f4), avg(f8), stddev(f4), var_pop(f8) FROM t WHERE k < 9 GROUP BY k'),
	('SELECT avg(f8), sum(f4), stddev(f8) FROM t WHERE k = 10'),
	('SELECT k, stddev(i2), var_pop(i2), variance(i4), stddev_pop(i4), stddev_samp(i8), var_samp(i8), stddev(n), var_pop(n) FROM t GROUP BY k'),
	('SELECT sum(i8), avg(n), stddev(i8), variance(n), avg(f8), avg(iv) FROM t WHERE id < 0'),
	('SELECT k, avg(i8) FILTER (WHERE id % 2 = 0), sum(i8), stddev(i4) FILTER (WHERE i4 > 490) FROM t GROUP BY k HAVING avg(n) IS NOT NULL'),
	('SELECT stddev(i2), stddev(i4), stddev(i8), stddev(n) FROM t WHERE k = 11'),
	('SELECT k, corr(f8, i4), regr_slope(f8, i4), covar_pop(i2, f8), regr_count(f8, i4) FROM t WHERE k < 9 GROUP BY k');

SELECT plan(q) FROM queries WHERE q !~ 'avg\(iv\)';
SELECT s.* FROM queries, same(q) s;
-- nodes without partial aggregates of internal states
BEGIN;
ALTER SERVER node2 OPTIONS (ADD missing_partial_aggregates '{internal}');
SELECT plan(q) FROM queries WHERE q !~ 'avg\(iv\)';
SELECT s.* FROM queries, same(q) s;
-- without some partial aggregate, or all
ALTER SERVER node2 OPTIONS (SET missing_partial_aggregates '{shardfdw_internal.partial_int8_accum,shardfdw_internal.partial_float8_accum}');
SELECT plan('SELECT stddev(i8), stddev(n) FROM t');
SELECT plan('SELECT avg(f8), stddev(i4) FROM t');
ALTER SERVER node2 OPTIONS (DROP missing_partial_aggregates, SET partial_aggregates 'false');
SELECT plan('SELECT corr(f8, i4) FROM t');
SELECT plan(q) FROM queries WHERE q ~ 'stddev.i2';
SELECT s.* FROM queries, same(q) s;
ROLLBACK;
SELECT plan('SELECT stddev(i8) FROM t');
ALTER SERVER node2 OPTIONS (ADD missing_partial_aggregates '{a,NULL}');
ALTER SERVER node2 OPTIONS (ADD missing_partial_aggregates 'a');
ALTER SERVER node2 OPTIONS (SET partial_aggregates 'x');
-- a partial aggregate that is not what its name says is none
BEGIN;
CREATE OR REPLACE AGGREGATE shardfdw_internal.partial_float8_accum(float8) (SFUNC = float8_accum, STYPE = float8[], INITCOND = '{1,1,1}');
SELECT plan('SELECT stddev(f8) FROM t');
ROLLBACK;

SET client_min_messages = error;
DROP SCHEMA pgt CASCADE;
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('DROP SCHEMA pgt CASCADE');
