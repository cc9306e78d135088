-- Statements that one shard runs as they stand: which these are, and that they do what they do on plain tables.
\set VERBOSITY terse
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE SCHEMA rt;
SET search_path = rt;
SET shardfdw.enable_statement_push = off;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE SEQUENCE seq;
CREATE COLLATION mine FROM "C";
SELECT shardfdw.run_on_nodes('CREATE SCHEMA rt; CREATE TYPE rt.mood AS ENUM (''sad'', ''ok'', ''happy''); CREATE DOMAIN rt.positive AS int CHECK (VALUE > 0)') IS NOT NULL AS made
LIMIT 1;
-- each table twice: sharded, and plain as p_...
CREATE TABLE t (k bigint PRIMARY KEY, g int, n numeric(10, 2), s text, m mood, p positive, at timestamptz DEFAULT '2024-01-01', j jsonb, a int[]);
CREATE TABLE u (k bigint, i serial, v int DEFAULT 7, w varchar(5), PRIMARY KEY (k, i));
CREATE TABLE g (k bigint PRIMARY KEY, b int, twice int GENERATED ALWAYS AS (b * 2) STORED, id int GENERATED ALWAYS AS IDENTITY);
CREATE TABLE two (a int, b text, v int, PRIMARY KEY (a, b));
CREATE TABLE p_t (LIKE t INCLUDING ALL);
CREATE TABLE p_u (LIKE u INCLUDING ALL);
ALTER TABLE p_u ALTER i SET DEFAULT nextval('seq');
CREATE TABLE p_g (LIKE g INCLUDING ALL);
CREATE TABLE p_two (LIKE two INCLUDING ALL);
SELECT shardfdw.shard_table('t', 'k', 5);
SELECT shardfdw.shard_table('u', 'k', colocate_with => 't');
SELECT shardfdw.shard_table('g', 'k', 3);
CREATE TABLE two_parent (LIKE two) PARTITION BY HASH (a, b);
DROP TABLE two;
ALTER TABLE two_parent RENAME TO two;
ALTER TABLE two ADD PRIMARY KEY (a, b);
SELECT count(*) FROM (SELECT shardfdw.create_shard('two', ('two_' || r)::name, format('WITH (MODULUS 3, REMAINDER %s)', r), ('node' || r + 1)::name) FROM generate_series(0, 2) r) s;
ALTER SEQUENCE u_i_seq RESTART;
CREATE TABLE r (id int PRIMARY KEY, name text);
INSERT INTO r SELECT i, 'name ' || i FROM generate_series(0, 9) i;
SELECT shardfdw.replicate_table('r');
CREATE TABLE local (k bigint, v int);
INSERT INTO local SELECT i, i FROM generate_series(1, 5) i;
CREATE FUNCTION mine(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 0';
CREATE FUNCTION stable_key() RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN 5; END';

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
-- What a statement does: its rows, its count or its error.
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := '';
	line record;
	n bigint;
BEGIN
	IF statement ~* '^\s*(SELECT|VALUES|WITH)|RETURNING' THEN
		FOR line IN EXECUTE statement LOOP
			result := result || line::text || ' ';
		END LOOP;
	ELSE
		EXECUTE statement;
	END IF;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN result || n;
EXCEPTION WHEN OTHERS THEN
	RETURN 'error ' || SQLSTATE;
END $$;
-- Runs each statement, whose tables are in braces, on both; says which path it took and what differs.
CREATE TABLE did (no serial, statement text, routed boolean, sharded text, plain text);
CREATE PROCEDURE try(statements text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	on_sharded text;
	was_routed boolean;
BEGIN
	FOREACH line IN ARRAY string_to_array(btrim(statements, E'\n'), E'\n') LOOP
		on_sharded := regexp_replace(line, '\{(\w+)\}', '\1', 'g');
		was_routed := routed(on_sharded);
		INSERT INTO did (statement, routed, sharded, plain)
		VALUES (line, was_routed, outcome(on_sharded), outcome(regexp_replace(line, '\{(\w+)\}', 'p_\1', 'g')));
	END LOOP;
END $$;
CREATE VIEW contents AS
SELECT 't' AS name, (SELECT md5(string_agg(x::text, ',' ORDER BY k)) FROM t x) AS sharded, (SELECT md5(string_agg(x::text, ',' ORDER BY k)) FROM p_t x) AS plain
UNION ALL SELECT 'u', (SELECT md5(string_agg(x::text, ',' ORDER BY k, i)) FROM u x), (SELECT md5(string_agg(x::text, ',' ORDER BY k, i)) FROM p_u x)
UNION ALL SELECT 'g', (SELECT md5(string_agg(x::text, ',' ORDER BY k)) FROM g x), (SELECT md5(string_agg(x::text, ',' ORDER BY k)) FROM p_g x)
UNION ALL SELECT 'two', (SELECT md5(string_agg(x::text, ',' ORDER BY a, b)) FROM two x), (SELECT md5(string_agg(x::text, ',' ORDER BY a, b)) FROM p_two x);

-- What one shard runs.
CALL try($$
INSERT INTO {t} VALUES (1, 1, 1.555, 'one', 'ok', 3, DEFAULT, '{"a": [1, 2]}', '{1,2}')
INSERT INTO {t} (k, s) VALUES (2, 'it''s "two" $1 shard_t1') RETURNING *
INSERT INTO {t} (s, k, g) SELECT 'three', 3, 33
INSERT INTO {t} (g, k) VALUES (1, 4), (2, 4) ON CONFLICT DO NOTHING
INSERT INTO {t} (g, k) VALUES (3, 4) ON CONFLICT (k) DO UPDATE SET g = {t}.g + excluded.g, s = 'twice' WHERE {t}.g < 100 RETURNING k, g, s
INSERT INTO {t} AS x (k, g) VALUES (4, 5) ON CONFLICT (k) DO UPDATE SET (g, s) = (excluded.g * 2, x.s || '!') RETURNING x.*
INSERT INTO {t} (k, m, p) VALUES (5, 'happy', 9) RETURNING m, p, k
INSERT INTO {t} (k, m) VALUES (6, 'angry')
INSERT INTO {t} (k, p) VALUES (6, -1)
INSERT INTO {t} (k) VALUES (1)
INSERT INTO {t} (k, g) VALUES (NULL, 1)
INSERT INTO {u} (k, v, w) VALUES (1, 10, 'abc')
INSERT INTO {u} (k) VALUES (1) RETURNING *
INSERT INTO {u} (w, k) VALUES ('x', 1), ('y', 1), ('z', 1) RETURNING i, v, w
INSERT INTO {u} (k, i, w) VALUES (1, 77, 'too long')
INSERT INTO {u} SELECT 2, 50 + r.id, r.id FROM r WHERE r.id < 4
INSERT INTO {u} (v, i, k) SELECT g, 100, k FROM {t} WHERE k = 1
INSERT INTO {g} (k, b) VALUES (1, 5) RETURNING *
INSERT INTO {g} (k, b) VALUES (2, 6), (2, 7)
INSERT INTO {g} (k, b) OVERRIDING SYSTEM VALUE VALUES (3, 6)
INSERT INTO {g} (k, b, id) OVERRIDING SYSTEM VALUE VALUES (4, 6, 400) RETURNING *
INSERT INTO {g} (k, b, id) OVERRIDING USER VALUE VALUES (5, 6, 500) RETURNING *
INSERT INTO {two} VALUES (1, 'x', 1), (1, 'x', 2) ON CONFLICT DO NOTHING
INSERT INTO {two} VALUES (1, 'y', 1) ON CONFLICT (a, b) DO UPDATE SET v = excluded.v + 1 RETURNING *
SELECT * FROM {two} WHERE a = 1 AND b = 'x'
SELECT sum(v) FROM {two} WHERE b = 'y' AND a = 1
SELECT * FROM {t} WHERE k = 1
SELECT t.*, 'x' FROM {t} t WHERE 1 = k
SELECT k + 1, g * 2 AS twice, s || '?' FROM {t} WHERE k = 2::smallint
SELECT count(*), max(k) FROM {t} WHERE k = NULL
SELECT count(*) FROM {t} WHERE k = 99999999999
SELECT m, p, at, j, a[1], a[1:2], j -> 'a' -> 0 FROM {t} WHERE k = 1
SELECT x.s, y.v, r.name FROM {t} x JOIN {u} y ON y.k = x.k LEFT JOIN r ON r.id = x.g WHERE y.k = 1 ORDER BY y.i
SELECT * FROM {t} LEFT JOIN {u} USING (k) WHERE k = 3
SELECT * FROM {t} x LEFT JOIN {u} y ON x.k = y.k AND y.v > 7 WHERE x.k = 1 ORDER BY i
SELECT * FROM {u} y RIGHT JOIN {t} x ON x.k = y.k WHERE x.k = 3
SELECT x.k, (SELECT count(*) FROM {u} y WHERE y.k = x.k) FROM {t} x WHERE x.k = 1
SELECT x.k FROM {t} x WHERE x.k = 1 AND EXISTS (SELECT FROM {u} y WHERE y.k = x.k AND y.v = 10)
SELECT x.k FROM {t} x WHERE x.k = 1 AND NOT EXISTS (SELECT FROM {u} y WHERE y.k = x.k AND y.v = 11)
SELECT x.k, l.n FROM {t} x, LATERAL (SELECT count(*) AS n FROM {u} y WHERE y.k = x.k) l WHERE x.k = 1
SELECT s.* FROM (SELECT k, g FROM {t}) s WHERE s.k = 1
SELECT s.k, y.v FROM (SELECT DISTINCT k, g FROM {t}) s JOIN {u} y USING (k) WHERE s.k = 1 ORDER BY y.i
SELECT y.v FROM (SELECT k FROM {t} WHERE k = 1 LIMIT 1) s JOIN {u} y ON y.k = s.k ORDER BY y.i
SELECT k FROM {t} WHERE k = 1 UNION ALL SELECT v FROM {u} WHERE k = 1 ORDER BY 1
SELECT k FROM {t} WHERE k = 1 EXCEPT SELECT v FROM {u} WHERE k = 1
WITH c AS (SELECT * FROM {t} WHERE k = 1) SELECT c.s, y.v FROM c JOIN {u} y ON y.k = c.k ORDER BY y.i
WITH RECURSIVE c AS (SELECT i, v FROM {u} WHERE k = 1 AND i = 1 UNION ALL SELECT y.i, y.v FROM c JOIN {u} y ON y.i = c.i + 1 WHERE y.k = 1) SELECT * FROM c
SELECT i, v, rank() OVER (ORDER BY v, i), sum(v) OVER w FROM {u} WHERE k = 1 WINDOW w AS (PARTITION BY v ORDER BY i ROWS 1 PRECEDING) ORDER BY i
SELECT v + 1, count(*), string_agg(w, ',' ORDER BY i), grouping(v + 1) FROM {u} WHERE k = 1 GROUP BY ROLLUP (v + 1) HAVING count(*) > 0 ORDER BY v + 1
SELECT DISTINCT v % 2 FROM {u} WHERE k = 1 ORDER BY v % 2
SELECT DISTINCT ON (v) v, w FROM {u} WHERE k = 1 ORDER BY v, i
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v), array_agg(v ORDER BY i DESC) FILTER (WHERE v > 1) FROM {u} WHERE k = 1
SELECT i FROM {u} WHERE k = 1 ORDER BY i DESC OFFSET 1 LIMIT 2
SELECT i FROM {u} WHERE k = 1 ORDER BY v FETCH FIRST ROW WITH TIES
SELECT CASE g WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE s END, coalesce(s, 'z'), nullif(g, 1), greatest(g, 0) FROM {t} WHERE k = 1
SELECT extract(year FROM at), date_trunc('day', at), at AT TIME ZONE 'UTC', substring(s FROM 1 FOR 2), trim(both 'o' from s) FROM {t} WHERE k = 1
SELECT k FROM {t} WHERE k = 1 AND at < now() AND s LIKE 'o%' AND (g, k) < (5, 6) AND g IN (1, 2, 3) AND g = ANY ('{1,2}')
SELECT k FROM {t} WHERE k = stable_key()
SELECT k FROM {t} WHERE k = mine(1)
SELECT f.x, t.k FROM {t} t, generate_series(1, t.g + 1) f(x) WHERE t.k = 1
SELECT k FROM {t} WHERE k = 1 FOR UPDATE
SELECT k FROM {t} WHERE k = 1 FOR NO KEY UPDATE SKIP LOCKED
SELECT FROM {t} WHERE k = 1
SELECT '1.5'::money, 'x'::text, NULL, 1.0::float8 / 3 FROM {t} WHERE k = 1
UPDATE {t} SET g = g + 1, s = upper(s) WHERE k = 1 RETURNING k, g, s
UPDATE {t} SET a[2] = 20, m = 'sad', p = p + 1, at = '2025-05-05' WHERE k = 1 RETURNING a, m, p, at
UPDATE {t} SET p = -1 WHERE k = 1
UPDATE {t} SET n = n * 2.5, j = jsonb_set(j, '{"b"}', '7') WHERE k = 1 RETURNING n, j
UPDATE {t} x SET g = y.v FROM {u} y WHERE y.k = x.k AND x.k = 1 AND y.i = 1 RETURNING x.g, y.*
UPDATE {t} SET g = (SELECT max(v) FROM {u} WHERE k = 1) WHERE k = 1 RETURNING g
UPDATE {g} SET b = 50 WHERE k = 1 RETURNING *
UPDATE {t} SET g = 1 WHERE k = 77
UPDATE {t} SET g = 0 WHERE k = NULL
DELETE FROM {u} y USING {t} x WHERE x.k = y.k AND y.k = 1 AND y.v = 10 RETURNING y.*
DELETE FROM {u} WHERE k = 2 AND i IN (SELECT 50 + id FROM r WHERE id < 2)
WITH d AS (DELETE FROM {u} WHERE k = 2 RETURNING *) SELECT count(*), sum(v) FROM d
WITH i AS (INSERT INTO {t} (k, g) VALUES (8, 8) RETURNING k, g), n AS (UPDATE {u} SET v = 0 WHERE k = 8 RETURNING *) SELECT i.*, (SELECT count(*) FROM n), (SELECT count(*) FROM {t} WHERE k = 8) FROM i
MERGE INTO {t} USING (VALUES (9, 1)) s(k, g) ON {t}.k = s.k WHEN MATCHED THEN UPDATE SET g = s.g WHEN NOT MATCHED THEN INSERT (k, g) VALUES (s.k, s.g)
MERGE INTO {t} USING (SELECT 9 AS k, 5 AS g) s ON {t}.k = s.k WHEN MATCHED AND s.g > 4 THEN UPDATE SET g = {t}.g + s.g WHEN NOT MATCHED THEN INSERT (k, g) VALUES (s.k, s.g)
MERGE INTO {t} x USING {u} y ON x.k = y.k AND y.k = 1 AND x.k = 1 AND y.i = 2 WHEN MATCHED THEN DELETE
$$);
SELECT no AS first_of_those_not_run FROM (SELECT max(no) + 1 AS no FROM did) s \gset
SELECT routed, statement FROM did WHERE routed IS NOT TRUE ORDER BY no;
-- What it does not run, because a node would do something else, or another one has a part in it.
CALL try($$
INSERT INTO {t} (k) VALUES (11), (12)
INSERT INTO {t} (k, g) SELECT k + 1000, g FROM {t} WHERE k = 2
INSERT INTO {t} (k, g) SELECT v, v FROM local WHERE k = 5 ON CONFLICT DO NOTHING
INSERT INTO {u} (k, v) SELECT 3, r.id FROM r WHERE r.id = 3
SELECT k FROM {t} WHERE g = 1 OR k = 1 ORDER BY k
SELECT k FROM {t} WHERE k > 5 AND k < 7
SELECT x.k FROM {t} x FULL JOIN {u} y ON x.k = y.k AND x.k = 1 WHERE x.k < 3 ORDER BY 1
SELECT count(*) FROM {t} x LEFT JOIN {u} y ON x.k = y.k AND x.k = 1
SELECT x.k, y.k FROM {t} x, {t} y WHERE x.k = 1 AND y.k = 2
SELECT x.k FROM {t} x, {g} y WHERE x.k = 2 AND y.k = 2
SELECT s.k FROM (SELECT k FROM {t} ORDER BY k LIMIT 2) s WHERE s.k = 2
SELECT s.n FROM (SELECT count(*) AS n, max(k) AS k FROM {t}) s WHERE s.k = 1
SELECT k, random() < 2 FROM {t} WHERE k = 2
SELECT k FROM {t} WHERE k = 2 AND random() < 2
SELECT k, mine(k) FROM {t} WHERE k = 2
SELECT k FROM {t} WHERE k = 2 AND m = 'ok'
SELECT x FROM {t} x WHERE k = 2
SELECT k FROM {t} x WHERE k = 2 AND EXISTS (SELECT FROM local WHERE local.k = x.k)
SELECT k FROM {t} WHERE k = 1.0 + 1
SELECT s COLLATE mine FROM {t} WHERE k = 2 AND false
SELECT k FROM {t} TABLESAMPLE SYSTEM (100) WHERE k = 2
SELECT t.k FROM {t} t JOIN r ON r.id = t.g WHERE t.k = 4 FOR UPDATE
UPDATE {t} SET k = 13 WHERE k = 12
UPDATE {t} SET g = random() WHERE k = 11 RETURNING g BETWEEN 0 AND 1
UPDATE {t} SET (s, g) = (SELECT 'a', 1) WHERE k = 11 RETURNING g, s
UPDATE {t} SET g = g + 1
UPDATE {g} SET twice = DEFAULT WHERE k = 1
DELETE FROM {t} WHERE k = 11 AND ctid IS NULL
$$);
SELECT routed, statement FROM did WHERE routed IS NOT FALSE AND no >= :first_of_those_not_run ORDER BY no;
SELECT no, statement, sharded, plain FROM did WHERE sharded IS DISTINCT FROM plain ORDER BY no;
SELECT name, sharded = plain AS same FROM contents;
-- These would have to look at other shards.
SELECT routed('INSERT INTO t (k, g) VALUES (4, 1) ON CONFLICT (k) DO UPDATE SET k = 14') IS TRUE AS moves,
	routed('MERGE INTO t USING (VALUES (15, 1)) s(k, g) ON t.g = s.g WHEN NOT MATCHED THEN INSERT (k, g) VALUES (s.k, s.g)') IS TRUE AS looks;

-- Views, the rights that are asked for, and what must not be lost: row security, check options, triggers.
CREATE VIEW v AS SELECT k, g, s FROM t;
CREATE VIEW checked AS SELECT k, g FROM t WHERE g < 1000 WITH CHECK OPTION;
CREATE VIEW barrier WITH (security_barrier) AS SELECT k, g FROM t WHERE g > 0;
SELECT routed('SELECT * FROM v WHERE k = 3') AS view, routed('UPDATE v SET g = 5 WHERE k = 3') AS through_view,
	routed('UPDATE checked SET g = 5 WHERE k = 3') AS checked, routed('SELECT * FROM barrier WHERE k = 3') AS barrier;
UPDATE checked SET g = 5000 WHERE k = 3;
CREATE ROLE rt_reader;
GRANT USAGE ON SCHEMA rt TO rt_reader;
GRANT SELECT (k, g), UPDATE (g) ON t TO rt_reader;
GRANT SELECT ON v TO rt_reader;
SET ROLE rt_reader;
SELECT s FROM t WHERE k = 3;
UPDATE t SET s = 'x' WHERE k = 3;
DELETE FROM t WHERE k = 3;
INSERT INTO t (k) VALUES (3) ON CONFLICT (k) DO NOTHING;
RESET ROLE;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON t USING (g < 3);
SELECT routed('SELECT * FROM t WHERE k = 3') AS owner;
SET ROLE rt_reader;
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

-- Plans that are kept: statements that differ in constants only.
CREATE TABLE pc (id bigint PRIMARY KEY, v int, t text, d date);
SELECT shardfdw.shard_table('pc', 'id', shards => 4);
INSERT INTO pc SELECT i, i % 3, 't' || i, date '2026-01-01' + i FROM generate_series(1, 20) i;
SELECT * FROM pc WHERE id = 5;
SELECT * FROM pc WHERE id = 6;
SELECT * FROM pc WHERE id = 5 AND v = 5;
SELECT * FROM pc WHERE id = 6 AND v = 0;
SELECT * FROM pc WHERE id = NULL;
SELECT a.id, b.id FROM pc a, pc b WHERE a.id = 5 AND b.id = 5;
SELECT a.id, b.id FROM pc a, pc b WHERE a.id = 5 AND b.id = 6;
SELECT a.id, b.id FROM pc a, pc b WHERE a.id = int8 '5' AND b.id = 5;
SELECT a.id, b.id FROM pc a, pc b WHERE a.id = int8 '5' AND b.id = 6;
SELECT a.id, b.id FROM pc a, pc b WHERE a.id = int8 '7' AND b.id = 7;
SELECT id FROM pc WHERE id = ANY ('{5}') ORDER BY id;
SELECT id FROM pc WHERE id = ANY ('{5,6}') ORDER BY id;
SELECT id FROM pc WHERE id = 2 + 3;
SELECT id FROM pc WHERE id = 2 + 4;
SELECT id FROM pc WHERE id = -(-5);
SELECT id FROM pc WHERE id = -(-6);
SELECT v + 1, count(*) FROM pc WHERE id = 5 GROUP BY v + 1;
SELECT v + 2, count(*) FROM pc WHERE id = 5 GROUP BY v + 2;
SELECT v + 2, count(*) FROM pc WHERE id = 5 GROUP BY v + 3;
SELECT id, CASE WHEN true THEN 8 ELSE 9 END FROM pc WHERE id = 5;
SELECT id, CASE WHEN false THEN 8 ELSE 9 END FROM pc WHERE id = 6;
SELECT 'a'::char(3) || '|', 'b' || '|' FROM pc WHERE id = 5;
SELECT 'c'::char(3) || '|', 'd' || '|' FROM pc WHERE id = 6;
SELECT id FROM pc WHERE id = 5 AND d = '2026-01-06' LIMIT 1;
SELECT id FROM pc WHERE id = 6 AND d = '2026-01-07' LIMIT 0;
INSERT INTO pc VALUES (31, 1, 'x') ON CONFLICT (id) DO UPDATE SET v = pc.v + 100 RETURNING id, v;
INSERT INTO pc VALUES (31, 1, 'x') ON CONFLICT (id) DO UPDATE SET v = pc.v + 200 RETURNING id, v;
INSERT INTO pc VALUES (32, 5, 'y'), (32 + 1, 6, 'z') RETURNING id, v;
INSERT INTO pc VALUES (34, 7, 'y'), (32 + 3, 8, 'z') RETURNING id, v;
UPDATE pc SET id = 31 WHERE id = 31 RETURNING id;
UPDATE pc SET id = 36 WHERE id = 31 RETURNING id;
EXPLAIN (VERBOSE, COSTS OFF) SELECT 'lit1', id FROM pc WHERE id = 5;
EXPLAIN (VERBOSE, COSTS OFF) SELECT 'lit2', id FROM pc WHERE id = 6;
DECLARE c CURSOR WITH HOLD FOR SELECT id, t FROM pc WHERE id = 7;
SELECT id, t FROM pc WHERE id = 8;
ALTER TABLE pc ADD COLUMN n int DEFAULT 7;
FETCH ALL FROM c;
CLOSE c;
SELECT * FROM pc WHERE id = 8;
ALTER TABLE pc RENAME v TO w;
SELECT w FROM pc WHERE id = 8;
SELECT v FROM pc WHERE id = 8;
-- What is more than a constant is planned anew: functions that planning puts in place or computes.
CREATE TABLE pc_rate (id int, rate int);
INSERT INTO pc_rate VALUES (1, 10);
CREATE FUNCTION pc_above(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT CASE WHEN $1 > 5 THEN $1 ELSE 0 END';
CREATE FUNCTION pc_rate(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT rate FROM rt.pc_rate WHERE id = $1';
CREATE FUNCTION pc_tenant() RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT current_setting('rt.tenant')::int$$;
UPDATE pc SET w = pc_above(6) WHERE id = 5 RETURNING w;
UPDATE pc SET w = pc_above(3) WHERE id = 5 RETURNING w;
SELECT id FROM pc WHERE id = pc_above(7);
SELECT id FROM pc WHERE id = pc_above(2);
UPDATE pc SET w = pc_rate(1) WHERE id = 5 RETURNING w;
UPDATE pc_rate SET rate = 20;
UPDATE pc SET w = pc_rate(1) WHERE id = 5 RETURNING w;
SET rt.tenant = 5;
SELECT id FROM pc WHERE id = pc_tenant();
SET rt.tenant = 6;
SELECT id FROM pc WHERE id = pc_tenant();
-- A function that has as many other statements planned that this one's plan is given up.
CREATE FUNCTION pc_many(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	FOR i IN 1..80 LOOP
		EXECUTE format('SELECT count(*) AS %I FROM rt.pc WHERE id = 1', 'c' || i);
	END LOOP;
	RETURN $1;
END$$;
SELECT id FROM pc WHERE id = pc_many(7);
SELECT id FROM pc WHERE id = pc_many(7);
CREATE ROLE pc_user;
GRANT USAGE ON SCHEMA rt TO pc_user;
SELECT w FROM pc WHERE id = 9;
SET ROLE pc_user;
SELECT w FROM pc WHERE id = 10;
RESET ROLE;
ALTER TABLE pc ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON pc TO pc_user;
SELECT w FROM pc WHERE id = 10;
SET ROLE pc_user;
SELECT w FROM pc WHERE id = 11;
RESET ROLE;
DROP TABLE pc;

-- Names of output columns that are names of columns, too: ORDER BY and DISTINCT ON mean the columns.
INSERT INTO u VALUES (77, 1, 30, 'c'), (77, 2, 10, 'a'), (77, 3, 20, 'b'), (77, 4, 20, 'a');
EXPLAIN (VERBOSE, COSTS OFF) SELECT -i AS i, v FROM u WHERE k = 77 ORDER BY u.i;
SELECT -i AS i, v FROM u WHERE k = 77 ORDER BY u.i;
SELECT -i AS i, v FROM u WHERE k = 77 ORDER BY i;
SELECT i AS v, -v AS i FROM u WHERE k = 77 ORDER BY u.v DESC, u.i DESC;
SELECT DISTINCT ON (u.v) -v AS v, i FROM u WHERE k = 77 ORDER BY u.v, u.i;
SELECT w AS v, count(*) AS w FROM u WHERE k = 77 GROUP BY u.w ORDER BY u.w DESC;
SELECT -s.c1 AS c2, s.c2 AS c1 FROM (SELECT i AS c1, v AS c2 FROM u WHERE k = 77 OFFSET 0) s ORDER BY s.c1 DESC, s.c2;
SELECT (SELECT -x.i AS i FROM u x WHERE x.k = 77 ORDER BY x.i LIMIT 1), min(v) AS k FROM u WHERE k = 77 GROUP BY k ORDER BY u.k;
WITH w AS (SELECT -i AS i FROM u WHERE k = 77 ORDER BY u.i LIMIT 2) SELECT i FROM w ORDER BY i;
SELECT -i AS i FROM u WHERE k = 77 UNION ALL SELECT 0 ORDER BY i;
SELECT -i AS i, row_number() OVER (ORDER BY i) FROM u WHERE k = 77 ORDER BY u.i;
-- Columns of a length or a domain: what is sorted and grouped by is the column, not what is returned of it.
INSERT INTO t (k, n, p) VALUES (77, 1.5, 2);
EXPLAIN (VERBOSE, COSTS OFF) SELECT w FROM u WHERE k = 77 ORDER BY w LIMIT 1;
SELECT w, w || '!', length(w), count(*) FROM u WHERE k = 77 GROUP BY w HAVING w || '' > 'a' ORDER BY w || '';
SELECT w, grouping(w), count(*) FROM u WHERE k = 77 GROUP BY ROLLUP (w) ORDER BY w, 2;
SELECT w COLLATE "C" AS w, count(*) FROM u WHERE k = 77 GROUP BY u.w COLLATE "C" ORDER BY u.w COLLATE "C";
SELECT w, i, rank() OVER (PARTITION BY w ORDER BY i) FROM u WHERE k = 77 ORDER BY w, i;
SELECT DISTINCT w FROM u WHERE k = 77 ORDER BY w;
SELECT DISTINCT w, length(w) FROM u WHERE k = 77 GROUP BY w ORDER BY w;
SELECT DISTINCT ON (w) w, i FROM u WHERE k = 77 ORDER BY w, i DESC;
SELECT n, n + 1, p, p + 1 FROM t WHERE k = 77 GROUP BY n, p;
DELETE FROM t WHERE k = 77;
DELETE FROM u WHERE k = 77;

SET client_min_messages = error;
SELECT shardfdw.unreplicate_table('r');
DROP SCHEMA rt CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA rt CASCADE');
DROP ROLE rt_reader;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY pc_user');
DROP ROLE pc_user;
