-- prune.sql - conditions on the shard key

SELECT * FROM facts WHERE id = 77;
SELECT id, t FROM facts WHERE id = 77 OR id = 78;
SELECT id, t FROM facts WHERE id IN (1, 2, 3, 1000, 99999, NULL);
SELECT id FROM facts WHERE id = ANY ('{5,10,15}'::bigint[]);
SELECT id FROM facts WHERE id = ANY (ARRAY[5, 10, NULL]);
SELECT id FROM facts WHERE id = 77::int2;
SELECT id FROM facts WHERE id = 77.0;
SELECT id FROM facts WHERE id = NULL;
SELECT id FROM facts WHERE id IS NULL;
SELECT id FROM facts WHERE id = 10 AND id = 11;
SELECT id FROM facts WHERE id BETWEEN 10 AND 12;
SELECT id FROM facts WHERE id = 10 AND g = 10;
SELECT id FROM facts WHERE (id = 10 AND g = 10) OR (id = 11 AND g = 0);
SELECT id FROM facts WHERE id = (SELECT 12);
SELECT id FROM facts WHERE id = (SELECT max(o_id) FROM orders);
SELECT id FROM facts WHERE id + 0 = 13;
SELECT count(*), sum(i4) FROM facts WHERE id = 100;
SELECT count(*), sum(i4) FROM facts WHERE id = -100;
SELECT * FROM texts WHERE k = '';
SELECT * FROM texts WHERE k = 'it''s1' OR k = 'back\slash2' OR k = '漢0';
SELECT * FROM texts WHERE k IS NULL;
SELECT * FROM texts WHERE k = 'A0' AND v > 5;
SELECT * FROM texts WHERE k COLLATE "C" = 'A0';
SELECT * FROM texts WHERE k = 'a1'::varchar;
SELECT * FROM texts WHERE k LIKE 'a0';
SELECT * FROM chars WHERE k = 'c3';
SELECT * FROM chars WHERE k = 'c3    ';
SELECT * FROM chars WHERE k = 'c3 '::text;
SELECT * FROM numerics WHERE k = 1;
SELECT * FROM numerics WHERE k = 1.000;
SELECT * FROM numerics WHERE k = 0;
SELECT * FROM numerics WHERE k = 'NaN';
SELECT trim_scale(k), count(*) FROM numerics GROUP BY k;
--= zones
SELECT * FROM stamps WHERE k = '2024-03-10 02:30';
--= zones
SELECT * FROM stamps WHERE k = timestamptz '2024-03-10 06:30+00' OR k = '2024-03-11 01:00';
--= zones
SELECT * FROM stamps WHERE k = timestamp '2024-03-10 06:30';
SELECT * FROM moods WHERE k = 'o''k';
SELECT * FROM moods WHERE k > 'sad' OR k IS NULL;
SELECT * FROM uuids WHERE k = md5('7')::uuid;
SELECT * FROM multi WHERE a = 3 AND b = 'b3';
SELECT * FROM multi WHERE a = 3;
SELECT * FROM multi WHERE b = 'b3';
SELECT * FROM multi WHERE a = 3 AND b IS NULL;
SELECT * FROM multi WHERE a IS NULL AND b IS NULL;
SELECT * FROM multi WHERE a IN (3, 4) AND b IN ('b3', 'b4');
SELECT a, b, count(*), sum(v) FROM multi GROUP BY a, b;
SELECT b, a, avg(v) FROM multi GROUP BY b, a HAVING count(*) > 2;
SELECT a, count(*), min(b) FROM multi GROUP BY a;

-- Ranges: edges, infinity, NULL and what the default shard holds.
SELECT * FROM ranges WHERE d = '2020-01-01';
SELECT * FROM ranges WHERE d = '2019-12-31' OR d = '2025-01-01';
SELECT * FROM ranges WHERE d >= '2020-01-01' AND d < '2021-01-01';
SELECT * FROM ranges WHERE d > '2020-12-31' AND d <= '2021-01-01';
SELECT * FROM ranges WHERE d < '2020-01-01';
SELECT * FROM ranges WHERE d >= '2025-01-01';
SELECT * FROM ranges WHERE d = 'infinity' OR d = '-infinity';
SELECT * FROM ranges WHERE d IS NULL;
SELECT count(*) FROM ranges WHERE d IS NOT NULL;
SELECT count(*) FROM ranges WHERE d <> '2020-01-01';
SELECT v FROM ranges WHERE d IN ('2020-01-01', '2025-01-01', '2019-01-11');
SELECT v FROM ranges WHERE d BETWEEN '2022-06-01' AND '2023-06-01' AND t = 't1';
SELECT v FROM ranges WHERE d > '2021-06-01'::timestamp;
SELECT v FROM ranges WHERE NOT (d < '2024-06-01');
SELECT v FROM ranges WHERE d < '2019-06-01' OR d > '2026-06-01';
SELECT extract(year FROM d), count(*), sum(v) FROM ranges GROUP BY 1;
SELECT d, sum(v) FROM ranges WHERE d >= '2024-01-01' GROUP BY d;
SELECT * FROM ranges2 WHERE a = 10;
SELECT * FROM ranges2 WHERE a = 10 AND b = 5;
SELECT * FROM ranges2 WHERE a = 10 AND b < 5;
SELECT * FROM ranges2 WHERE a < 10 AND b = 2;
SELECT * FROM ranges2 WHERE a = 20 AND b > 2;
SELECT * FROM ranges2 WHERE (a, b) >= (10, 5) AND (a, b) < (12, 0);
SELECT count(*), sum(v) FROM ranges2 WHERE a >= 20;
SELECT * FROM lists WHERE k = 'a';
SELECT * FROM lists WHERE k IN ('b', 'c');
SELECT * FROM lists WHERE k IS NULL;
SELECT * FROM lists WHERE k = 'f';
SELECT * FROM lists WHERE k > 'b';
SELECT count(*) FROM lists WHERE k <> 'a';
SELECT k, count(*) FROM lists GROUP BY k;
SELECT v FROM lists WHERE k = 'zzz' OR k IS NULL;

-- Parameters: shards are chosen when the statement starts.
--= params bigint | 5 | 6 | NULL | -1
SELECT id, t, n FROM facts WHERE id = $1;
--= params bigint, bigint | 5, 8 | 7, 7 | 9, 3
SELECT id FROM facts WHERE id >= $1 AND id <= $2;
--= params bigint[] | '{1,5,9}' | '{}' | NULL | '{NULL,4}'
SELECT id FROM facts WHERE id = ANY ($1);
--= params text | 'a1' | '' | 'back\slash0' | 'it''s2' | NULL
SELECT * FROM texts WHERE k = $1;
--= params date, date | '2020-01-01', '2020-12-31' | 'infinity', 'infinity' | NULL, '2020-01-01'
SELECT * FROM ranges WHERE d >= $1 AND d <= $2;
--= params text | 'a' | 'c' | 'q' | NULL
SELECT * FROM lists WHERE k = $1;
--= params int, text | 3, 'b3' | 4, NULL | NULL, 'b1'
SELECT * FROM multi WHERE a = $1 AND b = $2;
--= params bpchar | 'c3' | 'c4  '
SELECT * FROM chars WHERE k = $1::char(6);
--= params numeric | 1.00 | 'NaN' | 0
SELECT v FROM numerics WHERE k = $1;
--= params diff.mood | 'o''k' | 'happy' | NULL
SELECT v FROM moods WHERE k = $1;
--= params int, text | 5, 'text 1' | 0, NULL | NULL, 'it''s \ "x"'
SELECT id, t = $2, $2 || 'x' FROM facts WHERE g = $1 OR t = $2;
--= params timestamptz, interval | '2024-03-10', '1 day' | '2024-03-12', '3 hours'
SELECT id FROM facts WHERE tz >= $1 AND tz < $1 + $2;
--= params bytea, float8, numeric, bool | '\x00ff5c27', 'NaN', 'Infinity', true | '', '-0', 'NaN', false
SELECT id FROM types WHERE bt = $1 OR f8 = $2 OR n = $3 OR b = $4;
--= params diff.mood, int[], diff.pair, jsonb, text[] | 'sad', '{1,NULL,3}', '(1,"a""b,(c")', '{"k": 2}', '{"",NULL}' | 'o''k', '{}', NULL, 'null', '{}'
SELECT id FROM types WHERE e = $1 OR ia = $2 OR cmp = $3 OR jb @> $4 OR ta = $5;
--= params int | 3 | 12
SELECT g, count(*), sum(n), avg(f8) FROM facts WHERE g < $1 GROUP BY g HAVING count(*) > $1;
--= params int, int | 3, 2 | 5, 0
SELECT id FROM facts WHERE g = 4 ORDER BY id LIMIT $1 OFFSET $2;
--= params bigint | 20 | 21
SELECT o.o_id, o.status, i.line, i.price FROM orders o JOIN items i USING (o_id) WHERE o.o_id = $1;

-- Parameters of conditions on the key that are checked here
--= params int | 10 | 12
SELECT id, g FROM facts WHERE id = 5 AND twice(id::int) = $1;
--= params int, int | 10, 5 | 10, 6
SELECT id, g FROM facts WHERE id = 5 AND twice(id::int) = $1 AND g = $2;
SELECT id FROM facts WHERE id = 5 AND twice(id::int) < (SELECT max(qty) + 8 FROM items);
SELECT k, w FROM texts WHERE k = 'b1' AND to_jsonb(k) > to_jsonb('a'::text);
