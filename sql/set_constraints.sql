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
SELECT shardfdw.replicate_table('kind') \g /dev/null
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

SET client_min_messages = warning;
DROP SCHEMA set_constraints CASCADE;
