-- query.sql - sub-selects, CTEs, set operations, windows, DISTINCT, ORDER BY and LIMIT

-- Sub-selects in FROM
SELECT * FROM (SELECT id, g FROM facts WHERE g = 3) x WHERE id > 500;
SELECT x.g, x.c FROM (SELECT g, count(*) AS c FROM facts GROUP BY g) x WHERE x.c > 88;
SELECT count(*) FROM (SELECT DISTINCT g, h FROM facts) x;
SELECT sum(m) FROM (SELECT max(i4) AS m FROM facts GROUP BY h) x;
SELECT * FROM (SELECT id FROM facts ORDER BY id LIMIT 5) x WHERE id % 2 = 0;
SELECT * FROM (SELECT id, 'const' AS c, NULL::int AS z FROM facts WHERE g = 1) x WHERE c = 'const';
SELECT s FROM (SELECT id + i4 AS s, b FROM facts) x WHERE s > 490000000;
SELECT x.* FROM (SELECT * FROM types OFFSET 0) x WHERE id = 17;
SELECT (SELECT count(*) FROM facts), (SELECT max(id) FROM facts), (SELECT id FROM facts WHERE id = 4);
--= error
SELECT (SELECT id FROM facts);
SELECT o_id, (SELECT sum(i4) FROM facts) FROM orders WHERE o_id < 5;
SELECT o_id, (SELECT count(*) FROM items i WHERE i.o_id = o.o_id) FROM orders o;
SELECT o_id, (SELECT max(price) FROM items i WHERE i.o_id = o.o_id AND i.qty > o.cust) FROM orders o WHERE o_id < 40;
SELECT o_id, (SELECT string_agg(i.part::text, ',' ORDER BY line) FROM items i WHERE i.o_id = o.o_id) FROM orders o WHERE cust = 3;
SELECT (SELECT name FROM cust c WHERE c.id = o.cust), count(*) FROM orders o GROUP BY 1;
SELECT id FROM cust c WHERE (SELECT count(*) FROM orders o WHERE o.cust = c.id) > 7;
SELECT id FROM facts f WHERE f.id > 1300 AND i4 = (SELECT max(i4) FROM facts f2 WHERE f2.g = f.g);
SELECT id FROM facts f WHERE n > (SELECT avg(n) FROM facts) AND g = 6;
SELECT id FROM facts WHERE i4 > ALL (SELECT i4 FROM facts WHERE g = 3 AND i4 IS NOT NULL);
SELECT id FROM facts WHERE (g, h) = (SELECT g, h FROM facts WHERE id = 6);
SELECT ARRAY(SELECT id FROM facts WHERE g = 2 ORDER BY id);
SELECT id, ARRAY(SELECT line FROM items i WHERE i.o_id = f.id ORDER BY line) FROM facts f WHERE id < 30;

-- EXISTS, IN
SELECT o_id FROM orders o WHERE EXISTS (SELECT FROM items i WHERE i.o_id = o.o_id);
SELECT o_id FROM orders o WHERE NOT EXISTS (SELECT FROM items i WHERE i.o_id = o.o_id);
SELECT o_id FROM orders o WHERE EXISTS (SELECT FROM items i WHERE i.o_id = o.o_id AND i.qty = 8 AND i.price > o.total / 100);
SELECT o_id FROM orders WHERE o_id IN (SELECT o_id FROM items WHERE part = 7);
SELECT o_id FROM orders WHERE o_id NOT IN (SELECT o_id FROM items);
SELECT o_id FROM orders WHERE cust IN (SELECT id FROM cust WHERE region = 'north');
SELECT o_id FROM orders WHERE cust NOT IN (SELECT id FROM cust WHERE region = 'north');
SELECT o_id FROM orders WHERE (cust, status) IN (SELECT cust, status FROM orders WHERE o_id < 10);
SELECT id FROM cust WHERE EXISTS (SELECT FROM orders WHERE cust = id AND status = 'paid');
SELECT id FROM cust WHERE id NOT IN (SELECT cust FROM orders WHERE cust IS NOT NULL);
SELECT id FROM cust WHERE id NOT IN (SELECT cust FROM orders);
SELECT g FROM facts f WHERE EXISTS (SELECT FROM nothing) OR g = 1;
SELECT count(*) FROM facts WHERE NOT EXISTS (SELECT FROM nothing WHERE nothing.id = facts.id);
SELECT count(*) FROM orders o WHERE EXISTS (SELECT FROM items WHERE part = 5) AND o.cust < 9;
SELECT o_id, EXISTS (SELECT FROM items i WHERE i.o_id = o.o_id), o_id IN (SELECT part FROM items) FROM orders o WHERE o_id < 70;
SELECT count(*) FROM orders o WHERE true OR o_id IN (SELECT o_id FROM items);
SELECT count(*) FROM orders o WHERE o.total > ANY (SELECT price * 8 FROM items i WHERE i.o_id = o.o_id);

-- CTE
WITH x AS (SELECT g, count(*) AS c FROM facts GROUP BY g) SELECT * FROM x WHERE c > 88;
WITH x AS MATERIALIZED (SELECT id, g FROM facts) SELECT count(*), max(g) FROM x WHERE id < 100;
WITH x AS NOT MATERIALIZED (SELECT id, g FROM facts) SELECT a.id FROM x a JOIN x b USING (id) WHERE a.g = 1 AND b.id < 400;
WITH x AS (SELECT id, g FROM facts WHERE g < 3) SELECT a.g, count(*) FROM x a JOIN x b ON a.id = b.id GROUP BY a.g;
WITH x AS (SELECT o_id FROM orders WHERE cust = 5), y AS (SELECT * FROM items WHERE o_id IN (SELECT o_id FROM x)) SELECT count(*), sum(price) FROM y;
WITH RECURSIVE r AS (SELECT 1::bigint AS id UNION ALL SELECT f.id + 1 FROM facts f JOIN r ON f.id = r.id WHERE r.id < 8) SELECT * FROM r;
WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n, (SELECT count(*) FROM facts WHERE g = n) FROM r;
WITH x AS MATERIALIZED (SELECT max(id) AS m FROM facts) SELECT f.id, f.t FROM facts f, x WHERE f.id = x.m;
WITH x AS (SELECT * FROM facts_view) SELECT g, count(*) FROM x GROUP BY g;
WITH x AS (SELECT id FROM facts ORDER BY id LIMIT 3) SELECT * FROM x WHERE (SELECT count(*) FROM facts) > 0;

-- Set operations
SELECT g FROM facts UNION SELECT cust FROM orders;
SELECT g, 'f' FROM facts WHERE id < 20 UNION ALL SELECT cust, status FROM orders WHERE o_id < 20;
SELECT g FROM facts INTERSECT SELECT part FROM items;
SELECT part FROM items EXCEPT SELECT g FROM facts;
SELECT g FROM facts EXCEPT ALL SELECT part FROM items WHERE part < 10;
SELECT g FROM facts INTERSECT ALL SELECT part FROM items;
SELECT count(*) FROM (SELECT id FROM facts UNION ALL SELECT o_id FROM orders UNION ALL SELECT id FROM cust) x;
SELECT g, count(*) FROM (SELECT id, g FROM facts UNION ALL SELECT o_id, cust FROM orders) x GROUP BY g;
SELECT max(id) FROM (SELECT id FROM facts UNION ALL SELECT o_id FROM orders) x WHERE id % 7 = 0;
SELECT count(*), 'facts' FROM facts UNION ALL SELECT count(*), 'items' FROM items UNION ALL SELECT count(*), 'cust' FROM cust;
--= ordered
SELECT id FROM facts WHERE id < 5 UNION SELECT o_id FROM orders WHERE o_id < 8 ORDER BY 1 DESC LIMIT 6;
(SELECT id FROM facts ORDER BY id LIMIT 2) UNION ALL (SELECT o_id FROM orders ORDER BY o_id DESC LIMIT 2);
SELECT id, 1 AS one FROM facts WHERE id < 3 UNION ALL SELECT id, 2 FROM facts WHERE id < 3 ORDER BY 2, 1;
VALUES ((SELECT min(id) FROM facts), (SELECT max(t) FROM facts));

-- Windows
SELECT id, row_number() OVER (ORDER BY id) FROM facts WHERE id < 60;
SELECT id, g, rank() OVER (PARTITION BY g ORDER BY h, id), sum(i4) OVER (PARTITION BY g) FROM facts WHERE id < 200;
SELECT o_id, line, sum(qty) OVER (PARTITION BY o_id ORDER BY line), lag(part) OVER (PARTITION BY o_id ORDER BY line) FROM items WHERE o_id < 60;
SELECT g, count(*), rank() OVER (ORDER BY count(*) DESC) FROM facts GROUP BY g;
SELECT g, sum(sum(i4)) OVER (ORDER BY g) FROM facts GROUP BY g;
SELECT * FROM (SELECT o_id, line, row_number() OVER (PARTITION BY o_id ORDER BY price DESC, line) AS r FROM items) x WHERE r = 1;
SELECT id, avg(i4) OVER w, count(*) OVER w FROM facts WHERE id < 100 WINDOW w AS (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING);
SELECT id, ntile(4) OVER (ORDER BY id), first_value(t) OVER (PARTITION BY h ORDER BY id), max(n) OVER () FROM facts WHERE id % 31 = 0;
SELECT DISTINCT g, count(*) OVER (PARTITION BY g) FROM facts;

-- DISTINCT
SELECT DISTINCT g FROM facts;
SELECT DISTINCT g, h FROM facts WHERE b;
SELECT DISTINCT upper(t) FROM facts;
SELECT DISTINCT id FROM facts WHERE g = 2;
SELECT DISTINCT k FROM texts;
SELECT DISTINCT vc, c FROM types;
SELECT DISTINCT e, ea FROM types;
SELECT DISTINCT f8, n FROM types;
SELECT DISTINCT count(*) FROM facts GROUP BY g;
SELECT DISTINCT g, count(DISTINCT h) FROM facts GROUP BY g;
SELECT DISTINCT 1 FROM facts;
SELECT DISTINCT ON (g) g, id FROM facts ORDER BY g, id;
SELECT DISTINCT ON (g) g, count(*) FROM facts GROUP BY g, h ORDER BY g, count(*);
SELECT DISTINCT ON (o_id) o_id, line, price FROM items ORDER BY o_id, price DESC, line;
--= ordered
SELECT DISTINCT ON (h) h, id, n FROM facts ORDER BY h DESC NULLS LAST, n, id;

-- ORDER BY, LIMIT
--= ordered
SELECT id FROM facts ORDER BY id;
--= ordered
SELECT id, g FROM facts ORDER BY g DESC, id LIMIT 10;
--= ordered
SELECT id, g FROM facts ORDER BY g NULLS FIRST, h DESC NULLS LAST, id OFFSET 1490;
--= ordered
SELECT id, t FROM types ORDER BY t, id;
--= ordered
SELECT id, t FROM types ORDER BY t COLLATE "C" DESC, id LIMIT 20;
--= ordered
SELECT id, n, f8 FROM types ORDER BY n, f8 DESC, id;
--= ordered
SELECT id FROM types ORDER BY vc, c, id;
--= ordered
SELECT id, e FROM types ORDER BY e, id;
--= ordered
SELECT id FROM types ORDER BY cmp, ia, jb, ip, u, bt, id;
--= ordered
SELECT id FROM types ORDER BY iv, ts, d, tt, bi, ir, id;
--= ordered
SELECT id, i4 % 10 FROM facts WHERE h = 'h3' ORDER BY i4 % 10, -id LIMIT 12;
--= ordered
SELECT t FROM facts WHERE id < 100 ORDER BY id DESC;
--= ordered
SELECT id FROM facts ORDER BY lower(t) DESC NULLS LAST, id LIMIT 5;
--= ordered
SELECT g FROM facts WHERE g = 5 ORDER BY g LIMIT 3;
--= ordered
SELECT id, 'x' AS c FROM facts ORDER BY c, id LIMIT 4;
SELECT id FROM facts ORDER BY id LIMIT 0;
SELECT count(*) FROM (SELECT id FROM facts LIMIT 100) x;
--= count
SELECT id FROM facts LIMIT 7;
--= count
SELECT id, t FROM facts OFFSET 1400;
--= count
SELECT id FROM facts WHERE g = 1 LIMIT 1000;
SELECT id FROM facts ORDER BY id LIMIT ALL OFFSET NULL;
SELECT g FROM facts WHERE g IS NOT NULL ORDER BY g FETCH FIRST 3 ROWS WITH TIES;
--= ordered
SELECT id FROM facts ORDER BY id LIMIT (SELECT 3) OFFSET (SELECT min(id) FROM facts);
--= ordered
SELECT id FROM facts WHERE id IN (SELECT id FROM facts ORDER BY id DESC LIMIT 5) ORDER BY 1;
--= error
SELECT id FROM facts LIMIT -1;
--= ordered
SELECT n, g FROM facts GROUP BY n, g ORDER BY n DESC NULLS LAST, g LIMIT 5;
--= ordered
SELECT * FROM (SELECT id, g FROM facts ORDER BY id DESC LIMIT 10) x ORDER BY g, id;
