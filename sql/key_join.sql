-- Joins that send the keys of one side along: their plans, and that they find what a plain table's joins find.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA kj;
SET search_path = kj;

CREATE TABLE l (id int NOT NULL, a int, b bigint, t text, n numeric, d date, f float8, v varchar(20), c text COLLATE "C");
INSERT INTO l SELECT i, i % 50, i % 7, 'k' || i % 40, i % 30, date '2024-01-01' + i % 60, i / 4.0, 'v' || i % 20, chr(97 + i % 26)
FROM generate_series(1, 3000) i;
INSERT INTO l (id, a) VALUES (3001, NULL), (3002, 1), (3003, 7), (3004, NULL);
CREATE TABLE s (LIKE l);
SELECT shardfdw.shard_table('s', 'id', 4);
INSERT INTO s SELECT * FROM l;
CREATE TABLE l2 (id int NOT NULL, x int, w int);
INSERT INTO l2 SELECT i % 500 + 1, i, i % 11 FROM generate_series(1, 1500) i;
CREATE TABLE s2 (LIKE l2);
SELECT shardfdw.shard_table('s2', 'id', colocate_with => 's');
INSERT INTO s2 SELECT * FROM l2;
-- The batch side: duplicates, NULLs, values that the other side lacks.
CREATE TABLE o (k int, a int, b bigint, t text, n numeric, d date, f float8, v varchar(20), c text COLLATE "C", sm smallint);
INSERT INTO o SELECT i * 3 % 20, i * 7 % 60, i % 7, 'k' || i * 5 % 60, i % 5 + 0.00, date '2024-01-20' + i, i / 2.0, 'v' || i, chr(97 + i % 30), i % 9
FROM generate_series(1, 25) i;
INSERT INTO o (k, t) VALUES (NULL, 'k1'), (5, NULL), (NULL, NULL), (-1, 'none');
ANALYZE l, s, l2, s2, o;

-- Lines of a plan, one for each node. Says nothing that differs from major to major.
CREATE FUNCTION kj.walk(plan json, depth int, OUT line text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	child json;
BEGIN
	line := repeat('  ', depth) || COALESCE(plan ->> 'Custom Plan Provider', plan ->> 'Node Type') ||
		COALESCE(' (' || NULLIF(plan ->> 'Partial Mode', 'Simple') || ')', '') ||
		CASE WHEN plan ->> 'Custom Plan Provider' IS NOT NULL
			THEN ' ' || (plan ->> 'Join Type') ELSE '' END ||
		COALESCE(' filter ' || (plan ->> 'Filter'), '') ||
		COALESCE(': ' || (plan ->> 'Remote SQL'), '');
	RETURN NEXT;
	FOR child IN SELECT * FROM json_array_elements(COALESCE(plan -> 'Plans', '[]')) LOOP
		RETURN QUERY SELECT * FROM kj.walk(child, depth + 1);
	END LOOP;
END $$;
CREATE FUNCTION kj.plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY SELECT * FROM kj.walk(plan -> 0 -> 'Plan', 0);
END $$;
-- Runs a query over s, s2 (as written) and the plain l, l2: the number of key joins, of rows, of differences.
CREATE FUNCTION kj.compare(query text, OUT key_joins int, OUT nrows bigint, OUT differences bigint) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	plain text := regexp_replace(query, '\ms([23]?) (\w+)', 'l\1 \2', 'g');
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	key_joins := (length(plan::text) - length(replace(plan::text, 'ShardKeyJoin', ''))) / length('ShardKeyJoin');
	EXECUTE format('CREATE TEMP TABLE r1 AS SELECT q::text AS r FROM (%s) q', query);
	EXECUTE format('CREATE TEMP TABLE r2 AS SELECT q::text AS r FROM (%s) q', plain);
	SELECT count(*) FROM r1 INTO nrows;
	SELECT count(*) FROM ((TABLE r1 EXCEPT ALL TABLE r2) UNION ALL (TABLE r2 EXCEPT ALL TABLE r1)) d INTO differences;
	DROP TABLE r1, r2;
END $$;

-- plans
SELECT plan('SELECT o.t, i.id FROM o JOIN s i ON i.id = o.k');
SELECT plan('SELECT o.t, i.id FROM o LEFT JOIN s i ON i.a = o.k AND i.b > o.b');
SELECT plan('SELECT o.t FROM o WHERE EXISTS (SELECT 1 FROM s i WHERE i.id = o.k)');
SELECT plan('SELECT o.t FROM o WHERE NOT EXISTS (SELECT 1 FROM s i WHERE i.id = o.k)');
SELECT plan('SELECT i.id, i.t FROM s i WHERE i.id IN (SELECT k FROM o GROUP BY k HAVING count(*) > 1)');
SELECT plan('SELECT o.k, q.* FROM o JOIN (SELECT a, count(*), sum(n) FROM s i GROUP BY a) q ON q.a = o.k');
SELECT plan('SELECT o.k, i.id, j.x FROM o JOIN s i ON i.id = o.k JOIN s2 j ON j.id = i.id');
SELECT plan('SELECT o.k, i.id, j.x FROM o, s i, s2 j WHERE j.id = i.id AND i.a = o.k AND j.w = 3 AND o.d < ''2024-01-25''');
-- integers of another width go as those of the inner side: a node hashes an array only if it has the column's type
SELECT plan('SELECT o.t, i.id FROM o JOIN s i ON i.id = o.b');
-- not through what cuts or numbers rows
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM plan('SELECT * FROM o JOIN (SELECT a, id FROM s i ORDER BY id LIMIT 10) q ON q.a = o.k') line WHERE line LIKE '%ShardKeyJoin%';
SELECT count(*) FROM plan('SELECT * FROM o JOIN (SELECT a, row_number() OVER (ORDER BY id) FROM s i) q ON q.a = o.k') line WHERE line LIKE '%ShardKeyJoin%';
SELECT count(*) FROM plan('SELECT * FROM o JOIN (SELECT DISTINCT ON (b) b, a FROM s i ORDER BY b, id) q ON q.a = o.k') line WHERE line LIKE '%ShardKeyJoin%';
SELECT count(*) FROM plan('SELECT * FROM o JOIN (SELECT a, count(*) AS c FROM s i GROUP BY a) q ON q.c = o.b') line WHERE line LIKE '%ShardKeyJoin%';
SELECT nrows, differences FROM compare('SELECT o.k, q.* FROM o LEFT JOIN (SELECT a, b, count(*) AS c FROM s i GROUP BY GROUPING SETS ((a), (a, b), (b), ())) q ON q.a = o.k');
-- neither where the level locks rows, nor when it is off
SELECT count(*) FROM plan('SELECT * FROM o JOIN s i ON i.id = o.k FOR UPDATE OF o') line WHERE line LIKE '%ShardKeyJoin%';
SET shardfdw.enable_key_join = off;
SELECT count(*) FROM plan('SELECT * FROM o JOIN s i ON i.id = o.k') line WHERE line LIKE '%ShardKeyJoin%';
RESET shardfdw.enable_key_join;

-- results
SELECT q, r.* FROM unnest(ARRAY[
	'SELECT o.*, i.* FROM o JOIN s i ON i.id = o.k',
	'SELECT o.*, i.* FROM o JOIN s i ON i.a = o.k',
	'SELECT o.*, i.* FROM o LEFT JOIN s i ON i.a = o.k',
	'SELECT o.*, i.* FROM o LEFT JOIN s i ON i.a = o.k AND i.n > o.n',
	'SELECT o.*, i.* FROM o LEFT JOIN s i ON i.a = o.k AND i.id < 10 WHERE i.id IS NULL OR i.b = o.b',
	'SELECT o.*, i.id IS NULL AS missing FROM o LEFT JOIN s i ON i.a = o.k WHERE COALESCE(i.b, -1) < 3',
	'SELECT o.* FROM o WHERE EXISTS (SELECT 1 FROM s i WHERE i.a = o.a)',
	'SELECT o.* FROM o WHERE EXISTS (SELECT 1 FROM s i WHERE i.a = o.a AND i.f > o.f * 100)',
	'SELECT o.* FROM o WHERE NOT EXISTS (SELECT 1 FROM s i WHERE i.a = o.a)',
	'SELECT o.* FROM o WHERE NOT EXISTS (SELECT 1 FROM s i WHERE i.a = o.a AND i.f > o.f * 200)',
	'SELECT o.* FROM o LEFT JOIN s i ON i.a = o.a WHERE i.id IS NULL',
	'SELECT o.* FROM o WHERE o.a NOT IN (SELECT a FROM s i WHERE a IS NOT NULL)',
	'SELECT i.* FROM s i WHERE i.a IN (SELECT k FROM o)',
	'SELECT i.* FROM s i WHERE i.a IN (SELECT k FROM o GROUP BY k HAVING count(*) > 1)',
	'SELECT i.* FROM s i, o WHERE i.t = o.t AND i.b = o.b',
	'SELECT o.k, i.id FROM o LEFT JOIN s i ON i.t = o.t AND i.b = o.b AND i.a = o.k',
	'SELECT o.k, i.id FROM o JOIN s i ON i.id = o.b',
	'SELECT o.k, i.id FROM o JOIN s i ON i.b = o.k',
	'SELECT o.k, i.id FROM o JOIN s i ON i.b = o.sm AND i.a = o.sm',
	'SELECT o.k, o.b, i.id FROM (SELECT k, b + k % 2 * 4294967296 AS b FROM o) o LEFT JOIN s i ON i.id = o.b',
	'SELECT o.k, o.b, i.id FROM (SELECT k, b - 4294967296 AS b FROM o) o LEFT JOIN s i ON i.id = o.b AND i.a = o.k',
	'SELECT o.k, o.b, i.id FROM (SELECT k, b + 4294967296 AS b FROM o) o JOIN s i ON i.id = o.b',
	'SELECT o.k, o.b, i.id FROM (SELECT k, b + 4294967296 AS b FROM o) o JOIN s i ON i.id = o.b AND i.a = o.k',
	'SELECT o.k, o.b, i.id FROM (SELECT k, b + 4294967296 AS b FROM o) o LEFT JOIN s i ON i.id = o.b AND i.a = o.k',
	'SELECT o.k, o.b FROM (SELECT k, b + 4294967296 AS b FROM o) o WHERE EXISTS (SELECT 1 FROM s i WHERE i.id = o.b)',
	'SELECT o.k, o.b FROM (SELECT k, b + 4294967296 AS b FROM o) o WHERE EXISTS (SELECT 1 FROM s i WHERE i.a = o.k AND i.id = o.b)',
	'SELECT o.k, o.b FROM (SELECT k, b + 4294967296 AS b FROM o) o WHERE NOT EXISTS (SELECT 1 FROM s i WHERE i.id = o.b)',
	'SELECT o.k, o.b FROM (SELECT k, b + 4294967296 AS b FROM o) o WHERE NOT EXISTS (SELECT 1 FROM s i WHERE i.a = o.k AND i.id = o.b)',
	'SELECT o.k, i.id FROM o JOIN s i ON i.f = o.f',
	'SELECT o.k, i.id FROM o JOIN s i ON i.f = o.k',
	'SELECT o.k, i.id FROM o JOIN s i ON i.d = o.d',
	'SELECT o.k, i.id FROM o JOIN s i ON i.d = o.d::timestamp',
	'SELECT o.k, i.id FROM o JOIN s i ON i.v = o.v',
	'SELECT o.k, i.id FROM o JOIN s i ON i.c = o.c',
	'SELECT o.k, i.id FROM o JOIN s i ON i.a + 1 = o.k * 2',
	'SELECT o.k, i.id FROM o JOIN s i ON i.a = o.k WHERE i.id % 3 = o.a % 3',
	'SELECT o.k, i.id FROM o JOIN s i ON i.id = o.k WHERE false',
	'SELECT o.k, i.id FROM (SELECT * FROM o WHERE k > 1000) o JOIN s i ON i.id = o.k',
	'SELECT o.k, i.id FROM (SELECT * FROM o WHERE k > 1000) o LEFT JOIN s i ON i.id = o.k',
	'SELECT o.k, i.id FROM o LEFT JOIN s i ON i.a = o.k AND i.id < 0',
	'SELECT o.k, i.id FROM (SELECT * FROM o WHERE k IS NULL) o LEFT JOIN s i ON i.id = o.k',
	'SELECT o.k, q.* FROM o JOIN (SELECT a, count(*), sum(n) FROM s i GROUP BY a) q ON q.a = o.k',
	'SELECT o.k, q.* FROM o LEFT JOIN (SELECT a, b, count(*), avg(n) FROM s i WHERE id > 5 GROUP BY a, b) q ON q.a = o.k AND q.b = o.b',
	'SELECT o.k, q.* FROM o LEFT JOIN (SELECT id, max(n) FROM s i GROUP BY id HAVING count(*) > 0) q ON q.id = o.k',
	'SELECT o.k, q.* FROM o JOIN (SELECT DISTINCT a, b FROM s i) q ON q.a = o.k',
	'SELECT o.k, q.* FROM o JOIN (SELECT v, count(*) FROM s i GROUP BY v) q ON q.v = o.v',
	'SELECT o.k, q.* FROM o JOIN (SELECT n, count(*) FROM s i GROUP BY n) q ON q.n = o.n',
	'SELECT o.k, q.* FROM o JOIN (SELECT a + 1 AS a1, count(*) FROM s i GROUP BY a + 1) q ON q.a1 = o.k',
	'SELECT o.k, i.id, j.x FROM o JOIN s i ON i.id = o.k JOIN s2 j ON j.id = i.id',
	'SELECT o.k, i.id, j.x FROM o JOIN s i ON i.id = o.k LEFT JOIN s2 j ON j.id = i.id AND j.w = i.b',
	'SELECT o.k, i.id, j.x FROM o LEFT JOIN (s i JOIN s2 j ON j.id = i.id AND j.w = 3) ON i.a = o.k',
	'SELECT o.k, i.id, j.x FROM o LEFT JOIN s i ON i.id = o.k LEFT JOIN s2 j ON j.x = i.a',
	'SELECT o.k, i.id, j.x FROM o JOIN (s i LEFT JOIN s2 j ON j.id = i.id) ON i.a = o.k AND COALESCE(j.w, 1) = 1',
	'SELECT o.k, (SELECT string_agg(q.id::text, '','' ORDER BY q.id) FROM (SELECT i.id FROM o o2 JOIN s i ON i.a = o2.k WHERE o2.b = o.b AND i.id < 200) q) FROM o',
	'SELECT o.k, q.* FROM o CROSS JOIN LATERAL (SELECT i.id, o2.a FROM o o2 JOIN s i ON i.id = o2.a WHERE o2.b = o.b ORDER BY 1, 2 LIMIT 2) q',
	'SELECT o.k, q.id FROM o, LATERAL (SELECT i.id FROM s i JOIN o p ON p.a = i.a WHERE i.b = o.b AND p.k = o.k OFFSET 0) q',
	'WITH q AS MATERIALIZED (SELECT k, count(*) FROM o GROUP BY k) SELECT * FROM q JOIN s i ON i.id = q.k',
	'WITH RECURSIVE q AS (SELECT 1 AS k UNION ALL SELECT i.id + 1 FROM q JOIN s i ON i.id = q.k WHERE q.k < 8) SELECT * FROM q',
	'SELECT k, id FROM o JOIN s i ON i.id = o.k UNION ALL SELECT k, id FROM o LEFT JOIN s i ON i.a = o.k AND i.b = 2',
	'SELECT i.*, p.w FROM s2 p JOIN s i ON i.a = p.x WHERE p.id = 7'
]) WITH ORDINALITY AS queries(q, n), compare(q) r ORDER BY queries.n;

-- several batches
CREATE TABLE many AS SELECT i AS k, i % 1000 AS g, repeat('x', 100) AS pad FROM generate_series(1, 6000) i;
ANALYZE many;
SET work_mem = '64kB';
SET enable_nestloop = off;
CREATE FUNCTION kj.several_batches(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan #>> '{0,Plan,Plans,0,Batches}')::int > 1;
END $$;
SELECT several_batches('SELECT count(*) FROM many m JOIN s i ON i.id = m.k');
SELECT several_batches('SELECT count(q.c) FROM many m LEFT JOIN (SELECT id, count(*) AS c FROM s i GROUP BY id) q ON q.id = m.k');
SELECT compare('SELECT m.k, i.* FROM many m JOIN s i ON i.id = m.k');
SELECT compare('SELECT m.k, i.* FROM many m LEFT JOIN s i ON i.id = m.k AND i.b < 3');
SELECT compare('SELECT m.k, m.g FROM many m WHERE EXISTS (SELECT 1 FROM s i WHERE i.id = m.g)');
SELECT compare('SELECT m.k, m.g FROM many m WHERE NOT EXISTS (SELECT 1 FROM s i WHERE i.a = m.g)');
SELECT compare('SELECT m.k, q.* FROM many m LEFT JOIN (SELECT a, count(*), sum(n) FROM s i GROUP BY a) q ON q.a = m.k');
SELECT compare('SELECT m.k, q.* FROM many m LEFT JOIN (SELECT id, count(*), sum(n) FROM s i GROUP BY id) q ON q.id = m.k');
-- a sub-select in a remote join: its columns have other numbers than those of its table
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT nrows, differences FROM compare('SELECT o.k, q.* FROM o JOIN (SELECT z.f, z.id, j.x FROM (SELECT a AS f, id, count(*) AS n FROM s i GROUP BY a, id) z JOIN s2 j ON j.id = z.id) q ON q.f = o.k');
SELECT nrows, differences FROM compare('SELECT o.k, q.* FROM o LEFT JOIN (SELECT z.f, z.id, j.x FROM (SELECT a AS f, id, count(*) AS n FROM s i GROUP BY a, id) z LEFT JOIN s2 j ON j.id = z.id) q ON q.f = o.k');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;
-- sets: by a column that they group by, and by what they compute
SELECT nrows, differences FROM compare('SELECT o.k, q.* FROM o JOIN (SELECT a, b, count(*) AS n FROM s i GROUP BY ROLLUP (a, b)) q ON q.a = o.k');
SELECT nrows, differences FROM compare('SELECT o.k, q.* FROM o JOIN (SELECT a, b, count(*) AS n FROM s i GROUP BY ROLLUP (a, b)) q ON q.n = o.k');
RESET work_mem;
RESET enable_nestloop;

-- in rounds: a part of the shards first, the others for the keys that have found nothing
CREATE TABLE l3 (id int NOT NULL, a int, b int, t text);
INSERT INTO l3 SELECT i, i % 1000 * 2, i % 11, 'k' || i % 1000 FROM generate_series(1, 16000) i;
INSERT INTO l3 VALUES (20001, NULL, 1, NULL), (20002, 1, NULL, 'x');
CREATE TABLE s3 (LIKE l3);
SELECT shardfdw.shard_table('s3', 'id', 8);
INSERT INTO s3 SELECT * FROM l3;
CREATE TABLE keys AS SELECT i AS k, i % 13 AS b, 'k' || i AS t FROM generate_series(1, 1500) i;
INSERT INTO keys VALUES (NULL, 1, 'k1'), (2, NULL, NULL), (2, 3, 'k2');
ANALYZE l3, s3, keys;
CREATE FUNCTION kj.rounds(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN format('first %s, %s batches, %s keys, %s shards', COALESCE(substring(plan FROM '"Shards Asked First": (\d+)'), 'all'), substring(plan FROM '"Batches": (\d+)'),
		substring(plan FROM '"Keys Sent": (\d+)'), substring(plan FROM '"Shards": (\d+)'));
END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT rounds('SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)') AS anti,
	rounds('SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k)') AS semi;
-- the node's plan is of the query that is shown
CREATE FUNCTION kj.explained(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) ' || query INTO plan;
	RETURN substring(plan FROM 'FROM kj\.(s3_\d+)') = substring(plan FROM '"Relation Name": "(s3_\d+)"');
END $$;
SET shardfdw.explain_remote = on;
SELECT explained('SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)');
RESET shardfdw.explain_remote;
-- not where each shard gets its own keys, where hardly any key has rows in several shards, where all rows are wanted
SELECT rounds('SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.id = k.k)');
SELECT rounds('SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k AND i.b = 3)');
SELECT rounds('SELECT k.*, i.id FROM keys k JOIN s3 i ON i.a = k.k');
SELECT q, r.* FROM unnest(ARRAY[
	'SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k)',
	'SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)',
	'SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k AND i.b > k.b)',
	'SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k AND i.b > k.b - 2)',
	'SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k AND i.t = k.t)',
	'SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.t = k.t)',
	'SELECT k.* FROM keys k LEFT JOIN s3 i ON i.a = k.k WHERE i.id IS NULL',
	'SELECT k.* FROM keys k WHERE k.t IN (SELECT t FROM s3 i)',
	'SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k AND i.id = 77)',
	'SELECT k.b, (SELECT count(*) FROM keys n WHERE n.b = k.b AND EXISTS (SELECT FROM s3 i WHERE i.a = n.k AND i.b > k.b)) FROM keys k WHERE k.k < 15',
	'SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k) ORDER BY k.k LIMIT 7'
]) WITH ORDINALITY AS queries(q, n), compare(q) r ORDER BY queries.n;
SET work_mem = '64kB';
SELECT rounds('SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)') ~ 'first 4, [2-9] batches' AS several;
SELECT compare('SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)');
SELECT compare('SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k AND i.b > k.b)');
RESET work_mem;
-- where a node is read on the connection that has written, each query would see another moment
BEGIN;
INSERT INTO s3 VALUES (30000, 7, 1, 'new');
SELECT rounds('SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)');
INSERT INTO l3 VALUES (30000, 7, 1, 'new');
SELECT compare('SELECT k.* FROM keys k WHERE NOT EXISTS (SELECT FROM s3 i WHERE i.a = k.k)');
ROLLBACK;
-- what the transaction writes while rows of a semi join are fetched is not seen by it
CREATE FUNCTION kj.writes_meanwhile(OUT nrows bigint) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	nrows := 0;
	FOR r IN SELECT k.k FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k) LOOP
		nrows := nrows + 1;
		IF nrows = 1 THEN
			INSERT INTO s3 SELECT 30000 + k, k FROM keys WHERE k % 2 = 1;
		END IF;
	END LOOP;
END $$;
BEGIN;
SELECT writes_meanwhile();
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT writes_meanwhile();
SELECT count(*) FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT rounds('SELECT k.* FROM keys k WHERE EXISTS (SELECT FROM s3 i WHERE i.a = k.k)');
ROLLBACK;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;

-- parameters, generic plans
SET plan_cache_mode = force_generic_plan;
PREPARE p(int, text) AS SELECT o.k, i.id FROM o JOIN s i ON i.id = o.k AND i.id > $1 AND i.t <> $2 ORDER BY 1, 2;
EXECUTE p(9, 'k12');
EXECUTE p(15, 'x');
SELECT plan('EXECUTE p(9, ''k12'')');
DEALLOCATE p;
CREATE FUNCTION kj.joined(int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT count(*) FROM o JOIN s i ON i.a = o.k WHERE i.b = $1);
END $$;
SELECT joined(1), joined(2), (SELECT count(*) FROM o JOIN l i ON i.a = o.k WHERE i.b = 1), (SELECT count(*) FROM o JOIN l i ON i.a = o.k WHERE i.b = 2);
RESET plan_cache_mode;

-- cursors
BEGIN;
DECLARE c1 CURSOR FOR SELECT o.k, i.id FROM o JOIN s i ON i.id = o.k;
DECLARE c2 SCROLL CURSOR FOR SELECT count(*) OVER (), i.id FROM (SELECT DISTINCT k FROM o) o JOIN s i ON i.id = o.k ORDER BY 2;
FETCH 2 FROM c2;
MOVE 1 FROM c1;
FETCH 2 FROM c2;
FETCH BACKWARD 1 FROM c2;
CLOSE c1;
FETCH LAST FROM c2;
COMMIT;

-- an error in mid-way, then the same again
SELECT sum(1 / (i.id - 5)) FROM o JOIN s i ON i.id = o.k;
SELECT compare('SELECT o.*, i.* FROM o JOIN s i ON i.id = o.k');
-- the node's own error comes through
SELECT count(*) FROM o JOIN s i ON i.id = o.k AND 1 / (i.id - 5) > 0;
-- what this transaction has written is there
BEGIN;
INSERT INTO s (id, a) VALUES (5000, 5000), (5001, 5000);
UPDATE o SET a = 5000 WHERE k = 5;
SELECT count(*) FROM o JOIN s i ON i.a = o.a WHERE o.a = 5000;
ROLLBACK;
-- what its own statement writes is not
BEGIN;
WITH w AS (INSERT INTO s (id, a) VALUES (5000, 5000), (5001, 5001) RETURNING id) SELECT count(*), count(i.id) FROM w LEFT JOIN s i ON i.id = w.id;
SELECT count(*) FROM s WHERE id IN (5000, 5001);
ROLLBACK;

-- keys of char(n), and bit(n), which are hidden from the nodes' planners: as long as they are
CREATE TABLE large (id int, c char(8), b bit(20));
SELECT shardfdw.shard_table('large', 'id', 2) \g /dev/null
INSERT INTO large SELECT i, 'c' || i, i::bit(20) FROM generate_series(1, 30000) i;
CREATE INDEX ON large (c);
CREATE INDEX ON large (b);
ANALYZE large;
CREATE TABLE small AS SELECT ('c' || g * 100)::char(8) AS c, (g * 100)::bit(20) AS b FROM generate_series(1, 200) g;
ANALYZE small;
SELECT count(*) FILTER (WHERE line ~ 'SELECT \$1::pg_catalog.bpchar\[\]') AS hidden FROM plan('SELECT count(*) FROM small JOIN large USING (c)') line;
SELECT count(*) FROM small JOIN large USING (c);
SELECT count(*) FROM small JOIN large USING (b);
SELECT count(*) FROM small WHERE NOT EXISTS (SELECT 1 FROM large WHERE large.c = small.c);

-- what a statement over several shards sorts, too
CREATE TABLE chars (id int, c char(3)[], b bit(4)[]);
SELECT shardfdw.shard_table('chars', 'id', 8) \g /dev/null
INSERT INTO chars SELECT i, ARRAY['x' || i % 3]::char(3)[], ARRAY[(i % 4)::bit(4)] FROM generate_series(1, 200) i;
SET shardfdw.max_connections_per_node = 1;
SET shardfdw.query_per_node = off;
SELECT count(*) FROM (SELECT c, array_agg(id ORDER BY id) FROM chars GROUP BY c) s;
SELECT count(*) FROM (SELECT b, array_agg(id ORDER BY id) FROM chars GROUP BY b) s;
SELECT count(*) FROM (SELECT DISTINCT ON (c) c, id FROM chars ORDER BY c, id) s;
RESET shardfdw.max_connections_per_node;
RESET shardfdw.query_per_node;

SET search_path = public;
DROP SCHEMA kj CASCADE;
