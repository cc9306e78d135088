-- What one session leaves behind: in memory, on its connections to nodes; and errors that say where.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA session_state;
SET search_path = session_state;

CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT shardfdw.shard_table('t', shards => 2);
INSERT INTO t VALUES (1, 'a'), (2, 'b');

-- Blocks with EXCEPTION, ended well or badly, keep no memory until the end of the transaction.
CREATE FUNCTION loop(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	early bigint;
BEGIN
	FOR i IN 1 .. n LOOP
		IF i = n / 10 THEN
			SELECT sum(total_bytes) INTO early FROM pg_backend_memory_contexts;
		END IF;
		BEGIN
			INSERT INTO t VALUES (100 + i, 'x');
			IF i % 3 = 0 THEN
				INSERT INTO t VALUES (1, 'again');
			END IF;
		EXCEPTION WHEN unique_violation THEN
			NULL;
		END;
	END LOOP;
	RETURN (SELECT sum(total_bytes) - early FROM pg_backend_memory_contexts);
END
$$;
SELECT loop(500) < 500000 AS small;
SELECT count(*) FROM t WHERE id > 100;

-- What a user's command does to a session on a node does not outlive it.
SELECT bool_and(ok) FROM shardfdw.run_on_nodes($$
	CREATE SCHEMA trap;
	CREATE FUNCTION trap.lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''trapped''';
	SET search_path = trap, pg_catalog$$, false);
SELECT count(*) FROM t WHERE lower(v) = 'a';
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('SET ROLE pg_monitor', false);
SELECT count(*) FROM t WHERE id < 100;
BEGIN;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('SET search_path = trap, pg_catalog');
SELECT count(*) FROM t WHERE lower(v) = 'a';
COMMIT;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('BEGIN', false);
INSERT INTO t VALUES (3, 'c');
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA trap CASCADE');

-- A user without a mapping is told for which node; an error of add_node() does not show the command that has the password.
CREATE ROLE regress_session_state;
GRANT USAGE ON SCHEMA session_state TO regress_session_state;
GRANT SELECT ON t TO regress_session_state;
SET ROLE regress_session_state;
SELECT * FROM t WHERE id = 1;
RESET ROLE;
DO $$
DECLARE
	shown text;
	context text;
BEGIN
	PERFORM shardfdw.add_node('session_state_node', 'localhost', password => 'secret', options => '{"password_required": "perhaps"}');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS shown = MESSAGE_TEXT, context = PG_EXCEPTION_CONTEXT;
	RAISE WARNING '%, command shown: %', shown, context LIKE '%CREATE USER MAPPING%';
END
$$;

-- The coordinator's own database is no node: shards would have the names of their foreign tables.
SELECT shardfdw.add_node('session_state_node',
						 coalesce(nullif(btrim(split_part(current_setting('unix_socket_directories'), ',', 1)), ''), 'localhost'),
						 current_setting('port')::int, current_database());

-- Tables with long names that differ at the end.
CREATE TABLE a_table_whose_name_is_as_long_as_a_name_can_be_and_ends_in_one1 (id int);
CREATE TABLE a_table_whose_name_is_as_long_as_a_name_can_be_and_ends_in_one2 (id int);
SELECT shardfdw.shard_table('a_table_whose_name_is_as_long_as_a_name_can_be_and_ends_in_one1', 'id', 1);
SELECT shardfdw.shard_table('a_table_whose_name_is_as_long_as_a_name_can_be_and_ends_in_one2', 'id', 1);
SELECT shard FROM shardfdw.shards WHERE shard::text LIKE 'a_table_whose_name%' ORDER BY shard::text COLLATE "C";

-- A new shard does not hide rows of the DEFAULT one.
CREATE TABLE d (k int, v text) PARTITION BY LIST (k);
SELECT shardfdw.create_shard('d', 'd_rest', 'DEFAULT', (SELECT min(node::text)::name FROM shardfdw.nodes));
INSERT INTO d VALUES (1, 'one'), (NULL, 'none');
SET client_min_messages = error;
SELECT shardfdw.create_shard('d', 'd_1', 'IN (1)', (SELECT max(node::text)::name FROM shardfdw.nodes));
SELECT shardfdw.create_shard('d', 'd_null', 'IN (NULL)', (SELECT max(node::text)::name FROM shardfdw.nodes));
SELECT shardfdw.create_shard('d', 'd_2', 'IN (2)', (SELECT max(node::text)::name FROM shardfdw.nodes));
SELECT * FROM d ORDER BY k;

DROP TABLE d, t, a_table_whose_name_is_as_long_as_a_name_can_be_and_ends_in_one1, a_table_whose_name_is_as_long_as_a_name_can_be_and_ends_in_one2;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS session_state CASCADE');
DROP SCHEMA session_state CASCADE;
DROP ROLE regress_session_state;
