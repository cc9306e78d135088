-- Keys and indexes of parents with several levels: all levels have them, and all shards.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_levels;
SET search_path = ddl_levels;
CREATE FUNCTION differences() RETURNS TABLE (node name, check_name text, status text, detail text) LANGUAGE sql
	AS $$ SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND check_name ~ '^shard ddl_levels' $$;
-- unique indexes of a table and its partitions here, each with the one that it is a part of
CREATE FUNCTION keys(relation regclass) RETURNS TABLE ("table" regclass, index regclass, definition text, valid bool, of regclass) LANGUAGE sql AS $$
	SELECT t.relid, i.indexrelid, coalesce(pg_get_constraintdef(k.oid), substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*')), i.indisvalid, h.inhparent
	FROM pg_partition_tree(relation) t JOIN pg_index i ON i.indrelid = t.relid LEFT JOIN pg_inherits h ON h.inhrelid = i.indexrelid
		LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = t.relid
	WHERE i.indisunique ORDER BY t.level, t.relid::text COLLATE "C", i.indexrelid::regclass::text COLLATE "C" $$;
CREATE PROCEDURE month(n int) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE h%1$s PARTITION OF h FOR VALUES FROM (%1$s) TO (%2$s) PARTITION BY HASH (d)', n, n + 1);
	PERFORM shardfdw.create_shard(format('h%s', n)::regclass, format('h%s_%s', n, i)::name, format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || 1 + (n + i) % 4)::name) FROM generate_series(0, 1) i;
END $$;

-- A key of the upper table: for shards that there are, and for later ones
CREATE TABLE h (at int NOT NULL, d int NOT NULL, v int) PARTITION BY RANGE (at);
CALL month(1);
CREATE TABLE h2 PARTITION OF h FOR VALUES FROM (2) TO (3) PARTITION BY HASH (d);
CREATE TABLE h9 PARTITION OF h FOR VALUES FROM (9) TO (10);
ALTER TABLE h ADD PRIMARY KEY (at, d);
SELECT shardfdw.create_shard('h2', 'h2_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node3');
CALL month(3);
SELECT * FROM keys('h');
SELECT * FROM differences();
INSERT INTO h VALUES (1, 1, 1), (2, 1, 1), (3, 1, 1), (9, 1, 1);
INSERT INTO h VALUES (1, 1, 2);
INSERT INTO h VALUES (2, 1, 2);
INSERT INTO h VALUES (3, 1, 2);
INSERT INTO h VALUES (9, 1, 2);

-- Detach and attach
BEGIN;
ALTER TABLE h DETACH PARTITION h1;
ALTER TABLE h ATTACH PARTITION h1 FOR VALUES FROM (1) TO (2);
SELECT * FROM differences();
SAVEPOINT a;
INSERT INTO h VALUES (1, 1, 2);
ROLLBACK TO a;
ALTER TABLE h DETACH PARTITION h1;
ROLLBACK;
ALTER TABLE h DETACH PARTITION h1;
SELECT * FROM keys('h1');
INSERT INTO h1 VALUES (1, 1, 2);
-- what the table gets meanwhile is made for the month when it comes back; what does not hold there is refused
ALTER TABLE h ADD UNIQUE (at, d, v);
CREATE INDEX plain ON h (v);
ALTER TABLE h1 DROP CONSTRAINT h1_pkey;
INSERT INTO h1 VALUES (1, 1, 2), (1, 1, 3);
SELECT * FROM differences();
ALTER TABLE h ATTACH PARTITION h1 FOR VALUES FROM (1) TO (2);
DELETE FROM h1 WHERE v > 1;
ALTER TABLE h ATTACH PARTITION h1 FOR VALUES FROM (1) TO (2);
INSERT INTO h VALUES (1, 1, 2);
SELECT * FROM differences();
SELECT * FROM keys('h1');

-- Sharded tables that become months: equal keys are taken over
CREATE TABLE h4 (LIKE h, CONSTRAINT own PRIMARY KEY (at, d), UNIQUE (at, d, v)) PARTITION BY HASH (d);
CREATE TABLE h5 (LIKE h) PARTITION BY HASH (d);
CREATE TABLE h6 (LIKE h, PRIMARY KEY (d, at)) PARTITION BY HASH (d);
-- columns in another order
CREATE TABLE h7 (v int, d int NOT NULL, gone int, at int NOT NULL) PARTITION BY HASH (d);
ALTER TABLE h7 DROP gone;
SELECT shardfdw.shard_table(t, shards => 2) FROM unnest('{h4,h5,h6,h7}'::regclass[]) t;
ALTER TABLE h ATTACH PARTITION h4 FOR VALUES FROM (4) TO (5);
ALTER TABLE h ATTACH PARTITION h5 FOR VALUES FROM (5) TO (6);
ALTER TABLE h ATTACH PARTITION h6 FOR VALUES FROM (6) TO (7);
ALTER TABLE h ATTACH PARTITION h7 FOR VALUES FROM (7) TO (8);
SELECT * FROM keys('h') WHERE "table" IN ('h', 'h4', 'h5', 'h7');
SELECT * FROM differences();
INSERT INTO h SELECT i, 1, 1 FROM generate_series(4, 7) i WHERE i <> 6;
INSERT INTO h VALUES (7, 1, 2);
-- the other way around: the months have it, the table gets it
ALTER TABLE h DROP CONSTRAINT h_pkey;
SELECT * FROM differences();
ALTER TABLE h DETACH PARTITION h4;
ALTER TABLE h4 ADD CONSTRAINT own PRIMARY KEY (at, d);
ALTER TABLE h ATTACH PARTITION h4 FOR VALUES FROM (4) TO (5);
ALTER TABLE h ADD CONSTRAINT again PRIMARY KEY (at, d);
SELECT * FROM keys('h') WHERE definition LIKE 'PRIMARY%';
SELECT * FROM differences();
INSERT INTO h VALUES (4, 1, 2);
ALTER TABLE h4 DROP CONSTRAINT own;

-- Kinds of keys
ALTER TABLE h ADD w text, ADD u int;
ALTER TABLE h ADD CONSTRAINT late UNIQUE (at, d, u) DEFERRABLE INITIALLY DEFERRED;
CREATE UNIQUE INDEX part ON h (at, d, v) INCLUDE (w) WHERE v > 0;
CREATE UNIQUE INDEX nulls ON h (at, d, w) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX IF NOT EXISTS nulls ON h (at, d, w);
-- unique in the upper table's sense, but not within a month
ALTER TABLE h ADD UNIQUE (at, v);
CREATE UNIQUE INDEX ON h (at);
CREATE UNIQUE INDEX CONCURRENTLY ON h (at, v);
CREATE UNIQUE INDEX CONCURRENTLY conc ON h (d, at);
SELECT * FROM keys('h4');
ALTER TABLE h DETACH PARTITION h5;
ALTER TABLE h ATTACH PARTITION h5 FOR VALUES FROM (5) TO (6);
CALL month(8);
SELECT * FROM keys('h') WHERE "table" IN ('h5'::regclass, 'h8'::regclass);
SELECT * FROM differences();
BEGIN;
DELETE FROM h;
INSERT INTO h VALUES (8, 1, 1, 'a', 5);
SAVEPOINT a;
INSERT INTO h VALUES (8, 1, 2, 'b', 5), (8, 1, 2, 'b', 6);
ROLLBACK TO a;
UPDATE h SET d = 2 WHERE d = 1;
ROLLBACK;

-- Changes of what keys are over, at all levels
ALTER TABLE h ALTER v TYPE bigint;
ALTER TABLE h RENAME v TO vv;
ALTER TABLE h RENAME CONSTRAINT again TO renamed;
ALTER INDEX part RENAME TO part2;
COMMENT ON CONSTRAINT renamed ON h IS 'key';
SELECT * FROM keys('h') WHERE "table" IN ('h', 'h8');
SELECT * FROM differences();
DROP INDEX part2, nulls;
DROP INDEX CONCURRENTLY conc;
ALTER TABLE h DROP CONSTRAINT late;
SELECT * FROM keys('h') WHERE "table" IN ('h', 'h8');
SELECT * FROM differences();

-- One shard: attached when its table is as it says, with the keys of the table
ALTER TABLE h8 DETACH PARTITION h8_0;
ALTER TABLE h8_0 ADD x int, ALTER vv SET NOT NULL, ADD CHECK (vv > 7), ALTER w TYPE varchar(3);
ALTER TABLE h ADD x int, ALTER vv SET NOT NULL, ALTER w TYPE varchar(3);
CREATE UNIQUE INDEX more ON h (at, d, vv, w);
\set VERBOSITY default
ALTER TABLE h8 ATTACH PARTITION h8_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
\set VERBOSITY terse
SELECT node, ok FROM shardfdw.run_on_nodes('ALTER TABLE IF EXISTS ddl_levels.h8_0 ADD x int, ALTER vv SET NOT NULL, ADD CHECK (vv > 7), ALTER w TYPE varchar(3)') ORDER BY node;
ALTER TABLE h8 ATTACH PARTITION h8_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
SELECT * FROM differences();
ALTER TABLE h8 DETACH PARTITION h8_0;
SELECT node, ok FROM shardfdw.run_on_nodes('ALTER TABLE IF EXISTS ddl_levels.h8_0 RENAME TO other') ORDER BY node;
ALTER TABLE h8 ATTACH PARTITION h8_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
SELECT node, ok FROM shardfdw.run_on_nodes('ALTER TABLE IF EXISTS ddl_levels.other RENAME TO h8_0') ORDER BY node;
ALTER TABLE h8 DETACH PARTITION h8_0;
ALTER TABLE h8 ATTACH PARTITION h8_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);

-- Done here alone: levels that lack a key are seen
SET shardfdw.enable_ddl_propagation = off;
CREATE UNIQUE INDEX alone ON ONLY h (at, d, vv, x);
RESET shardfdw.enable_ddl_propagation;
SELECT check_name, status, detail FROM differences() WHERE check_name ~ 'h[15]_';
DROP INDEX alone;

-- Foreign keys, which only shards have: those that all shards have are given to the first one of a later month
CREATE TABLE r (k int PRIMARY KEY);
INSERT INTO r VALUES (1);
SELECT shardfdw.create_reference_table('r');
CREATE TABLE f (at int, d int, v int, w int) PARTITION BY RANGE (at);
CREATE TABLE f1 PARTITION OF f FOR VALUES FROM (1) TO (2) PARTITION BY HASH (d);
CREATE TABLE f2 PARTITION OF f FOR VALUES FROM (2) TO (3) PARTITION BY HASH (d);
CREATE TABLE f3 PARTITION OF f FOR VALUES FROM (3) TO (4) PARTITION BY HASH (d);
SELECT shardfdw.create_shard(t::regclass, t || '_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node2') FROM unnest('{f1,f2}'::text[]) t;
ALTER TABLE f ADD FOREIGN KEY (v) REFERENCES r;
ALTER TABLE f1 ADD FOREIGN KEY (w) REFERENCES r;
ALTER TABLE f SET (fillfactor = 50);
SELECT shardfdw.create_shard('f3', 'f3_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');
-- a partition may refer to a sharded table, the table of two levels may not
ALTER TABLE f ADD FOREIGN KEY (at, d) REFERENCES f (at, d);
INSERT INTO f VALUES (3, 1, 2, 2);
INSERT INTO f VALUES (3, 1, 1, 2);
ALTER TABLE f VALIDATE CONSTRAINT f_v_fkey;
SELECT result FROM shardfdw.run_on_nodes($$SELECT reloptions FROM pg_class WHERE oid = to_regclass('ddl_levels.f3_0')$$) WHERE node = 'node1';
ALTER TABLE f DROP CONSTRAINT f_v_fkey;
INSERT INTO f VALUES (3, 1, 2, 2);

-- Three levels
CREATE TABLE deep (a int, b int, c int, v int) PARTITION BY RANGE (a);
CREATE TABLE deep_1 PARTITION OF deep FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (b);
CREATE TABLE deep_1_1 PARTITION OF deep_1 FOR VALUES FROM (0) TO (10) PARTITION BY HASH (c);
SELECT shardfdw.create_shard('deep_1_1', 'deep_1_1_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');
ALTER TABLE deep ADD UNIQUE (a, b, c);
CREATE TABLE deep_1_2 PARTITION OF deep_1 FOR VALUES FROM (10) TO (20) PARTITION BY HASH (c);
SELECT shardfdw.create_shard('deep_1_2', 'deep_1_2_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node2');
CREATE TABLE deep_1_3 PARTITION OF deep_1 FOR VALUES FROM (20) TO (30);
ALTER TABLE deep DETACH PARTITION deep_1;
ALTER TABLE deep ADD PRIMARY KEY (a, b, c);
ALTER TABLE deep_1 ADD PRIMARY KEY (a, b, c);
ALTER TABLE deep ATTACH PARTITION deep_1 FOR VALUES FROM (0) TO (10);
SELECT * FROM keys('deep');
SELECT * FROM differences();
INSERT INTO deep VALUES (1, 11, 1, 1), (1, 21, 1, 1);
INSERT INTO deep VALUES (1, 11, 1, 2);
INSERT INTO deep VALUES (1, 21, 1, 2);

-- A table with real keys over local months gets its first sharded one
CREATE TABLE l (at int, d int, v int, PRIMARY KEY (at, d)) PARTITION BY RANGE (at);
CREATE TABLE l1 PARTITION OF l FOR VALUES FROM (1) TO (2);
CREATE TABLE l2 PARTITION OF l FOR VALUES FROM (2) TO (3) PARTITION BY HASH (d);
INSERT INTO l VALUES (1, 1, 1) ON CONFLICT (at, d) DO NOTHING;
SELECT shardfdw.create_shard('l2', 'l2_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');
SELECT * FROM keys('l');
INSERT INTO l VALUES (1, 1, 1) ON CONFLICT (at, d) DO UPDATE SET v = 2;
INSERT INTO l VALUES (2, 1, 1), (2, 1, 1);
-- unless somebody refers to it
CREATE TABLE m (at int, d int, PRIMARY KEY (at, d)) PARTITION BY RANGE (at);
CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (2) TO (3) PARTITION BY HASH (d);
CREATE TABLE refers (at int, d int, FOREIGN KEY (at, d) REFERENCES m);
SELECT shardfdw.create_shard('m2', 'm2_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');
DROP TABLE refers, m;

-- Partitions of other owners
CREATE ROLE regress_month;
GRANT ALL ON SCHEMA ddl_levels TO regress_month;
ALTER TABLE h1 OWNER TO regress_month;
CREATE UNIQUE INDEX of_others ON h (at, d, x);
SELECT * FROM keys('h1') WHERE of = 'of_others'::regclass;
SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE oid IN (SELECT index FROM keys('h1') WHERE of = 'of_others'::regclass);
DROP INDEX of_others;

-- A sharded table joins a table that has local partitions and a primary key: the key becomes one that each partition
-- enforces for itself
CREATE TABLE job (queue text NOT NULL, id int NOT NULL, v int, PRIMARY KEY (queue, id)) PARTITION BY LIST (queue);
CREATE TABLE job_local (LIKE job INCLUDING ALL);
ALTER TABLE job ATTACH PARTITION job_local FOR VALUES IN ('local');
CREATE TABLE job_sharded (LIKE job INCLUDING ALL);
SELECT shardfdw.shard_table('job_sharded', 'id', shards => 2) \g /dev/null
ALTER TABLE job ATTACH PARTITION job_sharded FOR VALUES IN ('sharded');
SELECT * FROM keys('job');
INSERT INTO job SELECT q, i FROM unnest('{local,sharded}'::text[]) q, generate_series(1, 3) i;
INSERT INTO job VALUES ('local', 1);
INSERT INTO job VALUES ('sharded', 1);
INSERT INTO job VALUES ('local', 1), ('sharded', 1), ('sharded', 4) ON CONFLICT DO NOTHING;
INSERT INTO job VALUES ('local', 1) ON CONFLICT (queue, id) DO NOTHING;
EXPLAIN INSERT INTO job VALUES ('local', 1) ON CONFLICT ON CONSTRAINT job_pkey DO NOTHING;
SELECT queue, count(*) FROM job GROUP BY queue ORDER BY queue;
-- USING would convert the rows of the nodes alone
ALTER TABLE job ALTER COLUMN v TYPE numeric USING v / 2.0;
ALTER TABLE job ALTER COLUMN v TYPE numeric;
CREATE TABLE job_next PARTITION OF job FOR VALUES IN ('next');
ALTER TABLE job DETACH PARTITION job_sharded;
ALTER TABLE job ATTACH PARTITION job_sharded FOR VALUES IN ('sharded');
SELECT * FROM differences();
-- not where a foreign key needs the key
CREATE TABLE referenced (queue text PRIMARY KEY) PARTITION BY LIST (queue);
CREATE TABLE referenced_local PARTITION OF referenced FOR VALUES IN ('local');
CREATE TABLE refers (queue text REFERENCES referenced);
CREATE TABLE referenced_sharded (queue text PRIMARY KEY);
SELECT shardfdw.shard_table('referenced_sharded', shards => 2) \g /dev/null
\set VERBOSITY sqlstate
ALTER TABLE referenced ATTACH PARTITION referenced_sharded FOR VALUES IN ('sharded');
\set VERBOSITY terse
DROP TABLE refers, referenced, referenced_sharded, job;

-- Rows that bounds do not allow: of a sharded table that becomes a partition, of the DEFAULT partition beside a new one
CREATE TABLE days (at int NOT NULL, id int NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE days_1 (LIKE days);
CREATE TABLE days_2 (LIKE days);
CREATE TABLE days_rest (LIKE days);
CREATE TABLE days_local (LIKE days);
SELECT shardfdw.shard_table('days_1', 'id', shards => 2), shardfdw.shard_table('days_2', 'id', shards => 2), shardfdw.shard_table('days_rest', 'id', shards => 2) \g /dev/null
INSERT INTO days_1 SELECT i, i FROM generate_series(1, 12) i;
INSERT INTO days_rest SELECT i, i FROM generate_series(20, 40) i;
SET constraint_exclusion = on;
\set VERBOSITY default
ALTER TABLE days ATTACH PARTITION days_1 FOR VALUES FROM (0) TO (10);
\set VERBOSITY terse
ALTER TABLE days ATTACH PARTITION days_1 FOR VALUES FROM (0) TO (20);
ALTER TABLE days ATTACH PARTITION days_rest DEFAULT;
\set VERBOSITY default
ALTER TABLE days ATTACH PARTITION days_2 FOR VALUES FROM (20) TO (30);
\set VERBOSITY terse
ALTER TABLE days ATTACH PARTITION days_local FOR VALUES FROM (20) TO (30);
CREATE TABLE days_new PARTITION OF days FOR VALUES FROM (30) TO (40);
CREATE FOREIGN TABLE days_new PARTITION OF days FOR VALUES FROM (30) TO (40) SERVER node1;
SELECT count(*), count(*) FILTER (WHERE at = 25) FROM days;
DELETE FROM days WHERE at BETWEEN 20 AND 29;
ALTER TABLE days ATTACH PARTITION days_2 FOR VALUES FROM (20) TO (30);
CREATE TABLE days_new PARTITION OF days FOR VALUES FROM (50) TO (60);
-- a constraint that says it
ALTER TABLE days DETACH PARTITION days_1;
ALTER TABLE days_1 ADD CHECK (at >= 0 AND at < 20);
ALTER TABLE days ATTACH PARTITION days_1 FOR VALUES FROM (-1) TO (20);
INSERT INTO days SELECT i, i FROM generate_series(0, 59) i WHERE i NOT BETWEEN 1 AND 12 AND i NOT BETWEEN 30 AND 40;
SELECT tableoid::regclass::text ~ 'days_(1|2|rest)', count(*) FROM days GROUP BY 1 ORDER BY 1;
RESET constraint_exclusion;
DROP TABLE days;
-- partitions at which the planner would not look: bounds of a DEFAULT shard, and of a DEFAULT partition with another one
CREATE TABLE ranges (k int NOT NULL) PARTITION BY RANGE (k);
SELECT shardfdw.create_shard('ranges', 'ranges_1', 'FROM (0) TO (100)', 'node1'), shardfdw.create_shard('ranges', 'ranges_rest', 'DEFAULT', 'node2') \g /dev/null
INSERT INTO ranges VALUES (1), (150), (500);
CREATE TABLE above (k int NOT NULL) PARTITION BY RANGE (k);
ALTER TABLE above ATTACH PARTITION ranges FOR VALUES FROM (0) TO (200);
ALTER TABLE above ATTACH PARTITION ranges FOR VALUES FROM (0) TO (501);
SET constraint_exclusion = on;
SELECT shardfdw.create_shard('ranges', 'ranges_2', 'FROM (100) TO (200)', 'node3');
RESET constraint_exclusion;
DELETE FROM ranges WHERE k = 150;
SELECT shardfdw.create_shard('ranges', 'ranges_2', 'FROM (100) TO (200)', 'node3');
CREATE TABLE rest (id int NOT NULL, at int NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE rest_default PARTITION OF rest DEFAULT PARTITION BY RANGE (at);
CREATE TABLE rest_sharded (at int NOT NULL, gone int, id int NOT NULL);
ALTER TABLE rest_sharded DROP COLUMN gone;
INSERT INTO rest_sharded SELECT i, i FROM generate_series(1, 20) i;
SELECT shardfdw.shard_table('rest_sharded', 'id', shards => 4) \g /dev/null
CREATE TABLE rest_local (LIKE rest);
INSERT INTO rest_local VALUES (35, 35);
ALTER TABLE rest_default ATTACH PARTITION rest_sharded FOR VALUES FROM (0) TO (30);
ALTER TABLE rest_default ATTACH PARTITION rest_local DEFAULT;
CREATE TABLE rest_1 PARTITION OF rest FOR VALUES FROM (10) TO (11);
CREATE TABLE rest_1 PARTITION OF rest FOR VALUES FROM (35) TO (36);
CREATE TABLE rest_1 PARTITION OF rest FOR VALUES FROM (25) TO (30);
INSERT INTO rest VALUES (26, 26);
SELECT shardfdw.create_shard('rest', 'rest_2', 'FROM (5) TO (8)', 'node1');
SELECT shardfdw.create_shard('rest', 'rest_2', 'FROM (21) TO (22)', 'node1');
SELECT tableoid::regclass, * FROM rest WHERE at > 20 ORDER BY at;
DROP TABLE above, rest;
-- among foreign tables of another wrapper
CREATE FOREIGN DATA WRAPPER ddl_levels_other;
CREATE SERVER ddl_levels_other FOREIGN DATA WRAPPER ddl_levels_other;
CREATE TABLE mixed (id int NOT NULL, at int NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE mixed_rest PARTITION OF mixed DEFAULT PARTITION BY RANGE (at);
CREATE TABLE mixed_sharded (LIKE mixed);
INSERT INTO mixed_sharded SELECT i, i FROM generate_series(1, 20) i;
SELECT shardfdw.shard_table('mixed_sharded', 'id', shards => 2) \g /dev/null
ALTER TABLE mixed_rest ATTACH PARTITION mixed_sharded FOR VALUES FROM (0) TO (30);
CREATE FOREIGN TABLE mixed_other PARTITION OF mixed_rest FOR VALUES FROM (30) TO (40) SERVER ddl_levels_other;
CREATE TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (10) TO (11);
SELECT shardfdw.create_shard('mixed', 'mixed_1', 'FROM (10) TO (11)', 'node1');
CREATE TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (21) TO (22);
ALTER TABLE mixed DETACH PARTITION mixed_rest;
ALTER TABLE mixed ATTACH PARTITION mixed_rest FOR VALUES FROM (0) TO (10);
ALTER TABLE mixed ADD PRIMARY KEY (id, at);
ALTER TABLE mixed ATTACH PARTITION mixed_rest FOR VALUES FROM (0) TO (21);
ALTER TABLE mixed DROP CONSTRAINT mixed_pkey;
ALTER TABLE mixed ATTACH PARTITION mixed_rest FOR VALUES FROM (0) TO (21);
DROP TABLE mixed;
DROP SERVER ddl_levels_other;
DROP FOREIGN DATA WRAPPER ddl_levels_other;
-- by hash
CREATE TABLE hashed (k int NOT NULL, l int) PARTITION BY HASH (l);
CREATE TABLE hashed_1 (k int NOT NULL, l int);
INSERT INTO hashed_1 SELECT i, i FROM generate_series(1, 20) i;
SELECT shardfdw.shard_table('hashed_1', 'k', shards => 4) \g /dev/null
ALTER TABLE hashed ATTACH PARTITION hashed_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
DELETE FROM hashed_1 WHERE NOT satisfies_hash_partition('hashed'::regclass, 2, 0, l);
ALTER TABLE hashed ATTACH PARTITION hashed_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
SELECT count(*) BETWEEN 1 AND 19 FROM hashed;
DROP TABLE hashed;
-- as core checks rows: policies do not matter, functions in the key find others by the session's search_path
CREATE USER MAPPING FOR regress_month SERVER node1 OPTIONS (user :'USER', password_required 'false');
CREATE USER MAPPING FOR regress_month SERVER node2 OPTIONS (user :'USER', password_required 'false');
GRANT USAGE ON FOREIGN SERVER node1, node2 TO regress_month;
SET ROLE regress_month;
CREATE FUNCTION half(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 2';
CREATE FUNCTION bucket(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN half($1); END';
CREATE TABLE mine (k int NOT NULL, at int NOT NULL) PARTITION BY RANGE (bucket(at));
CREATE TABLE mine_1 (k int NOT NULL, at int NOT NULL);
INSERT INTO mine_1 SELECT i, i FROM generate_series(1, 20) i;
SELECT shardfdw.shard_table('mine_1', 'k', shards => 2, nodes => '{node1,node2}') \g /dev/null
CREATE POLICY few ON mine_1 USING (at < 5);
ALTER TABLE mine_1 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
REVOKE SELECT ON mine_1 FROM regress_month;
ALTER TABLE mine ATTACH PARTITION mine_1 FOR VALUES FROM (0) TO (5);
ALTER TABLE mine ATTACH PARTITION mine_1 FOR VALUES FROM (0) TO (11);
DROP TABLE mine;
DROP FUNCTION bucket, half;
RESET ROLE;
DROP USER MAPPING FOR regress_month SERVER node1;
DROP USER MAPPING FOR regress_month SERVER node2;
REVOKE USAGE ON FOREIGN SERVER node1, node2 FROM regress_month;

DROP TABLE f;
DROP SCHEMA ddl_levels CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS ddl_levels CASCADE') r WHERE r.ok;
DROP ROLE regress_month;
