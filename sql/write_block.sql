-- Functions that catch errors, in statements that write: what a block undoes is its own, never what the statement around it writes.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA write_block;
SET search_path = write_block;
CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v < 1000), w text);
CREATE TABLE u (id int PRIMARY KEY, v int);
CREATE TABLE p_t (LIKE t INCLUDING ALL);
CREATE TABLE p_u (LIKE u INCLUDING ALL);
SELECT shardfdw.shard_table('t', 'id', 12) \g /dev/null
SELECT shardfdw.shard_table('u', 'id', 12) \g /dev/null
CREATE TABLE ref (id int PRIMARY KEY, v int);
CREATE TABLE p_ref (LIKE ref INCLUDING ALL);
SELECT shardfdw.create_reference_table('ref') \g /dev/null

-- Functions of a row, {x} stands for the prefix of tables: their block is undone, but for the last one's.
CREATE PROCEDURE make(x text) LANGUAGE plpgsql AS $$
DECLARE
	parts text[] := ARRAY[
		'inserts', 'INSERT INTO write_block.{x}u VALUES (i + 70000, 0); RAISE EXCEPTION ''x''',
		'updates', 'UPDATE write_block.{x}t SET w = ''inner'' WHERE id = i; RAISE EXCEPTION ''x''',
		'reads_and_updates', 'PERFORM count(*) FROM write_block.{x}u; UPDATE write_block.{x}t SET w = ''inner'' WHERE id = i + 1; RAISE EXCEPTION ''x''',
		'reads', 'PERFORM count(*) FROM write_block.{x}u; RAISE EXCEPTION ''x''',
		'reads_and_fails', 'PERFORM 1 / v FROM write_block.{x}u WHERE id = 1',
		'fails', 'INSERT INTO write_block.{x}u VALUES (1, 1)',
		'is_refused', 'UPDATE write_block.{x}t SET v = 5000 WHERE id = i',
		'nests', 'BEGIN INSERT INTO write_block.{x}u VALUES (i + 70000, 0); RAISE EXCEPTION ''x''; EXCEPTION WHEN OTHERS THEN INSERT INTO write_block.{x}u VALUES (i + 80000, 0); END; PERFORM count(*) FROM write_block.{x}t; RAISE EXCEPTION ''y''',
		'all_shards', 'UPDATE write_block.{x}u SET v = v + 1; RAISE EXCEPTION ''x''',
		'reference', 'INSERT INTO write_block.{x}ref VALUES (i, 0); RAISE EXCEPTION ''x''',
		'keeps', 'INSERT INTO write_block.{x}u VALUES (i + 90000, 0)'];
BEGIN
	FOR n IN 1 .. array_length(parts, 1) BY 2 LOOP
		EXECUTE format('CREATE FUNCTION %s(i int) RETURNS int LANGUAGE plpgsql AS %L', x || parts[n],
					   replace(format('BEGIN BEGIN %s; EXCEPTION WHEN OTHERS THEN RETURN -1; END; RETURN 1; END', parts[n + 1]), '{x}', x));
	END LOOP;
END $$;
CALL make('');
CALL make('p_');

CREATE TABLE tried (no serial, isolation text, statement text, sharded text, plain text);
-- What a statement gives, and leaves behind.
CREATE FUNCTION outcome(statement text, x text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	n bigint;
BEGIN
	BEGIN
		EXECUTE replace(statement, '{x}', x);
		GET DIAGNOSTICS n = ROW_COUNT;
		EXECUTE replace('SELECT (SELECT md5(coalesce(string_agg(t::text, '','' ORDER BY t::text), '''')) FROM write_block.{x}t t) || (SELECT md5(string_agg(t::text, '','' ORDER BY t::text)) FROM write_block.{x}u t) || (SELECT count(*) FROM write_block.{x}ref)', '{x}', x) INTO result;
		RAISE EXCEPTION USING MESSAGE = n || ' ' || result, ERRCODE = 'ZZZZZ';
	EXCEPTION WHEN SQLSTATE 'ZZZZZ' THEN
		RETURN SQLERRM;
	END;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE PROCEDURE try(isolation text) LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	f text;
BEGIN
	FOREACH f IN ARRAY '{inserts, updates, reads_and_updates, reads, reads_and_fails, fails, is_refused, nests, all_shards, reference, keeps}'::text[] LOOP
		FOREACH statement IN ARRAY ARRAY[
			'UPDATE {x}t SET v = 500 RETURNING id, {f}(id)',
			'UPDATE {x}t SET v = 500 WHERE id = 7 RETURNING id, {f}(id)',
			'WITH d AS (DELETE FROM {x}t RETURNING id) SELECT id, {f}(id) FROM d',
			'WITH d AS (UPDATE {x}t SET v = 500 RETURNING id) SELECT sum({f}(id)) FROM d',
			'INSERT INTO {x}t SELECT g, 500, ''n'' FROM generate_series(1, 40) g ON CONFLICT (id) DO UPDATE SET v = 500 RETURNING id, {f}(id)',
			'INSERT INTO {x}t SELECT g, 500, ''n'' FROM generate_series(20001, 20040) g RETURNING id, {f}(id)',
			'INSERT INTO {x}t SELECT id + 20000, v, ''copied'' FROM {x}u RETURNING id, {f}(id)',
			'UPDATE {x}t SET v = {f}(id) + 100 WHERE id < 30',
			'UPDATE {x}t SET v = 500 + (random() * 0)::int RETURNING id, {f}(id)',
			'DELETE FROM {x}t WHERE {f}(id) < 0'] LOOP
			statement := replace(statement, '{f}', '{x}' || f);
			INSERT INTO tried (isolation, statement, sharded, plain)
			SELECT isolation, statement, outcome(statement, ''), outcome(statement, 'p_');
		END LOOP;
	END LOOP;
END $$;
CREATE VIEW differences AS SELECT isolation, statement, left(sharded, 60) AS sharded, left(plain, 60) AS plain FROM tried WHERE sharded <> plain ORDER BY no;

INSERT INTO t SELECT i, i, 'w' FROM generate_series(1, 60) i;
INSERT INTO p_t SELECT * FROM t;
INSERT INTO u SELECT i, i - 1 FROM generate_series(1, 60) i;
INSERT INTO p_u SELECT * FROM u;
CALL try('read committed');
TABLE differences;
BEGIN ISOLATION LEVEL REPEATABLE READ;
CALL try('repeatable read');
COMMIT;
TABLE differences;
SET shardfdw.enable_router = off;
SET shardfdw.enable_statement_push = off;
CALL try('row by row');
TABLE differences;
SELECT isolation, count(*), count(DISTINCT sharded) AS various FROM tried GROUP BY 1 ORDER BY 1;
SELECT left(sharded, 100) AS failed, count(*) FROM tried WHERE sharded !~ '^\d+ [0-9a-f]{64}' GROUP BY 1 ORDER BY 1;
-- Locks that a cursor takes within a savepoint, too, are the cursor's.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t FOR UPDATE;
FETCH 1 FROM c \g /dev/null
SAVEPOINT a;
INSERT INTO u VALUES (5000, 1);
ROLLBACK TO a;
MOVE FORWARD ALL FROM c;
SELECT sum(result::int) AS free FROM shardfdw.run_on_shards('t', 'SELECT count(*) FROM (SELECT 1 FROM %s FOR UPDATE SKIP LOCKED) s', false);
COMMIT;

-- What it locks in there, behind what the savepoint has written, goes with the savepoint, as on a plain table.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t FOR UPDATE;
DECLARE one CURSOR FOR SELECT id FROM t WHERE id = 7 FOR UPDATE;
FETCH 1 FROM c \g /dev/null
SAVEPOINT a;
INSERT INTO u SELECT i, 1 FROM generate_series(5001, 5040) i;
MOVE FORWARD ALL FROM c;
FETCH 1 FROM one;
RELEASE a;
SELECT sum(result::int) AS free FROM shardfdw.run_on_shards('t', 'SELECT count(*) FROM (SELECT 1 FROM %s FOR UPDATE SKIP LOCKED) s', false);
ROLLBACK;

-- First fetched within a savepoint that is undone: no row is handed out that is not locked.
\set free 'SELECT sum(result::int) AS free FROM shardfdw.run_on_shards(\'t\', \'SELECT count(*) FROM (SELECT 1 FROM %s WHERE id <= 60 FOR UPDATE SKIP LOCKED) s\', false);'
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 60 FOR UPDATE;
SAVEPOINT a;
FETCH 1 FROM c \g /dev/null
UPDATE u SET v = v + 1;
ROLLBACK TO a;
MOVE FORWARD ALL FROM c;
:free
COMMIT;
BEGIN;
UPDATE u SET v = v;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 60 ORDER BY id FOR UPDATE;
DECLARE one CURSOR FOR SELECT id FROM t WHERE id = 7 FOR UPDATE;
SAVEPOINT a;
FETCH 1 FROM c;
FETCH 0 FROM one;
ROLLBACK TO a;
MOVE FORWARD ALL FROM c;
FETCH 1 FROM one;
:free
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 60 ORDER BY id FOR UPDATE;
SAVEPOINT a;
UPDATE u SET v = v + 1;
FETCH 1 FROM c;
ROLLBACK TO a;
FETCH 1 FROM c;
:free
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id = 7 FOR UPDATE;
SAVEPOINT a;
UPDATE u SET v = v + 1;
FETCH 0 FROM c;
UPDATE u SET v = v + 1;
RELEASE a;
FETCH 1 FROM c;
ROLLBACK;
-- A savepoint that comes to have the number of one that was released.
BEGIN;
SAVEPOINT a;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 60 ORDER BY id FOR UPDATE;
RELEASE a;
SAVEPOINT b;
FETCH 10 FROM c \g /dev/null
INSERT INTO u SELECT i, 1 FROM generate_series(5001, 5040) i;
ROLLBACK TO b;
MOVE FORWARD ALL FROM c;
:free
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SAVEPOINT a;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 60;
DECLARE l CURSOR FOR SELECT id FROM t WHERE id <= 60 FOR UPDATE;
RELEASE a;
SAVEPOINT b;
FETCH 1 FROM c \g /dev/null
FETCH 1 FROM l \g /dev/null
ROLLBACK TO b;
MOVE FORWARD ALL FROM c;
MOVE FORWARD ALL FROM l;
:free
ROLLBACK;

-- A row that was handed out stays locked when nobody wants more rows, of which the nodes have many.
CREATE TABLE wide (id int, w text);
SELECT shardfdw.shard_table('wide', 'id', 4) \g /dev/null
INSERT INTO wide SELECT i, repeat('x', 2000) FROM generate_series(1, 10000) i;
SELECT shardfdw.disconnect() \g /dev/null
BEGIN;
SELECT id, w FROM wide FOR UPDATE LIMIT 1 \gset
SELECT sum(result::int) AS free FROM shardfdw.run_on_shards('wide', 'SELECT count(*) FROM (SELECT 1 FROM %s WHERE id = ' || :id || ' FOR UPDATE SKIP LOCKED) s', false);
ROLLBACK;

-- A shard by its name, with ORDER BY and LIMIT: rows that are handed out are locked, whatever part of the statement its node runs.
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE TABLE local (id int);
SELECT min(id) AS low, shardfdw.shard_for('t', min(id)) AS shard FROM t \gset
\set locked 'SELECT sum(result::int) AS free FROM shardfdw.run_on_shards(\'t\', \'SELECT count(*) FROM (SELECT 1 FROM %s WHERE id = \' || :low || \' FOR UPDATE SKIP LOCKED) s\', false); ROLLBACK;'
BEGIN;
SELECT here(id) = id AS same FROM :shard ORDER BY id LIMIT 1 FOR UPDATE;
:locked
BEGIN;
SELECT here(id) = id AS same FROM :shard WHERE id <= :low ORDER BY id FOR UPDATE;
:locked
BEGIN;
INSERT INTO local SELECT id FROM :shard ORDER BY id LIMIT 1 FOR UPDATE;
:locked
BEGIN;
WITH l AS (SELECT id FROM :shard ORDER BY id LIMIT 1 FOR UPDATE) SELECT local.id IS NULL AS none FROM l LEFT JOIN local USING (id);
:locked

-- Parts of a plan that begin anew within a savepoint hold no locks.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 60 FOR UPDATE;
SAVEPOINT a;
UPDATE u SET v = v;
SAVEPOINT b;
FETCH 1 FROM c \g /dev/null
ROLLBACK TO b;
MOVE FORWARD ALL FROM c;
:free
ROLLBACK TO a;
FETCH 1 FROM c;
ROLLBACK;
CREATE FUNCTION below(int) RETURNS SETOF int VOLATILE LANGUAGE sql AS 'SELECT id FROM t WHERE id <= $1 ORDER BY id';
BEGIN;
DECLARE c CURSOR FOR SELECT below(60);
SAVEPOINT a;
FETCH 2 FROM c;
ROLLBACK TO a;
SELECT count(*) > 0 AS more FROM (SELECT 1) x, LATERAL (SELECT below(3)) y;
FETCH 1 FROM c \g /dev/null
ROLLBACK;

-- What a cursor has not locked yet when its savepoint is rolled back is not locked later, for a level that is over.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE;
SAVEPOINT a;
SAVEPOINT b;
FETCH 1 FROM c \g /dev/null
ROLLBACK TO a;
UPDATE u SET v = v + 1000;
SAVEPOINT other;
SELECT 1 / 0;
ROLLBACK TO other;
SELECT count(*), bool_and(v >= 1000) AS kept FROM u;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t WHERE 1 / (id - 1) < 5 FOR UPDATE;
SAVEPOINT a;
SAVEPOINT b;
MOVE FORWARD ALL FROM c;
ROLLBACK TO a;
UPDATE u SET v = v + 1000;
SAVEPOINT other;
SELECT 1 / 0;
ROLLBACK TO other;
SELECT count(*), bool_and(v >= 1000) AS kept FROM u;
ROLLBACK;
DO $$
DECLARE
	c CURSOR FOR SELECT * FROM t FOR UPDATE;
	r record;
BEGIN
	OPEN c;
	BEGIN
		FETCH c INTO r;
		RAISE EXCEPTION 'x';
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	UPDATE u SET v = v + 1000;
	BEGIN
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
END $$;
SELECT count(*), bool_and(v >= 1000) AS kept FROM u;
UPDATE u SET v = v - 1000;

-- The same where nothing is locked, but read on the connection that writes: its rows go on coming.
SET shardfdw.query_per_node = off;
CREATE FUNCTION unordered(int) RETURNS SETOF int VOLATILE LANGUAGE sql AS 'SELECT id FROM t WHERE id <= $1';
BEGIN ISOLATION LEVEL SERIALIZABLE;
DECLARE c CURSOR FOR SELECT unordered(60);
SAVEPOINT a;
SAVEPOINT b;
FETCH 1 FROM c \g /dev/null
ROLLBACK TO a;
UPDATE u SET v = v + 1000;
SAVEPOINT other;
SELECT 1 / 0;
ROLLBACK TO other;
SELECT count(*), bool_and(v >= 1000) AS kept FROM u;
ROLLBACK;
RESET shardfdw.query_per_node;

SET client_min_messages = error;
SELECT shardfdw.unshard_table('ref');
DROP SCHEMA write_block CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA write_block CASCADE');
