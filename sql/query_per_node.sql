-- One query per node over all of its shards: what it says, when it is chosen, and that it gives the rows of plain tables.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA qn;
CREATE SCHEMA qn_plain;
SET search_path = qn;
\pset format unaligned
\pset tuples_only on
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all
-- A query's rows with shardfdw.query_per_node on and off, against those of the plain tables.
CREATE FUNCTION rows_of(schema text, query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	result text[];
BEGIN
	PERFORM set_config('search_path', schema || ', qn', true);
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', query) INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN ARRAY[sqlstate];
END $$;
CREATE FUNCTION sorted(text[]) RETURNS text[] LANGUAGE sql AS $$ SELECT array_agg(x ORDER BY x COLLATE "C") FROM unnest($1) x $$;
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plain text[] := rows_of('qn_plain', query);
	found text[];
	mode text;
BEGIN
	FOREACH mode IN ARRAY '{on,off,auto}'::text[] LOOP
		PERFORM set_config('shardfdw.query_per_node', mode, true);
		found := rows_of('qn', query);
		IF query !~ 'ORDER BY [^()]*$' THEN
			plain := sorted(plain);
			found := sorted(found);
		END IF;
		IF found IS DISTINCT FROM plain THEN
			RETURN format('%s: DIFFERENT: %s / %s', mode, plain, found);
		END IF;
	END LOOP;
	RETURN 'same: ' || coalesce(cardinality(plain), 0);
END $$;

CREATE TABLE qn_plain.t (id int PRIMARY KEY, k int, v text, n numeric, a int[], at timestamptz);
CREATE TABLE qn_plain.u (id int, line int, x int, PRIMARY KEY (id, line));
CREATE TABLE qn_plain.r (k int PRIMARY KEY, name text, region int);
INSERT INTO qn_plain.t SELECT i, nullif(i % 7, 3), 'v' || i % 20, i / 4.0, ARRAY[i, i % 3], timestamptz '2024-01-01 UTC' + i * interval '1 hour' FROM generate_series(1, 300) i;
INSERT INTO qn_plain.u SELECT i % 320, i, i % 11 FROM generate_series(1, 700) i;
INSERT INTO qn_plain.r SELECT i, 'name' || i % 5, i % 3 FROM generate_series(0, 9) i;
CREATE TABLE t (LIKE qn_plain.t INCLUDING ALL);
CREATE TABLE u (LIKE qn_plain.u INCLUDING ALL);
CREATE TABLE r (LIKE qn_plain.r INCLUDING ALL);
SELECT shardfdw.shard_table('t', 'id', 8);
SELECT shardfdw.shard_table('u', 'id', colocate_with => 't');
SELECT shardfdw.create_reference_table('r');
INSERT INTO t SELECT * FROM qn_plain.t;
INSERT INTO u SELECT * FROM qn_plain.u;
INSERT INTO r SELECT * FROM qn_plain.r;
ANALYZE t, u, r, qn_plain.t, qn_plain.u, qn_plain.r;

-- What is sent: colocated joins and their conditions are below the union, the rest is above it, once; so are conditions of a single table.
SET shardfdw.query_per_node = on;
SELECT plan('SELECT id, v FROM t WHERE id BETWEEN 10 AND 40 AND n > 3');
SELECT plan('SELECT t.id, u.x, r.name FROM t JOIN u USING (id) LEFT JOIN r ON r.k = t.k AND r.region > u.x WHERE u.line > 5');
SELECT plan('SELECT r.name, count(*), sum(n) FROM t JOIN r ON r.k <= t.k WHERE r.region = 1 GROUP BY r.name');
SELECT plan('SELECT id, k FROM t WHERE EXISTS (SELECT FROM r WHERE r.k = t.k AND r.region = 2) ORDER BY k DESC, id LIMIT 3');
SELECT plan('SELECT count(*) FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.id = t.id) AND NOT EXISTS (SELECT FROM r WHERE r.k = t.k)');
SELECT plan('SELECT 1 FROM t, r');
RESET shardfdw.query_per_node;

-- When it is chosen: what an index serves, small tables and many groups; not what may read much, nor a single shard a node.
CREATE TABLE big (id int PRIMARY KEY, c int, d int);
SELECT shardfdw.shard_table('big', 'id', 16);
INSERT INTO big SELECT i, i % 1000, i FROM generate_series(1, 40000) i;
CREATE INDEX ON big (d);
ANALYZE big;
CREATE FUNCTION chosen(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN CASE WHEN plan ~ '"Query Per Node": true' THEN 'node' ELSE 'shard' END || ': ' || query;
END $$;
SELECT cores FROM shardfdw.nodes LIMIT 1 \gset
SELECT format('ALTER SERVER %I OPTIONS (SET cores ''16'')', node) FROM shardfdw.nodes ORDER BY node \gexec
SET cpu_tuple_cost = 1; -- as if there were a hundred times as many rows
SELECT chosen(q) FROM (VALUES ('SELECT * FROM big WHERE id BETWEEN 100 AND 200'), ('SELECT count(*) FROM big WHERE d < 50'), ('SELECT * FROM big WHERE d IN (7, 8, 9)'),
	('SELECT * FROM big ORDER BY c LIMIT 5'), ('SELECT * FROM big WHERE c = 7'), ('SELECT * FROM big'), ('SELECT sum(c) FROM big'), ('SELECT id, k FROM t'),
	('SELECT c, count(*) FROM big GROUP BY c'), ('SELECT d % 5000, count(*) FROM big GROUP BY d % 5000'), ('SELECT * FROM big WHERE id = 4')) q(q);

RESET cpu_tuple_cost;
SELECT format('ALTER SERVER %I OPTIONS (SET cores %L)', node, :'cores') FROM shardfdw.nodes ORDER BY node \gexec

-- Parameters that are known when execution starts leave a node those shards that it still has to read.
SET plan_cache_mode = force_generic_plan;
SET shardfdw.query_per_node = on;
PREPARE these(int[]) AS SELECT id, k FROM t WHERE id = ANY ($1) ORDER BY id;
PREPARE of_region(int, int) AS SELECT r.name, count(*) FROM t JOIN r USING (k) WHERE r.region = $1 AND t.id < $2 GROUP BY r.name ORDER BY r.name;
EXECUTE these('{1,2,3,4,5,6,7,8,9}');
EXECUTE these('{17}');
EXECUTE these('{}');
EXECUTE of_region(1, 100);
EXECUTE of_region(2, 0);
RESET plan_cache_mode;

-- Inner sides that are asked again and again, with other parameters; cursors that go back; own writes; one snapshot for the transaction.
SELECT sum(c) FROM generate_series(1, 5) g, LATERAL (SELECT count(*) AS c FROM t WHERE t.n > g * 10 OFFSET 0) x;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE id < 9 ORDER BY id;
FETCH 3 FROM c;
UPDATE t SET v = 'own' WHERE id < 9;
SELECT count(*) FROM t WHERE v = 'own';
FETCH BACKWARD 2 FROM c;
FETCH ALL FROM c;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
SAVEPOINT a;
UPDATE t SET v = 'own' WHERE id < 9;
SELECT count(*) FROM t WHERE v = 'own';
ROLLBACK TO a;
SELECT count(*) FROM t WHERE v = 'own';
COMMIT;
COPY (SELECT id, k FROM t WHERE id < 4 ORDER BY id) TO STDOUT;
-- A node is asked in one statement over one connection.
CREATE FUNCTION connections(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN substring(plan FROM '"Connections": \d+') || ' of ' || (SELECT count(*) FROM shardfdw.nodes) || ' nodes';
END $$;
SELECT connections('SELECT id, v FROM t WHERE n > 3');
RESET shardfdw.query_per_node;

SELECT same(q) || ' ' || q FROM (VALUES
	('SELECT * FROM t'), ('SELECT t FROM t WHERE k > 2'), ('SELECT count(*) FROM t'), ('SELECT count(*), min(id), max(v) FROM t WHERE id < 0'), ('SELECT k, count(*), sum(n), avg(n) FROM t GROUP BY k'),
	('SELECT k FROM t GROUP BY k HAVING count(*) > 40'), ('SELECT DISTINCT k, v FROM t'), ('SELECT count(DISTINCT v) FROM t'), ('SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, id DESC'),
	('SELECT id, v FROM t ORDER BY v COLLATE "C" DESC, id LIMIT 7 OFFSET 3'), ('SELECT k, n FROM t ORDER BY k NULLS FIRST, n DESC'), ('SELECT id, row_number() OVER (PARTITION BY id ORDER BY n) FROM t'),
	('SELECT k, array_agg(id ORDER BY id DESC) FROM t GROUP BY k'), ('SELECT k, count(*) FILTER (WHERE v = ''v1''), string_agg(v, '','' ORDER BY id) FROM t GROUP BY k'),
	('SELECT k, v, count(*) FROM t GROUP BY GROUPING SETS ((k), (v), ())'), ('SELECT a[1] + id, upper(v), at::date FROM t WHERE a[2] = 1'),
	('SELECT t.id, u.x FROM t JOIN u USING (id)'), ('SELECT t.id, u.x FROM t LEFT JOIN u ON u.id = t.id AND u.x > 5'), ('SELECT t.id, u.line FROM t FULL JOIN u ON u.id = t.id'),
	('SELECT t.id, s.line FROM (SELECT * FROM t WHERE k = 1) t FULL JOIN (SELECT * FROM u WHERE x = 3) s ON s.id = t.id'),
	('SELECT t.id, s.c FROM t JOIN (SELECT id, count(*) AS c FROM u GROUP BY id) s USING (id) WHERE s.c > 2'), ('SELECT t.id, r.name FROM t JOIN r USING (k)'),
	('SELECT t.id, r.name FROM r LEFT JOIN t USING (k)'), ('SELECT t.id, r.name FROM t LEFT JOIN r ON r.k = t.k AND r.region = t.k % 3'), ('SELECT r.name, r2.name, count(*) FROM t JOIN r USING (k) JOIN r r2 ON r2.region = r.region GROUP BY r.name, r2.name'),
	('SELECT t.id, u.x, r.name FROM t JOIN u USING (id) JOIN r ON r.k = u.x'), ('SELECT t.id FROM t JOIN r ON r.k = t.k JOIN u ON u.id = t.id WHERE r.region = 1 AND u.x = 2'),
	('SELECT id FROM t WHERE EXISTS (SELECT FROM u WHERE u.id = t.id AND u.x = 4)'), ('SELECT id FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.id = t.id)'), ('SELECT id FROM t WHERE k IN (SELECT k FROM r WHERE region = 2)'),
	('SELECT id FROM t WHERE k NOT IN (SELECT k FROM r WHERE region = 2)'), ('SELECT id FROM t WHERE NOT EXISTS (SELECT FROM r WHERE r.k = t.k AND r.region < t.id)'), ('SELECT r.k FROM r WHERE EXISTS (SELECT FROM t WHERE t.k = r.k)'),
	('SELECT id, (SELECT name FROM r WHERE r.k = t.k) FROM t'), ('SELECT id, (SELECT count(*) FROM u WHERE u.id = t.id) FROM t'), ('SELECT x.id FROM t x JOIN t y ON x.id = y.id JOIN t z ON z.id = y.id WHERE z.k = 2'),
	('SELECT x.id, y.id FROM t x JOIN t y ON x.k = y.k WHERE x.id < 5 AND y.id < 20'), ('SELECT 1 FROM t JOIN u USING (id) JOIN r ON true WHERE t.id < 3'), ('SELECT id FROM t WHERE id = ANY (ARRAY[3, 30, 300, NULL])'),
	('SELECT NULL::int, ''x'', now() IS NULL FROM t'), ('SELECT FROM t WHERE id < 7'), ('SELECT k, sum(x) FROM (SELECT k, id AS x FROM t UNION ALL SELECT x, line FROM u) s GROUP BY k'),
	('WITH w AS MATERIALIZED (SELECT k, count(*) AS c FROM t GROUP BY k) SELECT w.c, t.id FROM w JOIN t USING (k) WHERE t.id < 10'), ('SELECT 1 / (id - 7) FROM t'), ('SELECT id FROM t WHERE 1 / (id - 7) > 0')) q(q);

-- Whole rows of sub-selects that nodes could compute.
SELECT same(q) || ' ' || q FROM (VALUES
	('SELECT s FROM (SELECT id, rank() OVER (PARTITION BY id) FROM t) s ORDER BY 1 LIMIT 2'), ('SELECT count(s) FROM (SELECT DISTINCT id, k FROM t) s'), ('SELECT s::text FROM (SELECT id, count(*) FROM t GROUP BY id) s'),
	('SELECT row_to_json(s) FROM (SELECT id, rank() OVER (PARTITION BY id ORDER BY k) r FROM t) s WHERE r = 1'), ('SELECT s.id FROM (SELECT DISTINCT id, k FROM t) s WHERE s IS NOT NULL')) q(q);

-- A table that was made by hand with another type on one node.
CREATE TABLE hand (id int, v text) PARTITION BY LIST (id);
SELECT ok FROM shardfdw.run_on_nodes('CREATE TABLE qn.hand_1 (id int, v text); CREATE TABLE qn.hand_2 (id bigint, v varchar(20))') GROUP BY ok;
CREATE FOREIGN TABLE hand_1 PARTITION OF hand FOR VALUES IN (1) SERVER node1;
CREATE FOREIGN TABLE hand_2 PARTITION OF hand FOR VALUES IN (2) SERVER node1;
INSERT INTO hand VALUES (1, 'a'), (2, 'b');
SET shardfdw.query_per_node = on;
SELECT id, v FROM hand ORDER BY id;
SELECT id + 1, count(*) FROM hand GROUP BY id + 1 ORDER BY 1;
RESET shardfdw.query_per_node;

SELECT shardfdw.unshard_table('r');
DROP SCHEMA qn, qn_plain CASCADE;
SELECT count(*) FILTER (WHERE ok) > 0 FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS qn CASCADE');
