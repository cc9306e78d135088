-- write_copy.sql - COPY FROM in every format, with and without options, its errors, and COPY TO
--
-- Runs with the tables of write_tables.sql; its output, errors as SQLSTATE included, is the same for
-- plain and sharded tables. :tmp is a folder for files.

TRUNCATE acc, wide, parts;
TRUNCATE auto, trig RESTART IDENTITY;
COPY acc (id, v, t) FROM stdin;
1	10	one
2	\N	tab\there
3	30	back\\slash\nline
4	40	\\N
5	50	
6	60	"quoted" 'x' żółw
\.
COPY acc FROM stdin;
7	70	all	2.50	2024-03-10 12:00:00+01
8	\N	\N	0	\N
\.
COPY acc (t, id, v) FROM stdin WITH (FORMAT csv);
"a ""quoted"" word",11,1
"line
feed",12,2
,13,3
"",14,
"\N",15,5
\.
COPY acc (id, v, t) FROM stdin (FORMAT csv, HEADER, DELIMITER ';', QUOTE '''', ESCAPE '\', NULL 'nix', FORCE_NOT_NULL (t));
id;v;t
21;1;'it\'s'
22;nix;nix
23;3;
24;4;'nix'
\.
COPY acc (id, v, t) FROM stdin (DELIMITER '|', NULL '-', HEADER);
head|er|line
31|-|a\|b
32|2|-
33|3|
\.
COPY acc (id, v) FROM stdin WHERE v > 5 AND id < 45;
41	1
42	6
43	7
45	9
\.
COPY acc (id, v) FROM stdin;
\.
COPY auto (v) FROM stdin;
5
6
\N
\.
COPY auto FROM stdin (FORMAT csv);
900,7,500,made here
\.
COPY parts FROM stdin (FORMAT csv);
2024-01-31,1,"x"
2024-02-01,2,
\.
COPY trig (id, v) FROM stdin;
1	1
2	13
3	3
\.
SELECT * FROM acc ORDER BY id;
SELECT * FROM auto ORDER BY id;
SELECT * FROM parts ORDER BY d;
SELECT * FROM trig ORDER BY id;
SELECT * FROM trace ORDER BY what, id, v;

-- Errors: nothing of the whole load stays
COPY acc (id, v) FROM stdin;
51	1
52	x
\.
COPY acc (id, v) FROM stdin;
51	1
52	-1
53	1
\.
COPY acc (id, v) FROM stdin;
51	1
1	1
\.
COPY acc (id, v) FROM stdin;
51	1
\N	1
\.
COPY acc (id, v) FROM stdin;
51	1	2
\.
COPY acc (id, v) FROM stdin;
51
\.
COPY acc (id, v, n) FROM stdin;
51	1	\N
\.
COPY acc (id, v, n) FROM stdin;
51	1	99999999999
\.
COPY parts FROM stdin (FORMAT csv);
2024-01-30,1,x
2025-01-30,1,x
\.
COPY parts FROM stdin (FORMAT csv);
,1,x
\.
COPY acc (id, nothing) FROM stdin;
\.
COPY acc (id, v) FROM stdin (FORMAT csv);
51,"unterminated
52,1
\.
COPY auto (twice) FROM stdin;
\.
SELECT count(*) FROM acc WHERE id > 50;
SELECT count(*) FROM parts;

-- In transactions and savepoints, beside other statements
BEGIN;
INSERT INTO acc (id, v) VALUES (61, 1);
COPY acc (id, v) FROM stdin;
62	2
63	3
\.
UPDATE acc SET v = v + 10 WHERE id IN (61, 62, 63);
SAVEPOINT a;
COPY acc (id, v) FROM stdin;
64	4
62	2
\.
ROLLBACK TO a;
COPY acc (id, v) FROM stdin;
65	5
\.
SELECT id, v FROM acc WHERE id BETWEEN 61 AND 69 ORDER BY id;
COMMIT;
BEGIN;
COPY acc (id, v) FROM stdin;
66	6
\.
SELECT count(*) FROM acc WHERE id BETWEEN 61 AND 69;
ROLLBACK;
SELECT id, v FROM acc WHERE id BETWEEN 61 AND 69 ORDER BY id;

-- The session's settings decide how dates and intervals are read
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'America/New_York';
SET IntervalStyle = sql_standard;
COPY wide (id, d, ts, tz, iv) FROM stdin (FORMAT csv);
1,01/02/2026,03/04/2026 05:06,03/04/2026 05:06,-1 2:03:04
\.
INSERT INTO wide (id, d, tz) VALUES (2, '05/06/2026', '05/06/2026 07:08');
SELECT id, d, ts, tz, iv FROM wide ORDER BY id;
RESET DateStyle;
RESET TimeZone;
RESET IntervalStyle;
SELECT id, d, ts, tz AT TIME ZONE 'UTC', iv FROM wide ORDER BY id;
TRUNCATE wide;

-- Empty and hostile bytea, text that looks like markers (R20)
COPY wide (id, bt, t) FROM stdin;
1	\\x	
2	\N	\N
3	\\x5c2e0a0d00	\\.
4	\\000\\\\	\\\\.
\.
COPY wide (id, bt, t) FROM stdin (FORMAT csv);
5,\x,""
6,,
7,"\x5c2e","\.x"
8,"\\x",\N
\.
SELECT id, bt, length(bt), t, length(t) FROM wide ORDER BY id;
\set file :tmp /wide.bin
COPY (SELECT id + 10, bt, t, '{x,NULL}'::text[], 'sad'::diff.mood, ROW(1, 'y')::diff.pair, 1.5::numeric, interval '1 mon' FROM wide ORDER BY id) TO :'file' (FORMAT binary);
COPY wide (id, bt, t, a, e, cmp, n, iv) FROM :'file' (FORMAT binary);
SELECT id, bt, length(bt), t, length(t), a, e, cmp, n, iv FROM wide WHERE id > 10 ORDER BY id;
COPY acc (id, v) FROM :'file' (FORMAT binary);
COPY (SELECT * FROM wide ORDER BY id) TO stdout;
COPY (SELECT * FROM wide ORDER BY id) TO stdout (FORMAT csv, HEADER, FORCE_QUOTE *);
COPY (SELECT * FROM acc WHERE id < 30 ORDER BY id) TO stdout (DELIMITER '|', NULL '');
\set file :tmp /wide.txt
COPY (SELECT id + 100, bt, t, a FROM wide ORDER BY id) TO :'file';
COPY wide (id, bt, t, a) FROM :'file';
SELECT count(*), md5(string_agg(wide::text, ',' ORDER BY id)) FROM wide;

-- Every type of the read tests, through each format
\set file :tmp /types
SET DateStyle = ISO;
COPY diff_plain.types TO :'file' (FORMAT binary);
COPY copy_types FROM :'file' (FORMAT binary);
COPY diff_plain.types TO :'file';
COPY copy_types FROM :'file';
COPY diff_plain.types TO :'file' (FORMAT csv, HEADER);
COPY copy_types FROM :'file' (FORMAT csv, HEADER);
INSERT INTO copy_types SELECT * FROM diff_plain.types;
SELECT id, count(*), count(DISTINCT x::text) FROM copy_types x GROUP BY id ORDER BY id;
SELECT x FROM copy_types x WHERE id % 20 < 2 ORDER BY id, x::text COLLATE "C";
