-- Aggregates of users: CREATE AGGREGATE with a combine function is all that it takes.
\set VERBOSITY terse
CREATE SCHEMA au;
SET search_path = au;
SET shardfdw.query_per_node = off;
CREATE TABLE p (id int, k int, v int, w float8, s text, a int[]);
INSERT INTO p SELECT g, g % 6, CASE WHEN g % 6 = 5 THEN NULL ELSE g % 31 END, CASE WHEN g % 7 = 0 THEN NULL ELSE g / 8.0 END, 's' || g % 4, ARRAY[g % 3, g % 5]
FROM generate_series(1, 500) g;
CREATE TABLE t (LIKE p);
SELECT shardfdw.shard_table('t', 'id', 5);
INSERT INTO t SELECT * FROM p;
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query
	LOOP
		IF line ~ 'Finalize|Remote SQL' THEN
			RETURN NEXT regexp_replace(regexp_replace(line, '^ *(->  )?', ''), ' ORDER BY .*', ' ORDER BY ...'); -- majors differ in what follows
		END IF;
	END LOOP;
END
$$;
CREATE FUNCTION same(query text) RETURNS TABLE (which text, line text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('WITH a AS MATERIALIZED (SELECT x::text FROM (%s) x), b AS MATERIALIZED (SELECT x::text FROM (%s) x) '
		'(SELECT ''sharded'', x FROM a EXCEPT ALL SELECT ''sharded'', x FROM b) UNION ALL (SELECT ''plain'', x FROM b EXCEPT ALL SELECT ''plain'', x FROM a)',
		query, regexp_replace(query, '\mt\M', 'p', 'g'));
END
$$;

-- of built-in functions: the state is the result, strict, and with an initial value
CREATE AGGREGATE isum(int) (SFUNC = int4pl, STYPE = int, COMBINEFUNC = int4pl, INITCOND = '0', PARALLEL = SAFE);
CREATE AGGREGATE imax(int) (SFUNC = int4larger, STYPE = int, COMBINEFUNC = int4larger);
-- of built-in functions with another initial value than core's: no algebra can serve it
CREATE AGGREGATE favg(float8) (SFUNC = float8_accum, STYPE = float8[], COMBINEFUNC = float8_combine, FINALFUNC = float8_avg, INITCOND = '{0,0,0}');
-- internal
CREATE AGGREGATE nsum(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, COMBINEFUNC = numeric_avg_combine, SERIALFUNC = numeric_avg_serialize,
	DESERIALFUNC = numeric_avg_deserialize, FINALFUNC = numeric_sum);
-- in SQL, not declared IMMUTABLE; in PL/pgSQL; with a body that is parsed when it is created; polymorphic
CREATE FUNCTION wadd(state float8[], v float8, w int) RETURNS float8[] LANGUAGE sql AS
	'SELECT CASE WHEN v IS NULL OR w IS NULL THEN state ELSE ARRAY[state[1] + v * w, state[2] + w] END';
CREATE FUNCTION wmerge(a float8[], b float8[]) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN ARRAY[a[1] + b[1], a[2] + b[2]];
END
$$;
CREATE FUNCTION wfinal(a float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE RETURN a[1] / nullif(a[2], 0);
CREATE AGGREGATE wavg(float8, int) (SFUNC = wadd, STYPE = float8[], INITCOND = '{0,0}', COMBINEFUNC = wmerge, FINALFUNC = wfinal);
CREATE AGGREGATE longest(anyarray) (SFUNC = array_larger, STYPE = anyarray, COMBINEFUNC = array_larger);
CREATE FUNCTION first_one(a anyelement, b anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE STRICT AS 'SELECT least($1, $2)';
CREATE AGGREGATE "Lowest ""one"""(anyelement) (SFUNC = first_one, STYPE = anyelement, COMBINEFUNC = first_one);

CREATE TABLE queries (q text);
INSERT INTO queries VALUES
	('SELECT isum(v), imax(v), favg(w), nsum(id), wavg(w, v) FROM t'),
	('SELECT k, isum(v), imax(v), favg(w), nsum(id), wavg(w, v) FROM t GROUP BY k'),
	('SELECT k, isum(v) FILTER (WHERE id % 2 = 0), wavg(w, v) FILTER (WHERE s = ''s1''), imax(v + k) FROM t GROUP BY k HAVING isum(id) > 0'),
	('SELECT isum(v), imax(v), favg(w), nsum(id), wavg(w, v) FROM t WHERE id < 0'),
	('SELECT longest(a), "Lowest ""one"""(s), "Lowest ""one"""(id) FROM t'),
	('SELECT id, isum(v), wavg(w, v), nsum(id) FROM t GROUP BY id'),
	('SELECT k, isum(DISTINCT v), wavg(w, v ORDER BY id) FROM t GROUP BY k');
SELECT plan(q) FROM queries;
SELECT s.* FROM queries, same(q) s;
-- the coordinator's right to execute it holds
REVOKE EXECUTE ON FUNCTION imax FROM PUBLIC;
SELECT plan('SELECT id, imax(v) FROM t GROUP BY id');

-- what it does changes: nodes do the same
SELECT wavg(w, v) = (SELECT wavg(w, v) FROM p) AS same, round(wavg(w, v)) AS wavg FROM t;
BEGIN;
CREATE OR REPLACE FUNCTION wadd(state float8[], v float8, w int) RETURNS float8[] LANGUAGE sql IMMUTABLE AS
	'SELECT CASE WHEN v IS NULL OR w IS NULL THEN state ELSE ARRAY[state[1] + 2 * v * w, state[2] + w] END';
SELECT wavg(w, v) = (SELECT wavg(w, v) FROM p) AS same, round(wavg(w, v)) AS wavg FROM t;
ROLLBACK;
SELECT wavg(w, v) = (SELECT wavg(w, v) FROM p) AS same, round(wavg(w, v)) AS wavg FROM t;
CREATE OR REPLACE AGGREGATE isum(int) (SFUNC = int4smaller, STYPE = int, COMBINEFUNC = int4smaller, INITCOND = '1000');
SELECT isum(v), isum(v + 2000) FROM t;
-- cached plans: nodes have another definition, or none any longer
SET plan_cache_mode = force_generic_plan;
PREPARE cached AS SELECT favg(w) > 30 AS favg FROM t;
PREPARE cached_key AS SELECT count(*), count(favg) FROM (SELECT id, favg(w) FROM t GROUP BY id) x;
EXECUTE cached;
EXECUTE cached_key;
SELECT shardfdw.undistribute_aggregate('favg(float8)');
SELECT count(*) FROM shardfdw.run_on_nodes('DROP AGGREGATE IF EXISTS au.shardfdw_partial_favg(float8), au.favg(float8)');
EXECUTE cached;
EXECUTE cached_key;
RESET plan_cache_mode;
ALTER AGGREGATE isum(int) RENAME TO isum1;
SELECT plan('SELECT isum1(v) FROM t');
-- what nodes might not do alike: gathered
CREATE FUNCTION helper(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE FUNCTION add_a(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + au.helper($2)';
CREATE AGGREGATE agg_a(int) (SFUNC = add_a, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl);
CREATE FUNCTION add_b(int, int) RETURNS int LANGUAGE sql AS 'SELECT $1 + $2 + (random() > 2)::int';
CREATE AGGREGATE agg_b(int) (SFUNC = add_b, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl);
CREATE FUNCTION add_c(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + $2 + (SELECT count(*) FROM au.p WHERE id < 0); END';
CREATE AGGREGATE agg_c(int) (SFUNC = add_c, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl);
CREATE FUNCTION add_d(int, int) RETURNS int LANGUAGE sql SECURITY DEFINER IMMUTABLE AS 'SELECT $1 + $2';
CREATE AGGREGATE agg_d(int) (SFUNC = add_d, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl);
CREATE TYPE pair AS (a int, b int);
CREATE FUNCTION add_e(pair, int) RETURNS pair LANGUAGE sql IMMUTABLE AS 'SELECT ROW(coalesce($1.a, 0) + $2, 0)::au.pair';
CREATE FUNCTION merge_e(pair, pair) RETURNS pair LANGUAGE sql IMMUTABLE AS 'SELECT ROW(coalesce($1.a, 0) + coalesce($2.a, 0), 0)::au.pair';
CREATE AGGREGATE agg_e(int) (SFUNC = add_e, STYPE = pair, COMBINEFUNC = merge_e);
-- no combine function: nothing to tell
CREATE AGGREGATE agg_f(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0');
SELECT plan('SELECT agg_a(v), agg_b(v), agg_c(v), agg_d(v), agg_e(v), agg_f(v) FROM t');
SELECT s.* FROM same('SELECT agg_a(v), agg_b(v), agg_c(v), agg_d(v), agg_e(v), agg_f(v) FROM t WHERE v > 0') s;
-- something else of that name is on a node
SELECT count(*) FROM shardfdw.query_nodes('{node2}', ARRAY['CREATE FUNCTION au.add_g(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS ''SELECT 0''']);
CREATE FUNCTION add_g(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE AGGREGATE agg_g(int) (SFUNC = add_g, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl);
SELECT plan('SELECT agg_g(v) FROM t');
SELECT agg_g(k) = (SELECT agg_g(k) FROM p) AS same FROM t;
SELECT count(*) FROM shardfdw.query_nodes('{node2}', ARRAY['DROP FUNCTION au.add_g']);
SELECT shardfdw.distribute_aggregate('agg_g(int)');
SELECT plan('SELECT agg_g(v) FROM t');

-- dropped: also on nodes, and what it has left
CREATE FUNCTION on_nodes(pattern text) RETURNS TABLE (name text, nodes bigint) LANGUAGE sql AS $$
	SELECT (q.fields)[1], count(*) FROM shardfdw.query_nodes('{node1,node2,node3,node4}',
		array_fill(format('SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = ''au''::regnamespace AND proname ~ %L', pattern), '{4}')) q
	WHERE q.fields IS NOT NULL GROUP BY 1 ORDER BY 1
$$;
SELECT * FROM on_nodes('wavg|wadd|wmerge|wfinal');
BEGIN;
DROP FUNCTION wmerge CASCADE;
SELECT * FROM on_nodes('wavg|wadd|wmerge|wfinal');
ROLLBACK;
SELECT * FROM on_nodes('wavg|wadd|wmerge|wfinal');
DROP AGGREGATE wavg(float8, int);
SELECT * FROM on_nodes('wavg|wadd|wmerge|wfinal');
SELECT count(*) FROM pg_proc WHERE proname = 'shardfdw_partial_wavg';
SELECT u.* FROM shardfdw_internal.user_aggregates() u JOIN pg_proc p ON p.oid = u.aggregate WHERE p.pronamespace = 'au'::regnamespace ORDER BY u.aggregate::text COLLATE "C";

SET client_min_messages = error;
DROP SCHEMA au CASCADE;

SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('DROP SCHEMA au CASCADE');
