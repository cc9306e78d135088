-- A table by time whose partitions are sharded by key is read as one sharded table.
\set VERBOSITY terse
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = ISO;
CREATE SCHEMA lev;
SET search_path = lev;

-- rows of the plain and the sharded tables that differ
CREATE FUNCTION same(query text) RETURNS TABLE (side text, "row" text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('WITH here AS MATERIALIZED (SELECT x::text AS r FROM (%1$s) x), there AS MATERIALIZED (SELECT x::text AS r FROM (%2$s) x)
		(SELECT ''plain'', r FROM (TABLE here EXCEPT ALL TABLE there) a) UNION ALL (SELECT ''sharded'', r FROM (TABLE there EXCEPT ALL TABLE here) b) ORDER BY 1, 2',
		regexp_replace(query, '\m([rseu])\M', 'p\1', 'g'), query);
END $$;
-- lines of the plan that say who reads what
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Custom Scan|Foreign Scan|Append|Join|Aggregate|Shards:|Query Per Node|First|Sort' THEN RETURN NEXT regexp_replace(line, ' on \S+', ''); END IF;
	END LOOP;
END $$;
CREATE FUNCTION is_one(query text) RETURNS boolean LANGUAGE sql AS
$$ SELECT count(*) FILTER (WHERE l LIKE '%Foreign Scan%') = 1 AND count(*) FILTER (WHERE l LIKE '%Shards:%') = 1 FROM plan(query) l $$;

-- months of 3 shards, one of 2, and one whose columns are in another order
CREATE TABLE r (at timestamptz NOT NULL, d int, id bigint, v numeric, w text) PARTITION BY RANGE (at);
CREATE TABLE s (LIKE r) PARTITION BY RANGE (at);
CREATE TABLE e (d int, name text, grp int);
CREATE FUNCTION add_month(top regclass, month int, shards int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name text := top || '_' || month; first date := make_date(2026, month, 1);
BEGIN
	EXECUTE format('CREATE TABLE %I PARTITION OF %s FOR VALUES FROM (%L) TO (%L) PARTITION BY HASH (d)', name, top, first, first + interval '1 month');
	PERFORM shardfdw.create_shard(name::regclass, (name || '_' || i)::name, format('WITH (MODULUS %s, REMAINDER %s)', shards, i), ('node' || i + 1)::name) FROM generate_series(0, shards - 1) i;
END $$;
SELECT add_month(t, m, CASE m WHEN 3 THEN 2 ELSE 3 END) FROM unnest('{r,s}'::regclass[]) t, generate_series(1, 5) m \g /dev/null
SELECT shardfdw.shard_table('e', 'd', 3) \g /dev/null
CREATE TABLE pr (LIKE r); CREATE TABLE ps (LIKE s); CREATE TABLE pe (LIKE e);
INSERT INTO pr SELECT timestamptz '2026-01-01' + i * interval '3 hours', nullif(i % 17, 16), i, i / 7.0, 's' || i % 13 FROM generate_series(0, 1200) i;
INSERT INTO ps SELECT at, d, id, v + 1, w FROM pr WHERE id % 3 <> 0;
INSERT INTO pe SELECT i, 'device ' || i, i % 4 FROM generate_series(0, 20) i;
INSERT INTO r SELECT * FROM pr; INSERT INTO s SELECT * FROM ps; INSERT INTO e SELECT * FROM pe;
ANALYZE r; ANALYZE s; ANALYZE e;
CREATE TABLE u (g int PRIMARY KEY, t text); INSERT INTO u SELECT i, 'u' || i FROM generate_series(0, 6) i;
CREATE TABLE pu (LIKE u); INSERT INTO pu TABLE u;
SELECT shardfdw.create_reference_table('u') \g /dev/null

-- how it is planned
SELECT plan('SELECT * FROM r');
SELECT plan($$SELECT * FROM r WHERE at >= '2026-02-10' AND at < '2026-03-10'$$);
SELECT plan($$SELECT * FROM r WHERE at = '2026-02-10' AND d = 3$$);
SELECT plan('SELECT * FROM r WHERE d = 3');
SELECT plan($$SELECT * FROM r WHERE at >= '2027-02-10'$$);
SELECT plan($$SELECT * FROM r WHERE (at, id) < ('2026-02-10', 7)$$);
SELECT plan($$SELECT * FROM r WHERE ('2026-04-01'::timestamptz, 7) <= (at, id) AND d = 3$$);
SELECT plan('SELECT count(*), avg(v) FROM r');
SELECT plan('SELECT at, d, count(*), stddev(v) FROM r GROUP BY at, d');
SELECT plan('SELECT * FROM r ORDER BY at DESC, d, id LIMIT 5');
SELECT plan('SELECT DISTINCT w FROM r');
SELECT plan('SELECT a.id, b.v FROM r a JOIN s b USING (at, d)');
SELECT is_one('SELECT a.id, b.v FROM r a LEFT JOIN s b USING (at, d, id)');
SELECT is_one('SELECT a.id, b.v FROM r a JOIN s b USING (d, id)') AS no;
SELECT is_one('SELECT a.id, b.v FROM r a JOIN s b USING (at, id)') AS no;
SELECT is_one('SELECT * FROM r JOIN u ON g = d % 7');
SELECT is_one('SELECT count(*) OVER (PARTITION BY d, at), id FROM r');
SELECT is_one('SELECT * FROM r WHERE EXISTS (SELECT FROM s WHERE s.at = r.at AND s.d = r.d AND s.v > 5)');

-- partitions in turns
SELECT plan('SELECT * FROM r ORDER BY at LIMIT 5 OFFSET 400');
SELECT plan('SELECT at, d, count(*) FROM r GROUP BY at, d ORDER BY at DESC LIMIT 5');
SELECT plan('SELECT a.at FROM r a JOIN s b USING (at, d) ORDER BY at LIMIT 5');
SELECT plan('SELECT a.at FROM r a LEFT JOIN s b USING (at, d) ORDER BY b.at LIMIT 5');
SELECT plan('SELECT * FROM r ORDER BY id LIMIT 5');
SELECT plan('SELECT * FROM r ORDER BY at + interval ''1 day'' LIMIT 5');

-- that it is right
CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, q text);
INSERT INTO queries (q) VALUES
('SELECT * FROM r'),
('SELECT * FROM r WHERE d = 3'),
('SELECT * FROM r WHERE d IS NULL'),
('SELECT * FROM r WHERE d IN (1, 5, 9) AND at < ''2026-03-05'''),
('SELECT * FROM r WHERE d = 3 AND at = ''2026-02-10 00:00'''),
('SELECT * FROM r WHERE at IN (''2026-01-05'', ''2026-04-05'')'),
('SELECT * FROM r WHERE at < ''2026-02-01'' OR at >= ''2026-05-20'''),
('SELECT * FROM r WHERE at BETWEEN ''2026-01-31 20:00'' AND ''2026-03-01 03:00'' AND d > 3'),
('SELECT r.*, r FROM r WHERE id % 50 = 0'),
('SELECT count(*), sum(v), avg(v), stddev(v), min(w), max(at) FROM r'),
('SELECT d, count(*), sum(v), variance(id) FROM r GROUP BY d'),
('SELECT at, d, count(*), sum(v), array_agg(w ORDER BY w) FROM r GROUP BY at, d'),
('SELECT date_trunc(''month'', at), count(DISTINCT w), count(DISTINCT d), count(*) FROM r GROUP BY 1'),
('SELECT d, w, count(*) FROM r GROUP BY GROUPING SETS ((d, w), (d), ())'),
('SELECT DISTINCT w, d % 3 FROM r'),
('SELECT DISTINCT ON (at, d) at, d, id FROM r ORDER BY at, d, id'),
('SELECT id, count(*) OVER (PARTITION BY at, d), sum(v) OVER (PARTITION BY d ORDER BY id) FROM r'),
('SELECT * FROM (SELECT * FROM r ORDER BY at DESC, id LIMIT 50) q'),
('SELECT * FROM (SELECT * FROM r ORDER BY v, id OFFSET 20 LIMIT 30) q'),
('SELECT * FROM (SELECT * FROM r WHERE (at, id) < (''2026-03-10'', 500) ORDER BY at DESC, id DESC LIMIT 20) q'),
('SELECT array_agg(q) FROM (SELECT * FROM r ORDER BY at DESC, id LIMIT 30) q'),
('SELECT array_agg(q) FROM (SELECT * FROM r ORDER BY at, id DESC LIMIT 300) q'),
('SELECT array_agg(q) FROM (SELECT * FROM r ORDER BY at DESC, id OFFSET 400 LIMIT 100) q'),
('SELECT array_agg(q) FROM (SELECT at, id FROM r WHERE v < 60 ORDER BY at DESC, id LIMIT 4) q'),
('SELECT array_agg(q) FROM (SELECT at, id FROM r WHERE w = ''s3'' AND d > 2 ORDER BY at DESC NULLS LAST, id LIMIT 40) q'),
('SELECT array_agg(q) FROM (SELECT id FROM r WHERE at < ''2026-04-02'' ORDER BY at DESC, id LIMIT 40) q'),
('SELECT array_agg(q) FROM (SELECT id FROM r WHERE d = 5 ORDER BY at DESC, id LIMIT 40) q'),
('SELECT array_agg(q) FROM (SELECT at, d, count(*) FROM r GROUP BY at, d ORDER BY at DESC, d LIMIT 7) q'),
('SELECT array_agg(q) FROM (SELECT a.at, b.id FROM r a LEFT JOIN s b USING (at, d) ORDER BY a.at, b.id LIMIT 7) q'),
('SELECT array_agg(q) FROM (SELECT a.at, b.id FROM r a LEFT JOIN s b USING (at, d) ORDER BY b.at DESC, a.at, b.id LIMIT 7) q'),
('SELECT array_agg(q) FROM (SELECT DISTINCT at FROM r ORDER BY at DESC LIMIT 7) q'),
('SELECT e.d, x.a FROM e, LATERAL (SELECT array_agg(y) AS a FROM (SELECT id FROM r WHERE r.d = e.d OR r.d = e.grp ORDER BY at DESC, id LIMIT 3) y) x'),
('SELECT array_agg(q) FROM (SELECT id FROM r ORDER BY at LIMIT 0) q'),
('SELECT array_agg(q) FROM (SELECT id FROM r ORDER BY at DESC, id LIMIT (SELECT count(*) FROM e)) q'),
('SELECT a.id, b.v FROM r a JOIN s b USING (at, d)'),
('SELECT a.id, b.v FROM r a JOIN s b USING (at, d, id) WHERE a.at >= ''2026-03-15'''),
('SELECT a.id, b.v FROM r a LEFT JOIN s b USING (at, d, id)'),
('SELECT a.id, b.id FROM r a FULL JOIN s b USING (at, d, id)'),
('SELECT a.id, b.id FROM (SELECT * FROM r WHERE at > ''2026-02-15'') a FULL JOIN (SELECT * FROM s WHERE at < ''2026-04-15'') b USING (at, d, id)'),
('SELECT * FROM r WHERE EXISTS (SELECT FROM s WHERE s.at = r.at AND s.d = r.d AND s.v > 50)'),
('SELECT * FROM r WHERE NOT EXISTS (SELECT FROM s WHERE s.at = r.at AND s.d = r.d)'),
('SELECT a.id, b.id FROM r a JOIN s b USING (d, id)'),
('SELECT a.id, b.id FROM r a JOIN s b USING (at, id)'),
('SELECT a.id, b.id FROM r a LEFT JOIN s b USING (id)'),
('SELECT r.id, e.name FROM r JOIN e USING (d) WHERE at < ''2026-02-03'''),
('SELECT e.name, count(r.id) FROM e LEFT JOIN r USING (d) GROUP BY 1'),
('SELECT r.id, u.t FROM r JOIN u ON g = d % 7'),
('SELECT r.id, u.t FROM r LEFT JOIN u ON g = d % 7 AND r.v > 30'),
('SELECT u.t, count(r.id) FROM u LEFT JOIN r ON g = d % 7 GROUP BY 1'),
('SELECT e.name, (SELECT max(id) FROM r WHERE r.d = e.d) FROM e'),
('SELECT e.name, x.id FROM e, LATERAL (SELECT id FROM r WHERE r.d = e.d ORDER BY at DESC LIMIT 2) x'),
('SELECT * FROM r WHERE v > (SELECT avg(v) FROM s WHERE s.d = r.d)'),
('SELECT * FROM r WHERE d = (SELECT min(grp) FROM e)'),
('SELECT * FROM r WHERE at = (SELECT max(at) FROM s)'),
('SELECT id FROM r UNION SELECT id + 1 FROM s'),
('WITH m AS (SELECT d, max(at) AS at FROM r GROUP BY d) SELECT r.* FROM r JOIN m USING (d, at)'),
('SELECT a.at, a.n, b.n FROM (SELECT at, d, count(*) n FROM r GROUP BY 1, 2) a JOIN (SELECT at, d, count(*) n FROM s GROUP BY 1, 2) b USING (at, d)');
SELECT n, q, d.* FROM queries, same(q) d;
SET shardfdw.query_per_node = off;
SELECT n, q, d.* FROM queries, same(q) d;
RESET shardfdw.query_per_node;

-- parameters prune both levels when execution starts
SET plan_cache_mode = force_generic_plan;
PREPARE one (timestamptz, int) AS SELECT id FROM r WHERE at = $1 AND d = $2;
PREPARE span (timestamptz, timestamptz) AS SELECT count(*), min(id), max(id) FROM r WHERE at >= $1 AND at < $2;
PREPARE page (timestamptz, bigint) AS SELECT id FROM r WHERE (at, id) < ($1, $2) ORDER BY at DESC, id DESC LIMIT 3;
SELECT plan($$EXECUTE one ('2026-02-10', 14)$$);
SELECT plan($$EXECUTE span ('2026-02-10', '2026-03-02')$$);
EXECUTE one ('2026-02-10', 14);
EXECUTE one ('2027-02-10', 14);
EXECUTE one (NULL, 14);
EXECUTE span ('2026-02-10', '2026-03-02');
EXECUTE span ('2026-01-01', '2028-01-01');
EXECUTE page ('2026-03-01 01:00', 3);

-- a plan that is kept follows months and shards that come and go
SELECT add_month('r', 6, 3);
INSERT INTO r VALUES ('2026-06-05', 1, 5001, 1, 'new');
EXECUTE span ('2026-01-01', '2028-01-01');
ALTER TABLE r DETACH PARTITION r_1;
EXECUTE span ('2026-01-01', '2028-01-01');
ALTER TABLE r_2 DETACH PARTITION r_2_1;
EXECUTE span ('2026-02-10', '2026-03-02');
ALTER TABLE r_2 ATTACH PARTITION r_2_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);
ALTER TABLE r ATTACH PARTITION r_1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
EXECUTE span ('2026-02-10', '2026-03-02');
-- a month of another kind: core plans it
CREATE TABLE r_7 PARTITION OF r FOR VALUES FROM ('2026-07-01') TO ('2026-08-01');
INSERT INTO r VALUES ('2026-07-05', 1, 5002, 1, 'local');
EXECUTE span ('2026-01-01', '2028-01-01');
SELECT is_one('SELECT * FROM r') AS no;
DROP TABLE r_7;
EXECUTE span ('2026-01-01', '2028-01-01');
SELECT is_one('SELECT * FROM r');
-- one without shards, which gets some
CREATE TABLE r_7 PARTITION OF r FOR VALUES FROM ('2026-07-01') TO ('2026-08-01') PARTITION BY HASH (d);
SELECT is_one('SELECT * FROM r') AS no;
SELECT shardfdw.create_shard('r_7', 'r_7_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node2') \g /dev/null
SELECT is_one('SELECT * FROM r');
INSERT INTO r VALUES ('2026-07-05', 1, 5003, 1, 'one shard');
EXECUTE span ('2026-01-01', '2028-01-01');
-- a default one
CREATE TABLE r_d PARTITION OF r DEFAULT PARTITION BY HASH (d);
SELECT shardfdw.create_shard('r_d', 'r_d_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node3') \g /dev/null
INSERT INTO r VALUES ('2028-07-05', 1, 5004, 1, 'default'), ('2020-07-05', 1, 5005, 1, 'default');
EXECUTE span ('2026-01-01', '2029-01-01');
EXECUTE span ('2020-01-01', '2021-01-01');
SELECT id FROM r ORDER BY at DESC, id LIMIT 3;
SELECT id FROM r ORDER BY at, id LIMIT 3;
DROP TABLE r_d;
RESET plan_cache_mode;

-- what a transaction has written, cursors, savepoints
BEGIN;
INSERT INTO r VALUES ('2026-02-05', 2, 6001, 1, 'mine');
SELECT count(*) FROM r WHERE w = 'mine';
DECLARE c CURSOR FOR SELECT id FROM r WHERE at >= '2026-02-05' ORDER BY at, id;
FETCH 2 FROM c;
INSERT INTO r SELECT at, d, id + 10000, v, w FROM r WHERE at < '2026-02-05';
FETCH 2 FROM c;
SELECT count(*) FROM r WHERE id >= 10000;
SELECT id FROM r ORDER BY at DESC, id LIMIT 2;
SELECT array_agg(id) FROM (SELECT id FROM r WHERE id > 10270 ORDER BY at, id LIMIT 30) q;
ROLLBACK;
-- later turns of a cursor see what the first has seen
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM r WHERE d = 3 AND (at < '2026-02-03' OR at >= '2026-05-27') ORDER BY at DESC, id LIMIT 7;
FETCH 1 FROM c;
INSERT INTO r SELECT at, d, 20000, v, w FROM r WHERE d = 3 AND at < '2026-02-03';
UPDATE r SET v = 0 WHERE d = 3;
FETCH ALL FROM c;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT id FROM r WHERE d = 3 AND (at < '2026-02-03' OR at >= '2026-05-27') ORDER BY at DESC, id LIMIT 7;
FETCH 1 FROM c;
INSERT INTO r SELECT at, d, 20000, v, w FROM r WHERE d = 3 AND at < '2026-02-03';
FETCH ALL FROM c;
ROLLBACK;
SELECT count(*) FROM r WHERE id >= 10000 OR w = 'mine';

-- columns that have other numbers in a partition; another key: core plans it
CREATE TABLE x (at int, d int, v int) PARTITION BY RANGE (at);
CREATE TABLE x1 (v int, d int, at int) PARTITION BY HASH (d);
SELECT shardfdw.create_shard('x1', 'x1_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1') \g /dev/null
ALTER TABLE x ATTACH PARTITION x1 FOR VALUES FROM (1) TO (10);
SELECT is_one('SELECT * FROM x');
INSERT INTO x SELECT i, i * 7, i * 11 FROM generate_series(1, 9) i;
SELECT * FROM x WHERE d = 14 AND v > 1;
CREATE TABLE x2 (z int, d int, at int, v int) PARTITION BY HASH (d);
ALTER TABLE x2 DROP z;
SELECT shardfdw.create_shard('x2', 'x2_' || i, format('WITH (MODULUS 3, REMAINDER %s)', i), ('node' || 1 + i)::name) FROM generate_series(0, 2) i \g /dev/null
CREATE TABLE y (at int, v int, d int) PARTITION BY RANGE (at);
ALTER TABLE y ATTACH PARTITION x2 FOR VALUES FROM (10) TO (20);
INSERT INTO y VALUES (10, 3, 4), (11, 5, 6);
SELECT plan('SELECT * FROM y WHERE d = 4');
SELECT * FROM y WHERE d = 4;
PREPARE of_device (int) AS SELECT * FROM y WHERE d = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE of_device (6);
RESET plan_cache_mode;
INSERT INTO y SELECT 12, i, i FROM generate_series(1, 20) i ON CONFLICT DO NOTHING;
WITH moved AS (UPDATE y SET d = d + 1, v = 7 WHERE at = 12 AND d IN (8, 9) RETURNING *) SELECT * FROM moved ORDER BY d;
UPDATE y SET v = 8 WHERE at = 12 AND d = 10;
SELECT y FROM y WHERE d IN (9, 10) ORDER BY d, v;
ALTER TABLE x DETACH PARTITION x1;
CREATE TABLE x3 PARTITION OF x FOR VALUES FROM (1) TO (10) PARTITION BY HASH (d);
SELECT shardfdw.create_shard('x3', 'x3_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1') \g /dev/null
CREATE TABLE x4 PARTITION OF x FOR VALUES FROM (10) TO (20) PARTITION BY HASH (v);
SELECT shardfdw.create_shard('x4', 'x4_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1') \g /dev/null
SELECT is_one('SELECT * FROM x') AS no;
INSERT INTO x SELECT i, i * 7, i * 11 FROM generate_series(1, 19) i;
SELECT count(*), sum(v) FROM x WHERE d > 14;

DROP SCHEMA lev CASCADE;
