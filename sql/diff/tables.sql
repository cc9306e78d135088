-- tables.sql - the tables of the differential tests, in one schema
--
--   \set schema diff_seven   the schema to make
--   \set shards 7            number of shards; 0: plain tables
--
-- Needs types.sql. Rows are made in diff_plain and copied from there, so diff_plain comes first.

CREATE SCHEMA :schema;
SET search_path = :schema, diff;

SELECT :shards > 0 AS sharded, :shards > 1 AS several \gset
\if :sharded
SELECT * FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS ' || :'schema') WHERE NOT ok;
-- Nodes in turn.
SELECT min(srvname) AS node_a, max(srvname) AS node_b
  FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
 WHERE fdwname = 'shardfdw' AND srvname <> 'shardfdw_cluster' \gset
\endif

-- One column of each type; columns dropped in front, in the middle and at the end.
CREATE TABLE types (
	gone1 int, id bigint NOT NULL, b bool, i2 int2, i4 int4, i8 int8, n numeric, n2 numeric(12,3), f4 float4, f8 float8,
	t text, vc varchar(20), c char(8), nm name, q "char", bt bytea, gone2 text,
	d date, ts timestamp, tz timestamptz, ti time, tt timetz, iv interval, u uuid, ip inet, net cidr, ma macaddr,
	j json, jb jsonb, ia int[], ta text[], e diff.mood, ea diff.mood[], dom diff.posint, cmp diff.pair,
	ir int4range, tr tstzrange, bi bit(5), vb varbit, pt point, bx box, mo money, o oid, gone3 int
);
ALTER TABLE types DROP COLUMN gone1, DROP COLUMN gone2, DROP COLUMN gone3;

CREATE TABLE facts (
	id bigint NOT NULL, g int, h text, i2 int2, i4 int4, i8 int8, n numeric, f4 float4, f8 float8, iv interval, b bool, bi bit(8),
	mo money, d date, ts timestamp, tz timestamptz, ti time, a int[], cmp diff.pair, t text, vc varchar(12), ip inet, e diff.mood
);

CREATE TABLE orders (o_id bigint NOT NULL, cust int, status text, total numeric(10,2), day date);
CREATE TABLE items (o_id bigint NOT NULL, line int NOT NULL, part int, qty int, price numeric(10,2));
CREATE TABLE cust (id int PRIMARY KEY, name text, region text);	-- plain in every schema

CREATE TABLE nothing (id bigint, i int, n numeric, f float8, t text, b bool);
CREATE TABLE texts (k text, v int, w text);
CREATE TABLE chars (k char(6), v int);
CREATE TABLE numerics (k numeric, v int);
CREATE TABLE stamps (k timestamptz, v int);
CREATE TABLE uuids (k uuid, v int);
CREATE TABLE "Odd ""Table" (
	"K ey" bigint, "sel""ect" int, "UPPER" text, "Ünï cödé" text, "a.b" int, "$1" int, "--" text, "back\slash" text, "group" int
);

\if :sharded
CREATE TABLE multi (a int, b text, v numeric) PARTITION BY HASH (a, b);
CREATE TABLE ranges (d date, v int, t text) PARTITION BY RANGE (d);
CREATE TABLE ranges2 (a int, b int, v int) PARTITION BY RANGE (a, b);
CREATE TABLE lists (k text, v int) PARTITION BY LIST (k);
CREATE TABLE mixed (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE moods (k diff.mood, v int) PARTITION BY LIST (k);
\else
CREATE TABLE multi (a int, b text, v numeric);
CREATE TABLE ranges (d date, v int, t text);
CREATE TABLE ranges2 (a int, b int, v int);
CREATE TABLE lists (k text, v int);
CREATE TABLE mixed (id int, v text);
CREATE TABLE moods (k diff.mood, v int);
\endif

\if :sharded

-- types and orders have rows when they are sharded; the others are sharded empty and filled then.
INSERT INTO types SELECT * FROM diff_plain.types;
INSERT INTO orders SELECT * FROM diff_plain.orders;
INSERT INTO cust SELECT * FROM diff_plain.cust;
SELECT shardfdw.shard_table('types', 'id', shards => :shards);
SELECT shardfdw.shard_table('facts', 'id', shards => :shards);
SELECT shardfdw.shard_table('orders', 'o_id', shards => :shards);
SELECT shardfdw.shard_table('items', 'o_id', colocate_with => 'orders');
SELECT shardfdw.shard_table('nothing', 'id', shards => :shards);
SELECT shardfdw.shard_table('texts', 'k', shards => :shards);
SELECT shardfdw.shard_table('chars', 'k', shards => :shards);
SELECT shardfdw.shard_table('numerics', 'k', shards => :shards);
SELECT shardfdw.shard_table('stamps', 'k', shards => :shards);
SELECT shardfdw.shard_table('uuids', 'k', shards => :shards);
SELECT shardfdw.shard_table('"Odd ""Table"', 'K ey', shards => :shards);
SELECT shardfdw.shard_table('multi', shards => :shards);
\if :several
SELECT shardfdw.create_shard('ranges', 'ranges_old', 'FROM (MINVALUE) TO (''2020-01-01'')', :'node_a');
SELECT shardfdw.create_shard('ranges', 'ranges_20', 'FROM (''2020-01-01'') TO (''2021-01-01'')', :'node_b');
SELECT shardfdw.create_shard('ranges', 'ranges_21', 'FROM (''2021-01-01'') TO (''2022-01-01'')', :'node_a');
SELECT shardfdw.create_shard('ranges', 'ranges_22', 'FROM (''2022-01-01'') TO (''2023-01-01'')', :'node_b');
SELECT shardfdw.create_shard('ranges', 'ranges_23', 'FROM (''2023-01-01'') TO (''2024-01-01'')', :'node_a');
SELECT shardfdw.create_shard('ranges', 'ranges_24', 'FROM (''2024-01-01'') TO (''2025-01-01'')', :'node_b');
SELECT shardfdw.create_shard('ranges', 'ranges_rest', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('ranges2', 'ranges2_1', 'FROM (MINVALUE, MINVALUE) TO (10, MINVALUE)', :'node_a');
SELECT shardfdw.create_shard('ranges2', 'ranges2_2', 'FROM (10, MINVALUE) TO (10, 5)', :'node_b');
SELECT shardfdw.create_shard('ranges2', 'ranges2_3', 'FROM (10, 5) TO (20, MAXVALUE)', :'node_a');
SELECT shardfdw.create_shard('ranges2', 'ranges2_4', 'FROM (20, MAXVALUE) TO (MAXVALUE, MAXVALUE)', :'node_b');
SELECT shardfdw.create_shard('moods', 'moods_sad', 'IN (''sad'', NULL)', :'node_a');
SELECT shardfdw.create_shard('moods', 'moods_ok', 'IN (''o''''k'')', :'node_b');
SELECT shardfdw.create_shard('moods', 'moods_rest', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('lists', 'lists_ab', 'IN (''a'', ''b'')', :'node_a');
SELECT shardfdw.create_shard('lists', 'lists_c', 'IN (''c'')', :'node_b');
SELECT shardfdw.create_shard('lists', 'lists_null', 'IN (NULL)', :'node_a');
SELECT shardfdw.create_shard('lists', 'lists_rest', 'DEFAULT', :'node_b');
CREATE TABLE mixed_local PARTITION OF mixed FOR VALUES FROM (0) TO (50);
SELECT shardfdw.create_shard('mixed', 'mixed_1', 'FROM (50) TO (100)', :'node_a');
SELECT shardfdw.create_shard('mixed', 'mixed_2', 'FROM (100) TO (200)', :'node_b');
\else
SELECT shardfdw.create_shard('ranges', 'ranges_all', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('ranges2', 'ranges2_all', 'FROM (MINVALUE, MINVALUE) TO (MAXVALUE, MAXVALUE)', :'node_a');
SELECT shardfdw.create_shard('moods', 'moods_all', 'DEFAULT', :'node_a');
SELECT shardfdw.create_shard('lists', 'lists_all', 'DEFAULT', :'node_a');
CREATE TABLE mixed_local PARTITION OF mixed FOR VALUES FROM (0) TO (50);
SELECT shardfdw.create_shard('mixed', 'mixed_1', 'FROM (50) TO (200)', :'node_b');
\endif
INSERT INTO facts SELECT * FROM diff_plain.facts;
INSERT INTO items SELECT * FROM diff_plain.items;
INSERT INTO texts SELECT * FROM diff_plain.texts;
INSERT INTO chars SELECT * FROM diff_plain.chars;
INSERT INTO numerics SELECT * FROM diff_plain.numerics;
INSERT INTO stamps SELECT * FROM diff_plain.stamps;
INSERT INTO moods SELECT * FROM diff_plain.moods;
INSERT INTO uuids SELECT * FROM diff_plain.uuids;
INSERT INTO "Odd ""Table" SELECT * FROM diff_plain."Odd ""Table";
INSERT INTO multi SELECT * FROM diff_plain.multi;
INSERT INTO ranges SELECT * FROM diff_plain.ranges;
INSERT INTO ranges2 SELECT * FROM diff_plain.ranges2;
INSERT INTO lists SELECT * FROM diff_plain.lists;
INSERT INTO mixed SELECT * FROM diff_plain.mixed;

\else

INSERT INTO types
SELECT g,
	CASE WHEN g % 7 > 0 THEN g % 2 = 0 END,
	CASE WHEN g % 11 > 0 THEN g * 300 - 32768 END,
	CASE WHEN g % 5 > 0 THEN g * 1000003 - 100000000 END,
	CASE WHEN g % 13 > 0 THEN g * 9007199254740993 - 1000000000000000000 END,
	CASE g % 12 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' WHEN 4 THEN 0
		WHEN 5 THEN 1e40 + g WHEN 6 THEN 1e-20 * g ELSE (g - 90) * 1.2345 END,
	CASE WHEN g % 6 > 0 THEN (g - 77) / 8.0 END,
	CASE g % 10 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' WHEN 4 THEN '-0'
		WHEN 5 THEN 3.4028235e38 WHEN 6 THEN 1e-40 ELSE g / 3.0 END::float4,
	CASE g % 10 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' WHEN 4 THEN '-0'
		WHEN 5 THEN 1.7976931348623157e308 WHEN 6 THEN 4.9e-324 ELSE g / 3.0 END::float8,
	CASE g % 16 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'it''s' WHEN 3 THEN 'back\slash' WHEN 4 THEN E'tab\there' WHEN 5 THEN E'line\nfeed\r'
		WHEN 6 THEN 'żółw €' WHEN 7 THEN '漢字😀' WHEN 8 THEN '"quoted"' WHEN 9 THEN '\N' WHEN 10 THEN '\.' WHEN 11 THEN 'a,b;c' WHEN 12 THEN 'NULL'
		WHEN 13 THEN repeat('long ' || g, 2000) WHEN 14 THEN '100%_' ELSE 'plain ' || g END,
	CASE g % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'abc  ' ELSE 'v' || g END,
	CASE g % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'ab  ' ELSE 'c' || g END,
	CASE WHEN g % 9 > 0 THEN 'name' || g END,
	CASE WHEN g % 3 > 0 THEN chr(65 + g % 26) END::"char",
	CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN '\x00ff5c27' WHEN 3 THEN '\x5c2e' ELSE decode(md5(g::text), 'hex') END::bytea,
	CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN '0044-03-15 BC' WHEN 4 THEN '5874897-12-31' ELSE date '2020-01-01' + g END,
	CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN '4713-01-01 00:00:00 BC' WHEN 4 THEN '294276-12-31 23:59:59.999999'
		ELSE timestamp '2020-02-27 22:30:00.123456' + g * interval '7 hours 13 min' END,
	CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN '4713-01-01 00:00:00 BC'
		ELSE timestamptz '2021-03-27 22:30:00+00' + g * interval '5 hours 11 min 0.000001 s' END,
	CASE g % 8 WHEN 0 THEN NULL WHEN 1 THEN '24:00' WHEN 2 THEN '00:00' ELSE time '01:02:03.000004' + g * interval '7 min' END,
	CASE g % 8 WHEN 0 THEN NULL WHEN 1 THEN '24:00:00-12' WHEN 2 THEN '00:00:00+14:30' ELSE timetz '01:02:03.5+02' + g * interval '7 min' END,
	CASE g % 7 WHEN 0 THEN NULL WHEN 1 THEN '-1 year -2 mons +3 days -04:05:06.7' WHEN 2 THEN '178000000 years' WHEN 3 THEN '30 days' WHEN 4 THEN '1 mon'
		ELSE g * interval '1 day 1 hour' END,
	CASE WHEN g % 10 > 0 THEN md5(g::text) END::uuid,
	CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN '::1' WHEN 2 THEN '10.0.0.0/8' ELSE '192.168.0.' || g END::inet,
	CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN '2001:db8::/32' ELSE '10.' || g || '.0.0/16' END::cidr,
	CASE WHEN g % 5 > 0 THEN '08:00:2b:01:02:' || lpad(to_hex(g), 2, '0') END::macaddr,
	CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN 'null' WHEN 2 THEN '{"b":  1, "a": 2, "b": 3}' ELSE '[1, "x\"y", {"k": "' || g || '"}]' END::json,
	CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN 'null' WHEN 2 THEN '{"b":  1, "a": 2, "b": 3}' ELSE '{"k": ' || g % 5 || ', "tags": ["a", "' || g || '"]}' END::jsonb,
	CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN '{1,NULL,3}' WHEN 3 THEN '[0:1]={7,8}' WHEN 4 THEN '{{1,2},{3,4}}' ELSE ARRAY[g, g % 3] END::int[],
	CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN '{"",NULL,"NULL"}' WHEN 3 THEN '{"a\"b","c\\d","e,f"}' ELSE ARRAY['x' || g, 'ż'] END::text[],
	CASE g % 4 WHEN 0 THEN NULL WHEN 1 THEN 'sad' WHEN 2 THEN 'o''k' ELSE 'happy' END::diff.mood,
	CASE g % 3 WHEN 0 THEN NULL WHEN 1 THEN '{}' ELSE '{sad,NULL,happy}' END::diff.mood[],
	CASE WHEN g % 4 > 0 THEN g END::diff.posint,
	CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN ROW(NULL, NULL)::diff.pair WHEN 2 THEN ROW(1, 'a"b,(c')::diff.pair ELSE ROW(g % 4, 'p' || g % 3)::diff.pair END,
	CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN 'empty' WHEN 2 THEN '(,10]' ELSE int4range(g, g + 10) END,
	CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN 'empty' WHEN 2 THEN '(,"2021-06-01 00:00:00+00"]'
		ELSE tstzrange(timestamptz '2021-01-01 00:00+00' + g * interval '1 day', timestamptz '2021-01-03 00:00+00' + g * interval '1 day') END,
	CASE WHEN g % 4 > 0 THEN (g % 32)::bit(5) END,
	CASE g % 4 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE g::bit(8) END::varbit,
	CASE WHEN g % 4 > 0 THEN point(g / 3.0, -g) END,
	CASE WHEN g % 4 > 0 THEN box(point(g, g), point(0, 0)) END,
	CASE WHEN g % 4 > 0 THEN (g - 50) * 1.11 END::money,
	CASE WHEN g % 4 > 0 THEN 4294967295 - g END::oid
FROM generate_series(1, 180) g;

INSERT INTO facts
SELECT g,
	CASE WHEN g % 17 > 0 THEN g % 17 END,
	CASE WHEN g % 5 > 0 THEN 'h' || g % 5 END,
	CASE WHEN g % 7 > 0 THEN g % 1000 + 31000 END,
	CASE WHEN g % 8 > 0 THEN g * 1000000 - 1000000000 END,
	CASE WHEN g % 9 > 0 THEN 9000000000000000000 - g END,
	CASE WHEN g % 10 > 0 THEN (g % 100) / 4.0 + 12345678901234567890 END,
	CASE WHEN g % 11 > 0 THEN (g % 64) / 4.0 END,
	CASE WHEN g % 12 > 0 THEN (g % 512) / 8.0 - 10 END,
	CASE WHEN g % 13 > 0 THEN g * interval '1 day 3 hours' - interval '2 months' END,
	CASE WHEN g % 6 > 0 THEN g % 17 <> 3 END,
	CASE WHEN g % 7 > 0 THEN (g % 256 | 16)::bit(8) END,
	CASE WHEN g % 7 > 0 THEN (g % 90) / 10.0 END::money,
	CASE WHEN g % 14 > 0 THEN date '2023-12-25' + g % 30 END,
	timestamp '2023-12-25 00:00' + g * interval '97 min',
	timestamptz '2024-03-09 00:00+00' + g * interval '17 min',
	time '00:00' + g * interval '13 min',
	CASE WHEN g % 15 > 0 THEN ARRAY[g % 6, g % 4] END,
	CASE WHEN g % 15 > 0 THEN ROW(g % 6, 'x' || g % 4)::diff.pair END,
	CASE WHEN g % 16 > 0 THEN 'text ' || g % 29 END,
	CASE WHEN g % 16 > 0 THEN 'vc' || g % 3 || repeat(' ', g % 2) END,
	CASE WHEN g % 16 > 0 THEN '10.0.0.' || g % 20 END::inet,
	CASE g % 4 WHEN 0 THEN NULL WHEN 1 THEN 'sad' WHEN 2 THEN 'o''k' ELSE 'happy' END::diff.mood
FROM generate_series(1, 1500) g;

INSERT INTO orders
SELECT g, CASE WHEN g % 13 > 0 THEN g % 40 END, (ARRAY['new', 'paid', 'sent', NULL])[g % 4 + 1], (g % 97) * 3.5, date '2024-01-01' + g % 60
FROM generate_series(1, 300) g;
-- Orders without items, and items without an order.
INSERT INTO items
SELECT g % 330 + 20, g / 330, g % 50, g % 9, (g % 31) * 1.25
FROM generate_series(0, 999) g;
INSERT INTO cust SELECT g, 'cust ' || g, (ARRAY['north', 'south', NULL])[g % 3 + 1] FROM generate_series(1, 30) g;

INSERT INTO texts SELECT CASE WHEN g % 20 > 0 THEN (ARRAY['a', 'A', '', 'ż', 'it''s', 'back\slash', '漢', ' a', 'a ', 'b'])[g % 10 + 1] || g / 60 END, g, 'w' || g % 4
FROM generate_series(1, 200) g;
INSERT INTO texts VALUES ('', 0, NULL), (NULL, NULL, NULL), ('%', 1, '_');
INSERT INTO chars SELECT CASE WHEN g % 9 > 0 THEN 'c' || g % 9 || repeat(' ', g % 3) END, g FROM generate_series(1, 60) g;
INSERT INTO numerics SELECT CASE g % 10 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 1.0 WHEN 3 THEN 1.00 WHEN 4 THEN 0 WHEN 5 THEN -0.0 ELSE g / 7.0 END, g
FROM generate_series(1, 80) g;
INSERT INTO stamps SELECT CASE WHEN g % 9 > 0 THEN timestamptz '2024-03-10 04:30+00' + g * interval '30 min' END, g FROM generate_series(1, 120) g;
INSERT INTO moods SELECT CASE g % 4 WHEN 0 THEN NULL WHEN 1 THEN 'sad' WHEN 2 THEN 'o''k' ELSE 'happy' END::diff.mood, g FROM generate_series(1, 40) g;
INSERT INTO uuids SELECT CASE WHEN g % 9 > 0 THEN md5((g % 30)::text) END::uuid, g FROM generate_series(1, 60) g;
INSERT INTO "Odd ""Table" SELECT g, g % 3, 'U' || g % 4, 'ż' || g % 5, g % 6, g % 7, '-- ' || g, 'b\' || g % 2, g % 2 FROM generate_series(1, 50) g;
INSERT INTO multi SELECT CASE WHEN g % 9 > 0 THEN g % 12 END, CASE WHEN g % 8 > 0 THEN 'b' || g % 5 END, g / 4.0 FROM generate_series(1, 200) g;
INSERT INTO ranges SELECT CASE WHEN g % 25 > 0 THEN date '2018-12-31' + g * 11 END, g, 't' || g % 3 FROM generate_series(1, 300) g;
INSERT INTO ranges VALUES ('2020-01-01', 1001, 'edge'), ('2019-12-31', 1002, 'edge'), ('2025-01-01', 1003, 'edge'), ('infinity', 1004, 'edge'), ('-infinity', 1005, 'edge');
INSERT INTO ranges2 SELECT g % 30, g % 8, g FROM generate_series(1, 240) g;
INSERT INTO lists SELECT CASE WHEN g % 7 > 0 THEN chr(96 + g % 7) END, g FROM generate_series(1, 70) g;
INSERT INTO mixed SELECT g, 'm' || g % 10 FROM generate_series(0, 199) g;

\endif

CREATE INDEX ON cust (region);
ANALYZE cust;

CREATE VIEW facts_view AS SELECT id, g, h, i4, n, tz, date_trunc('day', tz) AS day FROM facts WHERE g <> 5;
ALTER VIEW facts_view OWNER TO regress_diff_owner;
GRANT USAGE ON SCHEMA :schema TO regress_diff_owner;
GRANT SELECT ON facts TO regress_diff_owner;
CREATE VIEW facts_barrier WITH (security_barrier) AS SELECT id, g, h FROM facts WHERE g = 4;
CREATE VIEW orders_grouped AS SELECT cust, count(*) AS n, sum(total) AS total FROM orders GROUP BY cust;

-- An inlined SQL function, a set-returning one, one of PL/pgSQL.
CREATE FUNCTION order_count(c int) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM orders WHERE cust = c';
CREATE FUNCTION orders_of(c int) RETURNS SETOF orders STABLE LANGUAGE sql AS 'SELECT * FROM orders WHERE cust = c';
CREATE FUNCTION twice(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 2 * i; END';

RESET search_path;
