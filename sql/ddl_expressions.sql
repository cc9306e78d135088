-- Every kind of expression that the grammar has, in every place where a definition takes one. A sharded table
-- accepts what a plain table accepts and has the same rows, or refuses the statement with 0A000.
\set VERBOSITY terse
SET client_min_messages = error;
CREATE SCHEMA ddl_expressions;
SET search_path = ddl_expressions, public;
CREATE FUNCTION named(a int, b int DEFAULT 2) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE TYPE pair AS (x int, y int);
-- nodes keep the type
CREATE TABLE typed (k int PRIMARY KEY, c pair);
SELECT shardfdw.shard_table('typed', shards => 4) \g /dev/null
CREATE TEMP TABLE expressions (n int GENERATED ALWAYS AS IDENTITY, e text);
-- What a major does not know is a syntax error on both tables. IS DOCUMENT is not here: 18 prints it without
-- parentheses in the definition of an index, which PostgreSQL then cannot read.
COPY expressions (e) FROM stdin;
t.n
ddl_expressions.t.n + t.n
NULL
n IN (1, 2, 3)
n NOT BETWEEN SYMMETRIC 5 AND 1
(n > 3) IS NOT UNKNOWN
n IS NOT DISTINCT FROM t.n
CASE WHEN n % 2 = 0 THEN n ELSE 0 END
CASE n WHEN 1 THEN 'one' WHEN 2 THEN v END
CASE WHEN now() > '2020-01-01' THEN n END
COALESCE(v, 'x')
ARRAY[ARRAY[n], ARRAY[2]]
(ARRAY[1,2,3])[1:n]
n > ALL (ARRAY[1,2])
ROW(n, v)
ROW(n, NULL) IS NULL
(ROW(n, 1)::pair).x
(t.c).y
t
t.*
t IS NOT NULL
v NOT ILIKE 'X%' ESCAPE '#'
v COLLATE "C" < 'b'
v || n
substring(v SIMILAR 'x#"1#"%' ESCAPE '#')
(ts AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
v IS NORMALIZED
collation for (v)
(ts, interval '1 day') OVERLAPS (ts, interval '1 day')
named(b => 3, a => t.n)
concat(VARIADIC ARRAY[v, 'x'])
n OPERATOR(pg_catalog.+) 1
(SELECT max(n) FROM ddl_expressions.t)
sum(n) FILTER (WHERE n > 1)
rank() OVER (ORDER BY n)
GROUPING(n)
generate_series(1, n)
current_date
random()
xmlserialize(content xmlelement(name a, n) AS text)
xmlexists('//a' PASSING '<a/>')
j['a']
j @? '$.a'
t.tableoid
$1
DEFAULT
B'101'
int4range(n, n + 2)
JSON_OBJECT('a': n ABSENT ON NULL WITH UNIQUE KEYS RETURNING jsonb)
JSON_ARRAY(n, v NULL ON NULL)
JSON_ARRAYAGG(n)
v IS JSON OBJECT WITH UNIQUE KEYS
JSON_SCALAR(n)
JSON_SERIALIZE('{}' RETURNING text)
JSON_VALUE(j, '$.a' DEFAULT n ON EMPTY)
JSON_QUERY(j, '$.a' WITH WRAPPER)
JSON_EXISTS(j, '$.a' PASSING n AS x)
merge_action()
\.
CREATE TEMP TABLE places (place text, statement text);
COPY places FROM stdin;
USING	ALTER TABLE t ALTER w TYPE text USING (%s)::text
CHECK	ALTER TABLE t ADD CHECK ((%s) IS NOT NULL OR true)
DEFAULT	ALTER TABLE t ADD d text DEFAULT (%s)::text
GENERATED	ALTER TABLE t ADD g text GENERATED ALWAYS AS ((%s)::text) STORED
index	CREATE INDEX ON t (((%s)), n) WHERE (%s) IS NOT NULL
statistics	CREATE STATISTICS st ON ((%s)), n FROM t
\.
-- Runs a statement on a table and takes it back. Returns the rows, or the SQLSTATE, and what differs between both sides.
CREATE FUNCTION try(sharded text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	CREATE TABLE t (id int PRIMARY KEY, n int, v text, w text, ts timestamptz, j jsonb, c pair);
	IF sharded = 'after' THEN
		EXECUTE statement;
	END IF;
	IF sharded <> 'plain' THEN
		PERFORM shardfdw.shard_table('t', 'id', shards => 2);
	END IF;
	INSERT INTO t (id, n, v, w, ts, j, c) SELECT i, i, 'x' || i, i, '2024-01-01', jsonb_build_object('a', i), ROW(i, i + 1)::pair FROM generate_series(1, 3) i;
	IF sharded <> 'after' THEN
		EXECUTE statement;
	END IF;
	INSERT INTO t (id, n, v, w, ts, j, c) VALUES (4, 4, 'x4', '4', '2024-01-01', '{"a": 4}', ROW(4, 5));
	result := (SELECT string_agg((to_jsonb(t) - 'ts')::text, E'\n' ORDER BY id) FROM t);
	IF sharded <> 'plain' THEN
		result := concat(result, (SELECT string_agg(detail, ';') FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '^shard ddl_expr'));
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'P9999', MESSAGE = result;
EXCEPTION WHEN OTHERS THEN
	RETURN CASE SQLSTATE WHEN 'P9999' THEN SQLERRM ELSE SQLSTATE END;
END $$;
-- What a plain table refuses is tried on a sharded one in USING alone.
CREATE TEMP TABLE tried AS SELECT place, n, e, plain, CASE WHEN length(plain) > 5 OR place = 'USING' THEN try('before', s) END AS before,
	CASE WHEN length(plain) > 5 AND place IN ('CHECK', 'index') THEN try('after', s) END AS after
FROM expressions, places, LATERAL (SELECT replace(statement, '%s', e) AS s) x, LATERAL (SELECT try('plain', s) AS plain OFFSET 0) y;
-- Refused on a sharded table alone; JSON constructors, which 15 lacks, in USING as well
SELECT place, string_agg(e, '   ' ORDER BY n) FROM tried WHERE length(plain) > 5 AND before = '0A000' AND place <> 'DEFAULT' AND e !~ 'JSON' GROUP BY place ORDER BY place COLLATE "C";
SELECT place, string_agg(e, '   ' ORDER BY n) FROM tried WHERE length(plain) > 5 AND after = '0A000' GROUP BY place ORDER BY place COLLATE "C";
-- Values that differ from call to call
SELECT count(*) FROM tried WHERE e = 'random()' AND plain <> before AND place IN ('DEFAULT');
-- Another result
SELECT place, e, left(plain, 70) AS plain, left(before, 70) AS before, left(after, 70) AS after FROM tried
WHERE ((before <> plain AND before <> '0A000') OR (after <> plain AND after <> '0A000')) AND e <> 'random()' ORDER BY place COLLATE "C", n;

-- Other tables whose columns are qualified: of a sharded schema, with partitions of their own, with odd names
CREATE TABLE "T 1" (k int PRIMARY KEY, "a b" int);
SELECT shardfdw.shard_table('"T 1"', 'k', shards => 2) \g /dev/null
ALTER TABLE "T 1" ADD CONSTRAINT c1 CHECK ("T 1".k > 0 AND ddl_expressions."T 1"."a b" > 0), ADD g int GENERATED ALWAYS AS ("T 1"."a b" + 1) STORED;
CREATE INDEX ON "T 1" (("T 1".k + 1)) WHERE "T 1"."a b" > 0;
INSERT INTO "T 1" VALUES (1, 1), (2, 0);
INSERT INTO "T 1" VALUES (1, 1), (2, 2);
SELECT * FROM "T 1" ORDER BY k;
CREATE SCHEMA ddl_home;
CREATE TABLE ddl_home.t (k int PRIMARY KEY, a int);
SELECT shardfdw.shard_schema('ddl_home') \g /dev/null
ALTER TABLE ddl_home.t ADD CHECK (t.k > 0), ADD g int GENERATED ALWAYS AS (ddl_home.t.k + 1) STORED;
ALTER TABLE ddl_home.t ADD b int CHECK (t.b > t.a);
INSERT INTO ddl_home.t VALUES (1, 2, DEFAULT, 3) RETURNING *;
INSERT INTO ddl_home.t VALUES (0, 2, DEFAULT, 3);
DROP SCHEMA ddl_home CASCADE;
CREATE TABLE above (k int, m int) PARTITION BY RANGE (m);
CREATE TABLE month1 PARTITION OF above FOR VALUES FROM (1) TO (2) PARTITION BY HASH (k);
SELECT shardfdw.create_shard('month1', 'month1_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1') \g /dev/null
CREATE TABLE month2 PARTITION OF above FOR VALUES FROM (2) TO (3);
ALTER TABLE above ADD CONSTRAINT c2 CHECK (above.k > 0), ADD g int GENERATED ALWAYS AS (above.k + above.m) STORED;
INSERT INTO above VALUES (1, 1), (1, 2) RETURNING *;
INSERT INTO above VALUES (-1, 1);

-- Whole rows and system columns
\set VERBOSITY default
ALTER TABLE "T 1" ADD CHECK ("T 1" IS NOT NULL);
CREATE INDEX ON "T 1" (k) WHERE "T 1".tableoid > 0;
CREATE TABLE row_check (k int PRIMARY KEY, CONSTRAINT whole CHECK (row_check IS NOT NULL));
SELECT shardfdw.shard_table('row_check');
\set VERBOSITY terse
-- but a column with the table's name
CREATE TABLE same (same int PRIMARY KEY);
SELECT shardfdw.shard_table('same', shards => 2) \g /dev/null
ALTER TABLE same ADD CHECK (same > 0), ADD CHECK (same.same > 0);
RESET search_path;
DROP SCHEMA ddl_expressions CASCADE;
