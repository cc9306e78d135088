-- A parent that is no sharded table by itself: sharded and local partitions beside each other, by date and
-- then by key. Core plans it partition by partition; with enable_partitionwise_aggregate nodes return the
-- partial states of their shards' groups. Each statement has to give what it gives on a plain table.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/diff/pair.sql'
SET DateStyle = 'ISO, MDY';
SET client_min_messages = warning;
\i :f
\set ECHO all
CREATE SCHEMA plain;
CREATE SCHEMA sharded;
CREATE TABLE plain.t (at date, id int, v text, n numeric, f float8, b bool);
CREATE TABLE sharded.t (LIKE plain.t) PARTITION BY RANGE (at);
CREATE TABLE sharded.t24 PARTITION OF sharded.t FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY HASH (id);
CREATE TABLE sharded.t25 PARTITION OF sharded.t FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY HASH (id);
SELECT shardfdw.create_shard('sharded.t24', 't24_0', 'WITH (MODULUS 2, REMAINDER 0)', 'node1'),
	shardfdw.create_shard('sharded.t24', 't24_1', 'WITH (MODULUS 2, REMAINDER 1)', 'node2'),
	shardfdw.create_shard('sharded.t25', 't25_0', 'WITH (MODULUS 2, REMAINDER 0)', 'node2'),
	shardfdw.create_shard('sharded.t25', 't25_1', 'WITH (MODULUS 2, REMAINDER 1)', 'node3');
CREATE TABLE sharded.t26 PARTITION OF sharded.t FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE sharded.t_rest PARTITION OF sharded.t DEFAULT;
CREATE AGGREGATE pair.product(float8) (SFUNC = float8mul, STYPE = float8, COMBINEFUNC = float8mul, INITCOND = '1');
SET enable_partitionwise_aggregate = on;

\pset format unaligned
\pset tuples_only on
-- no rows yet
SELECT pair.same($$SELECT /* returning */ count(*), sum(n), avg(n), max(v), stddev(f) FROM t$$);
SELECT pair.same($$SELECT /* returning */ id, count(*) FROM t GROUP BY id$$);
SELECT pair.same($$INSERT INTO t SELECT '2023-06-01'::date + i, i % 97, CASE WHEN i % 11 > 0 THEN 'v' || i % 13 END,
	CASE WHEN i % 7 > 0 THEN i * 1.25 END, i % 5, i % 3 = 0 FROM generate_series(1, 1500) i$$);
ANALYZE sharded.t;
SELECT pair.same($$SELECT /* returning */ count(*), count(v), sum(n), avg(n), min(at), max(v COLLATE "C"), var_pop(n), bool_or(b) FROM t$$);
SELECT pair.same($$SELECT /* returning */ id % 5, count(*), sum(n), round(avg(n), 9), stddev(id) FROM t GROUP BY 1$$);
SELECT pair.same($$SELECT /* returning */ v, b, count(*) FILTER (WHERE f > 2), max(n), sum(f) FROM t GROUP BY v, b$$);
SELECT pair.same($$SELECT /* returning */ b, sum(n) FROM t WHERE at >= '2024-05-01' AND f < 3 GROUP BY b HAVING count(*) > 10 AND max(id) > 3$$);
SELECT pair.same($$SELECT /* returning */ 1, b FROM t GROUP BY 1, 2$$);
SELECT pair.same($$SELECT /* returning */ DISTINCT v FROM t$$);
SELECT pair.same($$SELECT /* returning */ extract(year FROM at), count(*) FROM t GROUP BY 1 ORDER BY 1$$);
SELECT pair.same($$SELECT /* returning */ at, count(*) FROM t WHERE at BETWEEN '2024-12-30' AND '2025-01-02' GROUP BY at$$);
SELECT pair.same($$SELECT /* returning */ pair.product(1 + f / 1000) > 1, b FROM t GROUP BY b$$);
SELECT pair.same($$SELECT /* returning */ count(DISTINCT v), string_agg(v, ',' ORDER BY at, v) FROM t WHERE id < 3$$);
SELECT pair.same($$SELECT /* returning */ v, count(*) FROM t GROUP BY GROUPING SETS ((v), ())$$);
SELECT pair.same($$SELECT /* returning */ i, (SELECT sum(n) FROM t WHERE id = i AND b) FROM generate_series(1, 5) i$$);
SELECT pair.same($$SELECT /* returning */ i, s.* FROM generate_series(1, 3) i, LATERAL (SELECT b, count(*) + i, max(n) FROM t WHERE id > i * 20 GROUP BY b) s$$);
SELECT pair.same($$SELECT /* returning */ b, sum(c) OVER (ORDER BY b) FROM (SELECT b, count(*) AS c FROM t GROUP BY b) s$$);
SELECT pair.same($$SELECT /* returning */ a.b, count(*), sum(c.n) FROM t a JOIN t c USING (at, id) WHERE a.id < 20 GROUP BY a.b$$);
PREPARE groups(int, text) AS SELECT b, $2, count(*), sum(n) FROM sharded.t WHERE id < $1 GROUP BY b, $2 ORDER BY b;
SET plan_cache_mode = force_generic_plan;
EXECUTE groups(50, 'x');
EXECUTE groups(10, NULL);
RESET plan_cache_mode;
SET enable_partitionwise_join = on;
SELECT pair.same($$SELECT /* returning */ a.b, count(*), sum(c.n) FROM t a JOIN t c USING (at, id) WHERE a.id < 20 GROUP BY a.b$$);
-- writes
SELECT pair.same($$UPDATE t SET n = n + 1, v = v || '!' WHERE id % 10 = 3$$);
SELECT pair.same($$UPDATE t SET n = 0 FROM generate_series(1, 5) g WHERE id = g$$);
SELECT pair.same($$DELETE FROM t WHERE id = 50 AND f > 2 RETURNING at, id$$);
SELECT pair.same($$INSERT INTO t VALUES ('2024-07-07', 1, 'x'), ('2026-07-07', 2, 'y'), ('2000-01-01', 3, 'z') RETURNING *$$);
SELECT pair.same($$SELECT /* returning */ b, count(*), sum(n), max(v COLLATE "C") FROM t GROUP BY b$$);
-- what nodes are asked, and what is left to the coordinator
SET search_path = sharded, pair;
EXPLAIN (VERBOSE, COSTS OFF) SELECT b, count(*), avg(n) FROM t GROUP BY b;
SET shardfdw.enable_partial_aggregate = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE at < '2025-01-01' AND at >= '2024-01-01';
RESET shardfdw.enable_partial_aggregate;
SET enable_partitionwise_aggregate = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE at < '2025-01-01' AND at >= '2024-01-01';
-- a part of it that is a sharded table
EXPLAIN (COSTS OFF) SELECT count(*) FROM t24;
RESET search_path;
DROP SCHEMA sharded, plain, pair CASCADE;
SELECT DISTINCT ok FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS sharded CASCADE; DROP SCHEMA IF EXISTS pair CASCADE');
