-- COPY with INDEXES DEFERRED: shards get the very indexes again that they had (who dies when: t/copy_crash.pl).
CREATE SCHEMA copy_indexes;
SET search_path = copy_indexes;
CREATE TABLE t (id int PRIMARY KEY, r int, s text, j jsonb, u int, CONSTRAINT one_u UNIQUE (id, u));
SELECT shardfdw.shard_table('t', 'id', shards => 4) \g /dev/null
CREATE INDEX t_r ON t (r);
CREATE INDEX t_s ON t (lower(s) COLLATE "C" text_pattern_ops, r DESC NULLS LAST) INCLUDE (u) WHERE r > 10;
CREATE INDEX ON t USING gin (j jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX ON t USING hash (s);
CREATE INDEX ON t USING brin (u) WITH (pages_per_range = 4);
CREATE UNIQUE INDEX t_u ON t (id, r, u);
-- what the nodes alone know: names, statistics, comments, the mark of CLUSTER, extensions that it needs
SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', $$CREATE INDEX "one's index" ON %1$s (r, (u + 1));
	ALTER INDEX copy_indexes."one's index" ALTER COLUMN 2 SET STATISTICS 77;
	COMMENT ON INDEX copy_indexes."one's index" IS 'it''s "one"';
	ALTER INDEX copy_indexes."one's index" DEPENDS ON EXTENSION plpgsql;
	ALTER INDEX copy_indexes."one's index" SET (fillfactor = 50);
	ALTER TABLE %1$s CLUSTER ON "one's index"$$);
CREATE VIEW now AS SELECT shard, result::jsonb AS indexes FROM shardfdw.run_on_shards('t',
	$$SELECT jsonb_object_agg(c.relname, jsonb_build_object('oid', i.indexrelid::int, 'definition', jsonb_build_array(
		pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisready, i.indisclustered, c.reltablespace::int, c.relowner = (SELECT relowner FROM pg_class WHERE oid = i.indrelid),
		obj_description(i.indexrelid, 'pg_class'), (SELECT jsonb_agg(nullif(a.attstattarget, -1) ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid),
		(SELECT jsonb_agg(d.refobjid::regclass ORDER BY d.refobjsubid) FROM pg_depend d WHERE d.objid = c.oid AND d.refobjid = i.indrelid),
		(SELECT count(*) FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'x'))))
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %L::regclass$$);
CREATE TABLE before AS SELECT * FROM now;
-- Which indexes are not what they were; and which were made anew.
CREATE VIEW changed AS SELECT coalesce(b.key, n.key) AS index, b.value->'definition' AS before, n.value->'definition' AS now
	FROM (SELECT shard, e.* FROM before, jsonb_each(indexes) e) b FULL JOIN (SELECT shard, e.* FROM now, jsonb_each(indexes) e) n USING (shard, key)
	WHERE b.value->'definition' IS DISTINCT FROM n.value->'definition';
CREATE VIEW made AS SELECT regexp_replace(key, '_\d\d$', '') AS index, count(*) AS shards
	FROM (SELECT shard, e.* FROM before, jsonb_each(indexes) e) b JOIN (SELECT shard, e.* FROM now, jsonb_each(indexes) e) n USING (shard, key)
	WHERE b.value->'oid' <> n.value->'oid' GROUP BY regexp_replace(key, '_\d\d$', '') ORDER BY regexp_replace(key, '_\d\d$', '') COLLATE "C";
SELECT before.indexes->'one''s index'->'definition' AS "one's index" FROM before ORDER BY shard LIMIT 1;

-- The options.
COPY t FROM '/dev/null' (INDEXES);
COPY t FROM '/dev/null' (INDEXES later);
COPY t FROM '/dev/null' (INDEXES deferred, INDEXES immediate);
COPY t FROM '/dev/null' (INDEXES deferred, RESUME 'a');
COPY t FROM '/dev/null' (INDEXES immediate);
COPY before FROM '/dev/null' (INDEXES deferred);
COPY t TO '/dev/null' (INDEXES deferred);
-- without rows nothing is dropped
COPY t FROM '/dev/null' (INDEXES deferred);
SELECT * FROM changed;
SELECT * FROM made;

-- Raw and parsed, in text, CSV and binary, into shards without and with rows; one shard alone.
COPY t FROM PROGRAM $$seq 1 2000 | awk '{ print $1 "," $1 % 50 ",S" $1 ",[" $1 % 7 "]," $1 % 9 }'$$ (FORMAT csv, INDEXES deferred);
SELECT * FROM changed;
SELECT * FROM made;
SELECT count(*), sum(r), count(*) FILTER (WHERE j @> '[3]'), count(DISTINCT s) FROM t;
COPY t FROM PROGRAM $$seq 2001 2100 | awk '{ print $1 "," $1 % 50 ",S" $1 ",[" $1 % 7 "]," $1 % 9 }'$$ (FORMAT csv, INDEXES deferred) WHERE id % 2 = 0;
COPY t TO '/tmp/shardfdw_copy_indexes.tmp' (FORMAT binary);
TRUNCATE t;
COPY t FROM '/tmp/shardfdw_copy_indexes.tmp' (FORMAT binary, INDEXES 'DEFERRED');
\! rm -f /tmp/shardfdw_copy_indexes.tmp
SELECT * FROM changed;
SELECT count(*), sum(r), count(*) FILTER (WHERE j @> '[3]'), count(DISTINCT s) FROM t;
-- the nodes find rows by them
SELECT DISTINCT result FROM shardfdw.run_on_shards('t', $$SET LOCAL enable_seqscan = off; SELECT count(*) > 0 FROM %s WHERE j @> '[3]'$$);
TRUNCATE before;
INSERT INTO before SELECT * FROM now;
COPY t FROM STDIN (INDEXES deferred);
3000	1	x	[]	1
\.
SELECT index, shards FROM made;
SELECT * FROM changed;

-- Keys keep their errors, with the line; then all is as before, with the same indexes.
TRUNCATE before;
INSERT INTO before SELECT * FROM now;
\set VERBOSITY default
COPY t FROM STDIN (FORMAT csv, INDEXES deferred);
4001,1,x,[],1
4002,1,x,[],1
3000,1,x,[],1
\.
COPY t FROM STDIN (FORMAT csv, INDEXES deferred);
4001,1,x,[],1
4002,x,x,[],1
\.
-- an error of such an index comes at the end
SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', 'CREATE INDEX ratio ON %s ((100 / (r - 77)))');
COPY t FROM STDIN (FORMAT csv, INDEXES deferred, ON_ERROR ignore);
4001,1,x,[],1
4002,77,x,[],1
\.
\set VERBOSITY terse
SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', 'DROP INDEX copy_indexes.ratio');
SELECT * FROM made;
SELECT * FROM changed;
SELECT count(*) FROM t WHERE id > 4000;

-- Rows that are set aside.
COPY t FROM STDIN (FORMAT csv, INDEXES deferred, ON_ERROR ignore);
4001,1,x,[],1
3000,1,x,[],1
4002,1,x,{,1
4003,1,x,{},1
4001,1,x,{},1
\.
COPY t FROM STDIN (FORMAT csv, INDEXES deferred, ON_DUPLICATE keep_new);
4001,1,replaced,[],1
4004,1,x,[],1
\.
SELECT id, s FROM t WHERE id > 4000 ORDER BY id;
SELECT * FROM changed;

-- In transactions, with what they have done before; savepoints; cursors.
BEGIN;
UPDATE t SET r = r + 1 WHERE id = 4001;
TRUNCATE t;
INSERT INTO t VALUES (1, 1, 'before', '[]', 1);
SAVEPOINT a;
COPY t FROM PROGRAM 'seq 11 20' (FORMAT csv, INDEXES deferred, FILTER 'missing');
ROLLBACK TO a;
COPY t (id) FROM PROGRAM 'seq 11 20' (INDEXES deferred);
SELECT count(*) FROM t;
ROLLBACK TO a;
COPY t (id) FROM PROGRAM 'seq 11 20' (INDEXES deferred);
COPY t (id) FROM PROGRAM 'seq 21 30' (INDEXES deferred);
INSERT INTO t VALUES (2, 1, 'after', '[]', 1);
SELECT count(*) FROM t;
SELECT * FROM changed;
COMMIT;
SELECT count(*) FROM t;
SELECT * FROM changed;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
COPY t (id) FROM PROGRAM 'seq 31 40' (INDEXES deferred);
SELECT count(*) FROM t;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 1 FROM c \g /dev/null
COPY t (id) FROM PROGRAM 'seq 41 50' (INDEXES deferred);
ROLLBACK;
SELECT inhrelid::regclass AS shard FROM pg_inherits WHERE inhparent = 't'::regclass ORDER BY 1 LIMIT 1 \gset
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM :shard;
COPY t (id) FROM PROGRAM 'seq 41 50' (INDEXES deferred);
ROLLBACK;
SELECT * FROM changed;
-- the transaction's settings are what they were
BEGIN;
COPY t (id) FROM PROGRAM 'seq 51 60' (INDEXES deferred);
SELECT node, fields FROM shardfdw.query_nodes('{node1,node2}', array_fill($$SELECT s.setting = s.reset_val, current_setting('default_tablespace')
	FROM pg_settings s WHERE s.name = 'maintenance_work_mem'$$::text, '{2}'), 'write') ORDER BY node;
ROLLBACK;

-- An index that is not valid stays.
SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', $$UPDATE pg_catalog.pg_index SET indisvalid = false WHERE indexrelid = replace(%L, '.t_', '.t_r_')::regclass$$);
TRUNCATE before;
INSERT INTO before SELECT * FROM now;
COPY t (id) FROM PROGRAM 'seq 100 200' (INDEXES deferred);
SELECT * FROM made;
SELECT * FROM changed;
SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', $$UPDATE pg_catalog.pg_index SET indisvalid = true WHERE indexrelid = replace(%L, '.t_', '.t_r_')::regclass$$);

-- A load that begins in raw mode and goes on in parsed mode.
CREATE TABLE days (d date, v int);
SELECT shardfdw.shard_table('days', 'd', shards => 4) \g /dev/null
CREATE INDEX days_v ON days (v);
SELECT string_agg(result, ' ' ORDER BY shard) AS indexes FROM shardfdw.run_on_shards('days', 'SELECT count(*) FROM pg_index WHERE indrelid = %L::regclass AND indisvalid');
COPY days FROM STDIN (FORMAT csv, INDEXES deferred);
2026-01-01,1
2026-01-02,2
today,3
2026-01-03,4
\.
SELECT count(*) FROM days;
SELECT string_agg(result, ' ' ORDER BY shard) AS indexes FROM shardfdw.run_on_shards('days', 'SELECT count(*) FROM pg_index WHERE indrelid = %L::regclass AND indisvalid');
DROP TABLE days;

-- Partitions of a table of two levels; the table itself is loaded by PostgreSQL, which knows no such option.
CREATE TABLE months (m int, k int, v int) PARTITION BY RANGE (m);
CREATE TABLE month_1 PARTITION OF months FOR VALUES FROM (1) TO (2) PARTITION BY HASH (k);
SELECT shardfdw.create_shard('month_1', ('month_1_' || i)::name, format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || 1 + i)::name) FROM generate_series(0, 1) i \g /dev/null
CREATE INDEX months_v ON months (v);
COPY months FROM '/dev/null' (INDEXES deferred);
COPY month_1 FROM PROGRAM $$seq 1 20 | sed 's/^/1,/; s/$/,5/'$$ (FORMAT csv, INDEXES deferred);
SELECT string_agg(result, ' ' ORDER BY shard) AS indexes FROM shardfdw.run_on_shards('month_1', 'SELECT count(*) FROM pg_index WHERE indrelid = %L::regclass AND indisvalid');
SELECT count(*) FROM months WHERE v = 5;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM months;
COPY month_1 FROM '/dev/null' (INDEXES deferred);
ROLLBACK;
DROP TABLE months;

-- Who may not, here and on nodes; constraints that are checked at the commit.
CREATE ROLE regress_copy_indexes;
GRANT USAGE ON SCHEMA copy_indexes TO regress_copy_indexes;
GRANT ALL ON t TO regress_copy_indexes;
SET ROLE regress_copy_indexes;
COPY t FROM '/dev/null' (INDEXES deferred);
RESET ROLE;
REVOKE ALL ON t FROM regress_copy_indexes;
REVOKE USAGE ON SCHEMA copy_indexes FROM regress_copy_indexes;
DROP ROLE regress_copy_indexes;
CREATE TABLE ref (id int PRIMARY KEY);
SELECT shardfdw.create_reference_table('ref') \g /dev/null
TRUNCATE t;
ALTER TABLE t ADD FOREIGN KEY (u) REFERENCES ref DEFERRABLE;
\set VERBOSITY default
COPY t FROM '/dev/null' (INDEXES deferred);
\set VERBOSITY terse
DROP SCHEMA copy_indexes CASCADE;
