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
SELECT shardfdw.create_reference_table('r');
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
DELETE FROM {t} WHERE k = 11 AND tableoid IS NULL
$$);
SELECT routed, statement FROM did WHERE routed IS NOT FALSE AND no >= :first_of_those_not_run ORDER BY no;
SELECT no, statement, sharded, plain FROM did WHERE sharded IS DISTINCT FROM plain ORDER BY no;
SELECT name, sharded = plain AS same FROM contents;
-- These would have to look at other shards.
SELECT routed('INSERT INTO t (k, g) VALUES (4, 1) ON CONFLICT (k) DO UPDATE SET k = 14') IS TRUE AS moves,
	routed('MERGE INTO t USING (VALUES (15, 1)) s(k, g) ON t.g = s.g WHEN NOT MATCHED THEN INSERT (k, g) VALUES (s.k, s.g)') IS TRUE AS looks;

-- A shard that a statement names has no shard key
BEGIN;
UPDATE t_00 SET g = 77 WHERE k IN (SELECT k FROM u) OR k > 0;
UPDATE t_00 x SET g = 78 FROM t y WHERE x.k = y.k RETURNING x.g = y.g AS changed \g /dev/null
SELECT count(*) > 0 AS changed, bool_and(g = 78) AS all FROM t_00;
DELETE FROM t_00 WHERE k IN (SELECT k FROM t);
INSERT INTO t_00 (k, g) SELECT k, 79 FROM t WHERE false ON CONFLICT DO NOTHING;
ROLLBACK;

SET client_min_messages = error;
SELECT shardfdw.unshard_table('r');
DROP SCHEMA rt CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA rt CASCADE');
