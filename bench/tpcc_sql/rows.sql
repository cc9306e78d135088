-- The rows of clause 4.3.3 for :warehouses warehouses. Texts have about the lengths that the standard prescribes.
SELECT setseed(0.5) \g /dev/null
CREATE FUNCTION pg_temp.last_name(n int) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$SELECT a[n / 100 % 10 + 1] || a[n / 10 % 10 + 1] || a[n % 10 + 1]
		FROM (SELECT '{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[] AS a) x$$;
CREATE FUNCTION pg_temp.words(length int) RETURNS text VOLATILE LANGUAGE sql AS
	$$SELECT left(md5(random()::text) || repeat('tpc c row ', length / 10), length)$$;

INSERT INTO item SELECT i, 1 + random() * 9999, pg_temp.words(19), (1 + random() * 99)::numeric(5, 2), pg_temp.words(38) FROM generate_series(1, 100000) i;
INSERT INTO warehouse SELECT w, 'name ' || w, 'street', 'street', 'city', 'ST', '123411111', (random() * 0.2)::numeric(4, 4), 300000
	FROM generate_series(1, :warehouses) w;
INSERT INTO district SELECT w, d, 'name ' || d, 'street', 'street', 'city', 'ST', '123411111', (random() * 0.2)::numeric(4, 4), 30000, 3001
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d;
-- the first thousand customers of a district have the thousand last names
INSERT INTO customer SELECT w, d, c, pg_temp.words(12), 'OE', pg_temp.last_name(CASE WHEN c <= 1000 THEN c - 1 ELSE ((random() * 255)::int | (random() * 999)::int) % 1000 END),
		'street', 'street', 'city', 'ST', '123411111', '0123456789012345', now(), CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000,
		(random() * 0.5)::numeric(4, 4), -10, 10, 1, 0, pg_temp.words(400)
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
INSERT INTO history SELECT c_w_id, c_d_id, c_w_id, c_d_id, c_id, now(), 10, pg_temp.words(18) FROM customer;
INSERT INTO stock SELECT w, i, 10 + random() * 90, s, s, s, s, s, s, s, s, s, s, 0, 0, 0, pg_temp.words(38)
	FROM generate_series(1, :warehouses) w, generate_series(1, 100000) i, LATERAL (SELECT left(md5((w * i)::text), 24) AS s) x;
-- each customer has one order; the last 900 of a district are not delivered yet
INSERT INTO orders SELECT w, d, o, 1 + (o * 7 + d) % 3000, now(), CASE WHEN o < 2101 THEN 1 + random() * 9 END, 5 + random() * 10, 1
	FROM generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) o;
INSERT INTO new_order SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_id >= 2101;
INSERT INTO order_line SELECT o_w_id, o_d_id, o_id, n, 1 + random() * 99999, o_w_id, CASE WHEN o_id < 2101 THEN o_entry_d END, 5,
		CASE WHEN o_id < 2101 THEN 0 ELSE (random() * 9999)::numeric(6, 2) END, left(md5(o_id::text), 24)
	FROM orders, LATERAL generate_series(1, o_ol_cnt) n;
