-- INSERT, UPDATE and DELETE, of all types; triggers.
--
-- Everything printed, errors as SQLSTATE included, is what plain tables give: t/write_plain.pl runs this
-- on both, with several settings. Here it runs on tables of 7 shards, made by sql/diff/write_tables.sql.
\if :{?schema}
\else
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\o /dev/null
\set f :dir '/setup.sql'
\i :f
SET client_min_messages = warning;
\set f :dir '/write_tables.sql'
\set schema write_rows
\set shards 7
\i :f
\o
\set VERBOSITY sqlstate
SET TimeZone = 'Europe/Berlin';
SET DateStyle = 'ISO, MDY';
SET IntervalStyle = postgres;
SET search_path = write_rows, diff;
\set ECHO all
\endif

-- INSERT
INSERT INTO acc VALUES (1, 10, 'one', 1.25, '2024-05-05 12:00+02');
INSERT INTO acc (id, v) VALUES (2, 20), (3, 30), (4, NULL), (5, 50);
INSERT INTO acc (id, v, t) VALUES (6, 60, DEFAULT), (7, 70, 'quo''te\n'), (8, 80, NULL) RETURNING id, v, t, n;
INSERT INTO acc (id) SELECT g FROM generate_series(101, 400) g;
INSERT INTO acc (id, v, t) SELECT id + 1000, v, t FROM src RETURNING id;
INSERT INTO acc (id, v) SELECT id + 5000, v FROM acc WHERE id < 10;
INSERT INTO acc (id, v) VALUES (9, 90) RETURNING *;
INSERT INTO acc (id, v) SELECT 1, 1 WHERE false;
INSERT INTO acc (id, v) VALUES (10, -1);
INSERT INTO acc (id, v) VALUES (3, 1);
INSERT INTO acc (id, v, n) VALUES (11, 1, NULL);
INSERT INTO acc (id, v, n) VALUES (11, 1, 123456789.00);
INSERT INTO acc (v) VALUES (1);
INSERT INTO acc (id, v) SELECT g, 11000 - g FROM generate_series(10001, 10500) g;
INSERT INTO acc (id, v) SELECT 100000 + g % 300, g FROM generate_series(1, 400) g;
INSERT INTO acc (id, v) VALUES (3, 33), (12, 12) ON CONFLICT DO NOTHING;
INSERT INTO acc (id, v) VALUES (3, 33), (14, 14) ON CONFLICT DO NOTHING RETURNING id;
WITH x AS (INSERT INTO acc (id, v) VALUES (15, 15), (16, 16) RETURNING id, v) SELECT sum(v), count(*) FROM x;
INSERT INTO parts VALUES ('2024-01-05', 1, 'a'), ('2024-02-05', 2, 'b'), ('2024-02-29', 3, 'c');
INSERT INTO parts VALUES ('2024-01-06', 4, 'd'), ('2025-01-01', 5, 'nowhere');
INSERT INTO parts VALUES (NULL, 6, 'e');
SELECT * FROM acc WHERE id < 30 OR id % 100 = 7 ORDER BY id;
SELECT count(*), md5(string_agg(acc::text, ' ' ORDER BY id)) FROM acc;
SELECT * FROM parts ORDER BY d;
INSERT INTO auto (v) VALUES (1), (2) RETURNING *;
INSERT INTO auto DEFAULT VALUES RETURNING *;
INSERT INTO auto (v) SELECT id FROM src ORDER BY id;
INSERT INTO auto (v, twice) VALUES (1, 3);
INSERT INTO auto (v, ident) VALUES (1, 3);
INSERT INTO auto (v, ident) OVERRIDING SYSTEM VALUE VALUES (1, 3000) RETURNING *;
INSERT INTO auto (id, v, made) VALUES (7000, 7, DEFAULT), (DEFAULT, 8, 'x');
SELECT * FROM auto ORDER BY id;
PREPARE ins (bigint, int, text) AS INSERT INTO acc (id, v, t) VALUES ($1, $2, $3) RETURNING id, t;
EXECUTE ins (20, 1, 'prepared');
EXECUTE ins (21, NULL, NULL);
EXECUTE ins (22, -5, 'x');
EXECUTE ins (23, 5, 'again');
DEALLOCATE ins;

-- UPDATE
UPDATE acc SET v = v + 1 WHERE id = 1;
UPDATE acc SET v = v + 1 WHERE id = 1 RETURNING id, v;
UPDATE acc SET v = v * 2, t = t || '!' WHERE id BETWEEN 2 AND 8;
UPDATE acc SET t = 'all' WHERE id > 100 AND id < 400;
UPDATE acc SET v = -1 WHERE id = 2;
UPDATE acc SET n = NULL WHERE id = 2;
UPDATE acc SET v = 100 - id WHERE id BETWEEN 101 AND 110;
UPDATE acc SET v = src.v FROM src WHERE src.id + 1000 = acc.id AND src.v > 50;
WITH x AS (UPDATE acc SET t = src.t FROM src WHERE src.id = acc.id RETURNING acc.id, src.v, acc.t) SELECT * FROM x ORDER BY id;
UPDATE acc SET v = (SELECT max(v) FROM src) WHERE id = (SELECT min(id) FROM acc);
UPDATE acc SET v = (SELECT count(*) FROM acc b WHERE b.id < acc.id) WHERE id < 8;
UPDATE acc SET v = 1 WHERE id IN (SELECT id FROM src WHERE v > 150);
UPDATE acc SET (v, t) = (SELECT v, t FROM src WHERE src.id = acc.id) WHERE id < 4;
UPDATE acc SET t = DEFAULT, n = DEFAULT WHERE id = 5 RETURNING *;
UPDATE acc SET at = at + interval '1 day', t = upper(t) WHERE at > '2024-03-01';
UPDATE acc SET v = 5 WHERE false;
UPDATE acc SET v = 5 WHERE id = -77;
UPDATE acc a SET v = b.v FROM acc b WHERE b.id = a.id - 1 AND a.id BETWEEN 10002 AND 10010;
UPDATE auto SET v = v + 1 WHERE id < 5;
UPDATE auto SET twice = 1;
UPDATE parts SET v = v + 100 WHERE d > '2024-02-01';
UPDATE parts SET t = t || v;
PREPARE upd (bigint, int) AS UPDATE acc SET v = $2 WHERE id = $1 RETURNING id, v, t;
EXECUTE upd (1, 77);
EXECUTE upd (1, NULL);
EXECUTE upd (-1, 5);
EXECUTE upd (6, -5);
DEALLOCATE upd;
UPDATE wide SET t = 'none';
SELECT * FROM acc WHERE id < 30 OR id % 100 = 7 ORDER BY id;
SELECT count(*), md5(string_agg(acc::text, ' ' ORDER BY id)) FROM acc;
SELECT * FROM auto ORDER BY id;
SELECT * FROM parts ORDER BY d;

-- DELETE
DELETE FROM acc WHERE id = 1;
DELETE FROM acc WHERE id = 2 RETURNING id, v, t;
DELETE FROM acc WHERE id BETWEEN 200 AND 260;
DELETE FROM acc WHERE id = -5;
DELETE FROM acc USING src WHERE src.id + 1000 = acc.id AND src.id < 4;
WITH x AS (DELETE FROM acc WHERE id BETWEEN 1005 AND 1008 RETURNING *) SELECT id, v, t FROM x ORDER BY id;
DELETE FROM acc WHERE id IN (SELECT id FROM src WHERE v = 50) RETURNING id;
DELETE FROM acc a WHERE EXISTS (SELECT FROM acc b WHERE b.id = a.id + 1 AND b.id BETWEEN 10100 AND 10120);
DELETE FROM acc WHERE t = 'all' AND v IS NULL AND id % 2 = 0;
SELECT count(*), sum(id), sum(v) FROM acc;
DELETE FROM parts WHERE d < '2024-02-10';
SELECT * FROM parts;
WITH moved AS (DELETE FROM acc WHERE id > 10400 RETURNING *) INSERT INTO acc (id, v, t) SELECT id + 100000, v, 'moved' FROM moved;
SELECT count(*), min(id), max(id) FROM acc WHERE t = 'moved';

-- Triggers
INSERT INTO trig VALUES (1, 10), (2, 13), (3, 30);
INSERT INTO trig SELECT g, g FROM generate_series(4, 8) g;
UPDATE trig SET v = v + 1 WHERE id < 4;
UPDATE trig SET note = 'set' WHERE id = 5 RETURNING *;
DELETE FROM trig WHERE id > 6;
SELECT * FROM trig ORDER BY id;
SELECT * FROM trace ORDER BY what, id, v;
TRUNCATE trace;

-- All types by INSERT
INSERT INTO wide VALUES (1, 1, 2, 'NaN', 'Infinity', '-0', E'a\tb\n\\', 'ab', '', true, 'infinity', '0044-03-15 BC', '-infinity', '1 mon -3 days', md5('1')::uuid,
	'{"a": [1, "\u00e9"]}', '{"",NULL,"x\"y"}', 'o''k', 5, ROW(1, NULL), '[1,5)'), (3, 3, 3, 1e50, 1e-40, 1e-320, '', '', '\x00', false, '2024-02-29', '2024-02-29 12:00:00.000001',
	'2024-02-29 12:00+05', '-178000000 years', md5('2')::uuid, 'null', '{}', 'sad', 1, ROW(NULL, 'x'), 'empty');
INSERT INTO wide (id) VALUES (2);
INSERT INTO wide (id, dom) VALUES (4, 0);
INSERT INTO wide (id, t) SELECT g, repeat('long ', g * 100) FROM generate_series(10, 60) g;
UPDATE wide SET e = 'happy', a = a || 'more'::text, cmp.b = 'set', n = n + 1, bt = bt || '\x5c', r = '[2,3]' WHERE id = 1;
SELECT * FROM wide WHERE id < 10 ORDER BY id;
SELECT count(*), sum(length(t)), md5(string_agg(t, '' ORDER BY id)) FROM wide;
DELETE FROM wide WHERE length(t) > 1000;
SELECT count(*) FROM wide;
