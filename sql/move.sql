-- Moves of shards: what is refused, and a move under a lock.
CREATE SCHEMA move;
SET search_path = move;
SET client_min_messages = warning;
-- a key that no other test's tables have: colocated shards move together
CREATE TABLE orders (id numeric PRIMARY KEY, v text);
CREATE TABLE lines (id numeric, pos int, v jsonb, PRIMARY KEY (id, pos));
CREATE TABLE events (id int, at date) PARTITION BY RANGE (at);
SELECT shardfdw.shard_table('orders', 'id', shards => 2, nodes => '{node1,node2}') \g /dev/null
SELECT shardfdw.shard_table('lines', 'id', colocate_with => 'orders') \g /dev/null
SELECT shardfdw.create_shard('events', 'events_2020', $$FROM ('2020-01-01') TO ('2021-01-01')$$, 'node1') \g /dev/null
INSERT INTO orders SELECT i, 'o' || i FROM generate_series(1, 100) i;
INSERT INTO lines SELECT i, p, '{"a": 1}' FROM generate_series(1, 100) i, generate_series(1, 2) p;
INSERT INTO events SELECT i, '2020-02-02' FROM generate_series(1, 10) i;
-- what is refused
\set VERBOSITY terse
SELECT shardfdw.move_shard(NULL, 'node2');
SELECT shardfdw.move_shard('orders_00', 'node2', mode => 'fast');
SELECT shardfdw.move_shard('orders_00', 'node2', verify => NULL);
SELECT shardfdw.move_shard('orders', 'node2');
SELECT shardfdw.move_shard('orders_00', 'node9');
SELECT shardfdw.move_shard('orders_00', 'node1');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT shardfdw.move_shard('orders_00', 'node2', mode => 'block');
ROLLBACK;
SELECT shardfdw.wait_job(-1);
SELECT shardfdw.cancel_job(-1);
-- moves
SELECT shardfdw.move_shard('lines_00', 'node3', mode => 'block') > 0 AS moved;
SELECT shardfdw.move_shard('events_2020', 'node2', mode => 'block', verify => false) > 0 AS moved;
SELECT shard, node FROM shardfdw.shards WHERE relation IN ('orders'::regclass, 'lines'::regclass, 'events'::regclass) ORDER BY shard::text COLLATE "C";
SELECT state, stage, shards, source, target, mode, rows_copied > 0 AS copied, lag_bytes, waits_for, error FROM shardfdw.jobs ORDER BY id DESC LIMIT 2;
SELECT count(*), (SELECT count(*) FROM lines), (SELECT count(*) FROM events) FROM orders;
SELECT count(*) FROM orders JOIN lines USING (id);
UPDATE orders SET v = 'x' WHERE id <= 10;
INSERT INTO events VALUES (11, '2020-03-03');
SELECT count(*) FILTER (WHERE v = 'x'), (SELECT count(*) FROM events) FROM orders;
SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error';
-- back, with the other shards' colocation
SELECT shardfdw.wait_job(shardfdw.move_shard('orders_00', 'node1', mode => 'block', wait => false));
SELECT shard, node FROM shardfdw.shards WHERE relation IN ('orders'::regclass, 'lines'::regclass) ORDER BY shard::text COLLATE "C";
SELECT * FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'$$) ORDER BY node;
-- literals in our functions mean what they meant when they were written (19 knows no other meaning)
DO $$BEGIN PERFORM set_config('standard_conforming_strings', 'off', false), set_config('escape_string_warning', 'off', false); EXCEPTION WHEN OTHERS THEN NULL; END$$;
CREATE TABLE conform (id int PRIMARY KEY, v text);
SELECT shardfdw.shard_table('conform', shards => 2) \g /dev/null
SELECT shardfdw.split_shard('conform_00', mode => 'block') > 0 AS split;
SELECT shard, bounds FROM shardfdw.shards WHERE relation = 'conform'::regclass ORDER BY shard::text COLLATE "C";
SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error';
DO $$BEGIN PERFORM set_config('standard_conforming_strings', 'on', false), set_config('escape_string_warning', 'on', false); EXCEPTION WHEN OTHERS THEN NULL; END$$;
DROP SCHEMA move CASCADE;
