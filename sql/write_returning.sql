-- RETURNING into a variable of PL/pgSQL, which takes one row and wants to know of a second one: on each way that a statement can take.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA write_returning;
SET search_path = write_returning;
CREATE TABLE t (k int, x int, v int);
CREATE TABLE plain (k int, x int, v int, UNIQUE (k, x));
SELECT shardfdw.shard_table('t', 'k', 4) \g /dev/null
ALTER TABLE t ADD UNIQUE (k, x);
CREATE TABLE tried (no serial, way text, sharded text, plain text);
-- What a statement over {t} with RETURNING INTO says.
CREATE FUNCTION outcome(statement text, name text, returning_list text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('CREATE FUNCTION pg_temp.f() RETURNS text LANGUAGE plpgsql AS %L',
				   format('DECLARE m text; n bigint; BEGIN %s RETURNING %s INTO m; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; EXCEPTION WHEN too_many_rows THEN RETURN SQLSTATE; END',
						  replace(statement, '{t}', name), replace(returning_list, '{t}', name)));
	SELECT pg_temp.f() INTO result;
	DROP FUNCTION pg_temp.f();
	RETURN result;
END $$;
CREATE PROCEDURE try(way text, statement text) LANGUAGE plpgsql AS $$
DECLARE
	list text;
	on_sharded text;
	on_plain text;
BEGIN
	FOREACH list IN ARRAY ARRAY['{t}.x', '1', '{t}.x + 1'] LOOP
		DELETE FROM t;
		DELETE FROM plain;
		INSERT INTO t SELECT i % 5, i, 0 FROM generate_series(1, 50) i;
		INSERT INTO plain SELECT * FROM t;
		on_sharded := outcome(statement, 't', list);
		on_plain := outcome(statement, 'plain', list);
		INSERT INTO tried (way, sharded, plain) VALUES (way || ', ' || list, on_sharded, on_plain);
	END LOOP;
END $$;
CALL try('routed update', 'UPDATE {t} SET v = 1 WHERE k = 3');
CALL try('routed update, one row', 'UPDATE {t} SET v = 1 WHERE k = 3 AND x = 3');
CALL try('routed update, no row', 'UPDATE {t} SET v = 1 WHERE k = 3 AND x = 4');
CALL try('routed insert', 'INSERT INTO {t} VALUES (1, 100, 1), (1, 101, 1)');
CALL try('routed delete', 'DELETE FROM {t} WHERE k = 3');
CALL try('pushed update', 'UPDATE {t} SET v = 1 WHERE x > 10');
CALL try('pushed update, one row', 'UPDATE {t} SET v = 1 WHERE x = 10');
CALL try('pushed delete', 'DELETE FROM {t} WHERE x > 40');
CALL try('pushed insert', 'INSERT INTO {t} SELECT k, x + 1000 FROM {t}');
CALL try('pushed upsert', 'INSERT INTO {t} SELECT k, x FROM {t} WHERE x < 30 ON CONFLICT (k, x) DO UPDATE SET v = 3');
CALL try('upsert of rows', 'INSERT INTO {t} VALUES (1, 1), (2, 2), (3, 3), (1, 6) ON CONFLICT (k, x) DO UPDATE SET v = 3');
CALL try('upsert of rows, one of them', 'INSERT INTO {t} VALUES (1, 1), (7, 2) ON CONFLICT (k, x) DO NOTHING');
CALL try('insert of rows', 'INSERT INTO {t} VALUES (1, -1), (2, -2), (3, -3)');
CALL try('routed update, two rows', 'UPDATE {t} SET v = 1 WHERE k = 3 AND x < 10');
CALL try('pushed update, two rows', 'UPDATE {t} SET v = 1 WHERE x IN (11, 12)');
CALL try('upsert of two rows', 'INSERT INTO {t} VALUES (1, 1), (2, 2) ON CONFLICT (k, x) DO UPDATE SET v = 3');
CALL try('update row by row', 'UPDATE {t} SET v = random() WHERE x > 10');
SET shardfdw.enable_router = off;
SET shardfdw.enable_statement_push = off;
CALL try('core''s update', 'UPDATE {t} SET v = 1 WHERE k = 3');
CALL try('core''s delete', 'DELETE FROM {t} WHERE x > 40');
SELECT way, sharded, plain FROM tried WHERE sharded <> plain ORDER BY no;
SELECT sharded, count(*) FROM tried GROUP BY 1 ORDER BY 1;
RESET shardfdw.enable_router;
RESET shardfdw.enable_statement_push;
-- nodes have changed all rows by then
DO $$
DECLARE
	m int;
BEGIN
	UPDATE t SET v = 9 WHERE x > 10 RETURNING x INTO m;
EXCEPTION WHEN too_many_rows THEN
	RAISE WARNING '% (%)', SQLERRM, SQLSTATE;
END $$;
SELECT count(*) FROM t WHERE v = 9;
-- the count of all rows, too
UPDATE t SET v = 1 WHERE k = 3 RETURNING x \g /dev/null
\echo :ROW_COUNT
UPDATE t SET v = 1 WHERE x > 10 RETURNING 1 \g /dev/null
\echo :ROW_COUNT
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (1, 6) ON CONFLICT (k, x) DO UPDATE SET v = 3 RETURNING 1 \g /dev/null
\echo :ROW_COUNT
WITH x AS (DELETE FROM t WHERE k = 3 RETURNING x) DELETE FROM t WHERE k = 2 RETURNING k \g /dev/null
\echo :ROW_COUNT

SET client_min_messages = error;
DROP SCHEMA write_returning CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA write_returning CASCADE');
