-- A sharded table that is a partition of another one: no statement, on whichever way, writes rows outside of its bounds.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA write_bounds;
SET search_path = write_bounds;
CREATE TABLE e (id int, day date, v int) PARTITION BY RANGE (day);
CREATE TABLE e1 PARTITION OF e FOR VALUES FROM ('2024-01-01') TO ('2024-02-01') PARTITION BY HASH (id);
SELECT count(*) FROM (SELECT shardfdw.create_shard('e1', ('e1_' || i)::name, format('WITH (MODULUS 2, REMAINDER %s)', i), ('node' || i + 1)::name) FROM generate_series(0, 1) i) s;
CREATE TABLE plain (LIKE e);
ALTER TABLE plain ADD CONSTRAINT bounds CHECK (day IS NOT NULL AND day >= '2024-01-01' AND day < '2024-02-01');
CREATE TABLE local (id int, day date);
INSERT INTO local VALUES (5, '2030-01-01'), (6, '2024-01-20');

-- Statements on {e1}, on both tables: what they say, or how many rows they change.
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE TABLE tried (no serial, statement text, sharded text, plain text);
CREATE PROCEDURE try() LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	TRUNCATE tried;
	DELETE FROM e1;
	DELETE FROM plain;
	INSERT INTO e1 SELECT i, date '2024-01-01' + i % 30, i FROM generate_series(1, 50) i;
	INSERT INTO plain SELECT * FROM e1;
	FOREACH line IN ARRAY string_to_array('INSERT INTO {e1} VALUES (1, ''2030-01-01'', 1)
INSERT INTO {e1} VALUES (1, NULL, 1)
INSERT INTO {e1} VALUES (101, ''2024-01-31'', 1)
INSERT INTO {e1} VALUES (1, ''2030-01-01'', 1), (2, ''2030-01-01'', 1), (3, ''2024-01-05'', 1)
INSERT INTO {e1} SELECT id, day + 3000, v FROM {e1}
INSERT INTO {e1} SELECT id, day, v + 1000 FROM {e1}
INSERT INTO {e1} VALUES (2, ''2030-01-01'', 1) ON CONFLICT DO NOTHING
UPDATE {e1} SET day = ''2030-01-01'' WHERE id = 6
UPDATE {e1} SET day = NULL WHERE id = 6
UPDATE {e1} SET day = ''2024-01-30'' WHERE id = 6
UPDATE {e1} SET day = day + 4000 WHERE v < 10
UPDATE {e1} SET day = date ''2024-01-02'' + id % 5 WHERE v < 10
UPDATE {e1} SET v = v + 1 WHERE id = 7
UPDATE {e1} SET v = v + 1
UPDATE {e1} SET day = {e1}.day + 4000 FROM local l WHERE l.id = {e1}.id
UPDATE {e1} SET day = l.day FROM local l WHERE l.id = {e1}.id
UPDATE {e1} SET day = day + 4000, id = id + 1 WHERE id = 8
UPDATE {e1} SET id = id + 100 WHERE id = 8
UPDATE {e1} SET day = ''2030-01-01'', v = random() WHERE id = 9
MERGE INTO {e1} USING (VALUES (6, date ''2030-01-01'')) s(id, day) ON {e1}.id = s.id WHEN MATCHED THEN UPDATE SET day = s.day
MERGE INTO {e1} USING (VALUES (6, date ''2024-01-03'')) s(id, day) ON {e1}.id = s.id WHEN MATCHED THEN UPDATE SET v = 0
WITH x AS (UPDATE {e1} SET day = ''2030-01-01'' WHERE id = 10 RETURNING id) SELECT * FROM x
WITH x AS (INSERT INTO {e1} VALUES (10, ''2030-01-01'') RETURNING id) SELECT * FROM {e1} WHERE id = 10
DELETE FROM {e1} WHERE id = 11
DELETE FROM {e1} WHERE v < 5', E'\n') LOOP
		INSERT INTO tried (statement, sharded, plain)
		VALUES (line, outcome(replace(line, '{e1}', 'e1')), outcome(replace(line, '{e1}', 'plain')));
	END LOOP;
END $$;

CALL try();
SELECT statement, sharded, plain FROM tried WHERE sharded <> plain ORDER BY no;
SELECT sharded, count(*) FROM tried GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM (TABLE e1 EXCEPT ALL TABLE plain) s;
SELECT count(*) FROM (TABLE plain EXCEPT ALL TABLE e1) s;
SET shardfdw.enable_router = off;
SET shardfdw.enable_statement_push = off;
CALL try();
SELECT statement, sharded, plain FROM tried WHERE sharded <> plain ORDER BY no;
SELECT count(*) FROM (TABLE e1 EXCEPT ALL TABLE plain) s;
RESET shardfdw.enable_router;
RESET shardfdw.enable_statement_push;
-- nothing of that has made statements slower that leave the bounds' columns alone
CREATE FUNCTION run_whole(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || statement INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Custom Plan Provider' IS NOT DISTINCT FROM 'ShardStatement';
END $$;
SELECT run_whole('UPDATE e1 SET v = 1 WHERE id = 3') AS routed, run_whole('UPDATE e1 SET v = 1') AS pushed, run_whole('DELETE FROM e1 WHERE id = 3') AS deleted,
	run_whole('UPDATE e1 SET day = ''2024-01-05'' WHERE id = 3') AS bounds_changed;

SET client_min_messages = error;
DROP SCHEMA write_bounds CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA write_bounds CASCADE');
