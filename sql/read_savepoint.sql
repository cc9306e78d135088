-- What a statement reads outlives savepoints that are made after it began: with one snapshot for the whole transaction, too.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA read_savepoint;
SET search_path = read_savepoint;
CREATE TABLE t (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('t', 'k', 4) \g /dev/null
INSERT INTO t SELECT i, 0 FROM generate_series(1, 400) i;

-- A cursor whose first rows are read within a savepoint.
\set read 'DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k; DECLARE one CURSOR FOR SELECT k FROM t WHERE k = 7; SAVEPOINT a; FETCH 2 FROM c; FETCH 0 FROM one; ROLLBACK TO a; FETCH 1 FROM c; FETCH 1 FROM one; SELECT sum(v) FROM t;'
BEGIN;
:read
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
:read
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
:read
ROLLBACK;
SET shardfdw.snapshot = 'cluster';
BEGIN;
:read
ROLLBACK;
RESET shardfdw.snapshot;

-- A loop whose first write, in a block that fails, comes while the loop's own rows are still to be read.
CREATE PROCEDURE try_insert(rows int) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	nread int := 0;
	nfailed int := 0;
BEGIN
	FOR r IN SELECT k FROM read_savepoint.t WHERE k <= rows LOOP
		nread := nread + 1;
		BEGIN
			INSERT INTO read_savepoint.t VALUES (r.k, 1);
		EXCEPTION WHEN unique_violation THEN
			nfailed := nfailed + 1;
		END;
	END LOOP;
	RAISE WARNING '% rows, % failures', nread, nfailed;
END$$;
CREATE FUNCTION undone(key int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	UPDATE read_savepoint.t SET v = v + 1 WHERE k = key;
	RAISE EXCEPTION 'undone';
EXCEPTION WHEN raise_exception THEN
	RETURN 1;
END$$;
\set try 'CALL try_insert(400); SELECT sum(undone(k)), count(*) FROM t; SELECT sum(v) FROM t;'
SET shardfdw.max_connections_per_node = 1;
SELECT shardfdw.disconnect() \g /dev/null
BEGIN ISOLATION LEVEL REPEATABLE READ;
:try
COMMIT;
SELECT shardfdw.disconnect() \g /dev/null
BEGIN ISOLATION LEVEL SERIALIZABLE;
:try
COMMIT;
SELECT shardfdw.disconnect() \g /dev/null
SET shardfdw.snapshot = 'cluster';
BEGIN ISOLATION LEVEL REPEATABLE READ;
:try
COMMIT;
RESET shardfdw.snapshot;
RESET shardfdw.max_connections_per_node;

-- A connection that has read within a savepoint serves a statement from before it, which outlives that savepoint.
SET shardfdw.max_connections_per_node = 2;
SELECT shardfdw.disconnect() \g /dev/null
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k;
SAVEPOINT a;
SELECT count(*) FROM t;
FETCH 1 FROM c;
SAVEPOINT b;
SELECT count(*) FROM t WHERE 1 / (k - 3) > 0;
ROLLBACK TO b;
FETCH 1 FROM c;
ROLLBACK TO a;
FETCH 1 FROM c;
SELECT count(*) FROM t;
COMMIT;
RESET shardfdw.max_connections_per_node;

-- A cursor from before a savepoint whose FETCH fails there: the transaction goes on.
RESET shardfdw.max_connections_per_node;
CREATE TABLE w (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('w', 'k', colocate_with => 't') \g /dev/null
INSERT INTO w SELECT i, 0 FROM generate_series(1, 20) i;
\set fail 'DECLARE c CURSOR FOR SELECT * FROM w WHERE 1 / (k - 7) < 5; SAVEPOINT a; FETCH ALL FROM c; ROLLBACK TO a; UPDATE w SET v = v + 1; SELECT count(*), sum(v) FROM w;'
\set fail_locked 'DECLARE l CURSOR FOR SELECT * FROM w WHERE 1 / (k - 7) < 5 FOR UPDATE; SAVEPOINT a; FETCH ALL FROM l; ROLLBACK TO a; UPDATE w SET v = v + 1; SELECT count(*), sum(v) FROM w;'
CREATE FUNCTION fail_twice() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	looped CURSOR FOR SELECT * FROM read_savepoint.w WHERE 1 / (k - 7) < 5;
	r record;
BEGIN
	OPEN looped;
	BEGIN
		LOOP
			FETCH looped INTO r;
			EXIT WHEN NOT FOUND;
		END LOOP;
	EXCEPTION WHEN division_by_zero THEN
		RAISE WARNING 'caught';
	END;
	UPDATE read_savepoint.w SET v = v + 1;
END$$;
BEGIN;
:fail
ROLLBACK;
BEGIN;
UPDATE w SET v = 0;
:fail
SELECT fail_twice();
SELECT sum(v) FROM w;
ROLLBACK;
BEGIN;
:fail_locked
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
:fail
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM w;
:fail
:fail_locked
ROLLBACK;
SET shardfdw.query_per_node = on;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM w;
:fail
ROLLBACK;
BEGIN;
UPDATE w SET v = 0;
:fail
ROLLBACK;
RESET shardfdw.query_per_node;

-- A row that fails on a node later: within a savepoint that was set after the cursor's first FETCH, or never, as nobody wants it.
CREATE TABLE late (k int, v int);
SELECT shardfdw.shard_table('late', 'k', 12) \g /dev/null
INSERT INTO late SELECT i, 0 FROM generate_series(1, 20) i;
ANALYZE late;
SET shardfdw.query_per_node = on;
BEGIN;
UPDATE late SET v = 0;
SELECT sum(v) FROM late;
DECLARE b CURSOR FOR SELECT k FROM late WHERE 1 / k < 5;
FETCH ALL FROM b \g /dev/null
CLOSE b;
DECLARE c CURSOR FOR SELECT k FROM late WHERE 1 / (k - 20) < 5;
FETCH 1 FROM c \g /dev/null
SAVEPOINT a;
MOVE FORWARD ALL FROM c;
ROLLBACK TO a;
SELECT sum(v) FROM late;
DECLARE d CURSOR FOR SELECT k FROM late WHERE 1 / (k - 20) < 5;
FETCH 1 FROM d \g /dev/null
CLOSE d;
SELECT sum(v) FROM late;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM late;
DECLARE b CURSOR FOR SELECT k FROM late WHERE 1 / k < 5;
FETCH ALL FROM b \g /dev/null
CLOSE b;
DECLARE c CURSOR FOR SELECT k FROM late WHERE 1 / (k - 20) < 5;
FETCH 1 FROM c \g /dev/null
SAVEPOINT a;
MOVE FORWARD ALL FROM c;
ROLLBACK TO a;
SELECT count(*) FROM late;
DECLARE d CURSOR FOR SELECT k FROM late WHERE 1 / (k - 20) < 5;
FETCH 1 FROM d \g /dev/null
CLOSE d;
SELECT count(*) FROM late;
ROLLBACK;
RESET shardfdw.query_per_node;

SET client_min_messages = error;
SELECT shardfdw.unshard_table('t');
DROP SCHEMA read_savepoint CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA read_savepoint CASCADE');
