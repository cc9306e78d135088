-- UPDATE and DELETE: whole statements on the node where that is possible, else row by row.
\set VERBOSITY terse
SET client_min_messages = warning;
SET shardfdw.enable_router = off;  -- statements on one shard are planned here, too
SET shardfdw.enable_statement_push = off;  -- so are those that all shards could run
CREATE SCHEMA pm;
SET search_path = pm;

\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all


CREATE TABLE t (k bigint, g int, s text, at date);
CREATE TABLE gen (k bigint, g int, twice int GENERATED ALWAYS AS (g * 2) STORED);
SELECT shardfdw.shard_table('t', 'k', 2);
SELECT shardfdw.shard_table('gen', 'k', 2);
INSERT INTO t (k, g, s, at) SELECT i, i % 3, 's' || i, '2024-01-01' FROM generate_series(1, 20) i;
INSERT INTO gen SELECT i, i % 3 FROM generate_series(1, 10) i;

-- on the node: what it can compute; parameters; RETURNING
SELECT plan('DELETE FROM t WHERE g = 7');
SELECT plan('UPDATE t SET s = upper(s) WHERE k = 5 AND at < current_date RETURNING k, s');
UPDATE t SET s = upper(s), at = current_date - (current_date - date '2024-02-01') WHERE k IN (5, 6) AND at < current_date RETURNING k, s, at, tableoid::regclass IS NOT NULL AS known;
SELECT k, s, at FROM t WHERE k IN (5, 6) ORDER BY k;
SET shardfdw.enable_shard_scan = off;
DELETE FROM t WHERE k = 6 RETURNING k, g + 1 AS h, t;
RESET shardfdw.enable_shard_scan;
-- by row: what only the coordinator can tell, joins, tables with generated columns
SELECT plan('UPDATE t SET s = s || random() WHERE k = 5');
SELECT plan('UPDATE gen SET g = 1 WHERE k = 5');
SELECT plan('DELETE FROM t WHERE k = 5 AND random() < 2');
SELECT plan('DELETE FROM t USING (VALUES (5), (9)) v (g) WHERE t.g = v.g AND v.g > s::int AND k = 5');
-- nothing but the keys is needed of a list of values
SELECT plan('DELETE FROM t USING (VALUES (5), (9)) v (g) WHERE t.g = v.g AND k = 5');
UPDATE gen SET g = 1 + floor(random())::int WHERE k = 5 RETURNING k, g, twice;
DELETE FROM t WHERE k = 7 AND random() < 2 RETURNING k, s;
UPDATE gen SET twice = DEFAULT WHERE k = 8 RETURNING k, twice;
DELETE FROM gen WHERE k = 9 RETURNING *;
SELECT k, g, twice FROM gen WHERE k IN (5, 8, 9) ORDER BY k;
SELECT k, g FROM t WHERE k IN (5, 7, 8) ORDER BY k;

-- R42: rows with a changed key move to the shard they belong to
SELECT plan('UPDATE t SET k = k + 0 WHERE k = 5');
UPDATE t SET k = k + 0 WHERE k = 5 RETURNING k;
BEGIN;
UPDATE t SET k = k + 100;
SELECT count(*), sum(k), bool_and(tableoid = shardfdw.shard_for('t', k)) AS right_shards FROM t;
ROLLBACK;
SELECT count(*), sum(k) FROM t;

-- WHERE CURRENT OF cannot be sent
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM t WHERE k = 5;
FETCH c;
DELETE FROM t WHERE CURRENT OF c;
ROLLBACK;

-- R13: a ctid says nothing about rows of a child table on the node
SELECT format('%I.%I', n.nspname, c.relname) AS shard FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = (SELECT relid FROM pg_partition_tree('t') WHERE isleaf ORDER BY relid::text LIMIT 1) \gset
SELECT node FROM shardfdw.shards WHERE shard = :'shard'::regclass \gset
SELECT count(*) FROM shardfdw.run_on_nodes(format('CREATE TABLE pm.child () INHERITS (%s); INSERT INTO pm.child (k, g) SELECT k, 99 FROM ONLY %1$s LIMIT 1', :'shard')) WHERE node = :'node' AND ok;
DO $$
BEGIN
	UPDATE t SET s = random() WHERE g = 99;
	RAISE 'not refused';
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING '%', SQLERRM;
END $$;

-- other names on the node
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE TABLE pm.other ("Key" bigint, "select" text)') WHERE node = 'node1' AND ok;
CREATE FOREIGN TABLE renamed (k bigint OPTIONS (column_name 'Key'), s text OPTIONS (column_name 'select'))
SERVER node1 OPTIONS (table_name 'other');
INSERT INTO renamed VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT plan('SELECT s FROM renamed WHERE k = 1');
SELECT plan('UPDATE renamed SET s = ''x'' WHERE k = 1');
UPDATE renamed SET s = 'x' || k WHERE k > 1 RETURNING *;
DELETE FROM renamed WHERE k = 1 RETURNING ctid IS NOT NULL AS ctid, s;
SELECT plan('SELECT max(s), count(*) FROM renamed WHERE k > 1');
SELECT max(s), count(*) FROM renamed WHERE k > 1;
INSERT INTO renamed VALUES (4, 'd') ON CONFLICT DO NOTHING RETURNING s;
SET search_path = public;
DROP SCHEMA pm CASCADE;
