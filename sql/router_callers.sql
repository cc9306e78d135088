-- Statements that one shard runs as they stand, by way of views, rights, prepared statements, functions and cursors.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA rc;
SET search_path = rc;
SET shardfdw.enable_statement_push = off;
CREATE TABLE t (k bigint PRIMARY KEY, g int, s text);
CREATE TABLE u (k bigint, i int, v int DEFAULT 7, PRIMARY KEY (k, i));
CREATE TABLE two (a int, b text, v int, PRIMARY KEY (a, b));
SELECT shardfdw.shard_table('t', 'k', 5);
SELECT shardfdw.shard_table('u', 'k', colocate_with => 't');
SELECT shardfdw.shard_table('two', 'a', 3);
INSERT INTO t SELECT i, i, 'row ' || i FROM generate_series(1, 5) i;
INSERT INTO u SELECT 1, i, i * 10 FROM generate_series(1, 6) i;
CREATE TABLE local (k bigint, v int);

-- Is the statement's plan one of a whole statement?
CREATE FUNCTION routed(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || statement INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Custom Plan Provider' IS NOT DISTINCT FROM 'ShardStatement';
EXCEPTION WHEN OTHERS THEN
	RETURN NULL;				-- not planned at all
END $$;

-- Views, the rights that are asked for, and what must not be lost: row security, check options, triggers.
CREATE VIEW v AS SELECT k, g, s FROM t;
CREATE VIEW checked AS SELECT k, g FROM t WHERE g < 1000 WITH CHECK OPTION;
CREATE VIEW barrier WITH (security_barrier) AS SELECT k, g FROM t WHERE g > 0;
SELECT routed('SELECT * FROM v WHERE k = 3') AS view, routed('UPDATE v SET g = 5 WHERE k = 3') AS through_view,
	routed('UPDATE checked SET g = 5 WHERE k = 3') AS checked, routed('SELECT * FROM barrier WHERE k = 3') AS barrier;
UPDATE checked SET g = 5000 WHERE k = 3;
CREATE ROLE rc_reader;
GRANT USAGE ON SCHEMA rc TO rc_reader;
GRANT SELECT (k, g), UPDATE (g) ON t TO rc_reader;
GRANT SELECT ON v TO rc_reader;
SET ROLE rc_reader;
SELECT s FROM t WHERE k = 3;
UPDATE t SET s = 'x' WHERE k = 3;
DELETE FROM t WHERE k = 3;
INSERT INTO t (k) VALUES (3) ON CONFLICT (k) DO NOTHING;
RESET ROLE;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON t USING (g < 3);
SELECT routed('SELECT * FROM t WHERE k = 3') AS owner;
SET ROLE rc_reader;
SELECT routed('SELECT k FROM t WHERE k = 3') AS reader;
RESET ROLE;
DROP POLICY few ON t;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO local VALUES (0, 0); RETURN NULL; END';
CREATE TRIGGER noted AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION noted();
SELECT routed('UPDATE t SET g = 1 WHERE k = 3') AS update, routed('DELETE FROM t WHERE k = 3') AS delete;
UPDATE t SET g = g WHERE k = 3;
SELECT count(*) FROM local WHERE k = 0;
DROP TRIGGER noted ON t;

-- One plan for all keys; it follows changes of the table.
PREPARE p (bigint) AS SELECT k, g FROM t WHERE k = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE p (4);
EXECUTE p (3);
EXECUTE p (NULL);
SELECT routed('EXECUTE p (3)');
PREPARE w (int, text) AS UPDATE t SET s = $2 WHERE k = $1 RETURNING k, s;
EXECUTE w (3, 'w');
EXECUTE w (3, NULL);
CREATE TRIGGER noted AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION noted();
EXECUTE w (3, 'after');
SELECT count(*) FROM local WHERE k = 0;
DROP TRIGGER noted ON t;
SET shardfdw.enable_router = off;
SELECT routed('SELECT * FROM t WHERE k = 3');
RESET shardfdw.enable_router;
RESET plan_cache_mode;

-- Functions, cursors, what is made from a routed SELECT.
CREATE FUNCTION f(key bigint) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR FOR SELECT i FROM u WHERE k = key ORDER BY i;
	line record;
BEGIN
	FOR line IN c LOOP
		RETURN NEXT line.i;
	END LOOP;
	UPDATE t SET g = -1 WHERE k = key;
	RETURN NEXT (SELECT g FROM t WHERE k = key);
	FOR x IN 1 .. 8 LOOP
		PERFORM FROM t WHERE k = x AND g = x;
	END LOOP;
END $$;
SELECT count(*) FROM f(1);
CREATE FUNCTION fs(key bigint) RETURNS int LANGUAGE sql AS 'UPDATE t SET g = 70 WHERE k = key; SELECT g FROM t WHERE k = key';
SELECT fs(3);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT i FROM u WHERE k = 1 ORDER BY i;
FETCH 1 FROM c;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
MOVE BACKWARD ALL FROM c;
FETCH 1 FROM c;
DECLARE d CURSOR FOR SELECT k FROM t WHERE k = 3 FOR UPDATE;
FETCH d;
SAVEPOINT s;
UPDATE t SET g = 71 WHERE k = 3;
ROLLBACK TO s;
SELECT g FROM t WHERE k = 3;
COMMIT;
CREATE TABLE made AS SELECT k, g FROM t WHERE k = 3;
INSERT INTO made SELECT k, g FROM t WHERE k = 3;
SELECT * FROM made;
COPY (SELECT k, g FROM t WHERE k = 3) TO STDOUT;
BEGIN READ ONLY;
UPDATE t SET g = 1 WHERE k = 3;
ROLLBACK;
INSERT INTO two VALUES (1, NULL, 1);

SET client_min_messages = error;
DROP SCHEMA rc CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA rc CASCADE');
DROP ROLE rc_reader;
