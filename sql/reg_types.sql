-- Columns of reg types (regtype, regclass...): their values are numbers that every server deals out for
-- itself, and mean an object by its name. What is printed is what a plain table gives.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA reg_types;
SET search_path = reg_types;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE thing (a int);
CREATE FUNCTION shout(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)';
CREATE TEXT SEARCH CONFIGURATION plain (COPY = pg_catalog.simple);
CREATE DOMAIN type_name AS regtype;
CREATE TABLE t (k int, rt regtype, rc regclass, rp regprocedure, rf regproc, rn regnamespace, ro regrole,
	cfg regconfig, rta regtype[], d type_name, o oid, v int, UNIQUE (k));
CREATE TABLE plain (LIKE t);
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA reg_types');
SELECT count(*) FROM shardfdw.run_on_nodes($$CREATE TYPE reg_types.mood AS ENUM ('sad', 'ok')$$);
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE TABLE reg_types.thing (a int)');
SELECT count(*) FROM shardfdw.run_on_nodes($$CREATE FUNCTION reg_types.shout(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT upper($1)'$$);
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE TEXT SEARCH CONFIGURATION reg_types.plain (COPY = pg_catalog.simple)');
SELECT shardfdw.shard_table('t', 'k', shards => 4);
-- by INSERT, COPY and from another table
INSERT INTO plain VALUES (1, 'mood', 'thing', 'shout(text)', 'shout', 'reg_types', current_user::regrole, 'plain', '{mood,int4,NULL}', 'mood', 'mood'::regtype, 0),
	(2, 'int4', 'pg_class', 'now()', 'now', 'pg_catalog', current_user::regrole, 'english', '{}', 'text', 'int4'::regtype, 0),
	(3, '-', '-', '-', '-', '-', '-', 'simple', NULL, NULL, 0, 0);
INSERT INTO t VALUES (1, 'mood', 'thing', 'shout(text)', 'shout', 'reg_types', current_user::regrole, 'plain', '{mood,int4,NULL}', 'mood', 'mood'::regtype, 0);
INSERT INTO t SELECT * FROM plain WHERE k > 1;
CREATE FUNCTION differ() RETURNS TABLE (row_of text, k int) LANGUAGE sql AS $$
	SELECT 'table', x.k FROM (SELECT * FROM t EXCEPT SELECT * FROM plain) x UNION ALL
	SELECT 'plain', x.k FROM (SELECT * FROM plain EXCEPT SELECT * FROM t) x
$$;
SELECT * FROM differ();
SELECT k, rt, rc, rp, rf, rn, cfg, rta, d FROM t ORDER BY k;
-- read under a search_path that hides built-in objects
CREATE TABLE reg_types.pg_class (a int);
SET search_path = reg_types, pg_catalog;
SELECT rc = 'pg_catalog.pg_class'::regclass FROM t WHERE k = 2;
SELECT (w).rc = 'pg_catalog.pg_class'::regclass FROM (SELECT t AS w FROM t OFFSET 0) s WHERE (w).k = 2;
SELECT rc = 'pg_catalog.pg_class'::regclass FROM t JOIN plain USING (k, rc) WHERE k = 2;
SET search_path = reg_types;
DROP TABLE reg_types.pg_class;
-- conditions
SELECT k FROM t WHERE rt = 'mood'::regtype;
SELECT k FROM t WHERE rt::oid = 'mood'::regtype::oid;
SELECT k FROM t WHERE rt = o ORDER BY k;
SELECT k FROM t WHERE d = 'mood'::regtype;
SELECT k FROM t WHERE rt::oid::bigint = 'mood'::regtype::oid::bigint;
SELECT k FROM t WHERE rt::int = 'mood'::regtype::int;
SELECT k FROM t WHERE rc = 'thing'::regclass AND rp = 'shout(text)'::regprocedure AND rf = 'shout'::regproc;
SELECT k FROM t WHERE rn = 'reg_types'::regnamespace;
SELECT k FROM t WHERE rt IN ('mood', 'int4') ORDER BY k;
SELECT k FROM t WHERE rt = ANY (ARRAY['mood'::regtype, 'text']);
SELECT k FROM t WHERE 'mood'::regtype = ANY (rta);
SELECT k FROM t WHERE rta::oid[] @> ARRAY['mood'::regtype::oid];
SELECT k FROM t WHERE coalesce(rt, 'mood') = 'mood'::regtype;
SELECT k FROM t WHERE CASE rt WHEN 'mood'::regtype THEN true END;
SELECT k FROM t WHERE rt IS NOT DISTINCT FROM 'mood'::regtype;
SELECT k FROM t WHERE (rt, k) = ('mood'::regtype, 1);
SELECT k FROM t WHERE rt::text = 'mood';
SELECT k FROM t WHERE k = 1 AND rt = 'mood'::regtype;
SELECT k FROM t WHERE k = 1 AND rt::oid = o;
SELECT k, rt::oid = 'mood'::regtype FROM t WHERE k = 1;
PREPARE by_type(regtype, int) AS SELECT k FROM t WHERE rt = $1 AND k <= $2;
EXECUTE by_type('mood', 4);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_type('mood', 4);
PREPARE by_key(oid) AS SELECT k FROM t WHERE rt = $1 AND k = 1;
EXECUTE by_key('mood'::regtype);
RESET plan_cache_mode;
SELECT k FROM t WHERE o = 'mood'::regtype;
EXPLAIN (VERBOSE, COSTS OFF) SELECT k FROM t WHERE rt = o;
-- joins, groups, sorts, aggregates
SELECT a.k, b.k FROM t a JOIN t b ON a.k = b.k AND a.rt = b.o ORDER BY 1;
SELECT t.k FROM plain p JOIN t ON t.rt = p.rt ORDER BY 1;
SELECT t.k FROM plain p JOIN t ON t.rt = p.o WHERE p.k = 1;
SELECT k FROM plain p WHERE EXISTS (SELECT FROM t WHERE t.rt = p.rt AND t.rc = p.rc) ORDER BY 1;
SELECT rt, count(*) FROM t GROUP BY rt ORDER BY rt::text;
SELECT o, count(*) FROM (SELECT rt::oid o FROM t) s WHERE o = 'mood'::regtype GROUP BY o HAVING min(o) <> 'mood'::regtype;
SELECT array_agg(k ORDER BY rt) = (SELECT array_agg(k ORDER BY rt) FROM plain) FROM t;
SELECT array_agg(k) = (SELECT array_agg(k) FROM (SELECT k FROM plain ORDER BY rt) p) FROM (SELECT k FROM t ORDER BY rt) s;
SELECT min(rt::oid) = (SELECT min(rt::oid) FROM plain), max(rt::oid) = (SELECT max(rt::oid) FROM plain) FROM t;
SELECT array_agg(rt ORDER BY k) FROM t;
SELECT count(DISTINCT rt) FROM t;
SELECT k, rank() OVER (PARTITION BY k ORDER BY rt) FROM t ORDER BY k;
-- text search configurations
SELECT k, to_tsvector(cfg, 'The cats') FROM t ORDER BY k;
SELECT to_tsvector(cfg, 'The cats') FROM t WHERE k = 1;
SELECT k FROM t WHERE to_tsvector('plain', 'The cats ' || k) @@ 'the' ORDER BY k;
SELECT k FROM t WHERE to_tsvector('english', 'The cats ' || k) @@ 'cat' ORDER BY k;
-- writes
UPDATE t SET v = 1 WHERE rt = 'mood'::regtype;
UPDATE plain SET v = 1 WHERE rt = 'mood'::regtype;
UPDATE t SET o = rt::oid, rc = 'thing' WHERE k <= 2;
UPDATE plain SET o = rt::oid, rc = 'thing' WHERE k <= 2;
UPDATE t SET rt = 'mood', rta = rta || 'mood'::regtype WHERE k = 2 RETURNING k, rt, rta;
UPDATE plain SET rt = 'mood', rta = rta || 'mood'::regtype WHERE k = 2;
UPDATE t SET v = 2 FROM plain p WHERE p.k = t.k AND p.rt = t.rt;
UPDATE plain SET v = 2;
SELECT * FROM differ();
WITH i AS (INSERT INTO t SELECT * FROM plain ON CONFLICT (k) DO UPDATE SET rt = excluded.rt, v = 3 WHERE t.rt = excluded.rt RETURNING k, rt)
SELECT * FROM i ORDER BY k;
INSERT INTO t (k, rt) VALUES (1, 'text') ON CONFLICT (k) DO UPDATE SET rt = excluded.rt, o = 'text'::regtype;
UPDATE plain SET v = 3;
UPDATE plain SET rt = 'text', o = 'text'::regtype WHERE k = 1;
SELECT * FROM differ();
MERGE INTO t USING plain p ON t.k = p.k WHEN MATCHED THEN UPDATE SET rt = 'mood', d = p.d;
UPDATE plain SET rt = 'mood';
SELECT * FROM differ();
WITH d AS (DELETE FROM t WHERE rt = 'mood'::regtype RETURNING k, rt)
SELECT * FROM d ORDER BY k;
SELECT count(*) FROM t;
COPY t (k, rt, rta) FROM stdin;
7	mood	{mood}
\.
SELECT k, rt, rta FROM t WHERE rt = 'mood'::regtype;
COPY t (k, rt, rta) TO stdout;
-- nodes would convert their own numbers
ALTER TABLE t ALTER rt TYPE oid;
ALTER TABLE t ALTER o TYPE regtype;
ALTER TABLE t ALTER rc TYPE text;
ALTER TABLE t ALTER d TYPE regtype;
ALTER TABLE t ADD COLUMN def regtype DEFAULT 'mood', ADD CHECK (def <> 'int4'::regtype);
INSERT INTO t (k, def) VALUES (8, 'int4');
SELECT k, def FROM t;
-- the hash of such a key is that of the number
CREATE TABLE bad (k regtype, v int);
SELECT shardfdw.shard_table('bad', 'k');
CREATE TABLE bad2 (k type_name[], v int);
SELECT shardfdw.shard_table('bad2', 'k');
-- Immutable functions that look objects up by their OID: the coordinator calls them
SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_type y ON y.oid = ANY (p.proargtypes) AND y.typname ~ '^(reg|oid$)'
WHERE p.oid < 10000 AND p.provolatile = 'i' AND p.prokind = 'f' AND p.proname !~ '(in|out|recv|send)$' AND NOT 'internal'::regtype = ANY (p.proargtypes)
	AND p.proname !~ '^(oid|hashoid|btoid|int8$|nameconcatoid$)' ORDER BY 1;
CREATE TABLE parent (v int) PARTITION BY HASH (v);
CREATE TABLE by_oid (k int, o oid, v int, w text);
INSERT INTO by_oid SELECT i, 'parent'::regclass, i, 'cats' FROM generate_series(1, 4) i;
SELECT shardfdw.shard_table('by_oid', 'k', shards => 4) \g /dev/null
SELECT count(*) FROM by_oid WHERE satisfies_hash_partition('parent'::regclass, 1, 0, v);
SELECT count(*) FROM by_oid WHERE k = 2 AND satisfies_hash_partition(o, 1, 0, v);
SELECT DISTINCT pg_partition_root(o::regclass)::oid = o FROM by_oid;
EXPLAIN (COSTS off) SELECT k FROM by_oid WHERE makeaclitem(o, o, 'SELECT', false) IS NULL;
EXPLAIN (COSTS off) SELECT k FROM by_oid WHERE pg_walfile_name('0/0'::pg_lsn + v::numeric) = '';
EXPLAIN (COSTS off) SELECT k FROM by_oid WHERE to_tsvector(o::regconfig, w) @@ 'cat'::tsquery AND ts_lexize(o::regdictionary, w) = '{}';
\c -
SET client_min_messages = error;
DROP SCHEMA reg_types CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA reg_types CASCADE');
