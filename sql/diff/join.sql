-- join.sql - joins of sharded tables with each other and with plain tables

-- On the key of both
SELECT o.o_id, o.status, i.line, i.price FROM orders o JOIN items i ON o.o_id = i.o_id;
SELECT o_id, count(*), sum(i.price * i.qty) FROM orders JOIN items i USING (o_id) GROUP BY o_id;
SELECT o.status, count(*), sum(i.qty), avg(i.price) FROM orders o JOIN items i USING (o_id) GROUP BY o.status;
SELECT o.cust, i.part, count(*) FROM orders o, items i WHERE o.o_id = i.o_id AND o.cust < 5 GROUP BY 1, 2;
SELECT o.*, i.* FROM orders o LEFT JOIN items i ON o.o_id = i.o_id AND i.qty > 6;
SELECT o.o_id, i.part FROM orders o LEFT JOIN items i USING (o_id) WHERE i.o_id IS NULL;
SELECT o.o_id, i.o_id, i.line FROM orders o RIGHT JOIN items i ON o.o_id = i.o_id AND o.status = 'paid';
SELECT o.o_id, i.o_id, i.line, o.status FROM orders o FULL JOIN items i ON o.o_id = i.o_id;
SELECT count(*), count(o.o_id), count(i.o_id) FROM orders o FULL JOIN items i USING (o_id);
SELECT o.status, count(i.line) FROM orders o LEFT JOIN items i USING (o_id) GROUP BY o.status;
SELECT count(*) FROM orders a JOIN orders b USING (o_id);
SELECT a.id FROM facts a JOIN facts b ON a.id = b.id AND a.g = 3 WHERE b.h = 'h1';
SELECT count(*) FROM orders o JOIN items i ON o.o_id = i.o_id JOIN facts f ON f.id = o.o_id;
SELECT o.o_id, f.t, i.part FROM orders o LEFT JOIN items i ON o.o_id = i.o_id LEFT JOIN facts f ON f.id = i.o_id WHERE o.cust = 4;
SELECT count(*) FROM orders o JOIN items i ON o.o_id = i.o_id AND o.total > i.price;
SELECT o.o_id, x.n FROM orders o JOIN (SELECT o_id, count(*) AS n FROM items GROUP BY o_id) x USING (o_id) WHERE x.n > 3;
SELECT * FROM orders NATURAL JOIN items WHERE part = 9;
SELECT o.o_id, i.line FROM orders o JOIN items i ON i.o_id = o.o_id WHERE o.o_id IN (25, 26, 27);

-- On something else
SELECT count(*) FROM orders o JOIN items i ON o.cust = i.part;
SELECT count(*) FROM orders o JOIN items i ON o.o_id = i.part;
SELECT a.o_id, b.o_id FROM orders a JOIN orders b ON a.o_id = b.o_id + 1 WHERE a.cust = b.cust + 1;
SELECT count(*) FROM orders a JOIN orders b ON a.cust = b.cust AND a.o_id < b.o_id;
SELECT o.status, f.h, count(*) FROM orders o JOIN facts f ON o.cust = f.g GROUP BY 1, 2;
SELECT count(*) FROM facts f JOIN types t ON f.id = t.id AND f.i2 > t.i2;
SELECT f.id, t.id FROM facts f JOIN types t ON f.e = t.e AND f.id < 20 AND t.id < 20;
SELECT t1.id, t2.id FROM types t1 JOIN types t2 ON t1.vc = t2.c WHERE t1.id < 60 AND t2.id < 60;
SELECT t1.id, t2.id FROM types t1 JOIN types t2 ON t1.n = t2.f8::numeric WHERE t1.id < 40 AND t2.id < 40;
SELECT count(*) FROM orders CROSS JOIN cust;
SELECT count(*) FROM nothing JOIN facts USING (id);
SELECT f.id, n.t FROM facts f LEFT JOIN nothing n ON f.id = n.id WHERE f.g = 2;
SELECT count(*) FROM nothing n RIGHT JOIN orders o ON n.i = o.cust;
SELECT r.v, l.v FROM ranges r JOIN lists l ON r.v = l.v WHERE l.k = 'b';
SELECT m.a, count(*) FROM multi m JOIN multi x ON m.a = x.a AND m.b = x.b GROUP BY m.a;
SELECT count(*) FROM texts a JOIN texts b ON a.k = b.k;
SELECT x.v, m.id FROM texts x JOIN mixed m ON x.v = m.id WHERE m.v = 'm1';
SELECT count(*) FROM ranges a JOIN ranges b ON a.d = b.d;

-- With plain tables
SELECT o.o_id, c.name FROM orders o JOIN cust c ON c.id = o.cust;
SELECT c.region, count(*), sum(o.total) FROM orders o JOIN cust c ON c.id = o.cust GROUP BY c.region;
SELECT c.id, count(o.o_id) FROM cust c LEFT JOIN orders o ON o.cust = c.id GROUP BY c.id;
SELECT o.o_id, c.name FROM orders o LEFT JOIN cust c ON c.id = o.cust AND c.region = 'south';
SELECT o.o_id, c.id FROM orders o FULL JOIN cust c ON c.id = o.cust;
SELECT c.name, i.part FROM cust c JOIN orders o ON o.cust = c.id JOIN items i USING (o_id) WHERE c.id = 3;
SELECT c.region, o.status, sum(i.qty) FROM cust c JOIN orders o ON o.cust = c.id JOIN items i USING (o_id) GROUP BY 1, 2 HAVING sum(i.qty) > 100;
SELECT c.name FROM cust c WHERE c.id = (SELECT min(cust) FROM orders);
SELECT o.o_id FROM orders o JOIN (VALUES (1::bigint), (7), (300), (999)) v(id) ON o.o_id = v.id;
SELECT g.n, f.t FROM generate_series(1, 10) g(n) LEFT JOIN facts f ON f.id = g.n AND f.b;
SELECT o.o_id, u FROM orders o, unnest(ARRAY['new', 'sent']) u WHERE o.status = u;
SELECT f.id, u FROM facts f, unnest(f.a) u WHERE f.id < 50;
SELECT f.id, k FROM types f, jsonb_object_keys(CASE WHEN jsonb_typeof(jb) = 'object' THEN jb END) k;

-- LATERAL: the inner side runs again and again, often not to its end (R1)
SELECT c.id, x.o_id FROM cust c, LATERAL (SELECT o_id FROM orders o WHERE o.cust = c.id ORDER BY o_id LIMIT 1) x;
SELECT c.id, x.o_id, x.total FROM cust c LEFT JOIN LATERAL (SELECT * FROM orders o WHERE o.cust = c.id ORDER BY total DESC, o_id LIMIT 2) x ON true;
SELECT c.id, x.n FROM cust c, LATERAL (SELECT count(*) AS n FROM orders o WHERE o.cust = c.id AND o.o_id > c.id * 3) x;
SELECT o.o_id, x.part FROM orders o, LATERAL (SELECT part FROM items i WHERE i.o_id = o.o_id ORDER BY price, line LIMIT 1) x WHERE o.o_id < 80;
SELECT o.o_id, x.part FROM orders o, LATERAL (SELECT part FROM items i WHERE i.qty = o.cust LIMIT 1) x WHERE o.o_id < 40 AND x.part IS NULL;
SELECT c.id, (SELECT o_id FROM orders o WHERE o.cust = c.id ORDER BY o_id LIMIT 1) FROM cust c;
SELECT c.id, EXISTS (SELECT FROM facts f WHERE f.g = c.id LIMIT 1) FROM cust c;
--= count
SELECT c.id, x.o_id FROM cust c, LATERAL (SELECT o_id FROM orders o WHERE o.cust = c.id LIMIT 1) x;
SELECT g, x.id FROM generate_series(1, 20) g, LATERAL (SELECT id FROM facts f WHERE f.id > g * 50 ORDER BY id LIMIT 1) x;
SELECT r.v, x.v FROM generate_series(0, 6) y, LATERAL (SELECT v FROM ranges WHERE d >= date '2018-12-31' + y * 365 ORDER BY d, v LIMIT 1) r, LATERAL (SELECT v FROM lists WHERE k = chr(97 + y) ORDER BY v LIMIT 1) x;
SELECT c.id, x.s FROM cust c, LATERAL (SELECT sum(i.qty) AS s FROM orders o JOIN items i USING (o_id) WHERE o.cust = c.id) x;

-- Many at once, and chains
SELECT count(*) FROM orders a, orders b, orders c WHERE a.o_id = b.o_id AND b.o_id = c.o_id AND a.cust = 3;
SELECT count(*) FROM orders a JOIN items b USING (o_id) JOIN facts c ON c.id = a.o_id JOIN types d ON d.id = c.id JOIN cust e ON e.id = a.cust;
SELECT o.o_id, s.line FROM (SELECT * FROM orders WHERE cust = 7) o LEFT JOIN (SELECT * FROM items WHERE qty > 2) s ON s.o_id = o.o_id AND s.part > o.cust;
SELECT a.o_id FROM orders a LEFT JOIN orders b ON a.o_id = b.o_id AND b.status = 'new' LEFT JOIN items c ON b.o_id = c.o_id WHERE c.line IS NULL;
SELECT count(*) FROM orders a WHERE a.o_id IN (SELECT o_id FROM items JOIN facts ON facts.id = items.part WHERE facts.g > 3);

