-- join2.sql - joins that nodes can compute, and ones that look much like these

-- Each type of join, on keys that are NULL, missing or there several times
SELECT ja.k, a, b FROM ja JOIN jb ON ja.k = jb.k;
SELECT * FROM ja JOIN jb USING (k);
SELECT ja.k, a, b, jb.k FROM ja LEFT JOIN jb ON ja.k = jb.k;
SELECT ja.k, a, b, jb.k FROM ja RIGHT JOIN jb ON ja.k = jb.k;
SELECT ja.k, a, b, jb.k FROM ja FULL JOIN jb ON ja.k = jb.k;
SELECT * FROM ja FULL JOIN jb USING (k);
SELECT k, a FROM ja WHERE EXISTS (SELECT FROM jb WHERE jb.k = ja.k);
SELECT k, a FROM ja WHERE NOT EXISTS (SELECT FROM jb WHERE jb.k = ja.k);
SELECT k, a FROM ja WHERE k IN (SELECT k FROM jb);
SELECT k, a FROM ja WHERE k IN (SELECT k FROM jb WHERE b = ja.a);
SELECT k, a FROM ja WHERE k NOT IN (SELECT k FROM jb);
SELECT k, a FROM ja WHERE k NOT IN (SELECT k FROM jb WHERE k IS NOT NULL);
SELECT ja.k, a FROM ja LEFT JOIN jb USING (k) WHERE jb.k IS NULL;
SELECT ja.k, a, jb.b, jb.t FROM ja LEFT JOIN jb USING (k) WHERE jb.k IS NULL;
SELECT ja.k, a, b FROM ja JOIN jb ON ja.k = jb.k AND ja.a > jb.b;
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON ja.k = jb.k AND ja.a > jb.b;
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON ja.k = jb.k AND ja.a > 5;
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON ja.k = jb.k AND jb.b > 5;
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON ja.k = jb.k WHERE ja.a > 5 AND (jb.b > 5 OR jb.b IS NULL);
SELECT ja.k, a, jb.k, b FROM ja FULL JOIN jb ON ja.k = jb.k AND ja.a > jb.b;
SELECT x.k, a, y.k, b FROM (SELECT * FROM ja WHERE a > 5) x FULL JOIN (SELECT * FROM jb WHERE b > 5) y ON x.k = y.k;
SELECT x.k, a, y.k, b FROM (SELECT * FROM ja WHERE a > 5) x FULL JOIN (SELECT * FROM jb WHERE b > 5) y ON x.k = y.k WHERE a IS NULL OR b IS NULL;
SELECT ja.k, a FROM ja WHERE NOT EXISTS (SELECT FROM jb WHERE jb.k = ja.k AND jb.b < ja.a);
SELECT ja.k, e FROM ja JOIN je USING (k);
SELECT ja.k, e FROM ja LEFT JOIN je USING (k);
SELECT ja.k, e FROM je FULL JOIN ja USING (k);
SELECT k FROM ja WHERE NOT EXISTS (SELECT FROM je WHERE je.k = ja.k);
SELECT k FROM je WHERE NOT EXISTS (SELECT FROM ja WHERE je.k = ja.k);
SELECT count(*) FROM ja x JOIN ja y USING (k);
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k IS NOT DISTINCT FROM jb.k;
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k <= jb.k AND jb.k <= ja.k;
SELECT ja.k, jb.k FROM ja, jb WHERE ja.k = jb.k OR (ja.a = 3 AND jb.b = 4);

-- Groups of joins: a key that an outer join made NULL is no key
SELECT k, count(*), sum(a), sum(b) FROM ja JOIN jb USING (k) GROUP BY k;
SELECT jb.k, count(*), sum(a) FROM ja LEFT JOIN jb ON ja.k = jb.k GROUP BY jb.k;
SELECT ja.k, count(b), sum(a) FROM ja LEFT JOIN jb ON ja.k = jb.k GROUP BY ja.k;
SELECT ja.k, count(*) FROM ja FULL JOIN jb ON ja.k = jb.k GROUP BY ja.k;
SELECT k, count(*), sum(a), sum(b) FROM ja FULL JOIN jb USING (k) GROUP BY k;
SELECT coalesce(jb.k, ja.k), count(*) FROM ja FULL JOIN jb USING (k) GROUP BY 1;
SELECT ja.k, jb.k, count(*) FROM ja FULL JOIN jb USING (k) GROUP BY 1, 2;
SELECT DISTINCT jb.k FROM ja LEFT JOIN jb ON ja.k = jb.k;
SELECT DISTINCT k FROM ja FULL JOIN jb USING (k);
SELECT a, b, count(*) FROM ja JOIN jb USING (k) GROUP BY a, b;
SELECT a, avg(b), stddev(b), count(DISTINCT b) FROM ja LEFT JOIN jb USING (k) GROUP BY a;
SELECT k, a, count(*) OVER (PARTITION BY k ORDER BY a, t) FROM ja WHERE EXISTS (SELECT FROM jc WHERE jc.k = ja.k);
SELECT jb.k, sum(b) OVER (PARTITION BY jb.k), count(*) OVER (PARTITION BY jb.k) FROM ja LEFT JOIN jb ON ja.k = jb.k;
SELECT count(*), min(ja.t), max(jb.n) FROM ja FULL JOIN jb USING (k);
SELECT k, max(b) FROM ja JOIN jb USING (k) GROUP BY k HAVING count(*) > 2;

-- Three and four tables
SELECT ja.k, a, b, c FROM ja JOIN jb USING (k) JOIN jc USING (k);
SELECT ja.k, a, b, c FROM ja, jb, jc WHERE ja.k = jb.k AND ja.k = jc.k;
SELECT ja.k, a, b, c FROM ja LEFT JOIN jb USING (k) LEFT JOIN jc USING (k);
SELECT ja.k, a, jb.k, b, jc.k, c FROM ja LEFT JOIN jb ON ja.k = jb.k LEFT JOIN jc ON jb.k = jc.k;
SELECT ja.k, a, jb.k, b, jc.k, c FROM ja LEFT JOIN (jb JOIN jc ON jb.k = jc.k) ON ja.k = jb.k;
SELECT ja.k, a, jb.k, b, jc.k, c FROM ja LEFT JOIN (jb LEFT JOIN jc ON jb.k = jc.k AND c > 2) ON ja.k = jb.k;
SELECT ja.k, a, jb.k, b, jc.k, c FROM (ja FULL JOIN jb ON ja.k = jb.k) LEFT JOIN jc ON jc.k = jb.k;
SELECT k, a, b, c FROM ja FULL JOIN jb USING (k) FULL JOIN jc USING (k);
SELECT k, count(*), count(a), count(b), count(c) FROM ja FULL JOIN jb USING (k) FULL JOIN jc USING (k) GROUP BY k;
SELECT k, a, b, c FROM ja FULL JOIN jb USING (k) JOIN jc USING (k);
SELECT k, a, b, c FROM ja FULL JOIN jb USING (k) LEFT JOIN jc USING (k);
SELECT k, a, b, c FROM jc LEFT JOIN (ja FULL JOIN jb USING (k)) USING (k);
SELECT ja.k, jb.b FROM ja JOIN jb USING (k) WHERE EXISTS (SELECT FROM jc WHERE jc.k = jb.k) AND NOT EXISTS (SELECT FROM je WHERE je.k = ja.k);
SELECT ja.k FROM ja WHERE EXISTS (SELECT FROM jb JOIN jc USING (k) WHERE jb.k = ja.k AND jc.c > 1);
SELECT ja.k FROM ja WHERE NOT EXISTS (SELECT FROM jb LEFT JOIN jc USING (k) WHERE jb.k = ja.k AND jc.c IS NULL);
SELECT ja.k FROM ja WHERE EXISTS (SELECT FROM jb WHERE jb.k = ja.k AND EXISTS (SELECT FROM jc WHERE jc.k = jb.k AND jc.c <> ja.a));
SELECT ja.k FROM ja WHERE EXISTS (SELECT FROM jb WHERE jb.k = ja.k AND NOT EXISTS (SELECT FROM jc WHERE jc.k = jb.k));
SELECT w.k, x.a, y.a, z.b FROM ja w JOIN ja x USING (k) JOIN ja y USING (k) JOIN jb z USING (k) WHERE w.a = 3;
SELECT ja.k, b, c, e FROM ja JOIN jb USING (k) LEFT JOIN (jc LEFT JOIN je USING (k)) USING (k);
SELECT count(*) FROM ja JOIN jb ON ja.k = jb.k JOIN jc ON ja.a = jc.c;
SELECT ja.k, jb.k, jc.k FROM ja JOIN jb ON ja.k = jb.k LEFT JOIN jc ON jc.k = ja.a;

-- Constants and parameters
SELECT ja.k, a, b FROM ja JOIN jb USING (k) WHERE ja.k = 25;
SELECT ja.k, a, b FROM ja, jb WHERE ja.k = 25 AND jb.k = 25;
SELECT ja.k, a, b FROM ja, jb WHERE ja.k = 25 AND jb.k = 26;
SELECT ja.k, a, b FROM ja LEFT JOIN jb USING (k) WHERE ja.k = 25;
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON jb.k = 25 WHERE ja.k = 25;
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON jb.k = 26 WHERE ja.k = 25;
SELECT ja.k, a, jb.k, b FROM ja FULL JOIN jb ON ja.k = jb.k WHERE ja.k = 25 OR jb.k = 26;
SELECT k, a, b FROM ja FULL JOIN jb USING (k) WHERE k = 25;
SELECT x.k, y.k FROM (SELECT * FROM ja WHERE k = 25) x FULL JOIN (SELECT * FROM jb WHERE k = 25) y ON x.k = y.k AND x.a < y.b;
SELECT x.k, y.k FROM (SELECT * FROM ja WHERE k IN (25, 26)) x FULL JOIN (SELECT * FROM jb WHERE k IN (26, 27)) y ON x.k = y.k;
SELECT ja.k, a, b FROM ja JOIN jb USING (k) WHERE ja.k IN (25, 26, 59) AND jb.k IN (26, 27, 59);
SELECT ja.k FROM ja WHERE k = 25 AND EXISTS (SELECT FROM jb WHERE jb.k = 25 AND jb.b > ja.a);
SELECT ja.k FROM ja WHERE k IS NULL AND EXISTS (SELECT FROM jb WHERE jb.k = ja.k);
SELECT ja.k, jb.k FROM ja LEFT JOIN jb USING (k) WHERE ja.k IS NULL;
--= params bigint | 25 | NULL
SELECT ja.k, a, b FROM ja JOIN jb USING (k) WHERE ja.k = $1;
--= params bigint, bigint | 25, 25 | 25, 26 | 26, 25 | NULL, 25
SELECT ja.k, a, b FROM ja, jb WHERE ja.k = $1 AND jb.k = $2;
--= params bigint | 25 | 26 | 1000
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON ja.k = jb.k WHERE ja.k = $1;
--= params bigint | 25 | 26 | 1000
SELECT ja.k, a, b FROM ja LEFT JOIN jb ON jb.k = $1 WHERE ja.k = $1;
--= params bigint | 25 | 26 | 1000
SELECT ja.k, a, jb.k, b FROM (SELECT * FROM ja WHERE k = $1) ja FULL JOIN (SELECT * FROM jb WHERE k = $1) jb ON ja.k = jb.k;
--= params bigint, int | 25, 3 | 26, 4
SELECT k, a FROM ja WHERE k > $1 AND EXISTS (SELECT FROM jb WHERE jb.k = ja.k AND b + $2 > ja.a);
--= params bigint | 25 | 26 | NULL
SELECT k, a FROM ja WHERE k = $1 AND NOT EXISTS (SELECT FROM jb WHERE jb.k = ja.k);
--= params bigint | 25 | 26
SELECT r1.id, ja.a FROM r1 LEFT JOIN ja ON ja.a = r1.id AND ja.k = $1;
--= params bool | true | false | NULL
SELECT ja.k, b FROM ja JOIN jb USING (k) WHERE $1;
--= params bool | true | false | NULL
SELECT ja.k, y.b FROM ja LEFT JOIN (SELECT * FROM jb WHERE $1) y USING (k);
--= params bool | true | false
SELECT ja.k, r.name FROM ja LEFT JOIN (SELECT * FROM r1 WHERE $1) r ON r.id = ja.a;
SELECT ja.k, b FROM ja JOIN jb USING (k) WHERE ja.d < date '2024-01-05' + (SELECT min(id) FROM r1);
SELECT ja.k, b FROM ja JOIN jb USING (k) WHERE ja.a = (SELECT max(c) FROM jc);

-- Equality through something else
SELECT ja.k, b, r2.label FROM ja JOIN r2 ON ja.k = r2.k JOIN jb ON r2.k = jb.k;
SELECT ja.k, b, r2.label FROM ja, r2, jb WHERE ja.k = r2.k AND jb.k = r2.k;
SELECT ja.k, b, r2.label FROM (ja JOIN r2 ON ja.k = r2.k) LEFT JOIN jb ON r2.k = jb.k;
SELECT ja.k, b, r2.label FROM (ja LEFT JOIN r2 ON ja.k = r2.k) LEFT JOIN jb ON r2.k = jb.k;
SELECT ja.k, c FROM ja JOIN jb ON ja.k = jb.k JOIN jc ON jb.k = jc.k;
SELECT ja.k FROM ja JOIN loc ON ja.k = loc.k JOIN jb ON loc.k = jb.k;
SELECT r2.k, count(*) FROM ja JOIN r2 ON ja.k = r2.k JOIN jb ON r2.k = jb.k GROUP BY r2.k;

-- What is no shard key's equality
SELECT ja.k, i FROM ja JOIN ji USING (k);
SELECT ja.k, i FROM ja LEFT JOIN ji USING (k);
SELECT ja.k, m FROM ja JOIN jm USING (k);
SELECT ja.k, m FROM ja FULL JOIN jm USING (k);
SELECT ja.k, w FROM ja JOIN jw USING (k);
SELECT ja.k, w FROM ja LEFT JOIN jw USING (k);
SELECT ja.k, b, m, w FROM ja JOIN jb USING (k) JOIN jm USING (k) JOIN jw USING (k);
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k = jb.b;
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k = jb.k + 1;
SELECT ja.k, jb.k FROM ja LEFT JOIN jb ON ja.a = jb.b AND ja.k < jb.k;
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k::numeric = jb.k::numeric;
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k::int4 = jb.k::int4;
SELECT ja.k, jb.k FROM ja JOIN jb ON ja.k::text = jb.k::text;
SELECT jt.v, ju.v FROM jt JOIN ju USING (k);
SELECT jt.v, ju.v FROM jt FULL JOIN ju USING (k);
SELECT k, count(*) FROM jt FULL JOIN ju USING (k) GROUP BY k;
SELECT jt.v, ju.v FROM jt JOIN ju ON jt.k COLLATE "C" = ju.k;
SELECT jt.v, ju.v FROM jt JOIN ju ON lower(jt.k) = lower(ju.k);
SELECT jt.v, ju.v FROM jt JOIN ju ON jt.k::varchar = ju.k::varchar;
SELECT jt.v, ju.v FROM jt JOIN ju ON jt.k::bpchar = ju.k::bpchar;

-- A key of two columns, ranges and lists
SELECT x, y FROM jx JOIN jy USING (k1, k2);
SELECT x, y FROM jx LEFT JOIN jy USING (k1, k2);
SELECT x, y FROM jx FULL JOIN jy USING (k1, k2);
SELECT k1, k2, count(*), sum(x), sum(y) FROM jx FULL JOIN jy USING (k1, k2) GROUP BY k1, k2;
SELECT x, y FROM jx JOIN jy USING (k1);
SELECT x, y FROM jx JOIN jy ON jx.k1 = jy.k1 AND jx.k2 > jy.k2;
SELECT x, y FROM jx JOIN jy USING (k2) WHERE jx.k1 = 3 AND jy.k1 = 3;
SELECT x, y FROM jx LEFT JOIN jy ON jx.k2 = jy.k2 AND jy.k1 = 3 WHERE jx.k1 = 3;
SELECT x FROM jx WHERE NOT EXISTS (SELECT FROM jy WHERE jy.k1 = jx.k1 AND jy.k2 = jx.k2 AND y > x);
SELECT jr.v, js.v FROM jr JOIN js USING (k);
SELECT jr.v, js.v FROM jr FULL JOIN js USING (k);
SELECT jr.v, js.v FROM jr LEFT JOIN js USING (k) WHERE jr.k BETWEEN 8 AND 21;
SELECT jr.v, js.v FROM jr JOIN js USING (k) WHERE jr.k < 12 AND js.k > 9;
SELECT jr.v, js.v FROM jr FULL JOIN js ON jr.k = js.k AND jr.v > js.v WHERE jr.k < 5 OR js.k > 25;
SELECT jl.v, jk.v FROM jl JOIN jk USING (k);
SELECT jl.v, jk.v FROM jl FULL JOIN jk USING (k);
SELECT v FROM jl WHERE k IN (SELECT k FROM jk WHERE v > 10);
SELECT jl.v, jk.v FROM jl LEFT JOIN jk ON jl.k = jk.k AND jk.k IN ('a', 'f') WHERE jl.k IN ('a', 'c', 'f');

-- Reference tables
SELECT ja.k, name FROM ja JOIN r1 ON r1.id = ja.a;
SELECT ja.k, name FROM r1 JOIN ja ON r1.id = ja.a WHERE r1.grp = 2;
SELECT ja.k, name FROM ja LEFT JOIN r1 ON r1.id = ja.a;
SELECT ja.k, name FROM ja LEFT JOIN r1 ON r1.id = ja.a AND r1.grp > 1 WHERE name IS NULL OR ja.a > 2;
SELECT ja.k, r1.id, name FROM r1 LEFT JOIN ja ON r1.id = ja.a;
SELECT ja.k, r1.id, name FROM ja RIGHT JOIN r1 ON r1.id = ja.a AND ja.k < 30;
SELECT ja.k, r1.id, name FROM r1 FULL JOIN ja ON r1.id = ja.a;
SELECT ja.k FROM ja WHERE EXISTS (SELECT FROM r1 WHERE r1.id > ja.a AND r1.grp = 3);
SELECT ja.k FROM ja WHERE a IN (SELECT id FROM r1 WHERE grp IS NOT NULL);
SELECT ja.k FROM ja WHERE a IN (SELECT id FROM r2);
SELECT ja.k FROM ja WHERE NOT EXISTS (SELECT FROM r1 WHERE r1.id = ja.a);
SELECT ja.k FROM ja WHERE a NOT IN (SELECT id FROM r1);
SELECT ja.k FROM ja WHERE a NOT IN (SELECT id FROM r2);
SELECT r1.id FROM r1 WHERE EXISTS (SELECT FROM ja WHERE ja.a = r1.id);
SELECT r1.id FROM r1 WHERE NOT EXISTS (SELECT FROM ja WHERE ja.a = r1.id);
SELECT r1.id FROM r1 WHERE id NOT IN (SELECT a FROM ja WHERE k < 20);
SELECT r1.id, ja.a FROM r1 LEFT JOIN ja ON r1.id = ja.a AND ja.k = 25;
SELECT r1.id, x.a FROM r1 FULL JOIN (SELECT * FROM ja WHERE k = 25) x ON r1.id = x.a;
SELECT r1.id FROM r1 WHERE NOT EXISTS (SELECT FROM ja WHERE ja.a = r1.id AND k = 25);
SELECT r1.id FROM r1 WHERE EXISTS (SELECT FROM ja WHERE ja.a = r1.id AND k = 25);
SELECT r1.id, x.a, jb.k FROM r1 LEFT JOIN (SELECT * FROM ja WHERE k = 25) x ON r1.id = x.a FULL JOIN jb ON jb.k = x.k;
SELECT r1.id, x.a, jb.k FROM r1 LEFT JOIN (SELECT * FROM ja WHERE k = 25) x ON r1.id = x.a LEFT JOIN jb ON jb.k = x.k;
SELECT jb.k, y.id, y.a FROM jb LEFT JOIN (SELECT r1.id, x.a, x.k FROM r1 LEFT JOIN (SELECT * FROM ja WHERE k = 25) x ON r1.id = x.a) y ON jb.b = y.id;
SELECT ja.k, r1.name, r2.label FROM ja JOIN r1 ON r1.id = ja.a JOIN r2 ON r2.id = r1.id;
SELECT ja.k, r1.name, r2.label FROM ja LEFT JOIN (r1 JOIN r2 ON r2.id = r1.id) ON r1.id = ja.a;
SELECT ja.k, r1.name, r2.label FROM ja LEFT JOIN (r1 FULL JOIN r2 ON r2.id = r1.id) ON r1.id = ja.a;
SELECT ja.k, r1.name, r2.label FROM ja JOIN (r1 LEFT JOIN r2 ON r2.id = r1.id) ON r1.id = ja.a;
SELECT ja.k, b, name FROM ja JOIN jb USING (k) JOIN r1 ON r1.id = b;
SELECT ja.k, b, name FROM ja LEFT JOIN jb USING (k) LEFT JOIN r1 ON r1.id = b;
SELECT ja.k, b, name FROM ja LEFT JOIN (jb JOIN r1 ON r1.id = b) USING (k);
SELECT ja.k, b, name FROM ja FULL JOIN (jb JOIN r1 ON r1.id = b) USING (k);
SELECT name, count(*), sum(b) FROM ja JOIN jb USING (k) JOIN r1 ON r1.id = a GROUP BY name;
SELECT r1.grp, count(DISTINCT ja.k) FROM ja JOIN r1 ON r1.id = ja.a GROUP BY ROLLUP (r1.grp);
SELECT ja.k, r0.label FROM ja LEFT JOIN r0 ON r0.id = ja.a;
SELECT ja.k FROM ja CROSS JOIN r0;
SELECT count(*) FROM ja CROSS JOIN r1;
SELECT ja.k FROM ja WHERE NOT EXISTS (SELECT FROM r0);
SELECT r1.id, r2.label FROM r1 LEFT JOIN r2 USING (id);
SELECT r1.id FROM r1 WHERE r1.grp = (SELECT max(c) FROM jc WHERE jc.k = 3);
SELECT ja.k, loc.name, r1.name FROM ja JOIN r1 ON r1.id = ja.a JOIN loc ON loc.id = r1.id;
SELECT ja.k, r1.name FROM ja JOIN r1 ON r1.id > ja.a AND r1.name LIKE '%' || ja.a || '%';
SELECT ja.k, r1.id, jb.k FROM ja JOIN r1 ON r1.id = ja.a JOIN jb ON jb.b = r1.id;
SELECT ja.k, r1.ctid IS NULL AS no_ctid FROM ja LEFT JOIN r1 ON r1.id = ja.a;
SELECT ja.k, r1 FROM ja LEFT JOIN r1 ON r1.id = ja.a;

-- Rows as values, columns of several kinds, expressions that belong to an outer join
SELECT ja, jb FROM ja LEFT JOIN jb USING (k) WHERE ja.k < 30;
SELECT ja, jb FROM ja FULL JOIN jb USING (k);
SELECT ja IS NULL, jb IS NULL, ja IS NOT NULL, jb IS NOT NULL FROM ja FULL JOIN jb USING (k);
SELECT count(jb), count(jb.*), count(ja) FROM ja LEFT JOIN jb USING (k);
SELECT ja.k, x.one, x.b FROM ja LEFT JOIN (SELECT k, 1 AS one, b FROM jb) x USING (k);
SELECT ja.k, x.one FROM ja LEFT JOIN (SELECT k, coalesce(b, 7) AS one FROM jb) x USING (k) WHERE x.one IS NULL OR x.one > 6;
SELECT ja.k, x.one, jc.c FROM ja LEFT JOIN (SELECT k, 1 AS one FROM jb) x USING (k) LEFT JOIN jc ON jc.k = ja.k AND jc.c > x.one;
SELECT ja.k, x.t FROM ja LEFT JOIN (SELECT jb.k, 'x' || coalesce(jc.t, '-') AS t FROM jb LEFT JOIN jc USING (k)) x USING (k);
SELECT ja.k, jb.n * 2 + a, upper(ja.t || jb.t), ja.d + b FROM ja JOIN jb USING (k);
SELECT ja.k FROM ja JOIN jb USING (k) WHERE twice(a) > b;
SELECT ja.k, b FROM ja LEFT JOIN jb ON ja.k = jb.k AND twice(a) > b;
SELECT ja.k, b FROM ja LEFT JOIN jb USING (k) WHERE twice(b) > 9 OR b IS NULL;
SELECT ja.k FROM ja WHERE EXISTS (SELECT FROM jb WHERE jb.k = ja.k AND twice(b) > a);
SELECT ja.k, jb.b, jc.c FROM ja JOIN jb USING (k) JOIN jc USING (k) WHERE twice(a) > b AND c > 1;

-- Views, sub-selects, CTEs, set operations, functions
SELECT v.k, b FROM ja_view v JOIN jb USING (k);
SELECT v.k, b, c FROM ja_view v LEFT JOIN jb USING (k) LEFT JOIN jc USING (k);
SELECT v.k, name FROM ja_view v JOIN r1 ON r1.id = v.a;
SELECT ja.k, x.s FROM ja JOIN (SELECT k, sum(b) AS s FROM jb GROUP BY k) x USING (k);
SELECT ja.k, x.s FROM ja LEFT JOIN (SELECT k, sum(b) AS s FROM jb GROUP BY k HAVING count(*) > 1) x USING (k);
SELECT x.k, n, s FROM (SELECT k, count(*) AS n FROM ja GROUP BY k) x FULL JOIN (SELECT k, sum(b) AS s FROM jb GROUP BY k) y USING (k);
SELECT k, a FROM ja WHERE k IN (SELECT k FROM jb GROUP BY k HAVING sum(b) > 10);
SELECT k, a FROM ja WHERE k NOT IN (SELECT k FROM jb WHERE k IS NOT NULL GROUP BY k HAVING sum(b) > 10);
SELECT ja.k, x.s FROM ja JOIN (SELECT b, count(*) AS s FROM jb GROUP BY b) x ON x.b = ja.a;
SELECT ja.k, x.b FROM ja JOIN (SELECT DISTINCT k, b FROM jb) x USING (k);
SELECT ja.k, x.b FROM ja JOIN (SELECT DISTINCT ON (k) k, b FROM jb ORDER BY k, b, n) x USING (k);
SELECT ja.k, x.r FROM ja JOIN (SELECT k, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM jb) x USING (k) WHERE x.r = 1;
SELECT ja.k, x.r FROM ja JOIN (SELECT k, row_number() OVER (ORDER BY n) AS r FROM jb) x USING (k);
SELECT ja.k, x.b FROM ja LEFT JOIN (SELECT k, b, rank() OVER (PARTITION BY k ORDER BY n) AS r FROM jb) x ON x.k = ja.k AND x.r <= 2;
SELECT x.r, count(*), sum(b) FROM (SELECT k, b, rank() OVER (PARTITION BY k ORDER BY n) AS r FROM jb) x WHERE x.r <= 2 GROUP BY x.r;
SELECT x.s, count(*) FROM (SELECT k, sum(b) AS s FROM jb GROUP BY k) x WHERE x.s > 5 OR x.s IS NULL GROUP BY x.s;
SELECT ja.k, (SELECT count(*) FROM jc JOIN (SELECT k, sum(b) AS s FROM jb WHERE jb.b < ja.a GROUP BY k) x USING (k) WHERE x.s <> ja.a) FROM ja;
SELECT ja.k, y.n FROM ja LEFT JOIN (SELECT x.k, count(*) AS n FROM (SELECT DISTINCT k, b FROM jb) x JOIN jc USING (k) GROUP BY x.k) y USING (k);
SELECT x.k, x.n FROM (SELECT k, count(*) AS n FROM ja GROUP BY k) x WHERE NOT EXISTS (SELECT FROM (SELECT k, max(b) AS m FROM jb GROUP BY k) y WHERE y.k = x.k AND y.m > x.n);
SELECT r1.name, x.n FROM r1 LEFT JOIN (SELECT a, count(*) AS n FROM ja WHERE k = 25 GROUP BY a) x ON x.a = r1.id;
SELECT ja.k, x.k FROM ja JOIN (SELECT DISTINCT ON (k, t) k, t, b FROM jb ORDER BY k, t, b DESC, n) x ON x.k = ja.k AND x.t <> ja.t;
SELECT ja.k, x.b FROM ja JOIN (SELECT k, b FROM jb ORDER BY n LIMIT 20) x USING (k);
SELECT ja.k, x.k FROM ja JOIN (SELECT k FROM jb UNION ALL SELECT k FROM jc) x USING (k);
SELECT ja.k, x.s FROM ja JOIN (SELECT jb.k, sum(c) AS s FROM jb JOIN jc USING (k) GROUP BY jb.k) x USING (k) JOIN r1 ON r1.id = ja.a;
SELECT ja.k, x.s, x.m FROM ja LEFT JOIN (SELECT k, sum(b) AS s, max(random() * 0) AS m FROM jb GROUP BY k) x USING (k);
SELECT ja.k, x.n FROM ja JOIN (SELECT k + 0 AS k, count(*) AS n FROM jb GROUP BY k) x USING (k);
SELECT ja.k, x FROM ja JOIN (SELECT k, count(*) AS n FROM jb GROUP BY k) x USING (k);
SELECT max(x.s), count(*) FROM (SELECT ja.k, y.s FROM ja JOIN (SELECT k, sum(b) AS s FROM jb GROUP BY k) y USING (k)) x;
SELECT z.k, z.s + x.n FROM (SELECT ja.k, y.s FROM ja JOIN (SELECT k, sum(b) AS s FROM jb GROUP BY k) y USING (k)) z JOIN (SELECT k, count(*) AS n FROM jc GROUP BY k) x USING (k);
WITH s AS (SELECT k, sum(b) AS s FROM jb GROUP BY k) SELECT ja.k, s FROM ja JOIN s USING (k);
WITH s AS MATERIALIZED (SELECT k, sum(b) AS s FROM jb GROUP BY k) SELECT ja.k, s FROM ja JOIN s USING (k);
WITH s AS (SELECT k, sum(b) AS s FROM jb GROUP BY k) SELECT x.k, x.s, y.s FROM s x JOIN s y USING (k);
SELECT ja.k, b FROM ja JOIN jb USING (k) UNION SELECT k, c FROM jc;
SELECT ja.k, b FROM ja JOIN jb USING (k) EXCEPT SELECT k, c FROM jc;
SELECT ja.k, f.b FROM ja, jb_of(ja.k) f;
SELECT ja.k, f.b FROM ja, jb_of(25) f WHERE ja.k = 25;
SELECT r1.id, x.n FROM r1, LATERAL (SELECT count(*) AS n FROM ja JOIN jb USING (k) WHERE ja.a = r1.id) x;
SELECT r1.id, x.* FROM r1 LEFT JOIN LATERAL (SELECT ja.k, b FROM ja JOIN jb USING (k) WHERE ja.a = r1.id ORDER BY ja.k, b LIMIT 1) x ON true;
SELECT ja.k, x.b FROM ja, LATERAL (SELECT b FROM jb WHERE jb.k = ja.k ORDER BY b, n LIMIT 1) x;
SELECT ja.k, x.b FROM ja LEFT JOIN LATERAL (SELECT jb.b + ja.a AS b FROM jb WHERE jb.k = ja.k) x ON true;
SELECT ja.k, x.b, c FROM ja JOIN jc USING (k), LATERAL (SELECT b FROM jb WHERE jb.k = jc.k AND jb.b > ja.a ORDER BY b, n LIMIT 1) x;
SELECT ja.k, (SELECT count(*) FROM jb JOIN jc USING (k) WHERE jb.k = ja.k) FROM ja;
SELECT ja.k, (SELECT max(name) FROM r1 JOIN jb ON r1.id = jb.b WHERE jb.k = ja.k) FROM ja;
--= count
SELECT ja.k, x.b FROM ja, LATERAL (SELECT b FROM jb JOIN jc USING (k) WHERE jb.b = ja.a LIMIT 1) x;

-- ORDER BY, LIMIT
--= ordered
SELECT ja.k, a, b FROM ja JOIN jb USING (k) ORDER BY ja.k, a, b, n LIMIT 10;
--= ordered
SELECT ja.k, a, b FROM ja LEFT JOIN jb USING (k) ORDER BY b NULLS FIRST, ja.k DESC, a, n LIMIT 10 OFFSET 5;
--= ordered
SELECT k, count(*) FROM ja FULL JOIN jb USING (k) GROUP BY k ORDER BY 2 DESC, 1 LIMIT 5;
--= count
SELECT ja.k, b FROM ja JOIN jb USING (k) LIMIT 3;

-- WHERE that turns out to be constant, sub-selects that go away
SELECT ja.k, b FROM ja JOIN jb USING (k) WHERE true OR ja.a IN (SELECT c FROM jc);
SELECT ja.k, b FROM ja JOIN jb USING (k) WHERE false;
SELECT ja.k, b FROM ja LEFT JOIN jb ON ja.k = jb.k AND false;
SELECT ja.k, b FROM ja FULL JOIN (SELECT * FROM jb WHERE false) y USING (k);
SELECT count(*) FROM ja LEFT JOIN r1 ON r1.id = ja.a;
SELECT ja.k FROM ja LEFT JOIN r1 ON r1.id = ja.a;
SELECT ja.k FROM ja WHERE EXISTS (SELECT 1 FROM jb WHERE jb.k = ja.k LIMIT 0);
SELECT ja.k FROM ja WHERE (SELECT count(*) FROM jb) > 0 AND EXISTS (SELECT FROM jc WHERE jc.k = ja.k);
WITH x AS (SELECT k FROM ja ORDER BY k LIMIT 5) SELECT x.k, b FROM x JOIN jb USING (k);

-- Locks: all of it here
SELECT ja.k, b FROM ja JOIN jb USING (k) FOR UPDATE OF ja;
SELECT ja.k, name FROM ja JOIN r1 ON r1.id = ja.a FOR SHARE OF r1;
SELECT ja.k, x.b FROM ja JOIN (SELECT jb.k, jb.b FROM jb JOIN jc USING (k)) x USING (k) FOR UPDATE OF ja;

-- Not of the kind that can be planned
--= error
SELECT ja.k, jb.k FROM ja FULL JOIN jb ON ja.a < jb.b;
