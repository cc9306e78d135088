-- join_many.sql - joins of several kinds of tables, and of many of them, for the search of join orders

-- Reference tables, local ones, keys that are sent along: two and three at a time
SELECT ja.k, name FROM ja JOIN r1 ON r1.id = ja.a;
SELECT ja.k, loc.name FROM loc JOIN ja ON ja.k = loc.k;
SELECT ja.k, r1.name, loc.name FROM ja JOIN r1 ON r1.id = ja.a JOIN loc ON loc.id = r1.id;
SELECT ja.k, r1.name, loc.name FROM loc LEFT JOIN ja ON ja.k = loc.k LEFT JOIN r1 ON r1.id = ja.a;
SELECT ja.k, r1.name, r2.label FROM ja JOIN r1 ON r1.id = ja.a JOIN r2 ON r2.id = r1.id JOIN (SELECT max(k) - 30 AS k FROM loc) l ON r2.k > l.k;
SELECT ja.k, jb.b, i FROM loc JOIN ja ON ja.k = loc.k JOIN jb ON jb.b = ja.a JOIN ji ON ji.i = jb.b;
SELECT loc.name FROM loc WHERE EXISTS (SELECT FROM ja JOIN r1 ON r1.id = ja.a WHERE ja.k = loc.k);
SELECT loc.name FROM loc WHERE NOT EXISTS (SELECT FROM ja JOIN r1 ON r1.id = ja.a WHERE ja.k = loc.k);
SELECT loc.name, x.n FROM loc JOIN r1 ON r1.id = loc.id LEFT JOIN (SELECT a, count(*) AS n FROM ja GROUP BY a) x ON x.a = r1.id;
SELECT ja.k, r1.name FROM ja JOIN r1 ON r1.id = ja.a AND r1.name > twice(ja.a)::text JOIN r2 ON r2.id = r1.id;

-- Outer, semi and anti joins among them
SELECT ja.k, b, c, name FROM ja LEFT JOIN jb USING (k) LEFT JOIN jc USING (k) LEFT JOIN r1 ON r1.id = c;
SELECT ja.k, b, c, name FROM ja FULL JOIN jb USING (k) LEFT JOIN jc ON jc.k = jb.k LEFT JOIN r1 ON r1.id = jb.b;
SELECT ja.k FROM ja JOIN r1 ON r1.id = ja.a WHERE EXISTS (SELECT FROM jb JOIN r2 ON r2.id = jb.b WHERE jb.k = ja.k) AND NOT EXISTS (SELECT FROM jc WHERE jc.k = ja.k AND jc.c = r1.id);
SELECT ja.k FROM ja WHERE a IN (SELECT id FROM r1 WHERE grp IN (SELECT r2.id FROM r2 JOIN loc ON loc.id = r2.id)) AND k NOT IN (SELECT k FROM jc WHERE k IS NOT NULL);
SELECT ja.k, x.b FROM ja LEFT JOIN (jb JOIN loc ON loc.k = jb.k JOIN r1 ON r1.id = loc.id) AS x (bk, b, t, n, lid) ON x.bk = ja.k;
SELECT x.k, x.s, y.n, r1.name FROM (SELECT k, sum(b) AS s FROM jb GROUP BY k) x JOIN (SELECT k, count(*) AS n FROM ja GROUP BY k) y USING (k) JOIN r1 ON r1.id = y.n JOIN loc ON loc.k = x.k;
SELECT ja.k, x.n FROM ja, LATERAL (SELECT count(*) AS n FROM jb JOIN r2 ON r2.id = jb.b WHERE jb.k = ja.k) x JOIN r1 ON r1.id = x.n;
--= params int, bigint | 3, 25 | NULL, 25 | 5, 26
SELECT ja.k, b, r1.name FROM ja JOIN jb USING (k) JOIN r1 ON r1.id = ja.a LEFT JOIN loc ON loc.k = jb.k AND loc.id > $1 WHERE ja.k <> $2;

-- Many
SELECT count(*), count(jb.b), count(jc.c), count(r1.id), count(i), count(m), count(w), count(l1.name), count(r2.label), count(e)
FROM ja LEFT JOIN jb USING (k) LEFT JOIN jc USING (k) LEFT JOIN r1 ON r1.id = ja.a LEFT JOIN ji ON ji.i = ja.k LEFT JOIN jm ON jm.m = ja.k LEFT JOIN jw ON jw.w = ja.k
	LEFT JOIN (SELECT k, max(name) AS name FROM loc GROUP BY k) l1 ON l1.k = ja.k LEFT JOIN r2 ON r2.k = ja.k LEFT JOIN je ON je.k = ja.k LEFT JOIN r0 ON r0.id = ja.a LEFT JOIN jr ON jr.v = ja.k;
SELECT count(*), sum(a1.a), sum(x.n)
FROM ja a1 JOIN ja a2 USING (k) JOIN jb b1 USING (k) JOIN r1 ON r1.id = a1.a JOIN r2 ON r2.k = b1.k JOIN loc l1 ON l1.k = r2.k JOIN loc l2 ON l2.name = l1.name
	JOIN ji ON ji.i = l2.k JOIN jm ON jm.m = ji.i JOIN jw ON jw.w = jm.m JOIN r1 s1 ON s1.id = r1.id JOIN (SELECT k, count(*) AS n FROM jc GROUP BY k) x ON x.k > b1.k
WHERE a1.k > 20;
SELECT a1.k, count(*), min(r1.name), max(l1.name)
FROM ja a1, jb b1, jc c1, ja a2, jb b2, jc c2, r1, r2, loc l1, loc l2, ji, jm, jw, jr
WHERE b1.k = a1.k AND c1.k = a1.k AND a2.k = c1.k AND b2.k = a2.k AND c2.k = b2.k AND r1.id = a1.a AND r2.k = a1.k AND l1.k = r2.k AND l2.id = l1.id AND l2.name = l1.name
	AND ji.i = a1.k AND jm.m = ji.i AND jw.w = jm.m AND jr.v = jw.w AND EXISTS (SELECT FROM js WHERE js.v = jr.v) AND NOT EXISTS (SELECT FROM jl WHERE jl.v = a1.a + 100)
GROUP BY a1.k;
SELECT jx.x, y, jt.v, r1.name, x2.x
FROM jx JOIN jy USING (k1, k2) JOIN jt ON jt.v = jx.x JOIN ju ON ju.k = jt.k JOIN jr ON jr.v = jx.x JOIN js ON js.k = jr.k JOIN jl ON jl.v = jx.k1 JOIN jk ON jk.k = jl.k
	JOIN r1 ON r1.id = jx.k1 LEFT JOIN r2 ON r2.id = r1.id AND r2.k > 40 LEFT JOIN loc ON loc.id = r1.id AND loc.k > 30 LEFT JOIN jx x2 ON x2.k1 = jx.k1 AND x2.k2 = jx.k2 AND x2.x > 50
WHERE y > 40;
