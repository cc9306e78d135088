-- Connections and streams: statements inside statements, few connections, cursors that are put aside,
-- errors and LIMIT inside transactions, session settings, changed options, messages of nodes.
--
-- Where rows are compared, "plain" holds the same rows in a plain table.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA connections;
SET search_path = connections;
CREATE TABLE plain (a int PRIMARY KEY, b int, c text);
INSERT INTO plain SELECT i, i % 10, 'row ' || i FROM generate_series(1, 5000) i;
CREATE TABLE t (a int PRIMARY KEY, b int, c text) PARTITION BY HASH (a);
SELECT shardfdw.shard_table('t', shards => 8, nodes => '{node1,node2}');
INSERT INTO t SELECT * FROM plain;
ANALYZE t;
CREATE FUNCTION count_b(x int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
	$$BEGIN RETURN (SELECT count(*) FROM connections.t WHERE b = x % 10); END$$;
CREATE FUNCTION touch(x int) RETURNS int LANGUAGE plpgsql AS
	$$DECLARE r int; BEGIN UPDATE connections.t SET b = b WHERE a = x RETURNING b INTO r; RETURN r; END$$;
CREATE FUNCTION check_rows() RETURNS text LANGUAGE sql AS
	$$SELECT CASE WHEN count(*) = 0 THEN 'same' ELSE 'differs' END FROM
		((TABLE connections.t EXCEPT TABLE connections.plain) UNION ALL (TABLE connections.plain EXCEPT TABLE connections.t)) d$$;

-- A statement per row of another one, with one connection to each node, with two and with enough.
SET shardfdw.max_connections_per_node = 1;
SELECT count(*), sum(length(c)) FROM t WHERE count_b(a) = 500 AND a < 40;
SELECT sum(x.a), sum(y.b) FROM t x JOIN t y ON x.b = y.a;
SELECT check_rows();
SET work_mem = '64kB';
SELECT count(*), sum(length(c)) FROM t WHERE count_b(a) = 500 AND a < 40;
SELECT check_rows();
SET shardfdw.enable_copy_fetch = off;
SELECT count(*), sum(length(c)) FROM t WHERE count_b(a) = 500 AND a < 40;
SELECT check_rows();
RESET shardfdw.enable_copy_fetch;
SET shardfdw.max_connections_per_node = 2;
SELECT count(*), sum(length(c)) FROM t WHERE count_b(a) = 500 AND a < 40;
SELECT sum(x.a), sum(y.b) FROM t x JOIN t y ON x.b = y.a;
SELECT check_rows();
RESET shardfdw.max_connections_per_node;
SELECT count(*), sum(length(c)) FROM t WHERE count_b(a) = 500 AND a < 40;
SELECT sum(touch(a)) FROM t WHERE a <= 20;

-- A cursor gives its connection to a write, and keeps the rows it began with.
SET shardfdw.max_connections_per_node = 1;
BEGIN;
DECLARE cur CURSOR FOR SELECT a, c FROM t;
MOVE 3 FROM cur;
UPDATE t SET c = 'changed' WHERE b = 3;
MOVE FORWARD ALL FROM cur;
SELECT count(*) FROM t WHERE c = 'changed';
ROLLBACK;
BEGIN;
DECLARE cur CURSOR FOR SELECT c FROM t WHERE b = 3;
MOVE 1 FROM cur;
UPDATE t SET c = 'changed' WHERE b = 3;
CREATE TEMP TABLE fetched (c text) ON COMMIT DROP;
DO $$DECLARE r refcursor := 'cur'; v text; BEGIN LOOP FETCH r INTO v; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (v); END LOOP; END$$;
SELECT count(*), count(*) FILTER (WHERE c = 'changed') AS changed FROM fetched;
ROLLBACK;
-- It survives a savepoint in which others failed, and is gone with its own.
BEGIN;
DECLARE cur CURSOR FOR SELECT a FROM t;
MOVE 3 FROM cur;
SAVEPOINT s;
SELECT sum(1 / (a - a)) FROM t;
ROLLBACK TO s;
MOVE FORWARD ALL FROM cur;
ROLLBACK TO s;
DECLARE inner_cur CURSOR FOR SELECT a FROM t;
MOVE 3 FROM inner_cur;
ROLLBACK TO s;
SELECT count(*) FROM t;
COMMIT;
RESET shardfdw.max_connections_per_node;

-- Rows that nobody wants any more are cancelled, not the transaction.
BEGIN;
UPDATE t SET b = b WHERE a = 1;
SELECT count(*) FROM (SELECT * FROM t LIMIT 3) l;
SELECT count(*) FROM (SELECT * FROM t LIMIT 3) l;
SELECT count(*) FROM t;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM (SELECT * FROM t LIMIT 3) l;
SELECT count(*) FROM (SELECT * FROM t LIMIT 3) l;
SELECT count(*), sum(b) FROM t;
-- What was read in the transaction's snapshot can be written to on all nodes.
UPDATE t SET b = b + 1 WHERE a <= 100;
SELECT count(*), sum(b) FROM t;
SAVEPOINT s;
UPDATE t SET b = b + 1 WHERE a <= 100;
SELECT count(*), sum(b) FROM t;
ROLLBACK TO s;
SELECT count(*), sum(b) FROM t;
UPDATE t SET b = b - 1 WHERE a <= 100;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM (SELECT * FROM t LIMIT 3) l;
UPDATE t SET b = b + 1 WHERE a <= 100;
SELECT count(*), sum(b) FROM t;
UPDATE t SET b = b - 1 WHERE a <= 100;
COMMIT;
SELECT check_rows();

-- An error of a node leaves its connection usable.
SELECT sum(1 / (b - 5)) FROM t;
SELECT a, 1 / (b - 5) FROM t WHERE a = 15;
SELECT count(*) FROM t;

-- A statement with parameters that recurs, also over a change of its table on the nodes.
PREPARE q(int) AS SELECT c FROM t WHERE b = $1 AND a < 30 ORDER BY a;
SET plan_cache_mode = force_generic_plan;
EXECUTE q(1);
EXECUTE q(2);
EXECUTE q(3);
EXECUTE q(4);
EXECUTE q(5);
SELECT count(*) FILTER (WHERE ok) AS changed FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s ALTER c TYPE varchar(50)');
SELECT node, ok FROM shardfdw.run_on_nodes('DEALLOCATE ALL') WHERE node IN ('node1', 'node2') ORDER BY node;
EXECUTE q(6);
EXECUTE q(8);
EXECUTE q(9);
EXECUTE q(7);
SELECT count(*) FILTER (WHERE ok) AS changed FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s ALTER c TYPE text');
RESET plan_cache_mode;

-- The session's settings follow the user's, also after a rollback took them back.
SET TimeZone = 'Asia/Tokyo';
SELECT node, result FROM shardfdw.run_on_nodes('SHOW TimeZone') WHERE node IN ('node1', 'node2') ORDER BY node;
BEGIN;
SET LOCAL TimeZone = 'America/New_York';
SET LOCAL DateStyle = 'German';
UPDATE t SET b = b WHERE a <= 100;
SELECT node, result FROM shardfdw.run_on_nodes('SELECT ''2024-02-01''::date') WHERE node IN ('node1', 'node2') ORDER BY node;
ROLLBACK;
SELECT node, result FROM shardfdw.run_on_nodes('SELECT current_setting(''TimeZone''), ''2024-02-01''::date') WHERE node IN ('node1', 'node2') ORDER BY node;
SELECT node, result FROM shardfdw.run_on_nodes('SELECT current_setting(''search_path'') || current_setting(''standard_conforming_strings'')') WHERE node IN ('node1', 'node2') ORDER BY node;
RESET TimeZone;

-- Changed options of a node are used from the next statement on.
ALTER SERVER node1 OPTIONS (ADD application_name 'connections test');
SELECT node, regexp_replace(result, '\d+', 'N', 'g') AS result FROM shardfdw.run_on_nodes('SHOW application_name') WHERE node IN ('node1', 'node2') ORDER BY node;
ALTER SERVER node1 OPTIONS (DROP application_name);
SELECT node, regexp_replace(result, '\d+', 'N', 'g') AS result FROM shardfdw.run_on_nodes('SHOW application_name') WHERE node IN ('node1', 'node2') ORDER BY node;

-- Messages of nodes reach the client.
SET client_min_messages = notice;
SELECT node, ok FROM shardfdw.run_on_nodes('DO $$BEGIN RAISE NOTICE ''a notice''; RAISE WARNING ''a warning''; END$$') WHERE node = 'node1';
SET client_min_messages = warning;

-- A connection that died while it was idle is replaced.
SELECT count(*) FROM t;
SELECT count(*) > 0 AS ended FROM pg_stat_activity, pg_terminate_backend(pid, 10000)
WHERE application_name LIKE 'shardfdw:%' AND datname LIKE 'shardfdw\_node_';
SELECT count(*) FROM t;
UPDATE t SET b = b WHERE a <= 100;
-- One that this transaction has written over is an error.
BEGIN;
UPDATE t SET b = b WHERE a <= 100;
SELECT count(*) > 0 AS ended FROM pg_stat_activity, pg_terminate_backend(pid, 10000)
WHERE application_name LIKE 'shardfdw:%' AND datname LIKE 'shardfdw\_node_';
\set VERBOSITY sqlstate
SET client_min_messages = error;
SELECT count(*) FROM t;
COMMIT;
SET client_min_messages = warning;
\set VERBOSITY terse
SELECT check_rows();

-- A cursor that has begun does not see what its transaction writes, however many shards are still to be read.
CREATE TABLE many (a int, b int);
SELECT shardfdw.shard_table('many', 'a', shards => 24);
INSERT INTO many SELECT i, i FROM generate_series(1, 2400) i;
SET shardfdw.max_connections_per_node = 1;
CREATE FUNCTION read_and_write(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	r record;
	n bigint := 0;
BEGIN
	FOR r IN EXECUTE query LOOP
		n := n + 1;
		IF n = 1 THEN
			INSERT INTO many SELECT i, i FROM generate_series(3001, 3500) i;
			DELETE FROM many WHERE a > 100 AND a <= 1000;
		END IF;
	END LOOP;
	RETURN n;
END $$;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT read_and_write('SELECT a FROM many');
SELECT count(*) FROM many;
ROLLBACK;
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT read_and_write('SELECT a FROM many');
SELECT count(*) FROM many;
ROLLBACK;
RESET shardfdw.max_connections_per_node;

-- COPY is no command for the nodes.
SELECT node, ok, result FROM shardfdw.run_on_nodes('COPY pg_class TO STDOUT') WHERE node = 'node1';
SELECT node, ok, result FROM shardfdw.run_on_nodes('COPY connections.t_00 FROM STDIN') WHERE node = 'node1';
SELECT count(*) FROM t;
DROP SCHEMA connections CASCADE;
