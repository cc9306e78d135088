-- INSERT ... ON CONFLICT on tables with triggers, row security and check options: each statement runs on a
-- plain and on a sharded table, and must change, return and fire the same.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
SET DateStyle = 'ISO, MDY';
SET TimeZone = 'UTC';
SET client_min_messages = warning;
\set f :dir '/pair.sql'
\i :f
\set ECHO all
-- what triggers have seen, in their order; pair.all_same() compares it, too
CREATE SCHEMA plain;
CREATE SCHEMA sharded;
CREATE TABLE plain.log (seq serial, what text);
CREATE TABLE sharded.log (seq serial, what text);
CREATE FUNCTION pair.all_same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := pair.same(statement);
	a text := (SELECT string_agg(what, '; ' ORDER BY seq) FROM plain.log);
	b text := (SELECT string_agg(what, '; ' ORDER BY seq) FROM sharded.log);
BEGIN
	TRUNCATE plain.log, sharded.log;
	IF a IS DISTINCT FROM b THEN
		RETURN concat(result, E'\nDIFFERENT: ', a, E'\n', b);
	END IF;
	RETURN result || coalesce(E'\n' || a, '');
END $$;
CREATE FUNCTION pair.row_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what) VALUES (concat('before ', lower(TG_OP), ' ', CASE WHEN TG_OP = 'UPDATE' THEN OLD.v END, '>', NEW.k, ':', NEW.v, ' ', NEW.s));
	IF NEW.s = 'skip ' || lower(TG_OP) THEN
		RETURN NULL;
	ELSIF NEW.s = 'move' AND TG_OP = 'UPDATE' THEN
		NEW.k := NEW.k + 1;
	ELSIF NEW.s = 'nest' AND TG_OP = 'INSERT' THEN
		INSERT INTO t (k, part) VALUES (NEW.k, NEW.part) ON CONFLICT (k, part) DO UPDATE SET v = 5;
	ELSIF NEW.s = 'nest other' AND TG_OP = 'INSERT' THEN
		UPDATE t SET v = v + 1 WHERE k = NEW.k + 1;
	ELSIF NEW.s = 'touch' AND TG_OP = 'UPDATE' THEN
		UPDATE t SET n = n + 1 WHERE k = OLD.k;
	END IF;
	NEW.n := coalesce(NEW.n, 0) + 100;
	RETURN NEW;
END $$;
CREATE FUNCTION pair.row_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what) VALUES (concat('after ', lower(TG_OP), ' ', CASE WHEN TG_OP = 'UPDATE' THEN OLD::text END, '>', NEW::text,
		', rows ', (SELECT count(*) FROM t)));
	RETURN NULL;
END $$;
CREATE FUNCTION pair.statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what) VALUES (concat(lower(TG_WHEN), ' statement ', lower(TG_OP)));
	RETURN NULL;
END $$;
CREATE TABLE plain.t (
	k int, part text, v numeric(10, 2) DEFAULT 7, s text, n int, a int[],
	twice numeric GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (k, part), CHECK (v < 10000));
CREATE TABLE sharded.t (LIKE plain.t INCLUDING ALL);
SELECT shardfdw.shard_table('sharded.t', 'k', shards => 7);
DO $$DECLARE
	place text;
BEGIN
	FOREACH place IN ARRAY '{plain,sharded}'::text[] LOOP
		EXECUTE format('CREATE TRIGGER a BEFORE INSERT OR UPDATE ON %I.t FOR EACH ROW EXECUTE FUNCTION pair.row_before()', place);
		EXECUTE format('CREATE TRIGGER b AFTER INSERT OR UPDATE ON %I.t FOR EACH ROW EXECUTE FUNCTION pair.row_after()', place);
		EXECUTE format('CREATE TRIGGER c BEFORE INSERT OR UPDATE ON %I.t FOR EACH STATEMENT EXECUTE FUNCTION pair.statement()', place);
		EXECUTE format('CREATE TRIGGER d AFTER INSERT OR UPDATE ON %I.t FOR EACH STATEMENT EXECUTE FUNCTION pair.statement()', place);
	END LOOP;
END$$;

\pset format unaligned
\pset tuples_only on
SELECT pair.all_same($$INSERT INTO t (k, part, s, a) VALUES (1, 'a', E'q''"\\\n', '{1,NULL}'), (2, 'NULL', NULL, NULL), (3, '', 'x', '{}')
	ON CONFLICT (k, part) DO UPDATE SET v = 1$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'x'), (2, 'NULL', 'y'), (4, 'a', 'z')
	ON CONFLICT (k, part) DO UPDATE SET s = excluded.s || coalesce(t.s, '-'), v = t.v + 1 RETURNING *$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (5, 'b') ON CONFLICT DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (6, 'b'), (6, 'b') ON CONFLICT (k, part) DO NOTHING RETURNING k, part, n$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (7, 'b') ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET v = 8$$);
-- WHERE, triggers that skip rows, the whole row, tableoid, sub-selects, volatile functions
SELECT pair.all_same($$INSERT INTO t AS x (k, part, v) SELECT g, 'a', g FROM generate_series(1, 5) g
	ON CONFLICT (part, k) DO UPDATE SET v = x.v + excluded.v WHERE x.k % 2 = 0 OR excluded.v > 4 RETURNING x.k, x.v, twice$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'skip insert'), (2, 'a', 'skip update'), (4, 'a', 'p'), (8, 'a', 'skip update')
	ON CONFLICT (k, part) DO UPDATE SET s = excluded.s, k = excluded.k RETURNING t, tableoid = 0, n + 1$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (9, 'a') ON CONFLICT (k, part)
	DO UPDATE SET (v, s) = (SELECT max(v) + t.k, min(s) FROM t AS o WHERE o.k < 5), n = (random() * 0)::int RETURNING k, v, s, n$$);
SELECT pair.all_same($$INSERT INTO t (k, part) SELECT k, part FROM t WHERE k = 3 ON CONFLICT (k, part) DO UPDATE SET a[2] = 5, v = DEFAULT$$);
SELECT pair.all_same($$WITH w AS (INSERT INTO t (k, part, v) VALUES (1, 'a', 3), (10, 'w', 4)
	ON CONFLICT (k, part) DO UPDATE SET v = excluded.v RETURNING k, v) SELECT sum(k), sum(v) /* returning */ FROM w$$);
SELECT pair.all_same($$WITH w AS (INSERT INTO t (k, part, v) VALUES (1, 'a', 3), (11, 'w', 4) ON CONFLICT (k, part) DO NOTHING)
	INSERT INTO t (k, part) VALUES (12, 'w'), (1, 'a') ON CONFLICT (k, part) DO UPDATE SET s = 'outer'$$);
SELECT pair.all_same($$INSERT INTO t (k, part) SELECT 1, 'a' WHERE false ON CONFLICT (k, part) DO UPDATE SET v = 0$$);
-- errors
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (1, 'a') ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (20, 'a'), (20, 'a') ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (1, 'a') ON CONFLICT (k, part) DO UPDATE SET v = 2 WHERE false$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'a') ON CONFLICT (k, part) DO UPDATE SET v = 99999$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (1, 'a', 10000) ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a'), (20, NULL) ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a') ON CONFLICT (part) DO UPDATE SET v = 2$$);
SELECT pair.all_same($$INSERT INTO t (k, part) VALUES (1, 'a') ON CONFLICT (k) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'touch') ON CONFLICT (k, part) DO UPDATE SET s = excluded.s$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'nest') ON CONFLICT (k, part) DO UPDATE SET s = excluded.s$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (50, 'a', 'nest') ON CONFLICT (k, part) DO UPDATE SET s = excluded.s$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (50, 'a', 'nest') ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'nest other') ON CONFLICT (k, part) DO UPDATE SET s = excluded.s$$);
SELECT pair.all_same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'nest other'), (2, 'a', 'x') ON CONFLICT (k, part) DO UPDATE SET s = excluded.s$$);
SELECT pair.all_same($$WITH w AS (UPDATE t SET v = 6 WHERE k = 1 RETURNING k) INSERT INTO t (k, part) SELECT k, 'a' FROM w ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SET search_path = sharded, pair;
INSERT INTO t (k, part, s) VALUES (1, 'a', 'move') ON CONFLICT (k, part) DO UPDATE SET s = excluded.s;
RESET search_path;

-- row security: what may be inserted, what is there to be updated, and what it may become
CREATE ROLE upsert_user;
DO $$DECLARE
	node name;
BEGIN
	FOR node IN SELECT n.node FROM shardfdw.nodes n LOOP
		EXECUTE format('CREATE USER MAPPING FOR upsert_user SERVER %I OPTIONS (user %L, password_required ''false'')', node, current_user);
	END LOOP;
END$$;
GRANT ALL ON SCHEMA plain, sharded, pair TO upsert_user;
GRANT ALL ON ALL TABLES IN SCHEMA plain, sharded TO upsert_user;
GRANT ALL ON ALL SEQUENCES IN SCHEMA plain, sharded TO upsert_user;
DO $$DECLARE
	place text;
BEGIN
	FOREACH place IN ARRAY '{plain,sharded}'::text[] LOOP
		EXECUTE format('ALTER TABLE %I.t ENABLE ROW LEVEL SECURITY', place);
		EXECUTE format('CREATE POLICY see ON %I.t FOR SELECT USING (part <> ''hidden'')', place);
		EXECUTE format('CREATE POLICY ins ON %I.t FOR INSERT WITH CHECK (v < 50 AND k < (SELECT 1000))', place);
		EXECUTE format('CREATE POLICY upd ON %I.t FOR UPDATE USING (v < 40 AND n > 0) WITH CHECK (v < 45 AND n < 100000)', place);
	END LOOP;
END$$;
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (100, 'hidden', 1), (101, 'a', 42), (102, 'a', 1)$$);
GRANT TRUNCATE ON plain.log, sharded.log TO upsert_user;
SET ROLE upsert_user;
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (102, 'a', 3), (103, 'a', 4) ON CONFLICT (k, part) DO UPDATE SET v = t.v + excluded.v RETURNING k, v$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (102, 'a', 55) ON CONFLICT (k, part) DO UPDATE SET v = 1$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (1102, 'a', 5) ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (102, 'a', 5) ON CONFLICT (k, part) DO UPDATE SET v = 46$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (101, 'a', 5) ON CONFLICT (k, part) DO UPDATE SET v = 1$$);
-- some minors check policies after WHERE
SELECT pair.attempt('sharded', $$INSERT INTO t (k, part, v) VALUES (101, 'a', 5) ON CONFLICT (k, part) DO UPDATE SET v = 1 WHERE t.v < 40$$);
SELECT pair.all_same('SELECT');
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (101, 'a', 5) ON CONFLICT (k, part) DO NOTHING RETURNING k$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (100, 'hidden', 5) ON CONFLICT (k, part) DO UPDATE SET v = 1$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (100, 'hidden', 5) ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (104, 'hidden', 5) ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (104, 'hidden', 5) ON CONFLICT DO NOTHING$$);
RESET ROLE;
REVOKE UPDATE ON plain.t, sharded.t FROM upsert_user;
GRANT UPDATE (v) ON plain.t, sharded.t TO upsert_user;
SET ROLE upsert_user;
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (102, 'a', 6) ON CONFLICT (k, part) DO UPDATE SET v = excluded.v$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (102, 'a', 6) ON CONFLICT (k, part) DO UPDATE SET s = 'x'$$);
RESET ROLE;
-- without triggers, too
DO $$DECLARE
	place text;
	name text;
BEGIN
	FOREACH place IN ARRAY '{plain,sharded}'::text[] LOOP
		FOREACH name IN ARRAY '{a,b,c,d}'::text[] LOOP
			EXECUTE format('DROP TRIGGER %I ON %I.t', name, place);
		END LOOP;
	END LOOP;
END$$;
SET ROLE upsert_user;
SELECT pair.all_same($$INSERT INTO t (k, part, v) VALUES (102, 'a', 7), (105, 'a', 8), (106, NULLIF('', ''), 1) ON CONFLICT (k, part) DO UPDATE SET v = excluded.v + 1$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v, n) VALUES (102, 'a', 7, 1), (105, 'a', 8, 2) ON CONFLICT (k, part) DO UPDATE SET v = excluded.v + 1 RETURNING v, n$$);
SELECT pair.all_same($$INSERT INTO t (k, part, v, n) VALUES (102, 'a', 7, 1), (105, 'a', 49, 2) ON CONFLICT (k, part) DO UPDATE SET v = excluded.v + 1$$);
RESET ROLE;

-- check options of views
DO $$DECLARE
	place text;
BEGIN
	FOREACH place IN ARRAY '{plain,sharded}'::text[] LOOP
		EXECUTE format('ALTER TABLE %I.t DISABLE ROW LEVEL SECURITY', place);
		EXECUTE format('CREATE VIEW %1$I.low AS SELECT v AS value, k, part FROM %1$I.t WHERE v < 30 WITH CHECK OPTION', place);
		EXECUTE format('CREATE VIEW %1$I.lower AS SELECT * FROM %1$I.low WHERE value > 0 WITH LOCAL CHECK OPTION', place);
		EXECUTE format('CREATE VIEW %1$I.plain_low AS SELECT k, part, v FROM %1$I.t WHERE v < 30', place);
	END LOOP;
END$$;
SELECT pair.all_same($$INSERT INTO low (k, part, value) VALUES (200, 'a', 1), (201, 'a', 2), (102, 'a', 3) ON CONFLICT (k, part) DO UPDATE SET value = excluded.value + low.value RETURNING *$$);
SELECT pair.all_same($$INSERT INTO low (k, part, value) VALUES (200, 'a', 1) ON CONFLICT (k, part) DO UPDATE SET value = 31$$);
SELECT pair.all_same($$INSERT INTO low (k, part, value) VALUES (202, 'a', 31) ON CONFLICT (k, part) DO UPDATE SET value = 1$$);
SELECT pair.all_same($$INSERT INTO low (k, part, value) VALUES (200, 'a', 31) ON CONFLICT (k, part) DO UPDATE SET value = 4 RETURNING value$$);
SELECT pair.all_same($$INSERT INTO low (k, part, value) VALUES (200, 'a', 31), (203, 'a', 5) ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.all_same($$INSERT INTO lower (k, part, value) VALUES (200, 'a', -1), (204, 'a', 5) ON CONFLICT (k, part) DO UPDATE SET value = 6 WHERE lower.k = 200$$);
SELECT pair.all_same($$INSERT INTO lower (k, part, value) VALUES (200, 'a', 1), (204, 'a', 5) ON CONFLICT (k, part) DO UPDATE SET value = 0$$);
SELECT pair.all_same($$INSERT INTO plain_low VALUES (200, 'a', 1), (205, 'a', 31) ON CONFLICT (k, part) DO UPDATE SET v = 32$$);
-- some minors let it update a row that the view does not show
SELECT pair.all_same($$INSERT INTO plain_low VALUES (200, 'a', 1) ON CONFLICT (k, part) DO UPDATE SET v = 33$$) LIKE 'same: %';
SELECT pair.all_same($$INSERT INTO plain_low VALUES (200, 'a', 1) ON CONFLICT (k, part) DO UPDATE SET v = 33 WHERE false$$) LIKE 'same: %';


-- shards whose columns are at other places; keys that may be NULL; types whose equality is not pg_catalog's by name
CREATE TYPE pair.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE plain.u (gone int, k text, m pair.mood, d date, v int DEFAULT 0, w bigint, UNIQUE NULLS NOT DISTINCT (k, m, d));
CREATE TABLE sharded.u (gone int, k text, m pair.mood, d date, v int DEFAULT 0, w bigint) PARTITION BY LIST (k);
ALTER TABLE plain.u DROP gone;
ALTER TABLE sharded.u DROP gone;
SELECT shardfdw.create_shard('sharded.u', 'u_00', 'FOR VALUES IN (''a'', NULL)', 'node1');
SELECT shardfdw.create_shard('sharded.u', 'u_01', 'FOR VALUES IN (''b'', ''x'')', 'node2');
SELECT shardfdw.create_shard('sharded.u', 'u_02', 'DEFAULT', 'node3');
ALTER TABLE sharded.u ADD UNIQUE NULLS NOT DISTINCT (k, m, d);
CREATE FUNCTION pair.add_one() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.w := coalesce(NEW.w, 0) + 1; RETURN NEW; END';
CREATE TRIGGER add_one BEFORE INSERT ON plain.u FOR EACH ROW EXECUTE FUNCTION pair.add_one();
CREATE TRIGGER add_one BEFORE INSERT ON sharded.u FOR EACH ROW EXECUTE FUNCTION pair.add_one();
SELECT pair.all_same($$INSERT INTO u (k, m, d, w) VALUES ('a', 'sad', '2024-01-01', 5), ('a', NULL, '2024-01-01', 6), (NULL, 'ok', NULL, 7), ('b', 'ok', NULL, NULL)
	ON CONFLICT (k, m, d) DO UPDATE SET v = u.v + 1 RETURNING u$$);
SELECT pair.all_same($$INSERT INTO u (k, m, d, w) VALUES ('a', 'sad', '2024-01-01', 5), ('a', NULL, '2024-01-01', 6), (NULL, 'ok', NULL, 7), ('b', 'ok', NULL, NULL), ('c', NULL, NULL, NULL)
	ON CONFLICT (k, m, d) DO UPDATE SET v = u.v + excluded.w, w = excluded.v RETURNING u, u.w$$);
SELECT pair.all_same($$INSERT INTO u (k, m, d) VALUES ('a', 'sad', '2024-01-01'), (NULL, 'ok', NULL), ('b', 'happy', NULL) ON CONFLICT (k, m, d) DO NOTHING RETURNING *$$);
SELECT pair.all_same($$SELECT u FROM u /* returning */$$);

-- plans that are used again; savepoints; EXPLAIN
SET search_path = sharded, pair;
PREPARE up(text) AS INSERT INTO u (k, m) VALUES ($1, 'sad') ON CONFLICT (k, m, d) DO UPDATE SET v = u.v + length($1) RETURNING k, v, w;
SET plan_cache_mode = force_generic_plan;
EXECUTE up('x');
EXECUTE up('xyz');
DROP TRIGGER add_one ON u;
EXECUTE up('x');
CREATE TRIGGER add_one BEFORE INSERT OR UPDATE ON u FOR EACH ROW EXECUTE FUNCTION add_one();
EXECUTE up('x');
RESET plan_cache_mode;
BEGIN;
SAVEPOINT a;
INSERT INTO u (k, m) VALUES ('x', 'sad'), ('gone', 'ok') ON CONFLICT (k, m, d) DO UPDATE SET v = 1000;
ROLLBACK TO a;
INSERT INTO u (k, m) VALUES ('x', 'sad'), ('kept', 'ok') ON CONFLICT (k, m, d) DO UPDATE SET v = u.v + 1;
COMMIT;
SELECT k, v, w FROM u WHERE k IN ('x', 'gone', 'kept') ORDER BY k;
EXPLAIN (COSTS OFF) INSERT INTO u (k, m) SELECT k, m FROM u ON CONFLICT (k, m, d) DO UPDATE SET v = 1 WHERE u.v = 2;
CREATE FUNCTION conflicts(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF) ' || statement LOOP
		IF line ~ 'Tuples|Removed' THEN
			RETURN NEXT line;
		END IF;
	END LOOP;
END $$;
SELECT conflicts($$INSERT INTO u (k, m) VALUES ('x', 'sad'), ('kept', 'ok'), ('new', 'ok') ON CONFLICT (k, m, d) DO UPDATE SET v = 1 WHERE u.k = 'x'$$);
SELECT conflicts($$INSERT INTO u (k, m) VALUES ('x', 'sad'), ('kept', 'ok'), ('newer', 'ok') ON CONFLICT DO NOTHING$$);
SELECT parent.attnum, shard.attnum FROM pg_attribute AS parent JOIN pg_attribute AS shard USING (attname)
WHERE parent.attrelid = 'u'::regclass AND shard.attrelid = 'u_00'::regclass AND attname = 'k';

-- what cannot be exact is refused, and says why
INSERT INTO u (k, m) VALUES ('x', 'sad') ON CONFLICT (k, m, d) DO UPDATE SET k = 'y';
INSERT INTO u (k, m) VALUES ('x', 'sad') ON CONFLICT (k, m, d) DO UPDATE SET v = 1 WHERE u.xmin IS NOT NULL;
INSERT INTO u (k, m) VALUES ('x', 'sad') ON CONFLICT (k, m, d) DO UPDATE SET v = (SELECT 1 WHERE u.ctid IS NULL);
INSERT INTO u (k, m) VALUES ('x', 'sad') ON CONFLICT (k, lower(m::text), d) DO NOTHING;
INSERT INTO u (k, m) VALUES ('x', 'sad') ON CONFLICT (k, m, d) WHERE v > 0 DO NOTHING;
MERGE INTO u USING (VALUES ('x'), ('y')) s (k) ON u.k = s.k WHEN MATCHED THEN DELETE;
RESET search_path;

-- rows that functions of the source, or BEFORE statement triggers, have written before the first row comes
DROP TABLE plain.t, sharded.t, sharded.u CASCADE;
CREATE TABLE plain.t (k int PRIMARY KEY, v int DEFAULT 0);
CREATE TABLE sharded.t (LIKE plain.t INCLUDING ALL);
SELECT shardfdw.shard_table('sharded.t', 'k', shards => 4);
CREATE FUNCTION pair.write(key int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES ($1, 5) ON CONFLICT (k) DO UPDATE SET v = t.v + 5;
	RETURN $1;
END $$;
CREATE FUNCTION pair.as_it_is() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END $$;
CREATE TRIGGER r BEFORE INSERT ON plain.t FOR EACH ROW EXECUTE FUNCTION pair.as_it_is();
CREATE TRIGGER r BEFORE INSERT ON sharded.t FOR EACH ROW EXECUTE FUNCTION pair.as_it_is();
SELECT pair.same($$INSERT INTO t VALUES (1, 1), (2, 2)$$);
SELECT pair.same($$INSERT INTO t VALUES (write(1)) ON CONFLICT (k) DO UPDATE SET v = (SELECT 9)$$);
SELECT pair.same($$INSERT INTO t VALUES (write(3)) ON CONFLICT (k) DO UPDATE SET v = (SELECT 9)$$);
SELECT pair.same($$INSERT INTO t SELECT 2 WHERE write(3) = 3 ON CONFLICT (k) DO UPDATE SET v = (SELECT 9) RETURNING *$$);
SELECT pair.same($$INSERT INTO t SELECT write(4) + 1$$);
SELECT pair.same($$INSERT INTO t VALUES (1), (2) ON CONFLICT (k) DO UPDATE SET v = (SELECT 9) RETURNING *$$);
CREATE FUNCTION pair.write_before() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN UPDATE t SET v = v + 1 WHERE k = 2; RETURN NULL; END $$;
CREATE TRIGGER a BEFORE INSERT ON plain.t FOR EACH STATEMENT EXECUTE FUNCTION pair.write_before();
CREATE TRIGGER a BEFORE INSERT ON sharded.t FOR EACH STATEMENT EXECUTE FUNCTION pair.write_before();
SELECT pair.same($$INSERT INTO t VALUES (2, 1) ON CONFLICT (k) DO UPDATE SET v = 9$$);
SELECT pair.same($$INSERT INTO t VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET v = 9 RETURNING *$$);
-- a key whose equality is that of another type
DROP TABLE plain.t, sharded.t CASCADE;
CREATE TABLE plain.t (k int, c regclass, s varchar(5), v int, PRIMARY KEY (k, c, s));
CREATE TABLE sharded.t (LIKE plain.t INCLUDING ALL);
SELECT shardfdw.shard_table('sharded.t', 'k', shards => 4);
SELECT pair.same($$INSERT INTO t VALUES (1, 'pg_class', 'a', 1), (2, 'pg_type', 'b', 2)$$);
SELECT pair.same($$INSERT INTO t VALUES (1, 'pg_class', 'a', 3), (2, 'pg_class', 'b', 4), (2, 'pg_type', 'b', 5)
	ON CONFLICT (k, c, s) DO UPDATE SET v = excluded.v + (SELECT 10) RETURNING *$$);
DROP SCHEMA plain, sharded, pair CASCADE;
DROP OWNED BY upsert_user;
SELECT shardfdw.run_on_nodes('DROP OWNED BY upsert_user') \g /dev/null
DROP ROLE upsert_user;
