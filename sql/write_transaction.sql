-- What a transaction sees of its own writes: savepoints, cursors, isolation levels, TRUNCATE.
--
-- Everything printed, errors as SQLSTATE included, is what plain tables give: t/write_plain.pl runs this
-- on both, with several settings. Here it runs on tables of 7 shards, made by sql/diff/write_tables.sql.
\if :{?schema}
\else
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\o /dev/null
\set f :dir '/setup.sql'
\i :f
SET client_min_messages = warning;
\set f :dir '/write_tables.sql'
\set schema write_transaction
\set shards 7
\i :f
\o
\set VERBOSITY sqlstate
SET TimeZone = 'Europe/Berlin';
SET DateStyle = 'ISO, MDY';
SET IntervalStyle = postgres;
SET search_path = write_transaction, diff;
\set ECHO all
\endif

-- Rows of others
INSERT INTO acc (id) SELECT g FROM generate_series(101, 400) g;

-- Read-your-writes in a transaction, with all that was written before it undone or kept
BEGIN;
INSERT INTO acc (id, v) SELECT g, g FROM generate_series(20001, 20050) g;
SELECT count(*), sum(v) FROM acc WHERE id > 20000 AND id < 21000;
UPDATE acc SET v = v + 1 WHERE id = 20007;
SELECT id, v FROM acc WHERE id IN (20006, 20007, 20008) ORDER BY id;
DELETE FROM acc WHERE id > 20030 AND id < 21000;
SELECT count(*) FROM acc WHERE id > 20000 AND id < 21000;
SELECT v % 10, count(*) FROM acc WHERE id > 20000 AND id < 21000 GROUP BY 1 ORDER BY 1;
ROLLBACK;
SELECT count(*) FROM acc WHERE id > 20000 AND id < 21000;
BEGIN;
INSERT INTO acc (id, v) VALUES (30001, 1), (30002, 2), (30003, 3), (30004, 4);
SAVEPOINT a;
UPDATE acc SET v = 100 WHERE id = 30001;
SAVEPOINT b;
DELETE FROM acc WHERE id IN (30002, 30003);
SELECT id, v FROM acc WHERE id > 30000 AND id < 31000 ORDER BY id;
ROLLBACK TO b;
SELECT id, v FROM acc WHERE id > 30000 AND id < 31000 ORDER BY id;
INSERT INTO acc (id, v) VALUES (30001, 5);
SELECT 1;
ROLLBACK TO b;
SELECT id, v FROM acc WHERE id > 30000 AND id < 31000 ORDER BY id;
INSERT INTO acc (id, v) VALUES (30005, 5);
RELEASE b;
ROLLBACK TO a;
SELECT id, v FROM acc WHERE id > 30000 AND id < 31000 ORDER BY id;
UPDATE acc SET v = -5 WHERE id = 30004;
ROLLBACK TO a;
INSERT INTO acc (id, v) VALUES (30006, 6);
RELEASE a;
COMMIT;
SELECT id, v FROM acc WHERE id > 30000 AND id < 31000 ORDER BY id;
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SAVEPOINT c;
UPDATE acc SET v = 1000 WHERE id = 30006;
RELEASE c;
ROLLBACK TO b;
UPDATE acc SET v = v + 1 WHERE id = 30006;
RELEASE a;
SAVEPOINT a;
SELECT 1 / 0;
ROLLBACK TO a;
SELECT v FROM acc WHERE id = 30006;
COMMIT;
SELECT v FROM acc WHERE id = 30006;
BEGIN;
UPDATE acc SET v = 3 WHERE id = 30006;
SELECT 1 / 0;
SELECT count(*) FROM acc;
COMMIT;
SELECT v FROM acc WHERE id = 30006;
DO $$
BEGIN
	FOR i IN 1 .. 20 LOOP
		BEGIN
			INSERT INTO acc (id, v) VALUES (40000 + i, CASE WHEN i % 3 = 0 THEN -1 ELSE i END);
			IF i % 5 = 0 THEN
				RAISE EXCEPTION 'undo';
			END IF;
		EXCEPTION WHEN OTHERS THEN
			UPDATE acc SET v = v + 1 WHERE id = 40001;
		END;
	END LOOP;
END $$;
SELECT id, v FROM acc WHERE id > 40000 AND id < 41000 ORDER BY id;

-- A cursor that is open while the table changes; one that outlives the transaction
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM acc WHERE id > 40000 AND id < 41000 ORDER BY id;
FETCH 2 FROM c;
DELETE FROM acc WHERE id = 40004;
INSERT INTO acc (id, v) VALUES (40003, 3);
FETCH ALL FROM c;
SELECT count(*) FROM acc WHERE id > 40000 AND id < 41000;
ROLLBACK;
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, v FROM acc WHERE id > 40000 AND id < 41000 ORDER BY id;
FETCH 2 FROM h;
UPDATE acc SET v = 0 WHERE id = 40008;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
BEGIN;
DECLARE s SCROLL CURSOR FOR SELECT id FROM acc WHERE id > 40000 AND id < 41000 ORDER BY id;
FETCH LAST FROM s;
FETCH FIRST FROM s;
FETCH RELATIVE 2 FROM s;
FETCH PRIOR FROM s;
COMMIT;

-- Other isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM acc WHERE id > 40000 AND id < 41000;
INSERT INTO acc (id, v) VALUES (40050, 1);
SELECT count(*) FROM acc WHERE id > 40000 AND id < 41000;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE acc SET v = v + 1 WHERE id = 40050 RETURNING v;
SELECT sum(v) FROM acc WHERE id > 40000 AND id < 41000;
COMMIT;
BEGIN READ ONLY;
SELECT count(*) FROM acc WHERE id > 40000 AND id < 41000;
INSERT INTO acc (id, v) VALUES (40060, 1);
ROLLBACK;
BEGIN;
TRUNCATE acc;
SELECT count(*) FROM acc;
INSERT INTO acc (id, v) VALUES (1, 1);
SELECT id FROM acc;
ROLLBACK;
SELECT count(*) > 100 FROM acc;
TRUNCATE acc, parts;
SELECT count(*) FROM acc;
SELECT count(*) FROM parts;
INSERT INTO acc (id, v) VALUES (1, 1);
SELECT id, v FROM acc;
