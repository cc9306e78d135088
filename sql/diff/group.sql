-- group.sql - GROUP BY and aggregates, whole and partial

-- One row for all
SELECT count(*), count(g), count(t), count(ALL a) FROM facts;
SELECT sum(i2), sum(i4), sum(i8), sum(n), sum(f4), sum(f8), sum(iv), sum(mo) FROM facts;
SELECT avg(i2), avg(i4), avg(i8), avg(n), avg(f4), avg(f8), avg(iv) FROM facts;
SELECT min(i2), min(i4), min(i8), min(n), min(f4), min(f8), min(iv), min(mo), min(d), min(ts), min(tz), min(ti), min(t), min(vc), min(ip), min(e) FROM facts;
SELECT max(i2), max(i4), max(i8), max(n), max(f4), max(f8), max(iv), max(mo), max(d), max(ts), max(tz), max(ti), max(t), max(vc), max(ip), max(e) FROM facts;
SELECT bool_and(b), bool_or(b), every(b), bool_and(id > 0), bool_or(g IS NULL) FROM facts;
SELECT bit_and(i2), bit_or(i2), bit_and(i4), bit_or(i4), bit_and(i8), bit_or(i8), bit_and(bi), bit_or(bi) FROM facts;
SELECT bit_xor(i2), bit_xor(i4), bit_xor(i8), bit_xor(bi) FROM facts;
SELECT min(a), max(a) FROM facts;
--= since 18
SELECT min(cmp), max(cmp) FROM facts;
--= since 18
SELECT g, min(cmp), max(cmp), min(t::bytea) FROM facts GROUP BY g;
--= since 16
SELECT any_value(1), g FROM facts GROUP BY g;
SELECT sum(n), avg(n), min(n), max(n) FROM types;
SELECT sum(n), avg(n) FROM types WHERE n <> 'NaN' AND n <> '-Infinity';
SELECT sum(n), avg(n) FROM types WHERE n < 'Infinity' AND n > '-Infinity';
SELECT sum(f8), avg(f8), min(f8), max(f8) FROM types WHERE f8 < 1e300 OR f8 >= 'Infinity';
SELECT min(f8), max(f8), min(f4), max(f4), count(f8) FROM types;
SELECT sum(f4), avg(f4), min(f4), max(f4) FROM types WHERE f4 < 1e30 OR f4 = 'NaN';
SELECT sum(f8), avg(f8) FROM types WHERE f8 = 'Infinity' OR f8 = 0;
SELECT avg(f8), sum(f8) FROM types WHERE f8 = '-0';
SELECT b, sum(n), avg(n), count(n) FROM types GROUP BY b;
SELECT sum(n2), avg(n2), sum(n2 * 1.00), avg(i4 / 2.5) FROM types;
SELECT min(c), max(c), min(vc), max(vc), min(ea), max(ia), min(o), max(pt[0]) FROM types;
SELECT sum(i8 + 0.5), avg(i8 % 1000), sum(i4::numeric) FROM types;
SELECT sum(dom), avg(dom), min(dom), max(dom) FROM types;
--= since 17
SELECT sum(iv), avg(iv) FROM types WHERE iv < '100 years';

-- Over no rows
SELECT count(*), sum(i), avg(i), min(i), sum(n), avg(n), sum(f), avg(f), max(t), bool_or(b) FROM nothing;
SELECT i, count(*) FROM nothing GROUP BY i;
SELECT count(*) FROM nothing HAVING count(*) > 0;
SELECT count(*) FROM nothing HAVING count(*) = 0;
SELECT count(*), sum(i8), avg(n), sum(iv), min(a) FROM facts WHERE false;
SELECT count(*), sum(i8), avg(n), sum(iv), min(a), bool_and(b), avg(f4) FROM facts WHERE id < 0;
SELECT count(*), sum(i8) FROM facts WHERE id = -1;
SELECT g, count(*) FROM facts WHERE id < 0 GROUP BY g;
SELECT 'x' FROM facts WHERE id < 0 HAVING true;
SELECT avg(i2), avg(i4), avg(i8), avg(n), avg(f8) FROM facts WHERE i2 IS NULL AND i4 IS NULL AND i8 IS NULL;

-- Groups without the key
SELECT g, count(*) FROM facts GROUP BY g;
SELECT g, count(*), count(t), sum(i2), sum(i4), sum(i8), sum(n), sum(f4), sum(f8), sum(iv), sum(mo) FROM facts GROUP BY g;
SELECT g, avg(i2), avg(i4), avg(i8), avg(n), avg(f4), avg(f8) FROM facts GROUP BY g;
SELECT g, avg(iv), sum(iv), min(iv), max(iv) FROM facts GROUP BY g;
SELECT h, min(i2), max(i4), min(i8), max(n), min(f4), max(f8), min(t), max(vc), min(d), max(ts), min(tz), max(e) FROM facts GROUP BY h;
SELECT h, bool_and(b), bool_or(b), bit_and(i4), bit_or(i2), bit_xor(i8), bit_or(bi), max(a) FROM facts GROUP BY h;
SELECT g, h, count(*), avg(n) FROM facts GROUP BY g, h;
SELECT h, g, sum(i4) + count(*), round(avg(n) * 2, 3), max(t) || min(t) FROM facts GROUP BY g, h;
SELECT b, e, count(*) FROM facts GROUP BY b, e;
SELECT n, count(*) FROM facts GROUP BY n;
SELECT f8, count(*) FROM types GROUP BY f8;
SELECT f4, n, count(*) FROM types GROUP BY f4, n;
SELECT vc, count(*) FROM facts GROUP BY vc;
SELECT vc COLLATE "C", count(*) FROM facts GROUP BY vc COLLATE "C";
SELECT DISTINCT vc COLLATE "C" FROM facts;
SELECT vc, vc || '!', count(*) FROM facts WHERE id = 7 GROUP BY vc;
SELECT vc, grouping(vc), count(*) FROM facts WHERE id = 7 GROUP BY ROLLUP (vc);
SELECT c, count(*) FROM types GROUP BY c;
SELECT k, count(*), sum(v) FROM chars GROUP BY k;
SELECT bt, count(*) FROM types GROUP BY bt;
SELECT a, count(*) FROM facts GROUP BY a;
SELECT cmp, count(*) FROM facts GROUP BY cmp;
SELECT jb, count(*) FROM types GROUP BY jb;
SELECT d, count(*), min(ts) FROM facts GROUP BY d;
SELECT justify_days(iv), count(*) FROM types GROUP BY iv;
SELECT ip, sum(i4) FROM facts GROUP BY ip;
SELECT bi, count(*) FROM types GROUP BY bi;
SELECT e, count(*), sum(dom) FROM types GROUP BY e;
SELECT g FROM facts GROUP BY g;
SELECT g AS h, count(*) FROM facts GROUP BY 1;

-- Groups by expressions
SELECT g % 4, count(*), sum(n) FROM facts GROUP BY g % 4;
SELECT id % 10 AS r, avg(i4) FROM facts GROUP BY r;
SELECT upper(t), count(*) FROM facts GROUP BY upper(t);
SELECT substr(t, 1, 6), length(t), count(*) FROM facts GROUP BY 1, 2;
SELECT CASE WHEN g > 8 THEN 'big' WHEN g > 3 THEN 'mid' END, count(*), sum(f8) FROM facts GROUP BY 1;
SELECT COALESCE(h, 'none'), b IS NULL, count(*) FROM facts GROUP BY COALESCE(h, 'none'), b IS NULL;
SELECT g IS NULL, h LIKE 'h1%', count(*) FROM facts GROUP BY 1, 2;
SELECT date_trunc('month', d::timestamp), count(*) FROM facts GROUP BY 1;
SELECT extract(month FROM d), extract(dow FROM ts), count(*) FROM facts GROUP BY 1, 2;
--= zones
SELECT date_trunc('day', tz), count(*), sum(i4) FROM facts GROUP BY 1;
--= zones
SELECT tz::date AS day, extract(hour FROM tz) AS hour, count(*) FROM facts GROUP BY day, hour HAVING count(*) > 2;
--= zones
SELECT to_char(tz, 'YYYY-MM-DD'), min(tz), max(tz) FROM facts GROUP BY to_char(tz, 'YYYY-MM-DD');
--= zones
SELECT max(tz::text), min(ts::timestamptz), max(tz) FROM facts;
SELECT 'constant', count(*) FROM facts GROUP BY 1;
SELECT count(*) FROM facts GROUP BY ();
SELECT g + 1, g + 1 + count(*) FROM facts GROUP BY g + 1;
SELECT g + id % 2, sum(g) FROM facts GROUP BY g + id % 2;
SELECT ROW(g % 2, b), count(*) FROM facts GROUP BY ROW(g % 2, b);
SELECT twice(g), count(*) FROM facts GROUP BY twice(g);
SELECT g, sum(twice(i4 % 10)) FROM facts GROUP BY g;

-- Groups with the key
SELECT id, count(*), sum(i4) FROM facts GROUP BY id;
SELECT id, t, avg(n), max(f8) FROM facts WHERE g = 3 GROUP BY id, t;
SELECT o_id, count(*), sum(qty), avg(price), min(part), string_agg(part::text, ',' ORDER BY line) FROM items GROUP BY o_id;
SELECT o_id, count(DISTINCT part), array_agg(part ORDER BY part), stddev(part)::numeric(12,6) FROM items GROUP BY o_id;
SELECT o_id, part, sum(qty) FROM items GROUP BY part, o_id HAVING sum(qty) > 7;
SELECT o_id % 5, count(*) FROM (SELECT o_id FROM items GROUP BY o_id HAVING count(*) > 3) x GROUP BY 1;
SELECT k, count(*), sum(v) FROM texts GROUP BY k;
SELECT k, max(w) FROM texts GROUP BY k HAVING count(*) > 1;
SELECT k, count(*) FROM uuids GROUP BY k;
SELECT k, count(*) FROM moods GROUP BY k;
SELECT id + 0, count(*) FROM facts WHERE id < 50 GROUP BY id + 0;

-- FILTER, HAVING, expressions over aggregates
SELECT g, count(*) FILTER (WHERE b), sum(i4) FILTER (WHERE h = 'h1'), avg(n) FILTER (WHERE i2 IS NULL) FROM facts GROUP BY g;
SELECT count(*) FILTER (WHERE false), sum(i8) FILTER (WHERE id < 0), avg(f8) FILTER (WHERE g = 1 OR g IS NULL) FROM facts;
SELECT avg(i8) FILTER (WHERE b), sum(n) FILTER (WHERE NOT b), avg(i2) FILTER (WHERE b) FROM facts;
SELECT g, count(*) FROM facts GROUP BY g HAVING count(*) > 88;
SELECT g FROM facts GROUP BY g HAVING sum(i4) > 0 AND avg(n) > 1000;
SELECT g, sum(i4) FROM facts GROUP BY g HAVING g > 5;
SELECT g FROM facts GROUP BY g HAVING bool_or(b) AND max(t) LIKE 'text%' AND g IS NOT NULL;
SELECT g, sum(i4) FROM facts WHERE h = 'h2' AND b GROUP BY g HAVING min(f8) < 0 OR g = 1;
SELECT count(*) FROM facts HAVING count(*) > 1000;
SELECT sum(i4) FROM facts HAVING sum(i4) < 0 OR avg(i4) IS NULL;
SELECT g, sum(i4 * 2 + 1), sum(abs(f8)), avg(length(t)), count(NULLIF(h, 'h1')), max(i4 % 100) FROM facts GROUP BY g;
SELECT g, sum(CASE WHEN b THEN 1 ELSE 0 END), count(CASE WHEN h = 'h1' THEN 1 END) FROM facts GROUP BY g;
SELECT sum(i4) / count(*), sum(n) - avg(n), -max(i4), count(*) * 1.5, abs(min(i4)) FROM facts;
SELECT g, 1.0 * count(*) / (SELECT count(*) FROM facts) FROM facts GROUP BY g;
SELECT sum(1), sum(2.5), count('x'), max('k'), avg(3) FROM facts;
SELECT sum(NULL::int), count(NULL), max(NULL::text) FROM facts;
SELECT g, max(d) - min(d), max(tz) - min(tz) FROM facts GROUP BY g;
SELECT count(*), count(*) FROM facts;
SELECT sum(i4), sum(i4) + 1, avg(i4), count(i4) FROM facts;
SELECT g, count(x) FROM facts x GROUP BY g;

-- Aggregates that need all rows
SELECT count(DISTINCT g), count(DISTINCT h), sum(DISTINCT g), avg(DISTINCT i2) FROM facts;
SELECT g, count(DISTINCT t), count(*) FROM facts GROUP BY g;
SELECT g, count(DISTINCT h), sum(n), avg(n) FROM facts GROUP BY g;
SELECT string_agg(t, ',' ORDER BY id) FROM facts WHERE id < 40;
SELECT h, string_agg(g::text, ',' ORDER BY id DESC) FROM facts WHERE id < 100 GROUP BY h;
SELECT g, array_agg(id ORDER BY id) FROM facts WHERE id < 100 GROUP BY g;
SELECT g, string_agg(DISTINCT h, ',' ORDER BY h), array_agg(DISTINCT b ORDER BY b) FROM facts GROUP BY g;
SELECT array_agg(a ORDER BY id), json_agg(h ORDER BY id), jsonb_object_agg(id, h ORDER BY id) FROM facts WHERE id < 30 AND a IS NOT NULL;
SELECT array_agg(e ORDER BY id), array_agg(cmp ORDER BY id) FROM facts WHERE id < 30;
SELECT round(stddev(i4), 4), round(variance(n), 4), round(var_pop(i2), 6), stddev_samp(f8)::numeric(12,6) FROM facts;
SELECT g, round(stddev_pop(i4), 4), var_samp(f8)::numeric(12,6), round(stddev(i8), 4) FROM facts GROUP BY g;
SELECT corr(f8, f4)::numeric(12,8), regr_count(f8, f4), regr_slope(f8, i2)::numeric(12,8), covar_pop(f8, f4)::numeric(12,6) FROM facts;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f8), percentile_disc(0.9) WITHIN GROUP (ORDER BY t), mode() WITHIN GROUP (ORDER BY h) FROM facts;
SELECT g, percentile_disc(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY id) FROM facts GROUP BY g;
SELECT rank(5) WITHIN GROUP (ORDER BY g), dense_rank(5) WITHIN GROUP (ORDER BY g) FROM facts;
SELECT range_agg(ir ORDER BY id) FROM types WHERE NOT isempty(ir);

-- Several groupings
SELECT g % 3, h, count(*), sum(n) FROM facts GROUP BY GROUPING SETS ((g % 3, h), (h), ());
SELECT g % 3, b, grouping(g % 3, b), avg(i4) FROM facts GROUP BY ROLLUP (g % 3, b);
SELECT b, e, count(*), min(t) FROM facts GROUP BY CUBE (b, e) HAVING count(*) > 10;
SELECT id, count(*) FROM facts WHERE id < 20 GROUP BY ROLLUP (id);
SELECT count(*) FROM facts GROUP BY GROUPING SETS ((), ());
SELECT g, count(*) FROM (SELECT g, h, count(*) FROM facts GROUP BY g, h) x GROUP BY g;
SELECT max(c), min(s), sum(c) FROM (SELECT count(*) AS c, sum(n) AS s FROM facts GROUP BY g) x;
SELECT g, sum(c), count(*) FROM (SELECT g, h, b, count(*) AS c FROM facts GROUP BY g, h, b) x GROUP BY GROUPING SETS ((g), ());

-- Ordered
--= ordered
SELECT g, count(*), sum(i4) FROM facts GROUP BY g ORDER BY g NULLS FIRST;
--= ordered
SELECT h, avg(n) FROM facts GROUP BY h ORDER BY avg(n) DESC, h;
--= ordered
SELECT t, count(*) FROM facts GROUP BY t ORDER BY count(*) DESC, t LIMIT 5;
--= ordered
SELECT g, sum(n) FROM facts GROUP BY g HAVING count(*) > 50 ORDER BY sum(n) DESC NULLS LAST, g LIMIT 3 OFFSET 2;
--= ordered
SELECT id, sum(i4) FROM facts GROUP BY id ORDER BY id DESC LIMIT 7;
--= ordered
SELECT upper(h) AS u, count(*) FROM facts GROUP BY upper(h) ORDER BY u;

-- The same expression twice
SELECT g AS x1, g AS x2, count(*) FROM facts GROUP BY x1, x2;
SELECT g + 0 AS x1, g + 0 AS x2, sum(n), g + 0 + count(*) FROM facts GROUP BY x1, x2;
SELECT id AS x1, id AS x2, max(g) FROM facts GROUP BY x2, x1;

-- Aggregates of which nothing is needed but that they make one row
SELECT 1 FROM (SELECT max(g), count(*) FROM facts WHERE id = -1) s;
SELECT 1 FROM (SELECT max(g) FROM facts WHERE id = 7) s;
SELECT count(*) FROM (SELECT sum(n) FROM facts) s;
