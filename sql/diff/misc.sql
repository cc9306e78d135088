-- misc.sql - clocks, functions, system columns, row locks, views, hostile text

-- Clocks: the coordinator's, and the session's zone
--= zones
SELECT count(*) FROM facts WHERE tz < now();
--= zones
SELECT count(*) FROM facts WHERE tz > now() OR d > current_date OR ts > localtimestamp;
--= zones
SELECT id FROM facts WHERE tz >= date_trunc('day', timestamptz '2024-03-10 12:00') AND tz < date_trunc('day', timestamptz '2024-03-11 12:00');
--= zones
SELECT id FROM facts WHERE date_trunc('day', tz) = timestamptz '2024-03-10';
--= zones
SELECT id FROM facts WHERE tz > '2024-03-10'::date AND tz < '2024-03-10'::date + 1;
--= zones
SELECT id FROM facts WHERE tz + interval '1 day' > timestamptz '2024-03-20 00:00' AND tz - interval '1 month' < timestamp '2024-02-20 06:00';
--= zones
SELECT id FROM facts WHERE extract(hour FROM tz) = 2 AND extract(day FROM tz) = 10;
--= zones
SELECT id, now() > tz, current_date > d, tz::date - d FROM facts WHERE id < 40;
SELECT count(*) FROM facts WHERE now() = now() AND transaction_timestamp() <= statement_timestamp() OR id = 3;
SELECT count(DISTINCT now()), count(DISTINCT current_timestamp), count(*) FROM facts;
SELECT now() = x.n FROM (SELECT DISTINCT now() AS n FROM facts) x;
SELECT count(*) FROM facts WHERE d < 'tomorrow'::date AND d > 'epoch'::date;
SELECT id FROM types WHERE ts > 'now'::timestamp AND ts < 'infinity';
SELECT id, d, ts, iv FROM types WHERE d::text LIKE '%2020%' OR iv::text LIKE '%1%';
SELECT id, mo::text, f8::text, bt::text, ia::text FROM types WHERE id < 30;

-- Volatile and stable functions stay on the coordinator (R43)
--= count
SELECT id, nextval('diff.seq') FROM facts WHERE g = 1;
SELECT count(DISTINCT n) = count(*), max(n) - min(n) + 1 = count(*) FROM (SELECT nextval('diff.seq') AS n FROM facts) x;
--= count
SELECT id, random(), clock_timestamp(), gen_random_uuid() FROM facts WHERE g = 2;
SELECT count(*) FROM facts WHERE random() >= 0;
SELECT count(*) FROM facts WHERE random() > 2;
SELECT sum(CASE WHEN random() < 2 THEN 1 ELSE 0 END), max(id * 0 + floor(random())) FROM facts;
SELECT g, count(*) FROM facts WHERE random() > -1 GROUP BY g;
SELECT DISTINCT current_database() = x.d FROM (SELECT current_database() AS d FROM facts) x;
SELECT current_schemas(false)::text LIKE '%diff%', count(*) FROM facts GROUP BY 1;
SELECT id, pg_typeof(n), format('%s-%L', id, t) FROM facts WHERE id < 20;
SELECT count(*) FROM facts WHERE pg_backend_pid() = (SELECT pg_backend_pid());
SELECT DISTINCT pg_backend_pid() = (SELECT pg_backend_pid()) FROM facts;
SELECT count(*) FROM facts WHERE inet_server_port() IS NOT DISTINCT FROM (SELECT inet_server_port());
SELECT txid_current() = max(x) FROM (SELECT DISTINCT txid_current() AS x FROM facts) y;
SELECT twice(g), count(*) FROM facts WHERE twice(g) > 20 GROUP BY 1;
SELECT id, twice(id::int) FROM facts WHERE twice(id::int) = 44;
SELECT order_count(3), order_count(4), order_count(-1);
SELECT id, order_count(id) FROM cust;
SELECT * FROM orders_of(5);
SELECT c.id, o.o_id FROM cust c, orders_of(c.id) o WHERE c.id < 5;
SELECT generate_series(1, id % 3), id FROM facts WHERE id < 20;
SELECT id, unnest(a) FROM facts WHERE id < 20;
SELECT id, set_config('diff.x', id::text, false) FROM facts WHERE id < 5;

-- Whole rows and system columns
--= zones
SELECT f FROM facts f WHERE id < 20;
SELECT f.g, count(f) FROM facts f GROUP BY f.g;
--= zones
SELECT f.tz, f FROM facts f WHERE g = 3;
SELECT row_to_json(o) FROM orders o WHERE o_id < 10;
SELECT to_jsonb(i) - 'line' FROM items i WHERE part = 3;
SELECT o FROM orders o WHERE o = ROW(3, 3, NULL, 10.5, '2024-01-04')::orders;
SELECT o IS NULL, o IS NOT NULL, count(*) FROM orders o GROUP BY 1, 2;
SELECT o.o_id, i FROM orders o LEFT JOIN items i ON i.o_id = o.o_id AND i.part = 4 WHERE o.o_id < 60;
SELECT max(o::text) FROM orders o;
SELECT count(*), count(DISTINCT o) FROM orders o;
SELECT id, tableoid > 0, ctid IS NOT NULL FROM facts WHERE id < 10;
SELECT count(*) FROM facts WHERE tableoid IS NOT NULL;
SELECT sum(n) FROM (SELECT tableoid, count(*) AS n FROM facts GROUP BY tableoid) x WHERE n > 0;
--= count
SELECT tableoid::regclass, ctid, * FROM mixed;
SELECT count(*) FROM facts f JOIN orders o ON f.id = o.o_id WHERE f.tableoid <> 0;

-- Row locks
SELECT id, t FROM facts WHERE id = 5 FOR UPDATE;
SELECT id FROM facts WHERE g = 3 FOR SHARE;
SELECT o.o_id, c.name FROM orders o JOIN cust c ON c.id = o.cust WHERE o.o_id < 30 FOR UPDATE OF o;
SELECT o.o_id, i.line FROM orders o JOIN items i USING (o_id) WHERE o.cust = 2 FOR NO KEY UPDATE;
--= ordered
SELECT id FROM facts WHERE g = 4 ORDER BY id LIMIT 5 FOR UPDATE;
SELECT id FROM facts WHERE id < 4 FOR UPDATE NOWAIT;
SELECT id FROM facts WHERE id < 4 FOR UPDATE SKIP LOCKED;
SELECT * FROM (SELECT id FROM facts WHERE id < 6 FOR UPDATE) x WHERE id > 2;

-- Views: of another owner, with a barrier, with groups
SELECT count(*), sum(i4), max(g) FROM facts_view;
SELECT id, h FROM facts_view WHERE g = 6;
--= zones
SELECT day, count(*) FROM facts_view GROUP BY day;
SELECT v.id, f.t FROM facts_view v JOIN facts f USING (id) WHERE f.g = 1;
SELECT * FROM facts_barrier WHERE h = 'h1';
SELECT count(*) FROM facts_barrier WHERE id > 100;
SELECT * FROM orders_grouped WHERE total > 900;
SELECT c.name, v.n FROM cust c JOIN orders_grouped v ON v.cust = c.id WHERE c.region = 'north';

-- Hostile text in places that a deparser may print without quotes (R50)
--= error
SELECT extract('year'', (SELECT 1)); --' FROM d) FROM facts;
--= error
SELECT id FROM facts WHERE extract("year FROM d) IS NULL OR (1=1) --" FROM d) = 1;
SELECT id, extract("YeaR" FROM d), extract('month' FROM ts), date_part('day', tz) IS NULL FROM facts WHERE extract("year" FROM d) = 2023;
SELECT id AS "x"" FROM facts; --", 'a''b\c' AS "select" FROM facts WHERE t <> 'x'' OR 1=1 --' AND id < 5;
SELECT id FROM facts WHERE t = E'\\'' OR true --' OR t = '$1' OR t = '@1@' OR t = '{}' OR t = '%s %1$s' OR id = 2;
SELECT id, '$1', '@1@', '%s', 'diff_seven.facts', U&'\0061\+01F600' FROM facts WHERE id < 3;
SELECT id FROM types WHERE t = U&'\6F22\5B57\+01F600' OR t = $q$it's$q$;
SELECT position('x' IN t), overlay(t PLACING 'yy' FROM 2 FOR 1), trim(BOTH 't' FROM t), substring(t FROM '[0-9]+'), t COLLATE "C" < 'text 5', normalize(t) FROM facts WHERE id < 40;
SELECT id FROM facts WHERE t OPERATOR(pg_catalog.~~) 'text 1_' AND (t IS NORMALIZED) AND t ^@ 'text';
SELECT id, i4 IS DISTINCT FROM g, (d, d + 3) OVERLAPS (date '2024-01-01', date '2024-01-02'), ts AT TIME ZONE 'Asia/Tokyo' FROM facts WHERE id < 30;
SELECT id, (ARRAY[g, 2])[1], ARRAY[[1, g]], (cmp).b, ROW(g, h) < ROW(5, 'h2'), g::text::varchar(1), h::char(1), CAST(i4 AS numeric(12, 2)), '{"a": 1}'::jsonb -> 'a' FROM facts WHERE id < 30;
