-- bugs.sql - what went wrong in other products, by the numbers of docs/bugs_of_others.md

-- R4: grouping and joining by a collation that is not the key's
SELECT lower(k), count(*) FROM texts GROUP BY 1;
SELECT a.k, count(*) FROM texts a JOIN texts b ON lower(a.k) = lower(b.k) GROUP BY a.k;

-- R8: constants in ORDER BY, ties
--= ordered
SELECT g, 7 AS seven FROM facts WHERE id < 50 ORDER BY 2, g, id LIMIT 9;
--= ordered
SELECT g FROM facts WHERE g IS NOT NULL ORDER BY 1::int, g FETCH FIRST 4 ROWS WITH TIES;
--= ordered
SELECT * FROM (SELECT g, 1 AS source FROM facts WHERE id < 30 UNION ALL SELECT i4, 2 FROM facts WHERE id < 30) u ORDER BY source, g NULLS FIRST;
SELECT count(*) FROM (SELECT 'x'::text AS c, id FROM facts ORDER BY 1 OFFSET 3) s;

-- R38: DISTINCT with GROUP BY and aggregates
SELECT DISTINCT count(*) FROM facts GROUP BY g;
SELECT DISTINCT g % 3, count(*) > 10 FROM facts GROUP BY g;
SELECT DISTINCT g, sum(i4) OVER (PARTITION BY g) FROM facts;
--= ordered
SELECT DISTINCT ON (g) g, id FROM facts ORDER BY g, id DESC;
--= ordered
SELECT DISTINCT ON (g % 4) g % 4, count(*), min(id) FROM facts GROUP BY g ORDER BY g % 4, count(*) DESC, min(id);
SELECT count(DISTINCT g), count(DISTINCT id), sum(DISTINCT i4) FROM facts;
SELECT g, count(DISTINCT i4), count(*) FROM facts GROUP BY g HAVING count(DISTINCT i4) > 1;

-- R39: conditions that fold to a constant, sub-selects that vanish with them
SELECT count(*) FROM facts WHERE true OR id IN (SELECT o_id FROM orders);
SELECT count(*) FROM facts WHERE false AND EXISTS (SELECT FROM orders WHERE o_id = facts.id);
SELECT count(*) FROM orders o LEFT JOIN items i ON o.o_id = i.o_id AND false WHERE o.o_id < 40;
SELECT o.o_id, (SELECT 1 WHERE false) FROM orders o WHERE o.o_id < 20;
WITH few AS (SELECT o_id FROM orders ORDER BY o_id LIMIT 5) SELECT i.o_id, i.line FROM items i WHERE i.o_id IN (SELECT o_id FROM few) OR i.o_id = (SELECT max(o_id) FROM few);
WITH few AS MATERIALIZED (SELECT o_id, status FROM orders WHERE o_id < 60) SELECT count(*) FROM few a JOIN few b USING (status) WHERE (SELECT count(*) FROM few) > 3;
SELECT count(*) FROM (SELECT * FROM orders WHERE NULL::boolean) o FULL JOIN items i USING (o_id);

-- R40: joins of tables that are sharded differently, four of them
SELECT count(*), sum(i.qty) FROM orders o JOIN items i ON i.o_id = o.o_id JOIN facts f ON f.id = i.part JOIN cust c ON c.id = o.cust;
SELECT count(*) FROM orders o JOIN items i ON i.part = o.o_id JOIN ranges2 r ON r.a = o.cust JOIN multi m ON m.a = i.line;
SELECT o.o_id, m.b FROM orders o JOIN multi m ON m.a = o.cust AND m.b = o.status WHERE o.o_id < 100;

-- R41: outer joins with tables that are not sharded
SELECT c.id, count(o.o_id) FROM cust c LEFT JOIN orders o ON o.cust = c.id GROUP BY c.id;
SELECT c.id, o.o_id FROM cust c FULL JOIN orders o ON o.cust = c.id AND o.o_id < 30;
SELECT c.id, o.o_id FROM orders o RIGHT JOIN cust c ON o.cust = c.id AND c.region IS NOT NULL;
SELECT count(*) FROM orders o LEFT JOIN cust c ON c.id = o.cust LEFT JOIN items i ON i.o_id = o.o_id AND i.line = c.id WHERE c.name IS NULL OR i.qty > 0;
SELECT c.id FROM cust c WHERE NOT EXISTS (SELECT FROM orders o LEFT JOIN items i USING (o_id) WHERE o.cust = c.id AND i.qty > 5);
SELECT count(*) FROM cust c LEFT JOIN (orders o JOIN items i USING (o_id)) ON c.id = o.cust AND c.id = i.part;

-- R43: functions that must run once, and here
SELECT count(DISTINCT now()), count(DISTINCT clock_timestamp() > now()) FROM facts;
SELECT count(*) FROM facts WHERE random() >= 0 AND now() = transaction_timestamp();

-- R44: boundaries of ranges, NULL, shards for the rest
SELECT * FROM ranges WHERE d = '2024-01-01' OR d = '2023-12-31' OR d IS NULL;
SELECT count(*) FROM ranges WHERE d >= 'infinity' OR d <= '-infinity';
SELECT count(*), min(d), max(d) FROM ranges WHERE d BETWEEN '2023-12-31' AND '2024-01-01';
SELECT a, b, v FROM ranges2 WHERE a = 10 AND b >= 5 OR (a, b) < (1, 1);
SELECT a, b FROM ranges2 WHERE (a, b) >= (5, 5) AND (a, b) <= (10, 0);
SELECT k, v FROM lists WHERE k IS NULL OR k = '' OR k NOT IN ('a', 'b');
SELECT id FROM mixed WHERE id IN (-2147483648, 0, 2147483647) OR id >= 100;
--= params date | '2024-01-01' | NULL
SELECT count(*) FROM ranges WHERE d >= $1;
--= params date, date | '2023-12-31', '2024-01-01' | '2024-01-01', NULL
SELECT * FROM ranges WHERE d IN ($1, $2);

-- R45: the least and the greatest of arrays and rows
SELECT g, min(a), max(a) FROM facts GROUP BY g;
SELECT max(ARRAY[g, i4]), min(ARRAY[t]) FROM facts;
--= since 18
SELECT max(cmp), min(ROW(g, i4)::diff.pair) FROM facts WHERE false;
--= since 18
SELECT max(cmp) FROM facts;

-- R49: partial states together with others
SELECT g, avg(i4), stddev(n), count(*), sum(f8) IS NULL, string_agg(t, ',' ORDER BY id) FROM facts GROUP BY g;
SELECT avg(n), var_pop(i8), corr(i4, i2) IS NULL, bool_or(b), bit_and(i4) FROM facts WHERE g IS NULL;
SELECT sum(i4) FILTER (WHERE g > 2), avg(i8) FILTER (WHERE false), count(n) FROM facts;
