-- UPDATE whose plan reads the written table again for each row of another one: each statement beside a plain table. What
-- the statement has written must not be found, or the statement is refused.
SET client_min_messages = warning;
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA again;
SET search_path = again;
CREATE TABLE plain (account int, id int, n int, PRIMARY KEY (account, id));
INSERT INTO plain SELECT i, j, j FROM generate_series(1, 12) i, generate_series(1, 5) j;
CREATE TABLE sharded (LIKE plain INCLUDING ALL);
SELECT shardfdw.shard_table('sharded', 'account', shards => 4);
INSERT INTO sharded TABLE plain;
CREATE TABLE team (account int, id int);
SELECT shardfdw.shard_table('team', 'account', colocate_with => 'sharded');
INSERT INTO team SELECT i, j FROM generate_series(1, 12) i, generate_series(1, 2) j;
CREATE TABLE plain_team AS TABLE team;
CREATE TABLE few AS SELECT i AS id, i AS n FROM generate_series(1, 6) i;
CREATE TABLE country (id int);
INSERT INTO country SELECT generate_series(1, 3);
SELECT shardfdw.create_reference_table('country');
CREATE FUNCTION numbers() RETURNS SETOF int STABLE LANGUAGE sql ROWS 1 AS 'SELECT generate_series(1, 3)';
CREATE FUNCTION volatile_numbers() RETURNS SETOF int LANGUAGE sql ROWS 1 AS 'SELECT generate_series(1, 3)';
CREATE FUNCTION steady(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE FUNCTION volatile(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
ANALYZE;

-- A statement with x for the table and _team for the other table.
CREATE FUNCTION same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	counts int[];
	n int;
	result text;
BEGIN
	EXECUTE replace(replace(statement, '_x', 'plain x'), '_team', 'plain_team');
	GET DIAGNOSTICS n = ROW_COUNT;
	counts = counts || n;
	EXECUTE replace(replace(statement, '_x', 'sharded x'), '_team', 'team');
	GET DIAGNOSTICS n = ROW_COUNT;
	counts = counts || n;
	result = counts::text || CASE WHEN EXISTS (SELECT * FROM ((TABLE plain EXCEPT ALL TABLE sharded) UNION ALL (TABLE sharded EXCEPT ALL TABLE plain)) d)
		THEN ' rows differ' ELSE ' same rows' END;
	RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;

-- Each statement with the usual plans, and with nested loops.
CREATE FUNCTION each_plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT same(statement);
	SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_mergejoin = off;
	SET LOCAL enable_material = off;
	RETURN NEXT same(statement);
	SET LOCAL shardfdw.enable_router = off;
	SET LOCAL shardfdw.enable_statement_push = off;
	RETURN NEXT same(statement);
END $$;
SELECT each_plan('UPDATE _x SET n = x.n + 1 FROM few y WHERE x.n = y.id AND y.n < 3 AND x.n < 3');
SELECT each_plan('UPDATE _x SET n = x.n + 1 FROM few y WHERE x.n = y.id');
SELECT each_plan('UPDATE _x SET n = x.n + 1 FROM few y WHERE x.n >= y.id');
SELECT each_plan('UPDATE _x SET n = x.n + 1 FROM numbers() y (id) WHERE x.id <> y.id AND x.account = 3');
SELECT each_plan('UPDATE _x SET n = x.n + 1 FROM country y WHERE x.n = y.id AND steady(x.id) > 0');
SELECT each_plan('UPDATE _x SET n = steady(x.n) + 1 FROM _team y WHERE x.account = y.account AND x.account = 8');
SELECT each_plan('UPDATE _x SET n = steady(x.n) + 1 FROM _team y WHERE x.account = y.account AND x.n = y.id');
SELECT each_plan('UPDATE _x SET n = x.n + 1 + (random() * 0)::int FROM few y WHERE x.n = y.id');
SELECT each_plan('WITH u AS (UPDATE _x SET n = x.n + 1 FROM few y WHERE x.n = y.id RETURNING x.n) SELECT n FROM u');
SELECT each_plan('DELETE FROM _x USING few y WHERE x.n >= y.id AND volatile(x.n) < 4');
SELECT each_plan('WITH d AS (DELETE FROM _x USING few y WHERE x.n >= y.id AND x.account < 4 RETURNING 1) SELECT count(*) FROM d');
-- functions that may see what the statement has written
SELECT each_plan('UPDATE _x SET n = x.n + 1 FROM volatile_numbers() y (id) WHERE x.id <> y.id AND x.account = 3');
SELECT each_plan('UPDATE _x SET n = volatile(x.n) + 1 FROM few y WHERE x.n = y.id');
-- an UPDATE in WITH of a DELETE
CREATE TABLE other AS SELECT 7 AS id;
SELECT each_plan('WITH u AS (UPDATE _x SET n = volatile(x.n) + 1 FROM few y WHERE x.n = y.id RETURNING 1) DELETE FROM other WHERE id = 1');
SELECT each_plan('WITH u AS (UPDATE _x SET n = x.n + 1 FROM few y WHERE x.n = y.id RETURNING 1) DELETE FROM other WHERE id = (SELECT count(*) FROM u)');
SELECT each_plan('WITH u AS (DELETE FROM _x USING few y WHERE x.n = y.id AND volatile(x.n) < 4 RETURNING 1) UPDATE other SET id = 1');

DROP SCHEMA again CASCADE;
