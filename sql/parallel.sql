-- Parallel query: whatever reads from nodes stays in the leader, whose connections and transaction it needs; the rest may go to workers.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA pq;
SET search_path = pq;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS pq') WHERE NOT ok;

-- With an "l" before its name, the plain table with the same rows.
CREATE TABLE big (id int, w int, c int) WITH (parallel_workers = 2);
INSERT INTO big SELECT i, i % 50, i % 7 FROM generate_series(1, 5000) i;
CREATE TABLE lt (k int, u int, v int);
INSERT INTO lt SELECT nullif(i % 40, 7), nullif(i % 9, 4), i FROM generate_series(1, 400) i;
CREATE TABLE t (LIKE lt);
SELECT shardfdw.shard_table('t', 'k', 4);
INSERT INTO t TABLE lt;
CREATE TABLE lr (id int, w int);
INSERT INTO lr SELECT i, i % 9 FROM generate_series(1, 50) i;
CREATE TABLE r (LIKE lr);
INSERT INTO r TABLE lr;
SELECT shardfdw.create_reference_table('r');
-- some partitions here, some on nodes
CREATE TABLE lp (k int, v int);
INSERT INTO lp SELECT i % 60, i FROM generate_series(1, 600) i;
CREATE TABLE p (LIKE lp) PARTITION BY RANGE (k);
CREATE TABLE p_here PARTITION OF p FOR VALUES FROM (MINVALUE) TO (20) WITH (parallel_workers = 2);
SELECT shardfdw.create_shard('p', 'p_1', 'FROM (20) TO (40)', 'node1');
SELECT shardfdw.create_shard('p', 'p_2', 'FROM (40) TO (MAXVALUE)', 'node2');
INSERT INTO p TABLE lp;
ANALYZE big, lt, t, lr, r, lp, p;

SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;

-- What a plan has: nodes that start workers, and those of ours below them.
CREATE FUNCTION walk(plan json, below boolean, OUT gathers int, OUT remote_below int) LANGUAGE plpgsql AS $$
DECLARE
	is_gather boolean := plan ->> 'Node Type' LIKE 'Gather%';
	child json;
	r record;
BEGIN
	gathers := is_gather::int;
	remote_below := (below AND plan ->> 'Node Type' IN ('Foreign Scan', 'Custom Scan'))::int;
	FOR child IN SELECT * FROM json_array_elements(plan -> 'Plans') LOOP
		r := walk(child, below OR is_gather);
		gathers := gathers + r.gathers;
		remote_below := remote_below + r.remote_below;
	END LOOP;
END $$;
-- Runs a query over t, r and p, and over the plain tables.
CREATE FUNCTION compare(query text, OUT parallel boolean, OUT remote_below int, OUT differences bigint) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	w record;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
	w := walk(plan -> 0 -> 'Plan', false);
	parallel := w.gathers > 0;
	remote_below := w.remote_below;
	EXECUTE format('CREATE TEMP TABLE r1 AS SELECT q::text AS r FROM (%s) q', query);
	EXECUTE format('CREATE TEMP TABLE r2 AS SELECT q::text AS r FROM (%s) q', regexp_replace(query, '(FROM|JOIN) ([trp]) ', '\1 l\2 ', 'g'));
	SELECT count(*) FROM ((TABLE r1 EXCEPT ALL TABLE r2) UNION ALL (TABLE r2 EXCEPT ALL TABLE r1)) d INTO differences;
	DROP TABLE r1, r2;
END $$;
CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, q text);
INSERT INTO queries (q) VALUES
	('SELECT count(*), sum(x.c) FROM big b JOIN (SELECT a.id, g.c FROM r a JOIN (SELECT k, u, count(*) AS c FROM t i WHERE k = 3 GROUP BY k, u) g ON a.w = g.u) x ON x.id = b.w'),
	('SELECT b.w, count(*), sum(g.c) FROM big b JOIN (SELECT k, count(*) AS c FROM t i GROUP BY k) g ON g.k = b.w GROUP BY b.w'),
	('SELECT count(*), count(g.u) FROM big b LEFT JOIN (SELECT DISTINCT k, u FROM t i) g ON g.k = b.id'),
	('SELECT count(*), sum(g.n) FROM big b JOIN (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM t i) g ON g.v = b.id JOIN r a ON a.w = g.n'),
	('SELECT count(*) FROM big b WHERE EXISTS (SELECT FROM (SELECT k, max(v) AS m FROM t i GROUP BY k) g JOIN r a ON a.id = g.k WHERE g.m = b.id)'),
	('SELECT count(*) FROM big b WHERE NOT EXISTS (SELECT FROM t i JOIN r a ON a.id = i.k WHERE i.v = b.id)'),
	('SELECT count(*), sum(i.v) FROM big b JOIN t i ON i.v = b.id'),
	('SELECT count(*), sum(a.id) FROM big b JOIN r a ON a.id = b.w JOIN r a2 ON a2.w = a.id WHERE b.c > (SELECT min(u) FROM t i WHERE k > 5)'),
	('SELECT sum(b.c), (SELECT sum(v) FROM t i) AS s FROM big b WHERE b.id < (SELECT max(v) FROM t i)'),
	('WITH g AS MATERIALIZED (SELECT k, count(*) AS c FROM t i GROUP BY k) SELECT count(*), sum(g.c) FROM big b JOIN g ON g.k = b.w'),
	('SELECT k, sum(v) FROM p i GROUP BY k'),
	('SELECT count(*), sum(i.v) FROM p i JOIN big b ON b.id = i.v JOIN (SELECT k, count(*) AS c FROM t j GROUP BY k) g ON g.k = b.w'),
	('SELECT u, count(*) FROM t i GROUP BY u UNION ALL SELECT w, count(*) FROM big GROUP BY w'),
	('SELECT b.c, x.n FROM (SELECT c, count(*) AS n FROM big GROUP BY c) b, LATERAL (SELECT count(*) AS n FROM t i JOIN r a ON a.w = i.u WHERE i.u = b.c) x'),
	('SELECT count(*), sum(b.c) FROM big b WHERE b.w IN (SELECT i.u FROM t i JOIN (SELECT u, max(v) AS m FROM t j WHERE k = 5 GROUP BY u) x ON x.m = i.v)');
\set queries 'SELECT count(*) AS queries, count(*) FILTER (WHERE parallel) >= 10 AS parallel, sum(remote_below) AS remote_below, sum(differences) AS differences FROM queries, compare(q);'
:queries
SET enable_hashjoin = off;
:queries
SET enable_nestloop = off;
:queries
RESET enable_hashjoin;
RESET enable_nestloop;
SET enable_partitionwise_join = on;
SET enable_partitionwise_aggregate = on;
SET geqo_threshold = 2;
:queries
RESET enable_partitionwise_join;
RESET enable_partitionwise_aggregate;
RESET geqo_threshold;
-- a worker for everything that may go to one
SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \g /dev/null
:queries
SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \g /dev/null

-- What this transaction has written is there.
BEGIN;
INSERT INTO t SELECT i % 40, i % 9, 1000 + i FROM generate_series(1, 1000) i;
UPDATE t SET u = 5 WHERE k = 3;
INSERT INTO lt SELECT i % 40, i % 9, 1000 + i FROM generate_series(1, 1000) i;
UPDATE lt SET u = 5 WHERE k = 3;
:queries
ROLLBACK;

-- A function that is declared to be what it is not: an error, no other answer. Where it says what it is, it runs in the leader.
CREATE FUNCTION total(key int) RETURNS bigint STABLE PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(v) FROM t WHERE k = key); END $$;
SET parallel_leader_participation = off;
SELECT sum(total(w)) FROM big WHERE id <= 50;
ALTER FUNCTION total(int) PARALLEL RESTRICTED;
SELECT sum(total(w)) FROM big WHERE id <= 50;
SELECT sum(v) FROM t;
RESET parallel_leader_participation;

-- Of the extension's functions these may run in workers; none of them needs a connection.
SELECT proname FROM pg_proc WHERE pronamespace::regnamespace IN ('shardfdw', 'shardfdw_internal') AND prokind = 'f' AND proparallel = 's' ORDER BY 1;

SELECT shardfdw.unshard_table('r');
DROP SCHEMA pq CASCADE;
