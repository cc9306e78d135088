-- ALTER TYPE and ALTER DOMAIN reach the nodes of tables that need the type: by a column, within another type,
-- in a constraint or an index.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_types;
SET search_path = ddl_types;
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' ', check_name, detail) FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND concat(check_name, detail) ~ 'ddl_types' ORDER BY 1 $$;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN positive AS int CONSTRAINT above CHECK (VALUE > 0);
CREATE TYPE pair AS (x int, m mood);
CREATE TYPE of_reference AS ENUM ('r');
CREATE TYPE unused AS ENUM ('u');
CREATE TABLE t (k int PRIMARY KEY, m mood, d positive, p pair, a mood[]);
CREATE TABLE r (k int PRIMARY KEY, o of_reference);
SELECT shardfdw.shard_table('t', shards => 4) \g /dev/null
SELECT shardfdw.create_reference_table('r') \g /dev/null
INSERT INTO t VALUES (1, 'good', 1, (1, 'good'), '{good,bad}'), (2, 'bad', 2, (2, 'bad'), '{bad}');

-- Labels
ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'bad';
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'it''s \ ok' AFTER 'good';
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'bad';
ALTER TYPE mood ADD VALUE 'worst';
ALTER TYPE mood RENAME VALUE 'bad' TO 'Bad';
ALTER TYPE ddl_types.of_reference ADD VALUE 's';
ALTER TYPE unused ADD VALUE 'v';
INSERT INTO t VALUES (3, 'so-so', 3, (3, 'worst'), '{"it''s \\ ok",worst}');
INSERT INTO r VALUES (1, 's');
SELECT k, m, p, a FROM t WHERE m IN ('so-so', 'Bad') ORDER BY m;
SELECT m, count(*) FROM t GROUP BY m ORDER BY m;
ALTER TABLE t ADD m2 mood DEFAULT 'worst';
SELECT DISTINCT m2 FROM t;
SELECT differences();

-- Types and attributes
ALTER TYPE pair ADD ATTRIBUTE "Y 1" varchar(3) COLLATE "C", ADD ATTRIBUTE z numeric(5,2);
ALTER TYPE pair RENAME ATTRIBUTE x TO x1;
ALTER TYPE pair DROP ATTRIBUTE z, DROP ATTRIBUTE IF EXISTS nothing;
ALTER TYPE pair RENAME TO "Pair";
ALTER TYPE "Pair" SET SCHEMA public;
SELECT k, p, (p).x1 FROM t ORDER BY k;
INSERT INTO t (k, p) VALUES (4, (4, 'good', 'abc'));
SELECT p FROM t WHERE k = 4;
SELECT differences();
ALTER TYPE public."Pair" SET SCHEMA ddl_types;
ALTER TYPE mood RENAME TO spirits;
SELECT differences();

-- Domains
ALTER DOMAIN positive ADD CHECK (VALUE < 100);
ALTER DOMAIN positive ADD CONSTRAINT "not 5" CHECK (VALUE <> 5) NOT VALID;
INSERT INTO t (k, d) VALUES (5, 5);
ALTER DOMAIN positive VALIDATE CONSTRAINT "not 5";
ALTER DOMAIN positive RENAME CONSTRAINT "not 5" TO not5;
ALTER DOMAIN positive DROP CONSTRAINT above;
ALTER DOMAIN positive SET DEFAULT 7;
ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 3);
ALTER DOMAIN positive SET NOT NULL;
DELETE FROM t WHERE d IS NULL;
ALTER DOMAIN positive SET NOT NULL;
INSERT INTO t (k, d) VALUES (6, NULL);
SELECT differences();
ALTER DOMAIN positive DROP NOT NULL;
ALTER DOMAIN positive RENAME TO positive2;
ALTER DOMAIN positive2 SET SCHEMA public;
ALTER DOMAIN public.positive2 SET SCHEMA ddl_types;
INSERT INTO t (k, d) VALUES (7, -7) RETURNING d;
SELECT differences();

-- Rolled back, and on the coordinator alone
BEGIN;
ALTER TYPE spirits RENAME VALUE 'worst' TO 'best';
ROLLBACK;
SELECT differences();
SET shardfdw.enable_ddl_propagation = off;
ALTER TYPE spirits ADD VALUE 'here';
RESET shardfdw.enable_ddl_propagation;
SELECT count(*) > 0 FROM differences();
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER TYPE ddl_types.spirits ADD VALUE IF NOT EXISTS ''here''') WHERE ok;
SELECT differences();
ALTER TYPE nothing ADD VALUE 'x';
RESET search_path;
DROP SCHEMA ddl_types CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA ddl_types CASCADE') WHERE ok;
