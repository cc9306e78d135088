-- join2_tables.sql - tables for joins that nodes compute, in one schema of the differential tests
--
--   \set schema diff_seven   the schema
--   \set shards 7            number of shards; 0: plain tables
--
-- Keys come several times, are missing on either side, and are NULL. Rows are made in diff_plain and
-- copied from there, so diff_plain comes first.

SET search_path = :schema, diff;
SELECT :shards > 0 AS sharded, :shards > 1 AS several \gset

CREATE TABLE ja (k bigint, a int, t text, d date);
CREATE TABLE jb (k bigint, b int, t text, n numeric);
CREATE TABLE jc (k bigint, c int, t text);
CREATE TABLE je (k bigint, e int, t text);		-- empty
CREATE TABLE ji (k int, i int);					-- a key of another type
CREATE TABLE jm (k bigint, m int);				-- another number of shards
CREATE TABLE jw (k bigint, w int);				-- the same bounds, other nodes
CREATE TABLE jt (k text, v int);				-- text keys
CREATE TABLE ju (k text, v int);
CREATE TABLE jx (k1 int, k2 text, x int);		-- a key of two columns
CREATE TABLE jy (k1 int, k2 text, y int);
CREATE TABLE r1 (id int PRIMARY KEY, name text, grp int);	-- reference tables
CREATE TABLE r2 (id int, k bigint, label text);
CREATE TABLE r0 (id int, label text);			-- empty
CREATE TABLE loc (id int, k bigint, name text);	-- here only
\if :sharded
CREATE TABLE jr (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE js (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE jl (k text, v int) PARTITION BY LIST (k);
CREATE TABLE jk (k text, v int) PARTITION BY LIST (k);
\else
CREATE TABLE jr (k int, v int);
CREATE TABLE js (k int, v int);
CREATE TABLE jl (k text, v int);
CREATE TABLE jk (k text, v int);
\endif

\if :sharded
SELECT min(srvname) AS node_a, max(srvname) AS node_b
  FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
 WHERE fdwname = 'shardfdw' AND srvname <> 'shardfdw_cluster' \gset
SELECT shardfdw.shard_table('ja', 'k', shards => :shards);
SELECT shardfdw.shard_table('jb', 'k', colocate_with => 'ja');
SELECT shardfdw.shard_table('jc', 'k', colocate_with => 'ja');
SELECT shardfdw.shard_table('je', 'k', colocate_with => 'ja');
SELECT shardfdw.shard_table('ji', 'k', shards => :shards);
SELECT shardfdw.shard_table('jm', 'k', shards => :shards + 1);
SELECT shardfdw.shard_table('jw', 'k', shards => :shards, nodes => ARRAY[:'node_b']::name[]);
SELECT shardfdw.shard_table('jt', 'k', shards => :shards);
SELECT shardfdw.shard_table('ju', 'k', colocate_with => 'jt');
CREATE TABLE px (LIKE jx) PARTITION BY HASH (k1, k2);
CREATE TABLE py (LIKE jy) PARTITION BY HASH (k1, k2);
DROP TABLE jx, jy;
ALTER TABLE px RENAME TO jx;
ALTER TABLE py RENAME TO jy;
SELECT shardfdw.shard_table('jx', shards => :shards);
SELECT shardfdw.shard_table('jy', shards => :shards);
\if :several
SELECT shardfdw.create_shard('jr', 'jr_1', 'FROM (MINVALUE) TO (10)', :'node_a');
SELECT shardfdw.create_shard('jr', 'jr_2', 'FROM (10) TO (20)', :'node_b');
SELECT shardfdw.create_shard('jr', 'jr_3', 'FROM (20) TO (MAXVALUE)', :'node_a');
SELECT shardfdw.create_shard('jr', 'jr_rest', 'DEFAULT', :'node_b');
SELECT shardfdw.create_shard('js', 'js_3', 'FROM (20) TO (MAXVALUE)', :'node_a');
SELECT shardfdw.create_shard('js', 'js_2', 'FROM (10) TO (20)', :'node_b');
SELECT shardfdw.create_shard('js', 'js_1', 'FROM (MINVALUE) TO (10)', :'node_a');
SELECT shardfdw.create_shard('js', 'js_rest', 'DEFAULT', :'node_b');
SELECT shardfdw.create_shard('jl', 'jl_1', 'IN (''a'', ''b'')', :'node_a');
SELECT shardfdw.create_shard('jl', 'jl_2', 'IN (''c'', NULL)', :'node_b');
SELECT shardfdw.create_shard('jl', 'jl_rest', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('jk', 'jk_1', 'IN (''a'', ''b'')', :'node_a');
SELECT shardfdw.create_shard('jk', 'jk_2', 'IN (''c'', NULL)', :'node_b');
SELECT shardfdw.create_shard('jk', 'jk_rest', 'DEFAULT', :'node_a');
\else
SELECT shardfdw.create_shard('jr', 'jr_all', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('js', 'js_all', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('jl', 'jl_all', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('jk', 'jk_all', 'DEFAULT', :'node_a');
\endif
INSERT INTO ja SELECT * FROM diff_plain.ja;
INSERT INTO jb SELECT * FROM diff_plain.jb;
INSERT INTO jc SELECT * FROM diff_plain.jc;
INSERT INTO ji SELECT * FROM diff_plain.ji;
INSERT INTO jm SELECT * FROM diff_plain.jm;
INSERT INTO jw SELECT * FROM diff_plain.jw;
INSERT INTO jt SELECT * FROM diff_plain.jt;
INSERT INTO ju SELECT * FROM diff_plain.ju;
INSERT INTO jx SELECT * FROM diff_plain.jx;
INSERT INTO jy SELECT * FROM diff_plain.jy;
INSERT INTO jr SELECT * FROM diff_plain.jr;
INSERT INTO js SELECT * FROM diff_plain.js;
INSERT INTO jl SELECT * FROM diff_plain.jl;
INSERT INTO jk SELECT * FROM diff_plain.jk;
INSERT INTO r1 SELECT * FROM diff_plain.r1;
INSERT INTO r2 SELECT * FROM diff_plain.r2;
INSERT INTO loc SELECT * FROM diff_plain.loc;
SELECT shardfdw.create_reference_table('r1');
SELECT shardfdw.create_reference_table('r2');
SELECT shardfdw.create_reference_table('r0');
\else
INSERT INTO ja SELECT CASE WHEN g % 11 > 0 THEN g % 60 END, g % 13, 'a' || g % 5, date '2024-01-01' + g % 20 FROM generate_series(1, 90) g;
INSERT INTO jb SELECT CASE WHEN g % 7 > 0 THEN g % 45 + 20 END, CASE WHEN g % 5 > 0 THEN g % 13 END, 'b' || g % 4, g / 4.0 FROM generate_series(1, 80) g;
INSERT INTO jc SELECT CASE WHEN g % 9 > 0 THEN g * 3 END, g % 6, CASE WHEN g % 4 > 0 THEN 'a' || g % 5 END FROM generate_series(1, 40) g;
INSERT INTO ji SELECT g % 50, g FROM generate_series(1, 70) g;
INSERT INTO jm SELECT g % 50, g FROM generate_series(1, 70) g;
INSERT INTO jw SELECT g % 50, g FROM generate_series(1, 70) g;
INSERT INTO jt SELECT CASE WHEN g % 8 > 0 THEN (ARRAY['a', 'A', '', 'ż', 'it''s', ' a', 'a '])[g % 7 + 1] || g / 20 END, g FROM generate_series(1, 60) g;
INSERT INTO ju SELECT CASE WHEN g % 9 > 0 THEN (ARRAY['a', 'B', '', 'ż', 'it''s', ' a', 'c '])[g % 7 + 1] || g / 20 END, g FROM generate_series(1, 60) g;
INSERT INTO jx SELECT CASE WHEN g % 9 > 0 THEN g % 6 END, CASE WHEN g % 8 > 0 THEN 'x' || g % 4 END, g FROM generate_series(1, 60) g;
INSERT INTO jy SELECT CASE WHEN g % 7 > 0 THEN g % 6 END, CASE WHEN g % 5 > 0 THEN 'x' || g % 5 END, g FROM generate_series(1, 60) g;
INSERT INTO jr SELECT CASE WHEN g % 10 > 0 THEN g % 30 END, g FROM generate_series(1, 60) g;
INSERT INTO js SELECT CASE WHEN g % 9 > 0 THEN g % 35 END, g FROM generate_series(1, 60) g;
INSERT INTO jl SELECT CASE WHEN g % 6 > 0 THEN chr(96 + g % 6) END, g FROM generate_series(1, 30) g;
INSERT INTO jk SELECT CASE WHEN g % 7 > 0 THEN chr(96 + g % 7) END, g FROM generate_series(1, 30) g;
INSERT INTO r1 SELECT g, 'name ' || g, CASE WHEN g % 4 > 0 THEN g % 4 END FROM generate_series(1, 10) g;
INSERT INTO r2 SELECT CASE WHEN g % 5 > 0 THEN g % 9 END, g * 4, 'label ' || g % 3 FROM generate_series(1, 20) g;
INSERT INTO loc SELECT g % 9, g * 2, 'loc ' || g FROM generate_series(1, 20) g;
\endif
CREATE VIEW ja_view AS SELECT k, a, t FROM ja WHERE a < 9;
ALTER VIEW ja_view OWNER TO regress_diff_owner;
GRANT SELECT ON ja TO regress_diff_owner;
CREATE FUNCTION jb_of(key bigint) RETURNS SETOF jb STABLE LANGUAGE sql AS 'SELECT * FROM jb WHERE k = key';

-- With statistics, plans are what they are in use.
ANALYZE ja, jb, jc, ji, jm, jw, jt, ju, jx, jy, jr, js, jl, jk, r1, r2, r0, loc;
RESET search_path;
