-- COPY FROM in raw mode: each key type, each form of a key's text, each way to leave columns out.
-- Everything is loaded into a plain table as well: same rows, or the same error, and each row in the
-- shard that its key belongs to.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only
SET client_min_messages = warning;
CREATE SCHEMA copy_raw_keys;
SET search_path = copy_raw_keys;
SET intervalstyle = 'postgres';
SET datestyle = 'ISO, MDY';
SELECT count(*) AS nodes FROM shardfdw.run_on_nodes('CREATE SCHEMA copy_raw_keys');

-- Loads data (backslash sequences of printf) into target; result: what went wrong.
CREATE FUNCTION load(target text, columns text, data text, options text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	context text;
	detail text;
	nrows bigint;
BEGIN
	EXECUTE format('COPY %s%s FROM PROGRAM %L %s', target, columns,
				   'printf %b ''' || replace(data, '''', '\0047') || '''', options);
	GET DIAGNOSTICS nrows = ROW_COUNT;
	RETURN nrows || ' rows';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT, detail = PG_EXCEPTION_DETAIL;
	-- which node found it does not matter here
	detail := regexp_replace(detail, '\n?Node ".*$', '');
	RETURN concat_ws(' | ', SQLSTATE, replace(SQLERRM, format('"%s"', target), 'T'), nullif(detail, ''),
					 replace(split_part(context, E'\n', 1), format('COPY %s,', target), 'COPY T,'));
END$$;
-- Loads data into the plain table t_plain and the sharded t.  Result: 'rows' or 'error', or how they differ.
CREATE FUNCTION compare_load(t text, data text, options text DEFAULT '', columns text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plain text := load(t || '_plain', columns, data, options);
	sharded text := load(t, columns, data, options);
BEGIN
	IF sharded <> plain THEN
		RETURN format('%s: %s, CORE SAYS %s', data, sharded, plain);
	END IF;
	RETURN CASE WHEN plain LIKE '% rows' THEN 'rows' ELSE 'error' END;
END$$;
-- Rows of only one of t and t_plain, rows in the wrong shard.
CREATE FUNCTION compare_rows(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	shard regclass;
	result text := '';
BEGIN
	EXECUTE format('SELECT count(*) FROM ((SELECT r::text FROM %1$s r EXCEPT ALL SELECT r::text FROM %1$s_plain r) UNION ALL
					(SELECT r::text FROM %1$s_plain r EXCEPT ALL SELECT r::text FROM %1$s r)) d', t) INTO n;
	IF n > 0 THEN
		result := format(', %s ROWS DIFFER', n);
	END IF;
	FOR shard IN SELECT inhrelid FROM pg_inherits WHERE inhparent = t::regclass LOOP
		EXECUTE format('SELECT count(*) FROM (SELECT * FROM %s OFFSET 0) s WHERE NOT (%s)', shard,
					   coalesce(pg_get_partition_constraintdef(shard), 'true')) INTO n;
		IF n > 0 THEN
			result := result || format(', %s ROWS OF OTHERS IN %s', n, shard);
		END IF;
	END LOOP;
	RETURN result;
END$$;
CREATE FUNCTION compare(t text, data text, options text DEFAULT '', columns text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN compare_load(t, data, options, columns) || compare_rows(t);
END$$;
-- The same for many, each followed by rest.  Which of them are errors depends on the major.
CREATE FUNCTION compare_each(t text, data text[], rest text DEFAULT '', options text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	results text := (SELECT string_agg(DISTINCT result, ', ' ORDER BY result) FROM (SELECT compare_load(t, d || rest, options) AS result FROM unnest(data) d OFFSET 0) s);
BEGIN
	RETURN concat_ws(' ', t, nullif(options, ''), cardinality(data) || ':', results) || compare_rows(t);
END$$;
-- A sharded table and its plain twin: columns k (of the type) and v.
CREATE FUNCTION make(t text, columns text, key text, shards int DEFAULT 4) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %s_plain (%s)', t, columns);
	EXECUTE format('CREATE TABLE %s (%s) PARTITION BY HASH (%s)', t, columns, key);
	PERFORM shardfdw.shard_table(t::regclass, shards => make.shards);
END$$;

-- Integers: the usual form, other forms, and what is none.
SELECT make('i2', 'k smallint, v text', 'k'), make('i4', 'k int, v text', 'k'), make('i8', 'k bigint, v text', 'k');
SELECT compare_each(t, ARRAY['0', '-0', '7', '-7', '007', '+7', ' 7', '7 ', '\\N', '', '-', '+', '--1', '1-', '7a', 'a', '7.0', '1e3', '1_000', '0x10', '0b1', '- 1',
				 '32767', '-32768', '32768', '-32769', '99999', '2147483647', '-2147483648', '2147483648', '-2147483649', '999999999', '1000000000',
				 '0000000000000000000000007', '9223372036854775807', '-9223372036854775808', '9223372036854775808', '999999999999999999', '1234567890123456789',
				 '\\x37', '\\067', '\\7', '1\\', '\\\n7', '\\b7', '\\tz', '\\v7', '1\\2'], '\ta\n')
FROM unnest('{i2,i4,i8}'::text[]) t;
SELECT compare_each(t, array_agg((i * 109)::text), '\tx\n') FROM unnest('{i2,i4,i8}'::text[]) t, generate_series(-50, 50) i GROUP BY t ORDER BY t;
SELECT compare(t, string_agg((i * 7)::text || '\t' || i || '\n', '')) FROM unnest('{i2,i4,i8}'::text[]) t, generate_series(-2000, 2000) i GROUP BY t ORDER BY t;

-- Text: lengths, blanks, escapes, quotes, characters of several bytes.
SELECT make('tx', 'k text, v int', 'k'), make('vc', 'k varchar(5), v int', 'k'), make('bp', 'k char(5), v int', 'k'), make('bn', 'k bpchar, v int', 'k'), make('nm', 'k name, v int', 'k');
SELECT compare_each(t, ARRAY['', 'a', 'abcde', 'abcdef', 'abc  ', 'abcde  ', 'abcdefg  ', '\\N', '\\n', 'a\\tb', 'a\\\\b', 'a\\.b', '\\x41', '\\x4', '\\x4g', '\\xg', '\\101', '\\8', '\\1011',
				 '\0303\0244', '\0303\0244\0303\0244\0303\0244', '\0303\0244\0303\0244\0303\0244\0303\0244\0303\0244', '\0303\0244\0303\0244\0303\0244\0303\0244\0303\0244x',
				 '\0342\0202\0254uro', '\0303', 'a\0303b', '\0377', '\\xc3\\xa4', '\\xc3', '\\303\\244', '\\344', '\\000', '\\x00', '\0342\0202\\254',
				 'a\0000b', repeat('x', 70), repeat('\0303\0244', 40), 'a"b', '"', 'a\rb'], '\t1\n')
FROM unnest('{tx,vc,bp,bn,nm}'::text[]) t;
SELECT compare_each(t, ARRAY['', '""', '"a"', 'a"b"c', '"a""b"', '"a,b"', '"a\nb"', '"a\\b"', 'a\\b', '\\N', '" a "', ' "a"', '"a" ', '"a', 'a"', '"abcdef"', '"abcde  "', '"\0303\0244"', '"\0303"', '\\.', '"\\."', '"a\rb"', '\\x41'], ',1\n', '(FORMAT csv)')
FROM unnest('{tx,vc,bp}'::text[]) t;
SELECT compare_each('tx', ARRAY['|a|', '|a!|b|', '|a!!b|', '|a!b|', 'a!|b', '|a|b|c|', '!', '|a!', '|!||'], ';1\n', $$(FORMAT csv, DELIMITER ';', QUOTE '|', ESCAPE '!')$$);
SELECT compare_each('tx', ARRAY['\\a\\', '\\a\\\\b\\', 'a\\', '\\.\n', '\\.\\'], ',1\n', $$(FORMAT csv, QUOTE '\', ESCAPE '\')$$);

-- NULL markers and FORCE_*.
SELECT compare_each('tx', ARRAY['x\t1\n', '\t1\n', '\\x\t1\n', '\\\\x\t1\n', '\\x78\t1\n', 'long marker\t1\n', '\\long marker\t1\n', '\\N\t1\n'], '', o)
FROM unnest(ARRAY[$$(NULL 'x')$$, $$(NULL '')$$, $$(NULL '\x')$$, $$(NULL 'long marker')$$]) o;
SELECT compare_each('tx', ARRAY['x,1\n', '"x",1\n', ',1\n', '"",1\n', 'x"",1\n', 'y,x\n', 'y,"x"\n', '"x"x,1\n'], '', o)
FROM unnest(ARRAY[$$(FORMAT csv)$$, $$(FORMAT csv, NULL 'x')$$, $$(FORMAT csv, NULL 'x', FORCE_NULL (k))$$, $$(FORMAT csv, NULL 'x', FORCE_NOT_NULL (k))$$,
				 $$(FORMAT csv, FORCE_NULL (k), FORCE_NOT_NULL (k))$$, $$(FORMAT csv, NULL 'x', FORCE_NULL (k, v), FORCE_NOT_NULL (k))$$, $$(FORMAT csv, NULL 'x', FORCE_NULL (v))$$]) o;
SELECT compare_each('i4', ARRAY['7,a\n', '"7",a\n', '"8",a\n', ',a\n', '"",a\n', '"1"0,a\n', '" 7",a\n'], '', o)
FROM unnest(ARRAY[$$(FORMAT csv)$$, $$(FORMAT csv, NULL '7')$$, $$(FORMAT csv, NULL '7', FORCE_NULL (k))$$, $$(FORMAT csv, NULL '7', FORCE_NOT_NULL (k))$$, $$(NULL '7', DELIMITER ',')$$]) o;

-- Dates and times; the session's settings hold for what they hold for.
SELECT make('dt', 'k date, v date', 'k'), make('ts', 'k timestamp, v timestamp', 'k'), make('t0', 'k timestamp(0), v int', 'k'), make('tz', 'k timestamptz, v timestamptz', 'k'),
	make('tm', 'k time, v time', 'k'), make('iv', 'k interval, v interval', 'k');
CREATE TEMP TABLE forms (n int GENERATED ALWAYS AS IDENTITY, d text);
INSERT INTO forms (d) SELECT unnest(ARRAY['2026-01-02', '2026-1-2', '0001-01-01', '0000-01-01', '2024-02-29', '2023-02-29', '2000-02-29', '1900-02-29', '2026-13-01', '2026-00-10', '2026-04-31', '2026-12-31',
	'01/02/2026', '2/1/26', '13.01.2026', '20260102', '2026-01-02 BC', 'Jan 2 2026', '10000-01-01', '2026-01-02 ', ' 2026-01-02', 'epoch', 'infinity', '-infinity', '2026-01-02x', '2026_01_02', '',
	'2026-01-02 03:04:05', '2026-01-02T03:04:05', '2026-01-02 03:04:05.6', '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05.1234567', '2026-01-02 03:04:05.', '2026-01-02 24:00:00', '2026-01-02 23:59:60',
	'2026-01-02 23:60:00', '2026-01-02 25:00:00', '2026-01-02 03:04', '2026-01-02 03:04:05 PM', '2026-01-02 03:04:05+02', '2026-01-02 03:04:05 America/New_York', '2026-01-02 03:04:05 EST', '2026-07-02 03:04:05.5-07:30',
	'2026-03-29 02:30:00', '9999-12-31 23:59:59.999999', '2026-01-02  03:04:05', '\\x32026-01-02', '2026-01-02 03:04:05.6 ', '\\N']);
CREATE FUNCTION try_forms(t text) RETURNS text LANGUAGE sql AS $$ SELECT compare_each(t, array_agg(d), '\t\\N\n') FROM forms $$;
SET datestyle = 'ISO, MDY'; SET timezone = 'UTC';
SELECT try_forms(t) FROM unnest('{dt,ts,t0,tz,tm,iv}'::text[]) t;
SET datestyle = 'SQL, DMY'; SET timezone = 'America/New_York';
SELECT try_forms(t) FROM unnest('{dt,ts,t0,tz,tm,iv}'::text[]) t;
SELECT t, compare(t, '2026-01-02\t01/02/2026\n1999-01-08\t08/01/99\n01/02/2026\t2026-01-02\n') FROM unnest('{dt,ts,tz}'::text[]) t;
SET timezone_abbreviations = 'India';
SELECT compare('tz', '2026-01-02 00:00 IST\t2026-01-02 00:00 IST\n2026-01-02 00:00:00\t2026-07-02 12:00:00\n');
RESET timezone_abbreviations;
SET datestyle = 'German'; SET timezone = 'Asia/Kolkata';
SELECT t, compare(t, '2026-01-02\t01.02.2026\n02.03.2026\t2026-01-02\n') FROM unnest('{dt,ts,tz}'::text[]) t;
SET intervalstyle = 'sql_standard';
SELECT compare('iv', '-1 2:03:04\t-1 2:03:04\n1 day\t-1-2\n1-2\t-1 day 2 hours\n@ 1 day ago\t1\n\\N\t\\N\n');
SET intervalstyle = 'postgres';
SELECT compare('iv', '-1 2:03:04\t-1 2:03:04\n1 day\t-1-2\n1-2\t-1 day 2 hours\n@ 1 day ago\t1\n');
SELECT compare('tm', '03:04:05\t3:4 PM\n24:00:00\tallballs\n10:00 America/New_York\t1:2:3.4\n25:00\t1\n');
SET datestyle = 'ISO, MDY'; RESET timezone; SET intervalstyle = 'postgres';
-- What the clock says is said by the coordinator's.
-- Rows before the first such key are forwarded all the same.
SELECT t, compare(t, '2026-01-02\t2026-01-02\nnow\t\\N\ntoday\t\\N\n YESTERDAY\t\\N\ntomorrow\t2026-01-02\n2026-01-03\t\\N\n') FROM unnest('{dt,ts,tz}'::text[]) t;
SELECT compare('tm', '10:00:00\t\\N\nnow\t\\N\n11:00:00\t\\N\n');

-- Types that have no fast way, and a domain with a constraint.
CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0);
CREATE DOMAIN short AS varchar(3);
SELECT count(*) FROM shardfdw.run_on_nodes('SET search_path = copy_raw_keys; CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0); CREATE DOMAIN short AS varchar(3); CREATE TYPE mood AS ENUM (''sad'', ''ok'')');
SELECT make('uu', 'k uuid, v uuid', 'k'), make('nu', 'k numeric, v numeric(4,1)', 'k'), make('n2', 'k numeric(4,1), v int', 'k'), make('bo', 'k bool, v bool', 'k'), make('f8', 'k float8, v float4', 'k'),
	make('ch', 'k "char", v int', 'k'), make('oi', 'k oid, v int', 'k'), make('ip', 'k inet, v cidr', 'k'), make('ar', 'k int[], v text[]', 'k'), make('rg', 'k int4range, v tstzrange', 'k'),
	make('js', 'k jsonb, v json', 'k'), make('ev', 'k even, v int', 'k'), make('sh', 'k short, v int', 'k'), make('by', 'k bytea, v bytea', 'k');
SELECT compare_each(t, ds, '\t\\N\n')
FROM (VALUES ('uu', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,a0eebc999c0b4ef8bb6d6bb9bd380a11,\{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\},a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111,g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,a0eebc99_9c0b-4ef8-bb6d-6bb9bd380a11,\\N}'::text[]),
	('nu', '{1,1.0,-1.50,1e3,NaN,Infinity,.5,5.,0x1,"",123456789012345678901234567890123456789.5,\\N}'), ('n2', '{1,123.45,1234.5,-999.94,\\N}'), ('bo', '{t,f,true,off,1,2,yes,\\N,""}'),
	('f8', '{1,1.5,-0,0,1e400,NaN,-Infinity,1e-400,\\N}'), ('ch', '{a,"",ab,\\N,\\x41}'), ('oi', '{1,-1,4294967295,4294967296,\\N,1x}'), ('ip', '{10.0.0.1,10.0.0.1/8,::1,10.0.0.256,\\N}'),
	('ar', ARRAY['{}', '{1,2}', '{1,NULL}', '{{1},{2}}', '{1', '{1,x}', '[2:3]={1,2}', '\\N']), ('rg', ARRAY['[1,3)', '[1,2]', 'empty', '(,)', '[3,1)', '\\N']),
	('js', ARRAY['{"a": 1}', '{"a":1}', '[1,', '"x"', '\\N']), ('ev', '{2,3,x,\\N}'), ('sh', '{ab,abc,abcd,"abc ",\\N}'), ('by', ARRAY['\\\\x', '\\\\x00ff', 'abc', '\\\\\\\\', '\\\\x0', '\\N'])) v (t, ds);

-- Several key columns, in an order that is neither the table's nor the input's; dropped columns; column lists.
CREATE TABLE mk_plain (gone int, a int, b text, c date, gone2 text, d bigint, e text DEFAULT 'none');
CREATE TABLE mk (gone int, a int, b text, c date, gone2 text, d bigint, e text DEFAULT 'none') PARTITION BY HASH (d, b, c);
ALTER TABLE mk_plain DROP gone, DROP gone2;
ALTER TABLE mk DROP gone, DROP gone2;
SELECT shardfdw.shard_table('mk', shards => 16);
SELECT compare('mk', '1\tx\t2026-01-01\t10\te\n2\ty\t2026-01-02\t20\te\n3\t\\N\t\\N\t\\N\te\n4\tx\t2026-01-01\t\\N\te\n');
SELECT compare('mk', '10\tx\t2026-01-01\n20\ty\t2026-01-02\n\\N\t\\N\t\\N\n10\tx\t01/02/2026\n', '', '(d, b, c)');
SELECT compare('mk', '2026-01-01,7,"x, y",10\n2026-01-02,8,"y\nz",20\n', '(FORMAT csv)', '(c, a, b, d)');
SELECT compare('mk', '2026-01-01,7,x\n', '(FORMAT csv)', '(c, a, b, d)');
SELECT compare('mk', '2026-01-01,7,x,1,2\n', '(FORMAT csv)', '(c, a, b, d)');
SELECT compare('mk', '2026-01-01,x,x,1\n', '(FORMAT csv)', '(c, a, b, d)');
SELECT compare('mk', '2026-01-41,x,x,y\n', '(FORMAT csv)', '(c, a, b, d)');
SELECT compare('mk', '1,2026-01-01,x,1\n2,x\n', '(FORMAT csv)', '(a, c, b, d)');
SELECT compare('mk', '1,2026-01-01,x,1\n2,2026-01-01,x,1,\n', '(FORMAT csv)', '(a, c, b, d)');
SELECT count(*) AS shards, sum(n) > 0 AS filled FROM (SELECT tableoid, count(*) AS n FROM mk GROUP BY 1) s;

-- Columns that the input leaves out: NULL, constants of all sorts, what is computed.
CREATE TABLE om_plain (k int, n int, c0 int DEFAULT 0, c1 text DEFAULT 'a\b	c' || chr(10) || ';"x"', c2 text DEFAULT '', c3 date DEFAULT '2026-02-01', c4 timestamptz DEFAULT '2026-02-01 12:00+00',
	c5 interval DEFAULT '-1 day 2 hours', c6 float8 DEFAULT 0.1::float8 + 0.2, c7 bool DEFAULT true, c8 int[] DEFAULT '{1,NULL}', c9 bytea DEFAULT '\x00ff', g int GENERATED ALWAYS AS (k * 2) STORED, v text);
CREATE TABLE om (LIKE om_plain INCLUDING ALL) PARTITION BY HASH (k);
SELECT shardfdw.shard_table('om', shards => 4);
SET datestyle = 'SQL, DMY'; SET intervalstyle = 'sql_standard'; SET timezone = 'America/New_York'; SET extra_float_digits = -5;
SELECT compare('om', '1\tx\n2\t\\N\n3\ty\\\\z\n', '', '(k, v)');
SELECT compare('om', 'x|1\n|2\n', $$(DELIMITER '|')$$, '(v, k)');
SELECT compare('om', 'xB1\nB2\n', $$(DELIMITER 'B', NULL '')$$, '(v, k)');
SELECT compare('om', 'x,1\n,2\n"a\nb",3\n', '(FORMAT csv)', '(v, k)');
SELECT compare('om', 'x,1\r\n,2\r\n"a\r\nb",3', '(FORMAT csv)', '(v, k)');
SELECT compare('om', 'x;1\r;2', $$(FORMAT csv, DELIMITER ';', NULL 'n', QUOTE '|', ESCAPE 'x')$$, '(v, k)');
SELECT compare('om', '1\n2\n', $$(NULL '0')$$, '(k)');
SELECT compare('om', '1\tx\n2\n', '', '(k, v)');
SELECT compare('om', '1\tx\ty\n', '', '(k, v)');
SELECT compare('om', '1,x\n2\n', '(FORMAT csv)', '(k, v)');
SELECT compare('om', '1,x,y\n', '(FORMAT csv)', '(k, v)');
RESET datestyle; RESET intervalstyle; RESET timezone; RESET extra_float_digits;
SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres';
SELECT k, n, c0, c1, c3, c8, g FROM om ORDER BY k, v LIMIT 2;

-- RANGE and LIST: a missing partition, a DEFAULT one.  Here the twin is partitioned as well.
CREATE TABLE ra (k int, b text, v text) PARTITION BY RANGE (k, b);
CREATE TABLE ra_plain (LIKE ra) PARTITION BY RANGE (k, b);
SELECT shardfdw.create_shard('ra', 'ra_1', $$FROM (0, MINVALUE) TO (10, 'm')$$, 'node1'), shardfdw.create_shard('ra', 'ra_2', $$FROM (10, 'm') TO (20, MAXVALUE)$$, 'node2');
CREATE TABLE ra_plain_1 PARTITION OF ra_plain FOR VALUES FROM (0, MINVALUE) TO (10, 'm');
CREATE TABLE ra_plain_2 PARTITION OF ra_plain FOR VALUES FROM (10, 'm') TO (20, MAXVALUE);
SELECT compare('ra', '0\ta\tx\n9\tz\tx\n10\tl\tx\n10\tm\tx\n20\tz\tx\n');
SELECT compare_each('ra', ARRAY['-1\ta\tx\n', '21\ta\tx\n', '\\N\ta\tx\n', '1\t\\N\tx\n', '0\ta\tx\n20\tb\tx\n99\tlong long long long long long long long long long long long long long long long long long\tx\n']);
SELECT load('ra', '', '0\ta\tx\n20\tb\tx\n99\tlong long long long long long long long long long long long long long long long long long\tx\n', '');
SELECT shardfdw.create_shard('ra', 'ra_d', 'DEFAULT', 'node3');
CREATE TABLE ra_plain_d PARTITION OF ra_plain DEFAULT;
SELECT compare('ra', '-1\ta\tx\n99\ta\tx\n\\N\ta\tx\n1\t\\N\tx\n\\N\t\\N\tx\n');
CREATE TABLE li (k text, v text) PARTITION BY LIST (k);
CREATE TABLE li_plain (LIKE li) PARTITION BY LIST (k);
SELECT shardfdw.create_shard('li', 'li_1', $$IN ('a', NULL)$$, 'node1'), shardfdw.create_shard('li', 'li_2', $$IN ('b', '')$$, 'node2');
CREATE TABLE li_plain_1 PARTITION OF li_plain FOR VALUES IN ('a', NULL);
CREATE TABLE li_plain_2 PARTITION OF li_plain FOR VALUES IN ('b', '');
SELECT compare('li', 'a\tx\nb\tx\n\tx\n\\N\tx\n\\x61\tx\n');
SELECT compare('li', 'a\tx\nc\tx\n'), compare('li', 'c\tx\na\tx\n'), compare('li', 'a\tx\na\nc\tx\n');
SELECT shardfdw.create_shard('li', 'li_d', 'DEFAULT', 'node3');
CREATE TABLE li_plain_d PARTITION OF li_plain DEFAULT;
SELECT compare('li', 'c\tx\na\tx\n');

-- Other encodings; what a field ends with and the next begins with.
SELECT compare_each('tx', ARRAY['\0344\t1\n', '"\0344"\t1\n', '\0303\0244\t1\n', '\\xe4\t1\n', '\0203\0134\t1\n', '\0244\0242\t1\n'], '', o)
FROM unnest(ARRAY[$$(ENCODING 'LATIN1')$$, $$(ENCODING 'LATIN1', FORMAT csv, DELIMITER E'\t')$$, $$(ENCODING 'UTF8')$$, $$(ENCODING 'SJIS')$$, $$(ENCODING 'EUC_JP')$$]) o;

-- Shards made by hand: other names, another order of columns, other types on the node.  Errors name the columns
-- as they are called here.
CREATE TABLE ha (k int, v varchar(3), n int) PARTITION BY HASH (k);
CREATE TABLE ha_plain (LIKE ha);
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE TABLE copy_raw_keys."Hand" ("the key" int, "v""1" varchar(3), dropped int, n int); ALTER TABLE copy_raw_keys."Hand" DROP dropped');
CREATE FOREIGN TABLE ha_0 (n int, gone int, v varchar(3) OPTIONS (column_name 'v"1'), k int OPTIONS (column_name 'the key')) SERVER node1 OPTIONS (table_name 'Hand');
ALTER FOREIGN TABLE ha_0 DROP gone;
CREATE FOREIGN TABLE ha_1 (k int OPTIONS (column_name 'the key'), v varchar(3) OPTIONS (column_name 'v"1'), n int) SERVER node2 OPTIONS (schema_name 'copy_raw_keys', table_name 'Hand');
ALTER TABLE ha ATTACH PARTITION ha_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
ALTER TABLE ha ATTACH PARTITION ha_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT compare('ha', (SELECT string_agg(i || '\tx\t' || i || '\n', '') FROM generate_series(1, 50) i));
SELECT compare('ha', 'x,"1",\n"",2,3\n', $$(FORMAT csv, FORCE_NULL (v, n), FORCE_NOT_NULL (v))$$, '(v, k, n)');
SELECT compare('ha', '1\txxxx\t1\n'), compare('ha', '1\tx\tx\n'), compare('ha', '1\tx\n');
ALTER FOREIGN TABLE ha_0 ALTER v OPTIONS (DROP column_name), ALTER k OPTIONS (DROP column_name);
ALTER FOREIGN TABLE ha_1 ALTER v OPTIONS (DROP column_name), ALTER k OPTIONS (DROP column_name);
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER TABLE copy_raw_keys."Hand" RENAME "v""1" TO v; ALTER TABLE copy_raw_keys."Hand" RENAME "the key" TO k');
SELECT compare('ha', (SELECT string_agg(i || '\ty\t' || i || '\n', '') FROM generate_series(1, 50) i));
SELECT compare('ha', 'x,"1",\n"",2,3\n', $$(FORMAT csv, FORCE_NULL (v, n), FORCE_NOT_NULL (v))$$, '(v, k, n)');
SELECT compare('ha', '1\txxxx\t1\n'), compare('ha', '1\tx\tx\n'), compare('ha', '1\tx\n');
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER TABLE copy_raw_keys."Hand" ALTER v TYPE varchar(4)');
-- what is known of the shard is forgotten when it changes
ALTER FOREIGN TABLE ha_0 OPTIONS (ADD batch_size '10');
ALTER FOREIGN TABLE ha_1 OPTIONS (ADD batch_size '10');
SELECT compare('ha', '1\txxxx\t1\n'), compare('ha', '1\txxx\t1\n');
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER TABLE copy_raw_keys."Hand" ALTER v TYPE varchar(3)');
CREATE FUNCTION upper_v() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := upper(NEW.v); RETURN NEW; END';
CREATE TRIGGER upper_v BEFORE INSERT ON ha_1 FOR EACH ROW EXECUTE FUNCTION upper_v();
SELECT load('ha', '', (SELECT string_agg(i || '\tlow\t\\N\n', '') FROM generate_series(1, 20) i), '');
SELECT tableoid::regclass, v, count(*) > 0 FROM ha WHERE v ILIKE 'low' GROUP BY 1, 2 ORDER BY 1;
DROP TRIGGER upper_v ON ha_1;
ALTER FOREIGN TABLE ha_1 OPTIONS (updatable 'false');
SELECT load('ha', '', (SELECT string_agg(i || '\tlow\t\\N\n', '') FROM generate_series(1, 20) i), '');
-- A parent that is a partition itself minds its own bounds.
CREATE TABLE top (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE top_plain (LIKE top) PARTITION BY RANGE (k);
CREATE TABLE mid (k int, v text) PARTITION BY HASH (k);
SELECT shardfdw.shard_table('mid', shards => 2);
ALTER TABLE top ATTACH PARTITION mid FOR VALUES FROM (0) TO (10);
SELECT load('mid', '', '1\tx\n10\tx\n', ''), load('mid', '', '1\tx\n9\tx\n', ''), load('top', '', '1\tx\n9\tx\n', '');

SET client_min_messages = error;
DROP SCHEMA copy_raw_keys CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA copy_raw_keys CASCADE');
