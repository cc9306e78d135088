-- UPDATE, DELETE and INSERT ... SELECT that run on all shards at once: which do, and that they leave the
-- rows, and count the rows, that they do on plain tables.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA psh;
SET search_path = psh;
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all

SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS psh') WHERE NOT ok;
CREATE TABLE t (id int NOT NULL, v int, s text, d date, n numeric, UNIQUE (id, v));
CREATE TABLE u (id int, w int);
CREATE TABLE o (k int, x int);
CREATE TABLE r (g int PRIMARY KEY, name text);
CREATE TABLE two (a int, b text, v int);
CREATE SCHEMA psh_plain;
CREATE TABLE psh_plain.t (LIKE t INCLUDING ALL);
CREATE TABLE psh_plain.u (LIKE u);
CREATE TABLE psh_plain.o (LIKE o);
CREATE TABLE psh_plain.r (LIKE r);
CREATE TABLE psh_plain.two (LIKE two);
SELECT shardfdw.shard_table('t', 'id', 4);
SELECT shardfdw.shard_table('u', 'id', colocate_with => 't');
SELECT shardfdw.shard_table('o', 'k', 3);
SELECT shardfdw.create_reference_table('r');

-- Runs the statement here and on the plain tables. A line: how it is planned, rows changed and returned; then what
-- differs. With the path off the same must come out.
CREATE FUNCTION psh.same(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	mode text;
	side text;
	n bigint;
	rows text[];
	counts bigint[];
	results text[];
	contents text[];
	planned text;
	failure text;
	path text := current_setting('search_path');
	result record;
BEGIN
	SELECT CASE WHEN bool_or(line LIKE 'ShardStatement%') THEN 'all at once' ELSE 'not at once' END INTO planned FROM psh.plan(statement) line;
	FOREACH mode IN ARRAY ARRAY['on', 'off'] LOOP
		counts := '{}'; results := '{}'; contents := '{}';
		FOREACH side IN ARRAY ARRAY['psh', 'psh_plain'] LOOP
			PERFORM set_config('search_path', side, true), set_config('shardfdw.enable_statement_push', mode, true);
			BEGIN
				IF statement ILIKE '%returning%' THEN
					rows := '{}';
					FOR result IN EXECUTE statement LOOP
						rows := rows || result::text;
					END LOOP;
					n := cardinality(rows);
					rows := ARRAY(SELECT x FROM unnest(rows) x ORDER BY x COLLATE "C");
				ELSE
					EXECUTE statement;
					GET DIAGNOSTICS n = ROW_COUNT;
					rows := NULL;
				END IF;
				counts := counts || n;
				results := results || COALESCE(rows::text, '-');
				contents := contents || (SELECT string_agg(x, chr(10) ORDER BY x COLLATE "C") FROM
					(SELECT 't' || t::text FROM t UNION ALL SELECT 'u' || u::text FROM u) q(x));
				RAISE EXCEPTION 'undone' USING ERRCODE = 'PSH01';
			EXCEPTION
				WHEN SQLSTATE 'PSH01' THEN NULL;
				WHEN OTHERS THEN
					counts := counts || (-1)::bigint;
					results := results || SQLSTATE;
					contents := contents || ''::text;
			END;
		END LOOP;
		PERFORM set_config('search_path', path, true);
		IF mode = 'on' THEN
			RETURN NEXT format('%s, %s rows%s', planned, counts[1], CASE WHEN counts[1] < 0 THEN ' ' || results[1] ELSE '' END);
		END IF;
		IF counts[1] IS DISTINCT FROM counts[2] OR results[1] IS DISTINCT FROM results[2] OR contents[1] IS DISTINCT FROM contents[2] THEN
			RETURN NEXT format('push %s: sharded %s %s, plain %s %s', mode, counts[1], left(results[1], 200), counts[2], left(results[2], 200));
		END IF;
	END LOOP;
END $$;

DO $$
DECLARE
	side text;
BEGIN
	FOREACH side IN ARRAY ARRAY['psh', 'psh_plain'] LOOP
		PERFORM set_config('search_path', side, true);
		INSERT INTO t SELECT i, i % 10, 's' || i, date '2024-01-01' + i % 50, i / 4.0 FROM generate_series(1, 400) i;
		INSERT INTO t (id, v) VALUES (401, NULL), (402, NULL);
		INSERT INTO u SELECT i, i % 7 FROM generate_series(1, 600) i;
		INSERT INTO u SELECT i, 9 FROM generate_series(1, 50) i;
		INSERT INTO u VALUES (NULL, 1);
		INSERT INTO o SELECT i, i FROM generate_series(1, 50) i;
		INSERT INTO r SELECT i, 'n' || i FROM generate_series(0, 7) i;
		INSERT INTO two SELECT i, 'x' || i % 3, i FROM generate_series(1, 60) i;
	END LOOP;
END $$;
ANALYZE t, u, o, r;

-- one table
SELECT plan('UPDATE t SET v = v + 1, s = upper(s) WHERE n > 10');
SELECT same('UPDATE t SET v = v + 1, s = upper(s) WHERE n > 10');
SELECT same('UPDATE t SET v = 3 RETURNING id, v + 1, s');
SELECT same('DELETE FROM t');
SELECT same('DELETE FROM t WHERE v = 3 RETURNING *');
SELECT same('UPDATE t SET d = current_date - (current_date - d) + 1 WHERE d < now()');
SELECT same('UPDATE t SET v = 1 WHERE id IN (1, 2, 3)');
SELECT same('UPDATE t SET v = 1 WHERE id = 5 AND id = 6');
SELECT same('UPDATE t AS a SET v = a.v + 1 WHERE a.id > 100');
-- errors are those of plain tables
SELECT same('UPDATE t SET v = v / (id - 7)');
SELECT same('UPDATE t SET v = 3 WHERE id > 1 AND s IS NULL');
-- what cannot go: the key, volatile functions, system columns, no columns
SELECT same('UPDATE t SET id = id + 1000 WHERE v = 1');
SELECT same('UPDATE t SET v = v + (random() * 0)::int');
SELECT same('DELETE FROM t WHERE random() > 2');
SELECT same('DELETE FROM t WHERE v = 1 RETURNING tableoid IS NOT NULL, id');

-- joins: colocated on the key, reference tables, others
SELECT plan('UPDATE t SET v = w FROM u WHERE u.id = t.id AND u.w > 3 AND u.id > 50');
SELECT same('UPDATE t SET v = w FROM u WHERE u.id = t.id AND u.w > 3 AND u.id > 50');
SELECT same('UPDATE t SET s = name FROM r WHERE r.g = t.v RETURNING t.id, name, s');
SELECT same('UPDATE t SET v = u.w, s = r.name FROM u JOIN r ON r.g = u.w WHERE u.id = t.id AND u.id > 50');
SELECT same('UPDATE t SET v = x.m FROM (SELECT id, max(w) AS m FROM u GROUP BY id) x WHERE x.id = t.id');
SELECT same('UPDATE t SET v = (SELECT max(w) FROM u WHERE u.id = t.id)');
SELECT same('UPDATE t SET v = (SELECT max(w) FROM u)');
SELECT same('UPDATE t SET v = 0 WHERE id IN (SELECT id FROM u WHERE w = 2)');
SELECT same('UPDATE t SET v = 0 WHERE id NOT IN (SELECT nullif(id, -1) FROM u WHERE w = 2)');
SELECT same('DELETE FROM t USING u WHERE u.id = t.id AND u.w = 4');
SELECT same('DELETE FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.id = t.id AND u.w IN (1, 2)) RETURNING id');
SELECT same('DELETE FROM t USING u WHERE u.w = t.id');
SELECT same('DELETE FROM t USING o WHERE o.k = t.id');
SELECT same('WITH a AS (SELECT id FROM u WHERE w = 5) DELETE FROM t USING a WHERE a.id = t.id');
SELECT same('WITH a AS (SELECT max(id) AS id FROM u) DELETE FROM t USING a WHERE a.id = t.id');
SELECT same('DELETE FROM t USING r WHERE r.g = t.v AND t.id > r.g');
SELECT same('UPDATE t SET v = 1 FROM u LEFT JOIN r ON r.g = u.w WHERE u.id = t.id AND r.g IS NULL');

-- what RETURNING and ON CONFLICT read is not of one shard
SELECT same('UPDATE t SET v = 1 WHERE v = 2 RETURNING id, (SELECT count(*) FROM u)');
SELECT same('DELETE FROM t WHERE v = 3 RETURNING id, EXISTS (SELECT FROM u WHERE u.w = t.id)');
SELECT same('WITH c AS (SELECT max(id) AS n FROM u) DELETE FROM t WHERE v = 3 RETURNING id, (SELECT n FROM c)');
SELECT same('INSERT INTO u SELECT id, v FROM t RETURNING id, (SELECT max(x) FROM o)');
SELECT same('INSERT INTO t SELECT id, w FROM u WHERE id BETWEEN 60 AND 100 ON CONFLICT (id, v) DO UPDATE SET n = (SELECT count(*) FROM u)');

-- INSERT ... SELECT: the key has to be the source's key
SELECT plan('INSERT INTO u SELECT id, v + 1 FROM t WHERE v < 5');
SELECT same('INSERT INTO u SELECT id, v + 1 FROM t WHERE v < 5');
SELECT same('INSERT INTO u (w, id) SELECT v, id FROM t RETURNING id, w');
SELECT same('INSERT INTO u SELECT id, count(*) FROM t GROUP BY id');
SELECT same('INSERT INTO u SELECT id, sum(v) OVER (PARTITION BY id) FROM t');
SELECT same('INSERT INTO u SELECT DISTINCT id, v FROM t');
SELECT same('INSERT INTO u SELECT t.id, u.w FROM t LEFT JOIN u ON u.id = t.id');
SELECT same('INSERT INTO u SELECT u.id, t.v FROM t LEFT JOIN u ON u.id = t.id');
SELECT same('INSERT INTO u SELECT u.id, t.v FROM t JOIN u ON u.id = t.id');
SELECT same('INSERT INTO u SELECT t.id, g FROM t JOIN r ON r.g = t.v');
SELECT same('INSERT INTO u SELECT g, 1 FROM r');
SELECT same('INSERT INTO u SELECT v, id FROM t');
SELECT same('INSERT INTO u SELECT id + 0, v FROM t');
SELECT same('INSERT INTO u SELECT k, x FROM o');
SELECT same('INSERT INTO u SELECT id, v FROM t ORDER BY id LIMIT 3');
SELECT same('INSERT INTO u SELECT id, v FROM t WHERE id = 3 OR id = 4');
SELECT same('INSERT INTO u SELECT * FROM u');
SELECT same('INSERT INTO u (w) SELECT v FROM t');
SELECT same('INSERT INTO u SELECT id, extract(year FROM now()) - extract(year FROM now()) FROM t');
SELECT same('INSERT INTO t SELECT id, w, ''x'' FROM u WHERE w < 3 AND id > 50 ON CONFLICT (id, v) DO NOTHING');
SELECT same('INSERT INTO t SELECT id, w FROM u WHERE id BETWEEN 60 AND 100 ON CONFLICT (id, v) DO UPDATE SET s = excluded.v::text || t.s WHERE t.id > 70 RETURNING id, v, s');
SELECT same('INSERT INTO t SELECT id, w FROM u ON CONFLICT (id, v) DO UPDATE SET id = excluded.id + 1');
SELECT same('INSERT INTO t SELECT id, v FROM t');
SELECT same('WITH a AS (SELECT id, w FROM u WHERE w > 2) INSERT INTO u SELECT * FROM a');

-- a key of two columns
SELECT shardfdw.unshard_table('o');
DROP TABLE two;
CREATE TABLE two (a int, b text, v int) PARTITION BY HASH (a, b);
SELECT shardfdw.shard_table('two', shards => 4);
CREATE TABLE two2 (a int, b text, v int) PARTITION BY HASH (a, b);
SELECT shardfdw.shard_table('two2', colocate_with => 'two');
INSERT INTO two SELECT i, 'x' || i % 3, i FROM generate_series(1, 60) i;
SELECT bool_or(line LIKE 'ShardStatement%') FROM plan('INSERT INTO two2 SELECT a, b, v FROM two') line;
SELECT bool_or(line LIKE 'ShardStatement%') FROM plan('INSERT INTO two2 SELECT v, b, a FROM two') line;
SELECT bool_or(line LIKE 'ShardStatement%') FROM plan('UPDATE two SET v = two2.v FROM two2 WHERE two2.a = two.a') line;
INSERT INTO two2 SELECT a, b, v FROM two;
UPDATE two SET v = two.v + two2.v FROM two2 WHERE two2.a = two.a AND two2.b = two.b;
SELECT sum(two.v) = 2 * sum(two2.v) AS doubled, count(*) FROM two JOIN two2 USING (a, b);

-- prepared, with parameters; in a block with savepoints; what the transaction has written is there
PREPARE up(int, text) AS UPDATE t SET s = $2 || s WHERE v = $1;
SET plan_cache_mode = force_generic_plan;
BEGIN;
EXECUTE up(1, 'a');
EXECUTE up(NULL, 'b');
SAVEPOINT a;
EXECUTE up(1, 'c');
ROLLBACK TO a;
EXECUTE up(1, 'd');
SELECT count(*), min(s) FROM t WHERE s LIKE 'da%';
UPDATE t SET v = -1 FROM u WHERE u.id = t.id AND t.s LIKE 'das1_' RETURNING t.id, t.s;
ROLLBACK;
RESET plan_cache_mode;
-- triggers and row security keep it here
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '% %', TG_OP, TG_LEVEL; RETURN NULL; END $$;
CREATE TRIGGER note AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
SELECT bool_or(line LIKE 'ShardStatement%') FROM plan('UPDATE t SET v = 1') line;
SELECT bool_or(line LIKE 'ShardStatement%') FROM plan('DELETE FROM t') line;
BEGIN;
UPDATE t SET v = 1 WHERE v = 2;
ROLLBACK;
DROP TRIGGER note ON t;
CREATE ROLE psh_reader;
GRANT USAGE ON SCHEMA psh TO psh_reader;
GRANT SELECT, UPDATE (v) ON t TO psh_reader;
SET ROLE psh_reader;
UPDATE t SET s = 'x';
DELETE FROM t;
RESET ROLE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY psh_reader') WHERE NOT ok;
DROP OWNED BY psh_reader;
DROP ROLE psh_reader;
-- a table without rows, and one whose every shard is pruned
CREATE TABLE none (id int, v int);
SELECT shardfdw.shard_table('none', 'id', 2);
INSERT INTO none SELECT * FROM none;
DELETE FROM none WHERE false;

-- volatile functions are called here, once a row, and now() is that of this transaction (R43); a sequence of the
-- same name on the nodes is no part of it
CREATE TABLE source (id int, v int);
CREATE TABLE stamp (id int, v int, at timestamptz, pid int);
SELECT shardfdw.shard_table('source', 'id', 4);
SELECT shardfdw.shard_table('stamp', 'id', colocate_with => 'source');
INSERT INTO source SELECT i, i FROM generate_series(1, 40) i;
CREATE SEQUENCE seq;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SEQUENCE IF NOT EXISTS psh.seq START 1000') WHERE NOT ok;
CREATE FUNCTION psh.called_here(path text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	found text;
BEGIN
	PERFORM set_config('shardfdw.enable_statement_push', path, true), set_config('shardfdw.enable_router', path, true);
	DELETE FROM stamp;
	FOREACH statement IN ARRAY ARRAY[
		'INSERT INTO stamp SELECT id, nextval(''seq''), now(), pg_backend_pid() FROM source',
		'UPDATE stamp SET v = nextval(''seq''), at = now(), pid = pg_backend_pid()',
		'UPDATE stamp SET v = nextval(''seq''), at = statement_timestamp(), pid = pg_backend_pid() WHERE id = 7',
		'INSERT INTO stamp SELECT id, nextval(''seq''), now(), pg_backend_pid() FROM source WHERE id = 7',
		'DELETE FROM stamp WHERE pid <> pg_backend_pid() OR at > now()'] LOOP
		PERFORM setval('seq', 1, false);
		EXECUTE statement;
		SELECT concat_ws(' ', count(*), 'numbers', count(DISTINCT v), 'to', max(v), bool_and(pid = pg_backend_pid()), count(DISTINCT at)) INTO found FROM stamp WHERE v < 1000;
		RETURN NEXT found;
	END LOOP;
END $$;
SELECT called_here('on');
SELECT called_here('off');
-- the field of EXTRACT stays a literal in what changes rows (R50)
SELECT same('UPDATE t SET v = 0 WHERE extract("year'' FROM d) IS NOT NULL; DELETE FROM psh.t; --" FROM d) = 1');
SELECT same('DELETE FROM t WHERE id = 3 AND extract("day FROM d) = 1 OR true OR extract(day" FROM d) = 1');
SELECT same('INSERT INTO u SELECT id, extract("YEAR'' FROM d), (SELECT 1)) --" FROM d) FROM t');
SELECT same('UPDATE t SET v = extract("year" FROM d) - extract(''day'' FROM d), s = overlay(trim(BOTH ''x'''' FROM'' FROM s) PLACING ''a'''' FROM 1'' FROM 1) WHERE position(''s'' IN s) = 1 AND s IS NFC NORMALIZED');
-- many constants: each shard gets those that its rows can have
CREATE FUNCTION psh.arms(form text, separator text, n int) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(replace(form, '#', i::text), separator ORDER BY i) FROM generate_series(1, n) i $$;
CREATE FUNCTION psh.asked(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
		IF line ~ '(Shards|Remote SQL): ' THEN RETURN NEXT replace(trim(line), ' AS shard_t1', ' shard_t1'); END IF; -- 18 writes no AS
	END LOOP;
END $$;
SELECT asked('UPDATE t SET v = CASE ' || arms('WHEN id = # THEN 10#', ' ', 7) || ' ELSE v END WHERE ' || arms('id = #', ' OR ', 7));
SELECT asked('UPDATE t SET v = ' || 'CASE WHEN id = 1 THEN 5 END WHERE ' || arms('id = #', ' OR ', 4) || ' OR v = 3');
SELECT asked('DELETE FROM t WHERE ' || arms('(id = # AND v = # % 10)', ' OR ', 9));
SELECT asked('DELETE FROM t WHERE ' || arms('id = 40#', ' OR ', 2) || ' OR ' || arms('(id = 7 AND v = #)', ' OR ', 9));
SELECT same('UPDATE t SET v = CASE ' || arms('WHEN id = # THEN 10#', ' ', 30) || ' ELSE v END WHERE ' || arms('id = #', ' OR ', 30));
SELECT same('UPDATE t SET v = (CASE ' || arms('WHEN (id, v) = (#, # % 10) THEN #', ' ', 30) || ' END)::int, s = CASE ' || arms('WHEN #::bigint = id THEN ''a#''', ' ', 30) || ' ELSE ''none'' END WHERE ' || arms('(id = # AND v = # % 10)', ' OR ', 30));
SELECT same('UPDATE t SET v = CASE ' || arms('WHEN id = # THEN #', ' ', 12) || ' ELSE -1 END');
SELECT same('UPDATE t SET v = CASE ' || arms('WHEN NOT (id = #) AND v = # THEN #', ' ', 12) || ' ELSE -1 END WHERE NOT (' || arms('id = #', ' OR ', 12) || ')');
SELECT same('UPDATE t SET s = (id = 1 OR id = 2 OR (id = 3) IS NULL)::text || (CASE WHEN (id = 4) IS NOT TRUE THEN ''no'' WHEN id = 4 THEN ''yes'' END) WHERE ' || arms('id = #', ' OR ', 12));
SELECT same('UPDATE t SET v = CASE id ' || arms('WHEN # THEN 7#', ' ', 12) || ' END WHERE ' || arms('id = #', ' OR ', 12));
SELECT same('UPDATE t SET v = CASE WHEN id < 9 THEN CASE ' || arms('WHEN id = # THEN #', ' ', 12) || ' END ELSE 1000 / (id - 7) END WHERE id < 12 OR ' || arms('id = 2#', ' OR ', 9));
SELECT same('UPDATE t SET v = CASE ' || arms('WHEN id = # THEN (SELECT max(w) FROM u WHERE u.id = t.id)', ' ', 10) || ' END WHERE ' || arms('id = #', ' OR ', 10));
SELECT same('UPDATE t SET v = CASE ' || arms('WHEN t.id = # THEN u.w + #', ' ', 20) || ' END FROM u WHERE u.id = t.id AND (' || arms('t.id = #', ' OR ', 20) || ')');
SELECT same('UPDATE u SET w = CASE ' || arms('WHEN id = # THEN #', ' ', 12) || ' WHEN (id = 1) IS NULL THEN 99 ELSE -1 END WHERE ' || arms('id = #', ' OR ', 12) || ' OR id IS NULL OR (id = 3) IS NULL');
SELECT same('DELETE FROM u WHERE ' || arms('(id = # AND w > # % 5)', ' OR ', 25) || ' OR NULL');
SELECT same('DELETE FROM u WHERE ' || arms('(id = # AND id = # + 1)', ' OR ', 25));
SELECT same('DELETE FROM t WHERE ' || arms('id = #', ' AND ', 12));
PREPARE many(int) AS UPDATE t SET v = CASE WHEN id = 1 THEN $1 WHEN id = 2 THEN $1 + 1 WHEN id = 3 THEN now()::date - current_date WHEN id = $1 THEN -1 END WHERE id = 1 OR id = 2 OR id = 3 OR id = 4 OR id = 5 OR id = $1;
BEGIN;
EXECUTE many(50);
EXECUTE many(51);
SELECT id, v FROM t WHERE id < 6 OR id IN (50, 51) ORDER BY 1;
ROLLBACK;

SELECT count(*) FROM shardfdw.run_on_nodes('DROP SEQUENCE psh.seq') WHERE NOT ok;
SELECT shardfdw.unshard_table('r');
SET search_path = public;
DROP SCHEMA psh, psh_plain CASCADE;
