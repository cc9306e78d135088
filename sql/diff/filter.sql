-- filter.sql - every type as output and in conditions

-- Whole rows and single columns of all types.
SELECT * FROM types;
SELECT t FROM types x;
SELECT x FROM types x WHERE id < 50;
SELECT (x).cmp, (x).e FROM types x WHERE (x).id % 7 = 0;
SELECT b, i2, i4, i8, n, n2, f4, f8 FROM types;
SELECT length(t), t, vc, c, nm, q, bt FROM types;
SELECT d, ts, ti, tt, iv FROM types;
--= zones
SELECT id, ts, tz, tr FROM types;
SELECT u, ip, net, macaddr8(ma), j, jb, ia, ta, e, ea, dom, cmp, ir, tr, bi, vb, pt, bx, mo, o FROM types;
SELECT count(*) FROM types;
SELECT 1 FROM types;
SELECT FROM types;
SELECT NULL::text, NULL FROM types WHERE id < 4;

-- bool
SELECT id FROM types WHERE b;
SELECT id FROM types WHERE NOT b;
SELECT id FROM types WHERE b IS NOT TRUE;
SELECT id FROM types WHERE b IS UNKNOWN;
SELECT id, b AND i4 > 0, b OR i4 > 0, NOT b FROM types;

-- Integers, their comparisons with each other, overflow.
SELECT id, i2 FROM types WHERE i2 > -20000::int2 AND i2 <= 0;
SELECT id FROM types WHERE i2 < i4 AND i4 < i8;
SELECT id FROM types WHERE i8 BETWEEN 0 AND 9007199254740993;
SELECT id FROM types WHERE i8 NOT BETWEEN SYMMETRIC 900719925474099300 AND 0;
SELECT id FROM types WHERE i4 IN (-98999997, -97999994, NULL, 5);
SELECT id FROM types WHERE i4 NOT IN (-98999997, -97999994);
SELECT id FROM types WHERE i4 NOT IN (-98999997, NULL);
SELECT id FROM types WHERE i4 = ANY (ARRAY[-98999997, NULL, -96999991]);
SELECT id FROM types WHERE i4 <> ALL (ARRAY[-98999997, -96999991]);
SELECT id FROM types WHERE id % 10 = 3 AND i4 / 1000 > -90000;
SELECT id, i4 + 1, -i4, i4 * 2::bigint, i4 & 255, i4 # 3, ~i4, i4 << 2, @ i4 FROM types WHERE id > 100;
--= error
SELECT i2 * i2 FROM types;
--= error
SELECT 1 / (id - 7) FROM types;
--= error
SELECT id FROM types WHERE 1 / (id - 7) > 5;
SELECT id FROM types WHERE CASE WHEN id = 7 THEN false ELSE 1 / (id - 7) >= 0 END;

-- Numbers that are none, and those that are hard to print.
SELECT id, n FROM types WHERE n = 'NaN';
SELECT id, n FROM types WHERE n > 0;
SELECT id, n FROM types WHERE n = 'Infinity' OR n = '-Infinity';
SELECT id, n + 1, n * 2, round(n, 2) FROM types WHERE n < 1e30 AND n > -1e30;
SELECT id, n2 FROM types WHERE n2 = 0.125;
SELECT id, f4 FROM types WHERE f4 = 'NaN' OR f4 = 'Infinity';
SELECT id, f4 FROM types WHERE f4 = 0;
SELECT id, f8 FROM types WHERE f8 = 0 OR f8 = '-Infinity';
SELECT id, f8 FROM types WHERE f8 > 1 AND f8 < 1e300;
SELECT id FROM types WHERE f8 = 7 / 3.0::float8;
SELECT id FROM types WHERE f4 = (17 / 3.0)::float4;
SELECT id FROM types WHERE f4 = 5.6666665;
SELECT id, f8 * 0, f8 + 1, -f8 FROM types WHERE f8 < 1000;
SELECT id, sqrt(abs(f8)), floor(f8), round(f8) FROM types WHERE abs(f8) < 100;
SELECT id FROM types WHERE n2 > 3 AND n2 <= 4.5::numeric AND f8 IS NOT NULL;

-- text, varchar, char
SELECT id, t FROM types WHERE t = '';
SELECT id, t FROM types WHERE t = 'it''s' OR t = 'back\slash' OR t = E'tab\there' OR t = E'line\nfeed\r';
SELECT id FROM types WHERE t IN ('żółw €', '漢字😀', '"quoted"', '\N', '\.', 'NULL');
SELECT id FROM types WHERE t LIKE 'plain%';
SELECT id FROM types WHERE t LIKE '%\%\_' OR t LIKE 'a,_;c';
SELECT id FROM types WHERE t NOT LIKE '%i%';
SELECT id FROM types WHERE t ILIKE 'PLAIN 1%';
SELECT id FROM types WHERE t ~ '^[a-z]+\\' OR t ~* 'ŻÓŁW';
SELECT id FROM types WHERE t SIMILAR TO '(plain|it)%';
SELECT id FROM types WHERE t > 'i' AND t < 'q';
SELECT id FROM types WHERE t COLLATE "C" >= 'b';
SELECT id, upper(t), lower(vc), length(c), octet_length(t), substr(t, 2, 3), replace(t, 'a', ''''), md5(t) FROM types WHERE length(t) < 100;
SELECT id, t || '-' || vc || c || '.', concat(t, '|', vc, '|', c), left(t, 2), reverse(vc), quote_literal(vc) FROM types WHERE id < 40;
SELECT id FROM types WHERE vc = 'abc  ';
SELECT id FROM types WHERE vc = 'abc';
SELECT id FROM types WHERE c = 'ab';
SELECT id FROM types WHERE c = 'ab    ' OR c = 'c3';
SELECT id FROM types WHERE c = vc OR c = nm::text;
SELECT id FROM types WHERE c LIKE 'c1%  ';
SELECT id, nm FROM types WHERE nm = 'name17' OR nm > 'name98';
SELECT id, q FROM types WHERE q = 'C' OR q > 'X';
SELECT id FROM types WHERE t IS NULL AND vc IS NOT NULL;
SELECT id FROM types WHERE t IS DISTINCT FROM 'it''s' AND vc IS NOT DISTINCT FROM NULL;
SELECT id, coalesce(t, vc, 'none'), nullif(vc, ''), greatest(vc, c::text, 'm'), least(i4, i2, 5) FROM types WHERE id > 90;

-- bytea
SELECT id, bt FROM types WHERE bt = '';
SELECT id, bt FROM types WHERE bt = '\x00ff5c27' OR bt = E'\\134.';
SELECT id, length(bt), encode(bt, 'base64'), get_byte(bt, 0), bt || '\x00' FROM types WHERE bt <> '';
SELECT id FROM types WHERE bt > '\x80';

-- date, time
SELECT id, d FROM types WHERE d = 'infinity' OR d = '-infinity' OR d < '0001-01-01 BC';
SELECT id, d FROM types WHERE d BETWEEN '2020-02-01' AND '2020-02-29';
SELECT id, d + 7, d - date '2020-01-01', d + interval '1 month', d + time '03:00' FROM types WHERE isfinite(d) AND d < '3000-01-01' AND d > '1900-01-01';
SELECT id, extract(year FROM d), extract(dow FROM d), date_part('week', d), to_char(d, 'YYYY-MM-DD') FROM types WHERE d > '1900-01-01' AND d < '2100-01-01';
SELECT id, ts FROM types WHERE ts >= '2020-03-01' AND ts < timestamp '2020-03-15 12:00';
SELECT id, date_trunc('hour', ts), extract(microseconds FROM ts), ts::date, ts::time FROM types WHERE isfinite(ts) AND ts < '3000-01-01';
SELECT id, ts FROM types WHERE ts < '0001-01-01 BC' OR ts = 'infinity';
--= zones
SELECT id, tz FROM types WHERE tz >= '2021-03-28 01:30' AND tz < '2021-04-03';
--= zones
SELECT id, date_trunc('day', tz), date_trunc('month', tz, 'Europe/Berlin'), extract(hour FROM tz), tz::date, tz::time, tz AT TIME ZONE 'UTC' FROM types WHERE tz > '2000-01-01' AND isfinite(tz);
--= zones
SELECT id FROM types WHERE tz::date = '2021-04-01';
--= zones
SELECT id FROM types WHERE ts > tz OR d = tz;
--= zones
SELECT id, tz::text, ts::timestamptz, d::timestamptz, to_char(tz, 'YYYY-MM-DD HH24:MI TZ') FROM types WHERE id % 9 > 4;
SELECT id, ti, tt FROM types WHERE ti > '12:00' OR tt < '05:00+00';
SELECT id, iv FROM types WHERE iv > interval '20 days' AND iv < interval '100 years';
SELECT id, iv FROM types WHERE iv = interval '1 month';
SELECT id, iv * 2, -iv, justify_days(iv), extract(epoch FROM iv) FROM types WHERE iv < '1000 years';

-- Other types
SELECT id, u FROM types WHERE u = 'c4ca4238-a0b9-2382-0dcc-509a6f75849b' OR u > 'f0000000-0000-0000-0000-000000000000';
SELECT id, ip FROM types WHERE ip << '192.168.0.0/24' AND ip > '192.168.0.100';
SELECT id, host(ip), masklen(net), family(ip), ip + 5 FROM types WHERE ip <> '::1';
SELECT id FROM types WHERE net >>= inet '10.8.0.1';
SELECT id FROM types WHERE ma > '08:00:2b:01:02:80';
SELECT id, jb -> 'k', jb ->> 'tags', jb #> '{tags,1}', jb ? 'a' FROM types;
SELECT id FROM types WHERE jb @> '{"k": 3}';
SELECT id FROM types WHERE jb = '{"a": 2, "b": 3}' OR jb = 'null';
SELECT id FROM types WHERE (jb ->> 'k')::int > 2 AND jb -> 'tags' ? 'a';
SELECT id, j -> 1, j ->> 'b', json_array_length(CASE WHEN json_typeof(j) = 'array' THEN j END) FROM types;
SELECT id FROM types WHERE jsonb_path_exists(jb, '$.k ? (@ > 3)');
SELECT id, ia[1], ia[1:1], array_length(ia, 1), cardinality(ta), ta[2] FROM types;
SELECT id FROM types WHERE 1 = ANY (ia);
SELECT id FROM types WHERE ia @> '{1}' OR ia && ARRAY[2, 7];
SELECT id FROM types WHERE ia = '{{1,2},{3,4}}' OR ia = '[0:1]={7,8}' OR ia = '{}';
SELECT id FROM types WHERE ta = '{"",NULL,"NULL"}' OR 'c\d' = ANY (ta);
SELECT id, array_to_string(ta, ',', '*'), ia[1] + 5, array_position(ta, 'ż') FROM types;
SELECT id, e FROM types WHERE e = 'o''k';
SELECT id, e FROM types WHERE e > 'sad';
SELECT id, e FROM types WHERE e IN ('sad', 'happy') AND id < 60;
SELECT id, e::text, ea[3], enum_range(e) FROM types WHERE id < 20;
SELECT id FROM types WHERE e = ANY (ea);
SELECT id, dom FROM types WHERE dom > 170 OR dom = 3;
SELECT id, dom + 1, -dom FROM types WHERE dom = ANY ('{1,2,5}'::diff.posint[]);
SELECT id, (cmp).a, (cmp).b FROM types WHERE (cmp).a = 1;
SELECT id FROM types WHERE cmp = ROW(1, 'a"b,(c')::diff.pair;
SELECT id FROM types WHERE cmp > ROW(2, 'p1')::diff.pair;
SELECT id FROM types WHERE cmp IS NULL;
SELECT id FROM types WHERE cmp IS NOT NULL;
SELECT id FROM types WHERE ROW(i4, t) > ROW(0, 'm');
SELECT id, ROW(id, b), ROW(cmp, 'x') FROM types WHERE id < 30;
SELECT id FROM types WHERE ir @> 25 OR isempty(ir);
SELECT id, lower(ir), upper_inf(ir), ir * int4range(5, 50) FROM types;
--= zones
SELECT id FROM types WHERE tr @> timestamptz '2021-04-01 00:00' OR tr && tstzrange('2021-05-01', '2021-05-03');
SELECT id, bi & B'00111', vb, length(vb), bi::int FROM types WHERE bi > B'01000' OR vb = '';
SELECT id, pt, pt[0], pt <-> point(0, 0), area(bx) FROM types WHERE pt <@ box(point(0, 0), point(20, -40));
SELECT id, mo, mo * 2, mo::numeric FROM types WHERE mo > 100::money OR mo < 0::money;
SELECT id, o, o::regclass IS NULL FROM types WHERE o > 4294967200;
SELECT id FROM types WHERE o = 'pg_class'::regclass OR id = 5;

-- Shapes of conditions
SELECT id FROM types WHERE true;
SELECT id FROM types WHERE false;
SELECT id FROM types WHERE NULL;
SELECT id FROM types WHERE id = 5 AND id = 6;
SELECT id FROM types WHERE (b OR i4 > 0) AND NOT (t = '' OR vc IS NULL) AND (d, id) > ('2020-03-01', 50);
SELECT id, CASE WHEN b THEN 'yes' WHEN b IS NULL THEN t ELSE vc END, CASE e WHEN 'sad' THEN 1 WHEN 'happy' THEN 2 END FROM types WHERE length(t) < 100;
SELECT id FROM types WHERE CASE WHEN b THEN i4 > 0 ELSE t LIKE 'p%' END;
SELECT id FROM types WHERE COALESCE(i4, 0) = 0 OR COALESCE(t, vc) = 'v3';
SELECT id FROM types WHERE NULLIF(i4 % 5, 0) IS NULL;
SELECT id FROM types WHERE id::text LIKE '1%' AND i4::numeric / 3 > 0 AND f8::text = 'NaN';
SELECT id FROM types WHERE num_nulls(b, i2, t) = 2;
SELECT id FROM types WHERE current_user = session_user AND current_setting('server_version_num')::int > 0 AND id < 10;
SELECT id FROM types WHERE t = current_schema() OR id = 9;
SELECT id FROM types WHERE id IN (SELECT generate_series(3, 9, 3));

-- Other keys, odd names
SELECT * FROM "Odd ""Table";
SELECT "sel""ect", "K ey", "Ünï cödé" FROM "Odd ""Table" WHERE "a.b" = 3 OR "--" = '-- 7';
SELECT "UPPER" AS "an ""alias", "$1" + "group" FROM "Odd ""Table" AS "t;x" WHERE "t;x"."back\slash" = 'b\1' AND "UPPER" <> 'U2';
SELECT "Ünï cödé", count(*), sum("$1") AS "$1", max("--") AS "-- drop" FROM "Odd ""Table" GROUP BY 1;
SELECT * FROM nothing;
SELECT id FROM nothing WHERE t LIKE 'x%' ORDER BY n LIMIT 3;
SELECT * FROM texts WHERE w = 'w1' OR w IS NULL;
SELECT * FROM mixed WHERE v = 'm3';
SELECT id FROM mixed WHERE id BETWEEN 45 AND 55;
SELECT v, count(*) FROM mixed GROUP BY v;
