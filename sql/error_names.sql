-- Names in errors of nodes: a program finds its own table, columns and constraints in the fields and
-- in the message, whichever way the statement goes; DETAIL and CONTEXT name node and shard.
SET client_min_messages = warning;
CREATE SCHEMA en;
SET search_path = en;
CREATE TABLE t (
	k int, u int NOT NULL, v text DEFAULT 'x', c int CONSTRAINT "small ""c" CHECK (c < 100),
	PRIMARY KEY (k), UNIQUE (u, k));
CREATE UNIQUE INDEX t_expr ON t (k, abs(u));
CREATE TABLE "odd""name" (k int CONSTRAINT "odd""key" PRIMARY KEY, "a""b" text NOT NULL);
CREATE TABLE src AS SELECT g AS k, g AS u FROM generate_series(1, 40) g;
SELECT shardfdw.shard_table('t', 'k', shards => 8);
SELECT shardfdw.shard_table('"odd""name"', 'k', shards => 3);
CREATE TABLE child (k int PRIMARY KEY, v text);
SELECT shardfdw.shard_table('child', 'k', colocate_with => 't');
ALTER TABLE child ADD CONSTRAINT child_t FOREIGN KEY (k) REFERENCES t (k);
CREATE TABLE ref (id int PRIMARY KEY);
SELECT shardfdw.create_reference_table('ref');
ALTER TABLE child ADD COLUMN r int CONSTRAINT child_r REFERENCES ref;
INSERT INTO t (k, u) SELECT k, u FROM src;

-- What a statement's error says; detail: what of DETAIL and CONTEXT names shards.
CREATE FUNCTION fields(statement text, OUT state text, OUT message text, OUT "table" text, OUT "column" text, OUT "constraint" text,
	OUT place text)
LANGUAGE plpgsql AS $$
DECLARE
	s text;
	d text;
BEGIN
	EXECUTE statement;
	state := 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, s = SCHEMA_NAME, "table" = TABLE_NAME,
		"column" = COLUMN_NAME, "constraint" = CONSTRAINT_NAME, d = PG_EXCEPTION_DETAIL;
	"table" := s || '.' || "table";
	place := substring(d FROM 'shard (.*)\.$');
END$$;
\pset format unaligned
-- columns and tables that are called something else on the node, an index with a name of its own
CREATE SCHEMA other;
CREATE TABLE other.p (id int, n int) PARTITION BY LIST (id);
ALTER TABLE ONLY other.p ADD CONSTRAINT p_both UNIQUE (id, n), ADD CONSTRAINT p_id UNIQUE (id);
SELECT ok FROM shardfdw.query_nodes(ARRAY['node1'], ARRAY['CREATE SCHEMA elsewhere CREATE TABLE hidden (ident int, "Num" int NOT NULL)'], 'write');
CREATE FOREIGN TABLE other.p1 (id int OPTIONS (column_name 'ident'), n int OPTIONS (column_name 'Num'))
	SERVER node1 OPTIONS (schema_name 'elsewhere', table_name 'hidden');
ALTER TABLE other.p ATTACH PARTITION other.p1 FOR VALUES IN (-1, 1, 2);
SELECT ok FROM shardfdw.query_nodes(ARRAY['node1'], ARRAY['ALTER TABLE elsewhere.hidden ADD UNIQUE (ident), ADD CONSTRAINT c CHECK (ident > 0)'], 'write');
SELECT ok FROM shardfdw.query_nodes(ARRAY['node1'], ARRAY['CREATE TABLE elsewhere.own (id int CONSTRAINT mine UNIQUE, n int)'], 'write');
CREATE FOREIGN TABLE other.p2 PARTITION OF other.p FOR VALUES IN (5) SERVER node1 OPTIONS (schema_name 'elsewhere', table_name 'own');
INSERT INTO other.p VALUES (5, 1);
SELECT * FROM fields('INSERT INTO other.p VALUES (5, 2)');
SELECT * FROM fields('INSERT INTO other.p VALUES (1, NULL)');
INSERT INTO other.p VALUES (1, 1);
SELECT * FROM fields('INSERT INTO other.p VALUES (1, 1)');
SELECT * FROM fields('INSERT INTO other.p1 VALUES (-1, 1)');
SELECT ok FROM shardfdw.query_nodes(ARRAY['node1'], ARRAY['DROP SCHEMA elsewhere CASCADE'], 'write');
-- on one shard as a whole, on all, row by row
SELECT * FROM fields('INSERT INTO t (k, u) VALUES (1, 1)');
SELECT * FROM fields('INSERT INTO t (k, u) VALUES (101, 1), (102, 1), (1, 5)');
SELECT * FROM fields('INSERT INTO t (k, u) VALUES (1, 1) ON CONFLICT (u, k) DO NOTHING');
SELECT * FROM fields('INSERT INTO t (k, u) VALUES (1, 7), (102, 1) ON CONFLICT (u, k) DO NOTHING');
SELECT * FROM fields('INSERT INTO t (k, u) SELECT k, u FROM t WHERE k = 3');
SELECT * FROM fields('UPDATE t SET c = 100 WHERE k = 3');
SELECT * FROM fields('UPDATE t SET c = 99 + k - k / 2 * 2 WHERE k IN (3, 4, 5)');
SELECT * FROM fields('UPDATE t SET u = NULL WHERE k = 3');
SELECT * FROM fields('UPDATE t SET u = nullif(src.u, 3) FROM src WHERE src.k = t.k AND v > random()::text');
SELECT * FROM fields('UPDATE t SET k = 4 WHERE k = 3');
SELECT * FROM fields('MERGE INTO t USING (VALUES (3), (4)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET c = 1000 WHEN NOT MATCHED THEN DO NOTHING');
SELECT * FROM fields('MERGE INTO t USING (VALUES (3)) s (k) ON t.k = s.k AND t.u = 0 WHEN NOT MATCHED THEN INSERT (k, u) VALUES (s.k, 3)');
SELECT * FROM fields('INSERT INTO "odd""name" VALUES (1, $q$x$q$), (1, $q$"odd""name_00"$q$)');
SELECT * FROM fields('INSERT INTO "odd""name" VALUES (1, NULL)');
-- foreign keys name two tables
SELECT * FROM fields('INSERT INTO child VALUES (500)');
SELECT * FROM fields('INSERT INTO child VALUES (1, NULL, 9)');
INSERT INTO child VALUES (1);
SELECT * FROM fields('DELETE FROM t WHERE k = 1');
SELECT * FROM fields('DELETE FROM t');
-- values are not taken for names, errors of values have none
SELECT * FROM fields('UPDATE t SET c = v::int WHERE k = 3');
SELECT * FROM fields('UPDATE t SET c = (v || $q$"t_02"$q$)::int');
-- commands for nodes are in the nodes' terms
SELECT node, ok, result FROM shardfdw.run_on_shards('t', 'INSERT INTO %s VALUES (3, 3)') WHERE result LIKE '%duplicate%';
-- DDL
SELECT * FROM fields('ALTER TABLE t ADD CHECK (k <> 7)');
SELECT * FROM fields('ALTER TABLE t ALTER c SET NOT NULL');
CREATE TABLE dup (k int);
SELECT shardfdw.shard_table('dup', 'k', shards => 2);
INSERT INTO dup VALUES (1), (1);
SELECT * FROM fields('CREATE UNIQUE INDEX dup_k ON dup (k)');

\set VERBOSITY terse
-- COPY, untouched lines and lines that are parsed here
COPY t (k, u) FROM stdin;
1001	1
1	1
\.
COPY t (k, u, c) FROM stdin WHERE u > 0;
1001	1	1
1002	1	100
\.
COPY t (k, u) FROM stdin;
1001	\N
\.
-- by themselves, and at the end of the transaction
INSERT INTO t (k, u) VALUES (1, 1);
INSERT INTO t (k, u) VALUES (1, 1), (2, 2);
UPDATE t SET c = 100;
DELETE FROM t WHERE k = 1;
CREATE TABLE late (k int, n int, CONSTRAINT late_key UNIQUE (k, n) DEFERRABLE INITIALLY DEFERRED);
SELECT shardfdw.shard_table('late', 'k', shards => 2);
INSERT INTO late VALUES (1, 1), (1, 1);
INSERT INTO late VALUES (1, 1), (2, 1);
INSERT INTO late VALUES (1, 1);
BEGIN;
INSERT INTO late VALUES (1, 1);
SELECT count(*) FROM late;
COMMIT;
BEGIN;
INSERT INTO late SELECT g, 1 FROM generate_series(1, 20) g;
COMMIT;
SELECT count(*) FROM late;
-- functions that a body calls: nodes lack them, and the HINT has the command that makes them
\set VERBOSITY default
CREATE FUNCTION helper(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 > 0; END';
CREATE FUNCTION helper(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION as_owner(int) RETURNS boolean LANGUAGE sql IMMUTABLE SECURITY DEFINER AS 'SELECT true';
CREATE FUNCTION passes(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$BEGIN
	IF i = 1 THEN RETURN en.helper(i); END IF;
	IF i = 2 THEN RETURN en.helper('x'::text); END IF;
	IF i = 3 THEN RETURN helper(i); END IF;
	IF i = 4 THEN RETURN en.as_owner(i); END IF;
	IF i = 5 THEN RETURN en.absent(i); END IF;
	IF i = 6 THEN RETURN pg_catalog.helper(i); END IF;
	IF i = 7 THEN RETURN i OPERATOR(pg_catalog.@@) i; END IF;
	RETURN true;
END$$;
CREATE TABLE bodies (id int PRIMARY KEY, CHECK (passes(id)));
SELECT shardfdw.shard_table('bodies', 'id', shards => 2) \g /dev/null
CREATE FUNCTION hint_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN undefined_function THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN CASE WHEN hint ~ 'shardfdw' THEN hint ELSE 'that of the node' END;
END$$;
SELECT i, hint_of(format('INSERT INTO bodies VALUES (%s)', i)) FROM generate_series(1, 8) i;
SELECT hint_of('INSERT INTO bodies SELECT 1 + random() * 0 FROM generate_series(1, 1)');
SELECT hint_of('ALTER TABLE bodies ADD CHECK (passes(id - 7))');
CREATE TABLE later (id int PRIMARY KEY, CHECK (passes(id)));
INSERT INTO later VALUES (1);
SELECT hint_of($$SELECT shardfdw.shard_table('later', 'id', shards => 2)$$);
SELECT hint_of($$COPY bodies FROM PROGRAM 'echo 1'$$);
SELECT DISTINCT ok, result FROM shardfdw.run_on_nodes(pg_get_functiondef('en.helper(integer)'::regprocedure));
SELECT hint_of('INSERT INTO bodies VALUES (1)');
RESET search_path;
DROP SCHEMA other CASCADE;
DROP SCHEMA en CASCADE;
