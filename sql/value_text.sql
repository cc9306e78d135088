-- Values that travel as text (composites, ranges of one's own, whole rows) are exact whatever the user's styles
-- of dates, intervals and numbers are, and casts to text that nodes compute follow them.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA value_text;
SET search_path = value_text;
CREATE DOMAIN moment AS timestamptz;
CREATE TYPE parts AS (t timestamptz, d date, i interval, f float8, ta timestamptz[], r tstzrange, m money, dm moment);
CREATE TYPE timerange AS RANGE (subtype = timetz);
CREATE TABLE plain (k int, d date, ts timestamp, tz timestamptz, ti time, ttz timetz, i interval, f float8, m money,
	b bytea, da date[], y timestamptz[], ia interval[], r tstzrange, mr tstzmultirange, ra tstzrange[],
	c parts, ca parts[], dm moment, dma moment[], tr timerange);
CREATE TABLE w2 (LIKE plain, UNIQUE (k));
CREATE TABLE ref (LIKE plain, PRIMARY KEY (k));
SELECT shardfdw.shard_table('w2', 'k', shards => 4);
SELECT shardfdw.create_reference_table('ref');
SET timezone = 'UTC';
INSERT INTO plain SELECT n, d, d + time '01:02:03.123456', z, '23:59:59.5', '12:00:00.25+05:30', i, f, n::numeric::money,
	'\x00ff5c22', ARRAY[d, 'infinity', NULL], ARRAY[z, '-infinity', z - i], ARRAY[i, -i, NULL],
	tstzrange(z, z + interval '400 days'), tstzmultirange(tstzrange(z - interval '5 days', z), tstzrange(z + interval '30 days', NULL)),
	ARRAY[tstzrange(z, NULL), NULL, 'empty'], ROW(z, d, i, f, ARRAY[z], tstzrange(NULL, z), n::numeric::money, z)::parts,
	ARRAY[ROW(z, d, -i, f, ARRAY[z, NULL], tstzrange(z, z, '[]'), NULL, z)::parts, NULL],
	z, ARRAY[z::moment], timerange(NULL, '10:00:00+08'::timetz)
FROM (VALUES (1, date '2024-07-05', timestamptz '2024-07-05 12:34:56.789012+00', interval '1 year -2 mons 3 days -04:05:06.789', 0.1::float8 + 0.2),
	(2, '1890-12-31', '1890-01-02 00:00:00+00', '-1 days -2 hours', 1e-300),
	(3, '0044-03-15 BC', '0044-03-15 10:00:00 BC', '-1 mons +1 day', 'NaN'),
	(4, 'infinity', '2024-11-03 05:30:00+00', '3 hours', 'infinity'),
	(5, '-infinity', '2024-11-03 06:30:00+00', '0', 1.0::float8 / 3),
	(6, '12024-02-03', '1999-01-02 03:04:05.000001+00', '-10 years -11 mons', 123456789.123456789)) v(n, d, z, i, f);
CREATE FUNCTION differ(zone text, style text, intervals text, digits text, OUT path text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	command text;
	differs boolean;
BEGIN
	PERFORM set_config('timezone', zone, false), set_config('datestyle', style, false),
		set_config('intervalstyle', intervals, false), set_config('extra_float_digits', digits, false);
	FOR path, command IN VALUES
		('INSERT SELECT', 'TRUNCATE w2; INSERT INTO w2 SELECT * FROM plain; INSERT INTO x SELECT * FROM w2'),
		('whole row', 'INSERT INTO x SELECT (w).* FROM (SELECT w2 AS w FROM w2 OFFSET 0) s'),
		('outer join', 'INSERT INTO x SELECT (w).* FROM (SELECT w2 AS w FROM ref RIGHT JOIN w2 USING (k) OFFSET 0) s'),
		('array_agg', 'INSERT INTO x SELECT (w).* FROM (SELECT unnest(array_agg(w2)) AS w FROM w2) s'),
		('casts and rows', 'INSERT INTO x SELECT (w).* FROM (SELECT w2 AS w, tz::text AS t FROM w2 WHERE d::text <> i::text OFFSET 0) s
			WHERE EXISTS (SELECT FROM plain WHERE k = (w).k AND tz::text = t)'),
		('casts and parts', 'INSERT INTO x SELECT p.* FROM plain p JOIN (SELECT k, c, ca, tr, d::text || ts || tz || i || f t FROM w2) s
			ON s.k = p.k AND (s.c, s.ca, s.tr) IS NOT DISTINCT FROM (p.c, p.ca, p.tr) AND s.t = p.d::text || p.ts || p.tz || p.i || p.f'),
		('casts', 'INSERT INTO x SELECT p.* FROM plain p JOIN (SELECT k, d::text || ts::text || tz::text || i::text || f::text t FROM w2 GROUP BY 1, 2) s
			ON s.k = p.k AND s.t = p.d::text || p.ts::text || p.tz::text || p.i::text || p.f::text'),
		('one shard', 'INSERT INTO x SELECT * FROM (SELECT * FROM w2 WHERE k = 1 AND tz::text <> i::text) q UNION ALL SELECT * FROM w2 WHERE k > 1'),
		('sub-select', 'INSERT INTO x SELECT (a).* FROM (SELECT w2 AS a, s.t FROM w2 JOIN (SELECT k, tz::text t, count(*) FROM w2 GROUP BY 1, 2) s USING (k) OFFSET 0) q
			WHERE EXISTS (SELECT FROM plain WHERE k = (a).k AND tz::text = t)'),
		('key join', 'INSERT INTO x SELECT w2.* FROM w2 JOIN plain p ON p.tz = w2.tz AND p.i = w2.i AND p.d = w2.d'),
		('UPDATE RETURNING', 'WITH u AS (UPDATE w2 SET b = b WHERE tz::text IS NOT NULL RETURNING *) INSERT INTO x SELECT * FROM u'),
		('UPDATE by rows', 'UPDATE w2 SET c = p.c, y = p.y, ca = p.ca, tr = p.tr FROM (SELECT * FROM plain OFFSET 0) p WHERE p.k = w2.k;
			INSERT INTO x SELECT * FROM w2'),
		('DELETE RETURNING', 'WITH u AS (DELETE FROM w2 RETURNING *) INSERT INTO x SELECT * FROM u'),
		('INSERT RETURNING', 'WITH u AS (INSERT INTO w2 SELECT * FROM plain RETURNING *) INSERT INTO x SELECT * FROM u'),
		('ON CONFLICT', 'WITH u AS (INSERT INTO w2 SELECT * FROM plain ON CONFLICT (k) DO UPDATE
			SET c = excluded.c, y = excluded.y, ca = w2.ca, i = excluded.i, tr = excluded.tr RETURNING *) INSERT INTO x SELECT * FROM u'),
		('MERGE', 'MERGE INTO w2 USING plain p ON w2.k = p.k WHEN MATCHED THEN UPDATE SET c = p.c, ca = p.ca, y = p.y, tr = p.tr, dma = p.dma;
			INSERT INTO x SELECT * FROM w2'),
		('ANALYZE', 'ANALYZE w2; INSERT INTO x SELECT * FROM w2'),
		('reference table', 'TRUNCATE ref; INSERT INTO ref SELECT * FROM plain; UPDATE ref SET b = b; INSERT INTO x SELECT ref.* FROM ref JOIN w2 USING (k)')
	LOOP
		CREATE TEMP TABLE x AS SELECT * FROM plain WHERE false;
		EXECUTE command;
		EXECUTE 'SELECT EXISTS (TABLE x EXCEPT TABLE plain) OR EXISTS (TABLE plain EXCEPT TABLE x)' INTO differs;
		DROP TABLE x;
		IF differs THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END
$$;
SELECT * FROM differ('UTC', 'ISO, MDY', 'postgres', '1');
SELECT * FROM differ('Asia/Shanghai', 'SQL, DMY', 'sql_standard', '1');
SELECT * FROM differ('America/New_York', 'Postgres, MDY', 'iso_8601', '0');
SELECT * FROM differ('Europe/Amsterdam', 'German', 'postgres_verbose', '-15');
SELECT * FROM differ('<+05>-05:43', 'ISO, DMY', 'iso_8601', '1');
-- the user's style in text that nodes make, the portable one for what is read here; not both in one query
SET timezone = 'Asia/Shanghai';
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'iso_8601';
SET extra_float_digits = 1;
SELECT (w).y, (w).r, (w).c.t, y FROM (SELECT w2 AS w, y FROM w2 OFFSET 0) s WHERE (w).k = 1;
SELECT k, tz::text, i::text FROM w2 WHERE tz::text LIKE '05/07/2024%';
SELECT (c).t, (c).ta FROM w2 WHERE tz::text LIKE '05/07/2024%';
EXPLAIN (VERBOSE, COSTS OFF) SELECT k FROM w2 WHERE tz::text LIKE '05/07/2024%';
EXPLAIN (VERBOSE, COSTS OFF) SELECT k, c FROM w2 WHERE tz::text LIKE '05/07/2024%';
RESET datestyle;
RESET intervalstyle;
-- arrays whose NULL is a word, and xml
SET array_nulls = off;
SELECT ca[2] IS NULL FROM w2 WHERE k = 1;
SELECT count(*) > 0 FROM shardfdw.check_cluster();
RESET array_nulls;
CREATE TABLE x1 (k int, x xml, xa xml[], n text);
CREATE TABLE x2 (LIKE x1);
SELECT shardfdw.shard_table('x1', 'k', shards => 2);
INSERT INTO x2 VALUES (1, '<?xml version="1.0" encoding="latin1"?><a/>', ARRAY['<?xml version="1.0" encoding="latin1"?><b>"</b>'::xml, NULL], 'one'),
	(2, 'text<a/>', '{}', 'a fragment'), (3, '<?xml version="1.0" standalone="yes"?><a/>', NULL, 'declared'), (4, '', '{"",x}', 'empty');
INSERT INTO x1 VALUES (1, '<?xml version="1.0" encoding="latin1"?><a/>', ARRAY['<?xml version="1.0" encoding="latin1"?><b>"</b>'::xml, NULL], 'one');
SET xmloption = document;
INSERT INTO x1 SELECT * FROM x2 WHERE k > 1;
SELECT k, x::text, x, xa, xa::text[] AS texts FROM x1 ORDER BY k;
SELECT k, x::text, x, xa, xa::text[] AS texts FROM x2 ORDER BY k;
SELECT k, (w).x::text, (w).xa::text[] FROM (SELECT k, x1 AS w FROM x1 OFFSET 0) s ORDER BY k;
UPDATE x1 SET x = p.x, xa = p.xa FROM (SELECT * FROM x2 OFFSET 0) p WHERE p.k = x1.k RETURNING p.k = x1.k AND p.x::text = x1.x::text AS same;
SELECT k FROM x1 WHERE x::text LIKE '%latin1%';
RESET xmloption;
TRUNCATE x1;
COPY x1 FROM stdin;
1	<?xml version="1.0" encoding="latin1"?><a/>	\N	raw
\.
COPY x1 FROM stdin WHERE k > 0;
2	<?xml version="1.0" encoding="latin1"?><a/>	\N	parsed
\.
SELECT k, x::text, n FROM x1 ORDER BY k;
-- empty ones have a binary form that cannot be read
CREATE TABLE vectors (k int PRIMARY KEY, i int2vector, o oidvector);
SELECT shardfdw.shard_table('vectors', 'k', shards => 4);
INSERT INTO vectors VALUES (1, '', '1 2'), (2, '3 4', ''), (3, NULL, NULL);
INSERT INTO vectors SELECT k + 10, i, o FROM vectors;
SELECT * FROM vectors ORDER BY k;
\c -
SET client_min_messages = error;
DROP SCHEMA value_text CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA value_text CASCADE');
