-- EXPLAIN says why nodes do not compute more of a statement.
SET client_min_messages = warning;
CREATE SCHEMA plan_reasons;
SET search_path = plan_reasons;
CREATE TABLE t (id int PRIMARY KEY, a int, b text, x xml);
CREATE TABLE u (id int PRIMARY KEY, a int);
CREATE TABLE d (a int PRIMARY KEY, x int);
CREATE TABLE r (a int PRIMARY KEY, x int);
CREATE TABLE l (a int, x int);
SELECT shardfdw.shard_table('t', 'id', shards => 8), shardfdw.shard_table('u', 'id', shards => 8), shardfdw.shard_table('d', 'a', shards => 3),
	shardfdw.create_reference_table('r') \g /dev/null
INSERT INTO t SELECT i, i % 10, 'x' || i FROM generate_series(1, 1000) i;
INSERT INTO u SELECT i, i % 10 FROM generate_series(1, 1000) i;
INSERT INTO d SELECT i, i % 10 FROM generate_series(1, 1000) i;
INSERT INTO r SELECT i, i FROM generate_series(0, 9) i;
INSERT INTO l SELECT i, i FROM generate_series(0, 9) i;
ANALYZE t, u, d, r, l;
CREATE AGGREGATE total(int) (sfunc = int4pl, stype = int, initcond = '0');
-- the relations of each scan that has a reason, and the reason
CREATE FUNCTION reasons(query text) RETURNS TABLE (scan text, reason text) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN QUERY SELECT coalesce(s.node ->> 'Relations', s.node ->> 'Relation Name'), s.node ->> 'Not Pushed Down'
		FROM jsonb_path_query(plan, 'strict $.**') s (node) WHERE s.node ? 'Not Pushed Down' AND jsonb_typeof(s.node) = 'object';
END$$;
\pset format unaligned
\pset tuples_only on

-- joins
SELECT * FROM reasons('SELECT * FROM t JOIN u USING (id)');
SELECT * FROM reasons('SELECT * FROM t JOIN u USING (a)');
SELECT * FROM reasons('SELECT * FROM t JOIN d USING (a)');
SELECT * FROM reasons('SELECT * FROM t JOIN r USING (a)');
SELECT * FROM reasons('SELECT * FROM t JOIN l USING (a)');
SELECT * FROM reasons('SELECT * FROM r LEFT JOIN t USING (a)');
SELECT * FROM reasons('SELECT * FROM r LEFT JOIN (SELECT * FROM t WHERE id = 3 OFFSET 0) t USING (a)');
SELECT * FROM reasons('SELECT * FROM t LEFT JOIN u ON t.id = u.id AND t.a > random()');
SELECT * FROM reasons('SELECT * FROM t JOIN u USING (id) WHERE t.a > random()');
SELECT * FROM reasons('SELECT * FROM t JOIN u USING (id) JOIN d ON d.a = t.a');
SELECT * FROM reasons('SELECT * FROM t JOIN u USING (id) JOIN l ON l.a = t.a');
SELECT * FROM reasons('SELECT * FROM t WHERE id IN (SELECT a FROM d)');
SELECT * FROM reasons('SELECT * FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.a = t.id)');
SELECT * FROM reasons('SELECT * FROM (SELECT a, count(*) FROM t GROUP BY a) s JOIN d USING (a)');
SELECT * FROM reasons('SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a LIMIT 1) s');
SELECT * FROM reasons('WITH x AS MATERIALIZED (SELECT * FROM t) SELECT * FROM x JOIN u USING (id)');
SELECT * FROM reasons('SELECT id, (SELECT max(x) FROM d WHERE d.a = t.a) FROM t');

-- groups, windows, DISTINCT
SELECT * FROM reasons('SELECT count(*), sum(a) FROM t');
SELECT * FROM reasons('SELECT a, count(*) FROM t GROUP BY a');
SELECT * FROM reasons('SELECT a, total(id) FROM t GROUP BY a');
SELECT * FROM reasons('SELECT id, total(a) FROM t GROUP BY id');
SELECT * FROM reasons('SELECT array_agg(a ORDER BY id) FROM t');
SELECT * FROM reasons('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t');
SELECT * FROM reasons('SELECT random() < a, count(*) FROM t GROUP BY 1');
SELECT * FROM reasons('SELECT sum(random()) FROM t');
SELECT * FROM reasons('SELECT count(*) FROM t WHERE a > random()');
SELECT * FROM reasons('SELECT a, sum(id) OVER (PARTITION BY a) FROM t');
SELECT * FROM reasons('SELECT a, sum(id) OVER (PARTITION BY id) FROM t');
SELECT * FROM reasons('SELECT DISTINCT a FROM t');
SELECT * FROM reasons('SELECT DISTINCT a FROM t WHERE a > random()');
SET shardfdw.enable_partial_aggregate = off;
SELECT * FROM reasons('SELECT count(*) FROM t');
RESET shardfdw.enable_partial_aggregate;

-- order and limit
SELECT * FROM reasons('SELECT * FROM t ORDER BY a LIMIT 5');
SELECT * FROM reasons('SELECT * FROM t ORDER BY b COLLATE "en-x-icu"');
SELECT * FROM reasons('SELECT * FROM t ORDER BY random()');
SELECT * FROM reasons('SELECT * FROM t WHERE a > random() LIMIT 5');
SELECT * FROM reasons('SELECT * FROM t WHERE a > random()');
SELECT * FROM reasons('SELECT generate_series(1, a) FROM t ORDER BY 1');
SELECT * FROM reasons('SELECT a FROM t UNION SELECT a FROM u');

-- statements that write
SELECT * FROM reasons('UPDATE t SET a = a + 1');
SELECT * FROM reasons('UPDATE t SET id = id + 1');
SELECT * FROM reasons('UPDATE t SET a = random()');
SELECT * FROM reasons('UPDATE t SET a = d.x FROM d WHERE d.a = t.a');
SELECT * FROM reasons('DELETE FROM t USING l WHERE l.a = t.id');
SELECT * FROM reasons('INSERT INTO u SELECT id, a FROM t');
SELECT * FROM reasons('INSERT INTO u SELECT a FROM t');
SELECT * FROM reasons('INSERT INTO d SELECT a, count(*) FROM t GROUP BY a');
SELECT * FROM reasons('INSERT INTO l SELECT a, id FROM t ORDER BY b COLLATE "en-x-icu"');
-- rows of a source
SELECT * FROM reasons('MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET a = u.a');
SELECT * FROM reasons('MERGE INTO t USING (SELECT id FROM u WHERE a > random() ORDER BY id) u ON t.id = u.id WHEN MATCHED THEN DELETE');
SELECT * FROM reasons('MERGE INTO t USING u ON t.id = u.id AND u.id = 3 AND t.id = 3 WHEN MATCHED THEN UPDATE SET a = u.a');
SELECT * FROM reasons('MERGE INTO t USING l ON t.id = l.a WHEN MATCHED THEN UPDATE SET a = l.x');
SELECT * FROM reasons('INSERT INTO u SELECT id, a FROM t ON CONFLICT (id) DO NOTHING');
SELECT * FROM reasons('INSERT INTO u SELECT a FROM t ON CONFLICT (id) DO NOTHING');
SELECT * FROM reasons('WITH w AS (INSERT INTO u SELECT a FROM t ON CONFLICT (id) DO NOTHING RETURNING id) SELECT count(*) FROM w');
SELECT * FROM reasons('WITH w AS (UPDATE t SET a = 1 WHERE a > random() RETURNING id) SELECT count(*) FROM w');

-- shards that are scanned one by one
SELECT * FROM reasons('SELECT tableoid, id FROM t');
SELECT * FROM reasons('SELECT tableoid::regclass, count(*) FROM t GROUP BY 1');
SELECT * FROM reasons('SELECT max(a) FROM t WHERE tableoid <> 5 AND id > 0');
SELECT * FROM reasons('SELECT t.ctid, u.id FROM t JOIN u USING (id)');
SELECT * FROM reasons('SELECT count(*) FROM t TABLESAMPLE system (10)');
SELECT * FROM reasons('SELECT * FROM t TABLESAMPLE system (10) JOIN u USING (id)');
SELECT * FROM reasons('SELECT * FROM t JOIN l USING (a) FOR UPDATE');
SELECT * FROM reasons('SELECT * FROM t JOIN l USING (a) FOR UPDATE OF l');
SELECT * FROM reasons('SELECT * FROM t JOIN u USING (id) FOR SHARE');
SELECT * FROM reasons('SELECT * FROM t FOR UPDATE');
SELECT * FROM reasons('UPDATE l SET x = t.id FROM t WHERE t.a = l.a');
CREATE ROLE regress_plan_reasons;
GRANT USAGE ON SCHEMA plan_reasons TO regress_plan_reasons;
GRANT SELECT ON u TO regress_plan_reasons;
ALTER TABLE u ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON u USING (a > 2);
SET ROLE regress_plan_reasons;
SELECT * FROM reasons('SELECT a, count(*) FROM u GROUP BY a');
RESET ROLE;
ALTER TABLE u DISABLE ROW LEVEL SECURITY;

-- in a plan that is kept, below a function, and where the nodes could compute it, but do not for its costs
SET plan_cache_mode = force_generic_plan;
PREPARE p(int) AS SELECT * FROM t JOIN u USING (a) WHERE t.a = $1;
SELECT * FROM reasons('EXECUTE p(1)');
SELECT * FROM reasons('EXECUTE p(2)');
UPDATE pg_class SET reltuples = 1e9 WHERE oid = 'plan_reasons.t'::regclass;
SELECT * FROM reasons('SELECT * FROM t JOIN r ON true');

-- formats
CREATE FUNCTION lines(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	FOR plan IN EXECUTE query LOOP
		RETURN QUERY SELECT line FROM regexp_split_to_table(plan, '\n') line WHERE line ~ 'Pushed.Down';
	END LOOP;
END$$;
SELECT lines('EXPLAIN SELECT total(a) FROM d');
SELECT lines('EXPLAIN (FORMAT json) SELECT total(a) FROM d');
SELECT lines('EXPLAIN (FORMAT yaml) SELECT total(a) FROM d');
SELECT lines('EXPLAIN (FORMAT xml) SELECT total(a) FROM d');
DROP SCHEMA plan_reasons CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS plan_reasons CASCADE') r WHERE r.ok;
DROP ROLE regress_plan_reasons;
