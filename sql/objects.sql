-- What a table's shards need, types, functions, collations, is made on the nodes with them; what is there must be the same.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA ob;
CREATE SCHEMA "Ob 2";
SET search_path = ob;
CREATE VIEW different AS SELECT node, check_name, status, regexp_replace(detail, '^\d+ as', 'all as') AS detail FROM shardfdw.check_cluster()
WHERE check_name ~ '^((schema|type|function|collation|operator|extension) |objects$)' AND node IN ('node1', 'node2') ORDER BY node, check_name COLLATE "C";
CREATE VIEW remote AS SELECT node, result FROM shardfdw.run_on_nodes($$
	SELECT (SELECT string_agg(typname, ' ' ORDER BY typname COLLATE "C") FROM pg_type WHERE typnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('ob', 'Ob 2')) AND typtype IN ('e', 'd', 'c', 'r') AND typrelid NOT IN (SELECT oid FROM pg_class WHERE relkind = 'r')),
		(SELECT string_agg(oid::regprocedure::text, ' ' ORDER BY oid::regprocedure::text COLLATE "C") FROM pg_proc WHERE pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('ob', 'Ob 2')) AND prosecdef IS NOT NULL AND prokind = 'f' AND prolang > 12)$$)
WHERE node IN ('node1', 'node2') ORDER BY node;

CREATE TYPE mood AS ENUM ('sad', 'happy', 'it''s');
CREATE COLLATION "Ob 2"."my C" (PROVIDER = libc, LOCALE = 'C');
CREATE FUNCTION pos(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
CREATE FUNCTION pos2(x int, y text DEFAULT 'a''b;') RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET work_mem = '1MB' AS $$BEGIN RETURN ob.pos(x); END$$;
CREATE FUNCTION "Ob 2".body(x int) RETURNS int LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT CASE WHEN ob.pos(x) THEN x ELSE 0 END; END;
CREATE FUNCTION unused(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE SEQUENCE s;
CREATE DOMAIN posint AS int DEFAULT nextval('ob.s') CHECK (ob.pos2(value)) NOT NULL;
CREATE DOMAIN posint2 AS posint CONSTRAINT small CHECK (value < 1000);
CREATE TYPE pair AS (a posint2, "odd ""b" text COLLATE "Ob 2"."my C", m mood[]);
CREATE TYPE floats AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = float8mi);
CREATE TABLE t (k int PRIMARY KEY, m mood, p pair, d posint2[], f floats, mf floats_multirange, n text COLLATE "Ob 2"."my C", x int DEFAULT unused(3),
	g int GENERATED ALWAYS AS ("Ob 2".body(k)) STORED, CHECK (pos(k)));
CREATE INDEX ON t (pos2(k));
SELECT kind, label FROM shardfdw_internal.needed_objects('{t}') ORDER BY kind, label;
BEGIN;
SELECT shardfdw.shard_table('t', shards => 2, nodes => '{node1,node2}');
SELECT * FROM remote;
ROLLBACK;
SELECT * FROM remote;
SELECT shardfdw.shard_table('t', shards => 2, nodes => '{node1,node2}');
INSERT INTO t VALUES (1, 'sad', ROW(3, 'x', '{happy}'), '{1,2}', '[1,2]', '{[1,3]}', 'C'), (2, 'it''s', NULL, NULL, NULL, NULL, NULL);
SELECT * FROM t ORDER BY k;
SELECT k FROM t WHERE m > 'sad' OR 1.5::float8 <@ f ORDER BY k;
INSERT INTO t VALUES (-1);
INSERT INTO t (k, d) VALUES (3, '{-1}');
SELECT * FROM different;
-- nodes without shards of t need nothing of that
SELECT count(*) FROM shardfdw.check_cluster() WHERE check_name ~ 'ob\.|"Ob 2"' AND node NOT IN ('node1', 'node2');

-- differences
SELECT DISTINCT ok FROM shardfdw.query_nodes('{node1,node2}', ARRAY[
	'ALTER TYPE ob.mood ADD VALUE ''glad'' BEFORE ''happy''; CREATE OR REPLACE FUNCTION ob.pos(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS ''SELECT $1 >= 0''',
	'ALTER DOMAIN ob.posint2 DROP CONSTRAINT small; ALTER TYPE ob.pair ADD ATTRIBUTE c int'], 'write');
SELECT * FROM different;
SELECT shardfdw.unshard_table('t');
SELECT shardfdw.shard_table('t', shards => 2, nodes => '{node1}');
SELECT shardfdw.shard_table('t', shards => 2, nodes => '{node2}');
SELECT shardfdw.create_reference_table('t');
SELECT DISTINCT ok FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS ob, "Ob 2" CASCADE');
SELECT shardfdw.create_reference_table('t');
SELECT shardfdw.unshard_table('t');

-- what is not made, and what a node refuses
CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int);
CREATE TABLE o (k int CHECK (k OPERATOR(ob.===) k));
SELECT shardfdw.shard_table('o', 'k', shards => 1);
CREATE TABLE rows (k int, r o);
SELECT shardfdw.shard_table('rows', 'k', shards => 1);
DROP TABLE o CASCADE;
CREATE TABLE o (k int) PARTITION BY HASH (k);
ALTER TABLE o ADD m mood;
SELECT DISTINCT ok FROM shardfdw.query_nodes('{node1}', ARRAY['DROP SCHEMA ob CASCADE; CREATE SCHEMA ob; CREATE TABLE ob.mood (k int)'], 'write');
SELECT shardfdw.create_shard('o', 'o1', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');
SELECT DISTINCT ok FROM shardfdw.query_nodes('{node1}', ARRAY['DROP TABLE ob.mood'], 'write');
SELECT shardfdw.create_shard('o', 'o1', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');

-- CREATE INDEX CONCURRENTLY and CREATE STATISTICS make what they need
CREATE TABLE later (k int PRIMARY KEY, v text);
SELECT shardfdw.shard_table('later', shards => 4) \g /dev/null
CREATE FUNCTION half(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT left($1, length($1) / 2)$$;
CREATE FUNCTION third(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT left($1, length($1) / 3)$$;
CREATE INDEX CONCURRENTLY later_half ON later (ob.half(v));
CREATE STATISTICS later_third ON (ob.third(v)), k FROM later;
SELECT DISTINCT result FROM shardfdw.run_on_nodes($$SELECT string_agg(proname, ', ' ORDER BY proname::text) FROM pg_proc WHERE pronamespace = 'ob'::regnamespace AND proname IN ('half', 'third')$$);
CREATE TEXT SEARCH CONFIGURATION plain (COPY = simple);
CREATE INDEX later_words ON later USING gin (to_tsvector('ob.plain', v));
SELECT DISTINCT ok FROM shardfdw.run_on_nodes('CREATE TEXT SEARCH CONFIGURATION ob.plain (COPY = simple)');
CREATE INDEX later_words ON later USING gin (to_tsvector('ob.plain', v));

-- A SECURITY DEFINER function would belong to another role on the node
CREATE FUNCTION definer(int) RETURNS int LANGUAGE sql IMMUTABLE SECURITY DEFINER AS 'SELECT $1';
\set VERBOSITY terse
CREATE STATISTICS of_definer ON (definer(k)), v FROM later;
-- so would that of another role, and code of superusers is trusted; superusers count as one role
CREATE ROLE ob_owner;
CREATE ROLE ob_super SUPERUSER;
CREATE FUNCTION others(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION supers(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE DOMAIN checked AS int CHECK (ob.others(VALUE) > 0);
ALTER FUNCTION others(int) OWNER TO ob_owner;
ALTER FUNCTION supers(int) OWNER TO ob_super;
CREATE STATISTICS of_others ON (others(k)), v FROM later;
CREATE INDEX ON later (others(k));
ALTER TABLE later ADD CHECK (others(k) > 0);
ALTER TABLE later ADD COLUMN c checked;
CREATE INDEX ON later (supers(k));
SELECT DISTINCT ok FROM shardfdw.run_on_nodes('CREATE FUNCTION ob.others(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT $1$$');
CREATE INDEX ON later (others(k));
\set VERBOSITY default

SELECT DISTINCT ok FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS ob, "Ob 2" CASCADE');
DROP SCHEMA ob, "Ob 2" CASCADE;
DROP ROLE ob_owner, ob_super;
