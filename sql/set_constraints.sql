-- SET CONSTRAINTS: deferrable constraints of shards, on nodes that are written to and those that will be.
CREATE SCHEMA set_constraints;
SET search_path = set_constraints;
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, note text);
SELECT shardfdw.shard_table('parent', 'id', shards => 4) IS NULL AS sharded;
SELECT shardfdw.shard_table('child', 'id', colocate_with => 'parent') IS NULL AS sharded;
ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES parent (id) DEFERRABLE;

-- as it is defined: at once
BEGIN;
\set VERBOSITY terse
INSERT INTO child SELECT g FROM generate_series(1, 8) g;
\set VERBOSITY default
ROLLBACK;

-- before any node is written to
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child SELECT g FROM generate_series(1, 8) g;
INSERT INTO parent SELECT g FROM generate_series(1, 8) g;
COMMIT;
SELECT count(*) FROM child;

-- after: one node is written to, others join later
BEGIN;
INSERT INTO parent VALUES (11);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child SELECT g FROM generate_series(11, 18) g;
INSERT INTO parent SELECT g FROM generate_series(12, 18) g;
COMMIT;
SELECT count(*) FROM child;

-- back to IMMEDIATE: what is violated is an error at once
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child VALUES (21);
SAVEPOINT a;
\set VERBOSITY terse
SET CONSTRAINTS ALL IMMEDIATE;
\set VERBOSITY default
ROLLBACK TO a;
INSERT INTO parent VALUES (21);
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
SELECT count(*) FROM child;

-- still violated at the end
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child VALUES (31);
\set VERBOSITY terse
COMMIT;

-- savepoints: taken back, and kept, for nodes that join later, too
BEGIN;
SAVEPOINT a;
SET CONSTRAINTS ALL DEFERRED;
ROLLBACK TO a;
INSERT INTO child SELECT g FROM generate_series(41, 48) g;
ROLLBACK;
BEGIN;
SAVEPOINT a;
SET CONSTRAINTS ALL DEFERRED;
SAVEPOINT b;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO b;
RELEASE a;
INSERT INTO child SELECT g FROM generate_series(41, 48) g;
SAVEPOINT c;
INSERT INTO child SELECT g FROM generate_series(51, 58) g;
ROLLBACK TO c;
INSERT INTO parent SELECT g FROM generate_series(41, 48) g;
COMMIT;
SELECT count(*) FROM child;
BEGIN;
SAVEPOINT a;
SET CONSTRAINTS ALL DEFERRED;
SAVEPOINT b;
INSERT INTO child SELECT g FROM generate_series(61, 68) g;
ROLLBACK TO b;
INSERT INTO child SELECT g FROM generate_series(71, 78) g;
ROLLBACK TO a;
INSERT INTO child SELECT g FROM generate_series(61, 68) g;
ROLLBACK;

-- a snapshot for the whole transaction, and a node that was read before
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM child;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child SELECT g FROM generate_series(61, 68) g;
INSERT INTO parent SELECT g FROM generate_series(61, 68) g;
COMMIT;
SELECT count(*) FROM child;

-- over with the transaction
INSERT INTO child VALUES (99);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child VALUES (99);
\set VERBOSITY default

-- one row of one shard, and COPY
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child VALUES (81);
INSERT INTO parent VALUES (81);
DELETE FROM parent WHERE id = 11;
COPY child FROM STDIN;
82	x
83	y
\.
COPY parent FROM STDIN;
82
83
\.
DELETE FROM child WHERE id = 11;
COMMIT;
SELECT count(*) FROM child JOIN parent USING (id);

-- several statements in one message, a block, an exception, statements that go to all shards as they stand
SET CONSTRAINTS ALL DEFERRED\; INSERT INTO child VALUES (91)\; INSERT INTO parent VALUES (91);
DO $$ BEGIN
	SET CONSTRAINTS ALL DEFERRED;
	INSERT INTO child VALUES (92), (93), (94);
	BEGIN
		SET CONSTRAINTS ALL IMMEDIATE;
	EXCEPTION WHEN foreign_key_violation THEN
		RAISE NOTICE 'not yet';
	END;
	INSERT INTO parent VALUES (92), (93), (94);
END $$;
BEGIN;
INSERT INTO parent SELECT g FROM generate_series(101, 120) g;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO child SELECT id + 100 FROM parent WHERE id > 100;
INSERT INTO parent SELECT id FROM child WHERE id > 200;
UPDATE child SET note = 'x' WHERE id > 200;
COMMIT;
SELECT count(*) FROM child JOIN parent USING (id);

-- a deferrable foreign key that comes with its column, as an ORM's migration writes it
CREATE TABLE kind (id bigint PRIMARY KEY);
SELECT shardfdw.create_reference_table('kind') \g /dev/null
ALTER TABLE child ADD COLUMN kind_id bigint CONSTRAINT child_kind_id_fk REFERENCES kind (id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE child ADD COLUMN other_id bigint DEFAULT NULL REFERENCES kind DEFERRABLE CHECK (other_id <> 5), ADD COLUMN third_id bigint REFERENCES kind (id) ON DELETE CASCADE NOT DEFERRABLE INITIALLY IMMEDIATE;
SELECT DISTINCT result FROM shardfdw.run_on_shards('child', $$SELECT string_agg(concat_ws(' ', conname, condeferrable, condeferred), ', ' ORDER BY conname) FROM pg_constraint
	WHERE contype = 'f' AND conrelid = to_regclass('%s') AND conname ~ '(kind|other|third)_id'$$);
ALTER TABLE child ADD COLUMN no_id bigint REFERENCES kind NOT DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE child ADD COLUMN no_id bigint REFERENCES kind NOT DEFERRABLE DEFERRABLE;
BEGIN;
UPDATE child SET kind_id = 7 WHERE id = 91;
INSERT INTO kind VALUES (7);
COMMIT;
BEGIN;
UPDATE child SET kind_id = 8 WHERE id = 91;
COMMIT;
\set VERBOSITY terse
UPDATE child SET third_id = 8 WHERE id = 91;

-- names, which only the shards know
BEGIN;
SET CONSTRAINTS child_id_fkey DEFERRED;
INSERT INTO child SELECT g FROM generate_series(301, 308) g;
SET CONSTRAINTS child_id_fkey IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO parent VALUES (301);
SET CONSTRAINTS set_constraints.child_id_fkey DEFERRED;
INSERT INTO child SELECT g FROM generate_series(301, 308) g;
INSERT INTO parent SELECT g FROM generate_series(302, 308) g;
SET CONSTRAINTS child_id_fkey IMMEDIATE;
INSERT INTO child VALUES (309);
ROLLBACK;
-- of two, one
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS child_kind_id_fk, child_id_fkey DEFERRED;
SET CONSTRAINTS child_id_fkey IMMEDIATE;
UPDATE child SET kind_id = 9 WHERE id < 15;
INSERT INTO child VALUES (309);
ROLLBACK;
BEGIN;
SET CONSTRAINTS child_kind_id_fk IMMEDIATE;
UPDATE child SET kind_id = 9 WHERE id < 15;
ROLLBACK;
-- ALL is said after a name
BEGIN;
SET CONSTRAINTS child_kind_id_fk IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
UPDATE child SET kind_id = 9 WHERE id < 15;
INSERT INTO kind VALUES (9);
COMMIT;
-- savepoints, and nodes that join inside of them
BEGIN;
SAVEPOINT a;
SET CONSTRAINTS child_id_fkey DEFERRED;
ROLLBACK TO a;
INSERT INTO child SELECT g FROM generate_series(301, 308) g;
ROLLBACK TO a;
SET CONSTRAINTS child_id_fkey DEFERRED;
SAVEPOINT b;
SET CONSTRAINTS child_id_fkey IMMEDIATE;
ROLLBACK TO b;
SAVEPOINT c;
SET CONSTRAINTS child_kind_id_fk IMMEDIATE;
RELEASE c;
RELEASE a;
INSERT INTO child SELECT g FROM generate_series(301, 308) g;
UPDATE child SET kind_id = 10 WHERE id < 15;
ROLLBACK;
-- one made in the same transaction, as a migration has it; one of a local table beside it
CREATE TABLE here (id bigint CONSTRAINT here_fk REFERENCES kind DEFERRABLE INITIALLY DEFERRED);
BEGIN;
ALTER TABLE child ADD COLUMN new_id bigint CONSTRAINT child_new_id_fk REFERENCES kind DEFERRABLE INITIALLY DEFERRED;
INSERT INTO here VALUES (10);
UPDATE child SET new_id = 10 WHERE id < 15;
INSERT INTO kind VALUES (10);
SET CONSTRAINTS child_new_id_fk, here_fk IMMEDIATE;
INSERT INTO here VALUES (11);
ROLLBACK;
-- what there is not
BEGIN;
SET CONSTRAINTS no_such DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS child_id_fkey, no_such DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS pg_catalog.child_id_fkey DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS no_such.child_id_fkey DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS no_such.set_constraints.child_id_fkey DEFERRED;
ROLLBACK;
BEGIN;
SET CONSTRAINTS child_third_id_fkey IMMEDIATE;
SET CONSTRAINTS child_third_id_fkey DEFERRED;
ROLLBACK;
SET CONSTRAINTS child_id_fkey DEFERRED;
SELECT count(*) FROM child JOIN parent USING (id);

-- Deferrable unique keys of rows that are updated one by one: 23505 where a plain table raises it.  u has the
-- shard key alone; g has another column, and a trigger for each row; d and i are checked at the end and with each row.
SET client_min_messages = warning;
CREATE TABLE u (i int UNIQUE DEFERRABLE, v text);
CREATE TABLE g (k int, i int, v text, UNIQUE (k, i) DEFERRABLE, UNIQUE (k, v));
CREATE TABLE d (i int UNIQUE DEFERRABLE INITIALLY DEFERRED, v text);
CREATE TABLE i (i int UNIQUE, v text);
CREATE TABLE plain_u (LIKE u INCLUDING ALL);
CREATE TABLE plain_g (LIKE g INCLUDING ALL);
CREATE TABLE plain_d (LIKE d INCLUDING ALL);
CREATE TABLE plain_i (LIKE i INCLUDING ALL);
SELECT shardfdw.shard_table(t, 'i', shards => 2) FROM unnest('{u,d,i}'::regclass[]) t \g /dev/null
SELECT shardfdw.shard_table('g', 'k', shards => 2) \g /dev/null
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE FUNCTION defers() RETURNS int LANGUAGE plpgsql AS 'BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN 1; END';
CREATE TRIGGER stay BEFORE UPDATE ON g FOR EACH ROW EXECUTE FUNCTION stay();
-- What becomes of statements, in one transaction, on the sharded tables and on the plain ones.
CREATE FUNCTION outcome(prefix text, statements text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	result text := '';
	part text;
BEGIN
	FOREACH statement IN ARRAY ARRAY['INSERT INTO {u} SELECT n, n FROM generate_series(1, 6) n', 'INSERT INTO {g} SELECT n / 4, n, n FROM generate_series(1, 6) n',
		'INSERT INTO {d} SELECT n, n FROM generate_series(1, 6) n', 'INSERT INTO {i} SELECT n, n FROM generate_series(1, 6) n'] || string_to_array(statements, '; ') LOOP
		BEGIN
			EXECUTE regexp_replace(statement, '{(.)}', prefix || '\1', 'g');
			result := result || ' done';
		EXCEPTION WHEN unique_violation THEN
			result := result || ' ' || SQLSTATE;
		END;
	END LOOP;
	BEGIN
		SET CONSTRAINTS ALL IMMEDIATE;
	EXCEPTION WHEN unique_violation THEN
		result := result || ' end ' || SQLSTATE;
	END;
	EXECUTE format('SELECT string_agg(i::text, '','' ORDER BY i) FROM (SELECT i FROM %1$su UNION ALL SELECT 100 + i FROM %1$sg UNION ALL SELECT 200 + i FROM %1$sd) x', prefix) INTO part;
	RAISE EXCEPTION USING ERRCODE = 'triggered_action_exception', MESSAGE = substr(result, 21) || ' ' || part;
EXCEPTION WHEN triggered_action_exception THEN
	RETURN SQLERRM;
END$$;
\pset tuples_only on
\pset format unaligned
SELECT format('SELECT %s, %L, outcome(%L, %L)', n, t, t, s) FROM (VALUES
	(1, 'UPDATE {u} SET i = i + 1'),
	(2, 'UPDATE {u} SET i = 7 - i; UPDATE {u} SET i = 5 - i WHERE i IN (2,3)'),
	(3, 'UPDATE {u} SET i = 9 WHERE i < 3'),
	(4, 'UPDATE {u} SET i = i + 2 WHERE i < 4'),
	(5, 'UPDATE {g} SET i = i + 1; UPDATE {g} SET i = -i; UPDATE {g} SET i = i - 1'),
	(6, 'UPDATE {g} SET i = 2 WHERE k = 0'),
	(7, 'UPDATE {g} SET i = i + 1 WHERE i < 6 AND k = 1'),
	(8, 'UPDATE {d} SET i = i + 1; UPDATE {d} SET i = 4 WHERE i = 3; UPDATE {d} SET i = 40 WHERE i = 4'),
	(9, 'SET CONSTRAINTS ALL IMMEDIATE; UPDATE {d} SET i = i + 1; UPDATE {d} SET i = 4 WHERE i = 3'),
	(10, 'SET CONSTRAINTS ALL DEFERRED; UPDATE {u} SET i = 4 WHERE i = 3; UPDATE {u} SET i = i + 10 WHERE i < 4'),
	(11, 'WITH x AS (UPDATE {u} SET i = i + 1 RETURNING i) UPDATE {g} SET i = i + 1'),
	(12, 'INSERT INTO {g} SELECT n / 4, n + 10, n FROM generate_series(1, 6) n ON CONFLICT (k, v) DO UPDATE SET i = CASE {g}.i WHEN 6 THEN 4 ELSE {g}.i + 1 END'),
	(13, 'INSERT INTO {g} SELECT n / 4, 5, n FROM generate_series(4, 6) n ON CONFLICT (k, v) DO UPDATE SET i = 5'),
	(14, 'UPDATE {g} SET i = i + 1 WHERE defers() = 1; UPDATE {g} SET i = 4 WHERE i = 3; UPDATE {g} SET i = v::int WHERE k = 0')) x (n, s), unnest('{"",plain_}'::text[]) t
ORDER BY n, t
\gexec
SELECT outcome('', 'UPDATE {i} SET i = 9 WHERE i < 3');
-- A statement that names a partition locks the tables above it. The session is new, so that nothing is cached. Servers
-- with assertions check that a table that is opened is locked.
CREATE FUNCTION outcome_of_nothing() RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN ''x''; END';
CREATE TABLE above (a text, b int) PARTITION BY RANGE (a);
CREATE TABLE below (a text, b int);
SELECT shardfdw.shard_table('below', 'b', shards => 2) \g /dev/null
ALTER TABLE above ATTACH PARTITION below FOR VALUES FROM ('b') TO ('d');
INSERT INTO below VALUES ('b', 1), ('c', 2);
\c -
SET search_path = set_constraints;
SET client_min_messages = warning;
\set VERBOSITY terse
CREATE TABLE refers (b int REFERENCES below (b));
\c -
SET search_path = set_constraints;
SET client_min_messages = warning;
\set VERBOSITY terse
BEGIN;
UPDATE below SET a = a || outcome_of_nothing();
SELECT a FROM below ORDER BY a;
SELECT mode FROM pg_locks WHERE relation = 'above'::regclass AND pid = pg_backend_pid();
ROLLBACK;
DROP SCHEMA set_constraints CASCADE;
