-- COPY TO of a sharded table writes, but for the order of its rows, what COPY of a plain table writes.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA copy_to;
SET search_path = copy_to;
SET DateStyle = 'ISO, MDY';
SET TimeZone = 'UTC';
RESET client_min_messages;
-- A file that the server can write and read.
SELECT current_setting('data_directory') || '/copy_to.tmp' AS path \gset
SELECT set_config('copy_to.path', :'path', false) \g /dev/null

-- Lines that target gives with options, sorted; the first line apart when it is a header.
CREATE FUNCTION lines(target text, options text DEFAULT '', header bool DEFAULT false) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	path text := current_setting('copy_to.path');
	result text[];
BEGIN
	EXECUTE format('COPY %s TO %L %s', target, path, options);
	result := regexp_split_to_array(pg_read_file(path), E'\n');
	RETURN CASE WHEN header THEN result[1:1] END ||
		array(SELECT l FROM unnest(result[CASE WHEN header THEN 2 ELSE 1 END:]) l ORDER BY l COLLATE "C");
END $$;
-- Rows of the table again, loaded from the file of the last COPY, that differ from those of original.
CREATE FUNCTION reloaded(original regclass, options text DEFAULT '') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('CREATE TEMP TABLE again (LIKE %s)', original);
	EXECUTE format('COPY again FROM %L %s', current_setting('copy_to.path'), options);
	EXECUTE format('SELECT count(*) FROM ((SELECT again::text FROM again EXCEPT ALL SELECT o::text FROM %1$s o)
		UNION ALL (SELECT o::text FROM %1$s o EXCEPT ALL SELECT again::text FROM again)) d', original) INTO n;
	DROP TABLE again;
	RETURN n;
END $$;
-- Rows by the command tag.
CREATE FUNCTION tag(target text, options text DEFAULT '') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('COPY %s TO %L %s', target, current_setting('copy_to.path'), options);
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END $$;

-- 'same' when COPY TO with options gives the same lines and rows for both tables, and what was written is
-- the same when it is loaded with reading.
CREATE FUNCTION difference(plain text, sharded text, options text, reading text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	header bool := options LIKE '%HEADER%';
	n bigint[];
	l text[];
BEGIN
	l := lines(plain, options, header);
	n := ARRAY[tag(plain, options), reloaded(plain, coalesce(reading, options))];
	RETURN CASE WHEN lines(sharded, options, header) IS DISTINCT FROM l THEN 'other lines'
		WHEN ARRAY[tag(sharded, options), reloaded(plain, coalesce(reading, options))] <> n THEN 'other rows'
		ELSE 'same' END;
END $$;

--
-- Formats
--
CREATE TABLE odd (value text);
INSERT INTO odd VALUES (NULL), (''), (' '), ('a b'), ('NULL'), ('\N'), ('\.'), ('\'), ('\\n'), ('"'), ('""'), ('''q'''),
	(','), (';'), ('|'), (E'\t'), (E'\n'), (E'\r'), (E'\r\n'), (E'two\nlines'), (E'"quoted"\nline, \\t'), (E'\b\f\v\001'),
	('"; ,|''\'), ('x\"y'), ('#');
CREATE TABLE plain (id int, a text, "b,""B" text, c text);
INSERT INTO plain SELECT row_number() OVER (), x.value, y.value, x.value || y.value FROM odd x, odd y;
CREATE TABLE sharded (LIKE plain);
SELECT shardfdw.shard_table('sharded', 'id', shards => 7) \g /dev/null
INSERT INTO sharded SELECT * FROM plain;

-- CSV: combinations of DELIMITER, NULL, QUOTE, ESCAPE and FORCE_QUOTE.
CREATE TABLE csv AS
SELECT format('(FORMAT csv, HEADER, DELIMITER %L, NULL %L, QUOTE %L, ESCAPE %L', d, n, q, e) AS options, f AS force
FROM unnest('{",",;}'::text[]) d, unnest('{"",a b}'::text[]) n, unnest('{"\"",''}'::text[]) q, unnest('{"\"",\\}'::text[]) e,
	unnest(ARRAY[')', ', FORCE_QUOTE *)', ', FORCE_QUOTE (a))', ', FORCE_QUOTE ("b,""B", c, id))']) f;
SELECT count(*), count(*) FILTER (WHERE outcome <> 'same') AS differ FROM csv, difference('plain', 'sharded', options || force, options || ')') outcome;
SELECT header FROM (SELECT DISTINCT (lines('sharded', options || force, true))[1] AS header FROM csv) h ORDER BY header COLLATE "C";
-- Text.
CREATE TABLE plain_text AS
SELECT format('(FORMAT text, DELIMITER %L, NULL %L', d, n) AS options, h AS header
FROM unnest(ARRAY[E'\t', '|', ';', '"', E'\001']) d, unnest(ARRAY['\N', '', 'NULL', 'a b', '''']) n, unnest('{"",", HEADER"}'::text[]) h;
SELECT count(*), count(*) FILTER (WHERE outcome <> 'same') AS differ FROM plain_text, difference('plain', 'sharded', options || header || ')') outcome;
-- The client's default, and old syntax.
SELECT lines('plain') = lines('sharded') AS text, lines('plain', 'CSV HEADER QUOTE ''x''', true) = lines('sharded', 'CSV HEADER QUOTE ''x''', true) AS csv;
-- Binary: one header, one trailer.
SELECT tag('plain', '(FORMAT binary)');
SELECT length(pg_read_binary_file(:'path')) AS bytes \gset
SELECT tag('sharded', '(FORMAT binary)');
SELECT length(pg_read_binary_file(:'path')) = :bytes AS "same length", reloaded('plain', '(FORMAT binary)') AS "differ, loaded again";
--
-- Columns
--
CREATE TABLE one (id int, "\." text, n int DEFAULT 3, twice int GENERATED ALWAYS AS (id * 2) STORED);
SELECT shardfdw.shard_table('one', 'id', shards => 2) \g /dev/null
-- No rows.
COPY one TO STDOUT;
COPY one TO STDOUT (FORMAT csv, HEADER);
COPY one ("\.") TO STDOUT (FORMAT csv, HEADER);
COPY one ("\.") TO STDOUT (HEADER);
SELECT tag('one', '(FORMAT binary)'), encode(pg_read_binary_file(:'path'), 'hex');
-- One row.
INSERT INTO one VALUES (1, '\.');
COPY one TO STDOUT;
COPY one TO STDOUT (FORMAT csv, HEADER);
COPY one ("\.") TO STDOUT (FORMAT csv);
COPY one (n, id) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (id));
-- A column dropped on both sides.
ALTER TABLE one DROP COLUMN n;
COPY one TO STDOUT (HEADER);
-- Columns that have other names and types on the node: as if they had those of this side.
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('CREATE TABLE copy_to.other_0 (extra text DEFAULT ''no'', "Key" bigint, v float8, w varchar, t char(4))');
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('INSERT INTO copy_to.other_0 ("Key", v, w, t) VALUES (1, 2.5, 7, ''x'')') WHERE node = 'node1';
CREATE TABLE other (id int, v numeric, w text, t text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE other_0 (id int OPTIONS (column_name 'Key'), v numeric, w text, t text) SERVER node1;
ALTER TABLE other ATTACH PARTITION other_0 FOR VALUES FROM (0) TO (10);
COPY other TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (id, w));
SELECT tag('other', '(FORMAT binary)'), reloaded('other', '(FORMAT binary)');

--
-- Types: the nodes write what they surely write in the same way, for the rest core runs a query.
--
CREATE TYPE mood AS ENUM ('sad', 'hap,py');
CREATE DOMAIN moods AS mood[] CHECK (VALUE IS NOT NULL);
CREATE TYPE pair AS (a int, b timestamptz);
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('CREATE TYPE copy_to.mood AS ENUM (''sad'', ''hap,py'')');
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('CREATE DOMAIN copy_to.moods AS copy_to.mood[] CHECK (VALUE IS NOT NULL)');
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('CREATE TYPE copy_to.pair AS (a int, b timestamptz)');
CREATE TABLE types_plain (id int, "bool" bool, i2 int2, f4 float4, f8 float8, num numeric, ts timestamp, tz timestamptz, dt date, ti time, tiz timetz,
	iv interval, by bytea, ch char(5), vc varchar(9), nm name, js json, jb jsonb, uu uuid, ip inet, mac macaddr, bi bit(3), vb varbit, pt point, po polygon,
	ra int4range, mr tstzmultirange, tv tsvector, tq tsquery, en mood, dm moods, ai int[], at text[], av interval[], ae mood[], ad timestamptz[],
	oi oid, ti_d tid, rc regclass, mo money, ch1 "char", ls pg_lsn, co pair, ac pair[], xa jsonpath);
INSERT INTO types_plain SELECT g, g % 2 = 0, g, g / 3.0, g / 7.0, g / 11.0, '2024-02-29 12:34:56.789'::timestamp + g * interval '1 day', '2024-07-01 12:34:56+00'::timestamptz + g * interval '31 day',
	'2024-01-31'::date + g, '12:34'::time + g * interval '1 min', '12:34+05'::timetz, g * interval '1 mon -2 day 3 hour', decode(lpad(to_hex(g * 4711), 8, '0'), 'hex'),
	'c' || g, 'v' || g, 'n' || g, '{"a" :  1}', '{"b": [null, 2.50]}', md5(g::text)::uuid, '10.0.0.1/8', '08:00:2b:01:02:03', '101', '1011', point(g / 3.0, g), '((0,0),(1,1),(2,0))',
	int4range(g, g + 3), '{[2024-01-01,2024-02-02),[2024-03-03,)}', 'fat:1A cat', 'fat & !cat', 'hap,py', '{sad,"hap,py"}', ARRAY[g, NULL], ARRAY['a b', NULL, '', '"\'], ARRAY[g * interval '1 day 1 sec'],
	ARRAY['hap,py'::mood, NULL], ARRAY['2024-07-01 12:34:56+00'::timestamptz], g, '(1,2)', 'pg_class', g::money, 'z', '0/16AE7F8', ROW(g, '2024-07-01 12:34:56+00')::pair, ARRAY[ROW(g, NULL)::pair], '$.a[*]'
FROM generate_series(-3, 40) g;
INSERT INTO types_plain (id, by, vc, at, dm) VALUES (100, '', '', '{}', '{}');
CREATE TABLE types (LIKE types_plain);
SELECT shardfdw.shard_table('types', 'id', shards => 3) \g /dev/null
INSERT INTO types SELECT * FROM types_plain;
-- Every column by itself, under settings that change what is written.
CREATE TABLE settings (names text[], options text);
INSERT INTO settings VALUES
	('{"DateStyle=ISO, MDY","IntervalStyle=postgres","bytea_output=hex","extra_float_digits=1","TimeZone=UTC"}', ''),
	('{"DateStyle=SQL, DMY","IntervalStyle=iso_8601","bytea_output=escape","extra_float_digits=0","TimeZone=America/New_York"}', '(FORMAT csv, FORCE_QUOTE *)'),
	('{"DateStyle=German","IntervalStyle=sql_standard","bytea_output=hex","extra_float_digits=-4","TimeZone=Asia/Tokyo"}', '(FORMAT text, DELIMITER '';'')'),
	('{"DateStyle=Postgres, MDY","IntervalStyle=postgres_verbose","bytea_output=escape","extra_float_digits=3","TimeZone=<+03>-03"}', '(FORMAT csv)');
CREATE FUNCTION differing(names text[], options text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	result text[];
BEGIN
	PERFORM set_config(split_part(n, '=', 1), split_part(n, '=', 2), true) FROM unnest(names) n;
	SELECT array_agg(attname) INTO result FROM pg_attribute
	WHERE attrelid = 'types_plain'::regclass AND attnum > 0
		AND lines(format('types_plain (%I)', attname), options) <> lines(format('types (%I)', attname), options);
	RETURN result;
END $$;
BEGIN;
SELECT options, differing(names, options) FROM settings;
ROLLBACK;
-- Binary.
CREATE FUNCTION binary_differs(attname name) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('COPY types (%I) TO %L (FORMAT binary)', attname, current_setting('copy_to.path'));
	EXECUTE format('CREATE TEMP TABLE again AS SELECT %I AS value FROM types_plain LIMIT 0', attname);
	EXECUTE format('COPY again FROM %L (FORMAT binary)', current_setting('copy_to.path'));
	EXECUTE format('SELECT count(*) FROM ((SELECT value::text FROM again EXCEPT ALL SELECT %1$I::text FROM types_plain)
		UNION ALL (SELECT %1$I::text FROM types_plain EXCEPT ALL SELECT value::text FROM again)) d', attname) INTO n;
	DROP TABLE again;
	RETURN n > 0;
END $$;
SELECT array_agg(attname) AS differ FROM pg_attribute
WHERE attrelid = 'types_plain'::regclass AND attnum > 0 AND binary_differs(attname);

--
-- Numbers of rows around the sizes of buffers: lines of 64 bytes, and long ones.
--
CREATE TABLE sizes_plain (id int, v text);
CREATE TABLE sizes (LIKE sizes_plain);
SELECT shardfdw.shard_table('sizes', 'id', shards => 1) \g /dev/null
CREATE FUNCTION fill(nrows int, linelen int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE sizes, sizes_plain;
	INSERT INTO sizes_plain SELECT 100000 + g, repeat(chr(97 + g % 26), linelen - 8) FROM generate_series(1, nrows) g;
	INSERT INTO sizes SELECT * FROM sizes_plain;
	RETURN true;
END $$;
SELECT n, len FROM (VALUES (0, 64), (1, 64), (127, 64), (128, 64), (129, 64), (255, 64), (256, 64), (257, 64), (1023, 64), (1024, 64), (1025, 64), (2048, 64),
	(9999, 64), (1, 8191), (1, 8192), (1, 8193), (8, 8192), (9, 8192), (1, 65535), (1, 65536), (1, 65537), (2, 65536), (3, 131072), (5, 65535), (5, 100000), (1, 1000000)) x (n, len)
WHERE fill(n, len) AND (tag('sizes') <> n OR difference('sizes_plain', 'sizes', '') <> 'same' OR
	difference('sizes_plain', 'sizes', '(FORMAT csv, HEADER)') <> 'same' OR
	tag('sizes', '(FORMAT binary)') <> n OR reloaded('sizes_plain', '(FORMAT binary)') <> 0);

--
-- What core refuses
--
CREATE TABLE refused_plain (k int, v text, g int GENERATED ALWAYS AS (k) STORED);
CREATE TABLE refused (k int, v text, g int GENERATED ALWAYS AS (k) STORED);
SELECT shardfdw.shard_table('refused', 'k', shards => 2) \g /dev/null
INSERT INTO refused VALUES (1, 'one');
INSERT INTO refused_plain VALUES (1, 'one');
CREATE FUNCTION failure(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE 'COPY ' || target;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN replace(concat_ws(' | ', SQLSTATE, message, detail, hint), '_plain', '');
END $$;
CREATE TABLE failures (what text);
-- (Programs read all: core reports one that ends before by its exit status or by the broken pipe, as it comes.)
INSERT INTO failures VALUES ('(g) TO %L'), ('(nope) TO %L'), ('(k, k) TO %L'), ('TO %L (FORMAT nope)'), ('TO %L (nope)'), ('TO %L (FORMAT csv, FORCE_NULL (k))'),
	('TO %L (FORMAT csv, FORCE_NOT_NULL (k))'), ('TO %L (HEADER match)'), ('TO %L (HEADER 2)'), ('TO %L (FORMAT binary, HEADER)'), ('TO %L (FORMAT binary, NULL '''')'), ('TO %L (DELIMITER ''ab'')'),
	('TO %L (DELIMITER ''a'')'), ('TO %L (DELIMITER E''\n'')'), ('TO %L (NULL E''\n'')'), ('TO %L (NULL ''a|'', DELIMITER ''|'')'), ('TO %L (FORMAT csv, QUOTE '','')'), ('TO %L (FORMAT csv, ESCAPE ''ab'')'), ('TO %L (QUOTE ''x'')'),
	('TO %L (FORCE_QUOTE (k))'), ('(k) TO %L (FORMAT csv, FORCE_QUOTE (v))'), ('TO %L (FORMAT csv, FORCE_QUOTE (nope))'), ('TO %L (FORMAT csv, FORCE_QUOTE (k, k))'), ('TO %L (ENCODING ''nope'')'), ('TO %L (FREEZE)'),
	('TO %L (FORMAT csv, FORMAT csv)'), ('TO ''relative'''), ('TO ''/nonexistent/file'''), ('TO ''/'''), ('TO ''/dev/full'''), ('TO PROGRAM ''cat > /dev/null; exit 3'''), ('TO PROGRAM ''cat > /dev/null; kill -9 $$'''),
	('TO PROGRAM ''cat > /dev/null; /nonexistent'''), ('(v) TO %L (FREEZE nope)'), ('TO %L (ON_ERROR ignore)'), ('TO %L (SKIP 3)');
SELECT count(*) AS statements, count(failure('refused ' || format(what, :'path'))) > 30 AS failed FROM failures;
SELECT what, failure('refused ' || format(what, :'path')), failure('refused_plain ' || format(what, :'path')) FROM failures
WHERE failure('refused ' || format(what, :'path')) IS DISTINCT FROM failure('refused_plain ' || format(what, :'path'));
-- Rights.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_copy_to;
RESET client_min_messages;
CREATE ROLE regress_copy_to;
GRANT USAGE ON SCHEMA copy_to TO regress_copy_to;
SET ROLE regress_copy_to;
COPY refused TO STDOUT;
RESET ROLE;
GRANT SELECT (v) ON refused TO regress_copy_to;
SET ROLE regress_copy_to;
COPY refused TO STDOUT;
COPY refused (k) TO STDOUT;
\set VERBOSITY sqlstate
COPY refused (v) TO '/tmp/copy_to';
COPY refused (v) TO PROGRAM 'true';
\set VERBOSITY default
RESET ROLE;

--
-- Transactions
--
BEGIN;
INSERT INTO refused SELECT g, 'mine' FROM generate_series(2, 20) g;
SELECT tag('refused'), lines('refused') = array(SELECT k || E'\t' || v FROM refused UNION ALL SELECT '' ORDER BY 1) AS "own writes";
SAVEPOINT a;
DELETE FROM refused WHERE k > 10;
SELECT tag('refused');
ROLLBACK TO a;
SELECT tag('refused');
DECLARE c CURSOR FOR SELECT k FROM refused;
FETCH 0 FROM c;
SELECT tag('refused', '(FORMAT binary)');
ROLLBACK;
SELECT tag('refused');
SET default_transaction_read_only = on;
SELECT tag('refused');
RESET default_transaction_read_only;
-- One connection, taken by a cursor: its rows are put aside.
SET shardfdw.max_connections_per_node = 1;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM sharded;
FETCH FORWARD 1 FROM c \g /dev/null
SELECT tag('sharded'), lines('plain') = lines('sharded') AS same;
MOVE FORWARD ALL FROM c;
COMMIT;
RESET shardfdw.max_connections_per_node;

--
-- Queries: shards write the result where it is theirs, one after the other.
--
CREATE FUNCTION same(query text, options text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	header bool := options LIKE '%HEADER%';
	p text := replace(query, '{t}', 'plain');
	s text := replace(query, '{t}', 'sharded');
BEGIN
	RETURN CASE WHEN lines(p, options, header) <> lines(s, options, header) THEN 'other lines'
		WHEN tag(p, options) <> tag(s, options) THEN 'other rows' ELSE 'same, ' || tag(s, options) || ' rows' END;
END $$;
-- (t/copy_to.pl looks at who writes.)
CREATE TABLE queries (query text);
INSERT INTO queries VALUES
	('(SELECT * FROM {t})'), ('(TABLE {t})'), ('(SELECT id, a FROM {t} WHERE id % 3 = 0)'), ('(SELECT a, id, a AS again, id FROM {t} AS x WHERE c > a)'),
	('(SELECT "b,""B", length(c) + 1, upper(a) AS a FROM {t} WHERE a IS NOT NULL)'), ('(SELECT * FROM {t} WHERE id = 17)'), ('(SELECT c FROM {t} WHERE id IN (1, 2, 30, NULL))'),
	('(SELECT x.id, y.c, y.a FROM {t} AS x JOIN {t} AS y USING (id) WHERE x.a <> y.a OR x.id > 100)'), ('(SELECT id, count(*), max(c) FROM {t} GROUP BY id)'), ('(SELECT DISTINCT id, a FROM {t})'),
	('(SELECT id FROM {t} WHERE id > (SELECT avg(id) FROM {t}))'), ('(SELECT id FROM {t} WHERE id = (SELECT max(id) FROM {t}))'), ('(SELECT id FROM {t} WHERE now() > ''2000-01-01''::timestamptz + id * interval ''1 day'')'),
	('(SELECT id, a FROM {t} WHERE a = current_setting(''copy_to.path'') OR id < 9)'), ('(WITH w AS (SELECT id AS k, c FROM {t}) SELECT c, k FROM w WHERE k < 50)'), ('(SELECT id FROM {t} x WHERE NOT EXISTS (SELECT FROM {t} y WHERE y.id = x.id AND y.a IS NULL))'),
	('(SELECT id, row_number() OVER (PARTITION BY id ORDER BY a) FROM {t})'), ('(SELECT id FROM {t} WHERE a = ''it''''s'' OR a = E''\\\\'' OR a = ''"'')'), ('(SELECT id, NULLIF(a, '''') AS "NULLIF" FROM {t})'),
	('(SELECT id FROM {t} ORDER BY id)'), ('(SELECT id FROM {t} ORDER BY a, id LIMIT 5)'), ('(SELECT a, count(*) FROM {t} GROUP BY a)'), ('(SELECT count(*) FROM {t})'), ('(SELECT id, 1 FROM {t})'),
	('(SELECT id, random() < 2 FROM {t})'), ('(SELECT id FROM {t} WHERE random() < 2)'), ('(SELECT id FROM {t} UNION ALL SELECT -id FROM {t})'), ('(SELECT t FROM {t} AS t)'), ('(SELECT id, ctid IS NULL FROM {t})'),
	('(SELECT id FROM {t} WHERE false)'), ('(SELECT x.id FROM {t} AS x JOIN odd ON odd.value = x.a)'), ('(SELECT x.id FROM {t} AS x JOIN {t} AS y ON x.id = y.id + 1)'), ('(SELECT FROM {t})'),
	('(SELECT id FROM {t} FOR UPDATE)'), ('(SELECT id, id::oid::regclass FROM {t})'), ('(SELECT id, (SELECT count(*) FROM odd) FROM {t})');
SELECT query, same(query), same(query, '(FORMAT csv, HEADER, FORCE_QUOTE *)') AS csv FROM queries;
-- Sub-selects are evaluated once, whoever writes.
CREATE SEQUENCE asked;
SELECT tag('(SELECT id FROM sharded WHERE id < (SELECT nextval(''asked'') * 9))'), tag('(SELECT sharded FROM sharded WHERE id < (SELECT nextval(''asked'') * 9))'),
	tag('(SELECT id FROM sharded WHERE id < (SELECT nextval(''asked'') * 9))', '(FORMAT binary)'), currval('asked');
-- Options belong to the columns of the result.
COPY (SELECT id AS "Key", id * 2 AS "twice,", a AS "Key" FROM sharded WHERE id = 2) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE ("twice,", "Key"));
COPY (SELECT id, a FROM sharded WHERE id = -1) TO STDOUT (HEADER);
-- What core refuses.
CREATE TABLE query_failures (what text);
INSERT INTO query_failures VALUES ('(SELECT id FROM {t}) TO %L (FORMAT csv, FORCE_QUOTE (a))'), ('(SELECT id FROM {t}) TO %L (FORMAT csv, FORCE_QUOTE (id, id))'), ('(SELECT nope FROM {t}) TO %L'), ('(SELECT id FROM {t}, nope) TO %L'),
	('(SELECT id FROM {t}) TO %L (FORMAT nope)'), ('(SELECT id FROM {t}) TO %L (DELIMITER ''ab'')'), ('(SELECT id INTO x FROM {t}) TO %L'), ('(SELECT id FROM {t}) TO ''relative'''), ('(SELECT id FROM {t}) TO ''/nonexistent/file'''),
	('(SELECT id FROM {t}) TO PROGRAM ''cat > /dev/null; exit 3'''), ('(SELECT 1 / (id - 5) FROM {t}) TO %L'), ('(SELECT id FROM {t}) FROM %L');
SELECT what, failure(format(replace(what, '{t}', 'sharded'), :'path')) FROM query_failures
WHERE split_part(failure(format(replace(what, '{t}', 'sharded'), :'path')), ' | ', 2) IS DISTINCT FROM split_part(failure(format(replace(what, '{t}', 'plain'), :'path')), ' | ', 2);
SELECT count(failure(format(replace(what, '{t}', 'sharded'), :'path'))) AS failed, count(*) FROM query_failures;
-- Rights, row security.
SET ROLE regress_copy_to;
COPY (SELECT v FROM refused) TO STDOUT;
COPY (SELECT k FROM refused) TO STDOUT;
RESET ROLE;
CREATE TABLE secret (k int, v text);
SELECT shardfdw.shard_table('secret', 'k', shards => 2) \g /dev/null
INSERT INTO secret VALUES (1, 'public'), (2, 'secret');
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY public ON secret USING (v = 'public');
GRANT SELECT ON secret TO regress_copy_to;
DO $$
DECLARE
	node name;
BEGIN
	FOR node IN SELECT n.node FROM shardfdw.nodes n LOOP
		EXECUTE format('CREATE USER MAPPING FOR regress_copy_to SERVER %I OPTIONS (user %L, password_required ''false'')', node, current_user);
	END LOOP;
END $$;
SET ROLE regress_copy_to;
COPY (SELECT v FROM refused) TO STDOUT;
COPY (SELECT * FROM secret) TO STDOUT;
COPY (SELECT v FROM secret WHERE k > 0) TO STDOUT;
RESET ROLE;
COPY (SELECT * FROM secret WHERE k = 2) TO STDOUT;
-- Own writes; functions, prepared by their language.
BEGIN;
INSERT INTO sharded VALUES (-1, 'mine'), (-2, 'mine'), (-3, 'mine');
SELECT tag('(SELECT a FROM sharded WHERE id < 0)'), tag('(SELECT * FROM sharded)');
ROLLBACK;
SELECT tag('(SELECT a FROM sharded WHERE id < 0)');
CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 2 LOOP
		COPY (SELECT id FROM copy_to.sharded WHERE id < 4) TO '/dev/null';
	END LOOP;
END $$;
CALL twice();

-- a table of two levels
CREATE TABLE months (gone int, at date NOT NULL, d int, w text) PARTITION BY RANGE (at);
CREATE TABLE months_1 PARTITION OF months FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (d);
SELECT shardfdw.shard_table('months_1', shards => 3) \g /dev/null
ALTER TABLE months DROP COLUMN gone;
SELECT count(*) FROM shardfdw.create_time_partitions('months', '1 month', '2026-04-01');
CREATE TABLE plain_months (LIKE months);
INSERT INTO plain_months SELECT date '2026-01-01' + i % 90, i % 17, CASE WHEN i % 9 > 0 THEN E'\t"' || i END FROM generate_series(1, 500) i;
INSERT INTO months TABLE plain_months;
SELECT difference('plain_months', 'months', o) FROM unnest(ARRAY['', '(FORMAT csv, HEADER)', '(DELIMITER '';'', NULL ''none'')']) o;
SET client_min_messages = debug1;
SELECT tag('months (w, at)'), tag('(SELECT w FROM months WHERE d = 3 AND at >= ''2026-02-01'')');
RESET client_min_messages;
BEGIN;
DELETE FROM months WHERE at < '2026-02-01' OR d = 3; DELETE FROM plain_months WHERE at < '2026-02-01' OR d = 3;
SELECT difference('plain_months', 'months', '');
ROLLBACK;

SELECT set_config('copy_to.command', format('cat > /dev/null; rm -f %L', :'path'), false) \g /dev/null
DO $$BEGIN EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', current_setting('copy_to.command')); END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY regress_copy_to') WHERE NOT ok;
DROP OWNED BY regress_copy_to;
DROP ROLE regress_copy_to;
SET client_min_messages = warning;
DROP SCHEMA copy_to CASCADE;
