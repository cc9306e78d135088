-- Guards: statements that ask more than one shard, and statements that receive many rows.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA guards;
SET search_path = guards;
CREATE TABLE t (id int PRIMARY KEY, a int, b text);
CREATE TABLE u (id int PRIMARY KEY, a int);
CREATE TABLE d (a int PRIMARY KEY, x int);
CREATE TABLE r (a int PRIMARY KEY, x int);
SELECT shardfdw.shard_table('t', 'id', shards => 8), shardfdw.shard_table('u', 'id', shards => 8), shardfdw.shard_table('d', 'a', shards => 3),
	shardfdw.create_reference_table('r') \g /dev/null
INSERT INTO t SELECT i, i % 10, 'x' || i FROM generate_series(1, 100) i;
INSERT INTO u SELECT i, i % 10 FROM generate_series(1, 100) i;
INSERT INTO d SELECT i, i % 10 FROM generate_series(1, 100) i;
INSERT INTO r SELECT i, i FROM generate_series(0, 9) i;
ANALYZE t, u, d, r;
CREATE FUNCTION many() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM guards.t); END';
SET shardfdw.multi_shard_statements = error;
SET plan_cache_mode = force_generic_plan;

-- one shard
SELECT * FROM t WHERE id = 5;
SELECT count(*) FROM t JOIN u USING (id) JOIN r ON r.a = t.a WHERE id = 5;
SELECT (SELECT count(*) FROM t WHERE id = 5), (SELECT count(*) FROM u WHERE id = 5);
SELECT count(*) FROM r;
UPDATE t SET a = 7 WHERE id = 5;
MERGE INTO u USING (VALUES (5, 1)) v (id, a) ON u.id = v.id WHEN MATCHED THEN UPDATE SET a = v.a;
PREPARE one(int) AS SELECT count(*), sum(a) FROM t WHERE id = $1 AND a > random() - 1;
EXECUTE one(5);
PREPARE keys(int[]) AS SELECT count(*) FROM t WHERE id = ANY ($1);
EXECUTE keys('{5}');
PREPARE change(int, int) AS UPDATE t SET a = 8 WHERE id BETWEEN $1 AND $2;
COPY (SELECT * FROM t WHERE id = 5) TO STDOUT;
SELECT count(*) FROM t WHERE false;
-- the shards that rows are sent to do not count
INSERT INTO u SELECT i, i FROM generate_series(201, 210) i;
INSERT INTO u VALUES (211), (212), (213);
INSERT INTO u VALUES (211), (212), (214) ON CONFLICT (id) DO UPDATE SET a = 1;
COPY u (id) FROM STDIN;
215
216
217
\.
EXPLAIN (COSTS off, VERBOSE off) SELECT a FROM t WHERE b > 'x' || random();

-- more than one
SELECT count(*) FROM t;
SELECT count(*) FROM t JOIN u USING (id);
SELECT t.id FROM t JOIN d ON d.a = t.a WHERE t.id = 5;
SELECT (SELECT count(*) FROM t WHERE id = 5), (SELECT count(*) FROM u WHERE id = 6);
EXECUTE keys('{5,6,7,8,9}');
EXECUTE change(1, 1000);
UPDATE t SET a = 1;
DELETE FROM t WHERE a = 1;
INSERT INTO u SELECT id + 1000, a FROM t;
MERGE INTO u USING (VALUES (1, 1), (2, 2), (3, 3), (4, 4)) v (id, a) ON u.id = v.id WHEN MATCHED THEN UPDATE SET a = v.a;
SELECT * FROM t ORDER BY a LIMIT 1 FOR UPDATE SKIP LOCKED;
EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM t;
COPY (SELECT * FROM t) TO STDOUT;
SELECT many();
WITH c AS (UPDATE t SET a = 2 WHERE id = 5 RETURNING id) SELECT count(*) FROM c, u WHERE u.a > 1;
SELECT count(*) FROM generate_series(5, 6) g, LATERAL (SELECT a FROM t WHERE t.id = g AND a > random() - 1 OFFSET 0) l;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t;
FETCH c;
ROLLBACK;
-- shards are planned one by one
SET shardfdw.enable_shard_scan = off;
SET shardfdw.enable_statement_push = off;
SELECT count(*) FROM t WHERE id IN (5, 6, 7, 8);
SELECT count(*) FROM t WHERE id = 5 AND a > random() - 1;
DELETE FROM t WHERE a = 1;
DELETE FROM t WHERE a = 1 AND id = 5;
RESET shardfdw.enable_shard_scan;
RESET shardfdw.enable_statement_push;
SET client_min_messages = log;
SET shardfdw.multi_shard_statements = log;
SELECT count(*) FROM t JOIN d ON d.a = t.a WHERE t.b > 'x' || random() * 0;
SET client_min_messages = warning;
SET shardfdw.multi_shard_statements = warn;
SELECT count(*) FROM t JOIN d ON d.a = t.a WHERE t.b > 'x' || random() * 0;
SET shardfdw.multi_shard_statements = error;
-- what the extension runs by itself
ALTER TABLE u ADD COLUMN n int DEFAULT 1 + random() * 0;
SELECT count(*), sum(n) FROM u WHERE id = 5;
SELECT shardfdw.unshard_table('u');
SELECT count(*) FROM u;
SET shardfdw.multi_shard_statements = allow;

-- rows received
SET shardfdw.max_rows_gathered = 20;
SELECT count(*) FROM t;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 20 OFFSET 0) s;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 21 OFFSET 0) s;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 21 ORDER BY id OFFSET 0) s;
SELECT count(*) FROM (SELECT t.id FROM t JOIN d ON d.a = t.a AND d.a < random() * 0 + 50) s;
SELECT t.id FROM t JOIN r ON r.a = t.a;
UPDATE t SET a = 4 RETURNING id;
-- the scan's runs count together
SELECT count(*) FROM generate_series(1, 21) g, LATERAL (SELECT a FROM t WHERE t.id = g AND a > random() - 1 OFFSET 0) l;
-- the statement's scans count together: shards one by one, asynchronously or not, joins and sub-selects
SET shardfdw.enable_shard_scan = off;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 20 OFFSET 0) s;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 21 OFFSET 0) s;
SET enable_async_append = off;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 20 OFFSET 0) s;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 21 OFFSET 0) s;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 21 ORDER BY id OFFSET 0) s;
RESET enable_async_append;
RESET shardfdw.enable_shard_scan;
SELECT count(*) FROM (SELECT id, tableoid FROM t WHERE id <= 20 OFFSET 0) s;
SELECT count(*) FROM (SELECT id, tableoid FROM t WHERE id <= 21 OFFSET 0) s;
SELECT id FROM t WHERE id > random() * 0 + 50 FOR UPDATE;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 10 UNION ALL SELECT a FROM d WHERE a <= 10 OFFSET 0) s;
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 11 UNION ALL SELECT a FROM d WHERE a <= 10 OFFSET 0) s;
SELECT (SELECT count(*) FROM (SELECT id FROM t WHERE id <= 11 OFFSET 0) s), (SELECT count(*) FROM (SELECT a FROM d WHERE a <= 10 OFFSET 0) s);
WITH w AS (UPDATE t SET a = a WHERE id <= 11 AND random() >= 0 RETURNING id) SELECT count(*) FROM w, (SELECT count(*) FROM (SELECT a FROM d WHERE a <= 10 OFFSET 0) s) x;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 11 UNION ALL SELECT a FROM d WHERE a <= 10;
MOVE 15 IN c;
-- another statement of the same transaction
SELECT count(*) FROM (SELECT id FROM t WHERE id <= 20 OFFSET 0) s;
MOVE 15 IN c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id;
MOVE 5 IN c;
MOVE 30 IN c;
ROLLBACK;
COPY (SELECT id FROM t WHERE id < 1) TO STDOUT;
DO $$BEGIN
	PERFORM id FROM guards.t;
EXCEPTION WHEN program_limit_exceeded THEN
	RAISE WARNING 'caught: %', SQLERRM;
END$$;
SELECT shardfdw.unshard_table('d');
SET shardfdw.multi_shard_statements = error;
DO $$BEGIN
	PERFORM id FROM guards.t;
EXCEPTION WHEN program_limit_exceeded THEN
	RAISE WARNING 'caught: %', SQLERRM;
END$$;
RESET shardfdw.multi_shard_statements;
RESET shardfdw.max_rows_gathered;
SELECT count(*), sum(a) FROM t;
DROP SCHEMA guards CASCADE;
