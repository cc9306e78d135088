-- COPY FILTER: a function makes the rows of a sharded table.
CREATE SCHEMA copy_filter;
SET search_path = copy_filter;
SET DateStyle = 'ISO, MDY';
SET TimeZone = 'Europe/Berlin';
CREATE TABLE t (id bigint PRIMARY KEY, gone int, name text, price float8, twice bigint GENERATED ALWAYS AS (id * 2) STORED,
	at timestamptz, tags text[], amount numeric(8,2) NOT NULL DEFAULT 7);
ALTER TABLE t DROP gone;
SELECT shardfdw.shard_table('t', 'id', 4);

-- SQL, PL/pgSQL, and what they may return.
CREATE FUNCTION from_row(id bigint, name text, price text, day text) RETURNS t LANGUAGE sql
AS $$ SELECT ROW(id, upper(name), price::float8 / 3, NULL, day::timestamptz, ARRAY[name, NULL, E'a,"b\\c'], 1.5)::t WHERE id > 0 $$;
CREATE FUNCTION from_plpgsql(a int, b text) RETURNS t LANGUAGE plpgsql STRICT
AS $$
DECLARE
	r t;
BEGIN
	IF a = 0 THEN
		RETURN NULL;
	ELSIF a < 0 THEN
		RAISE EXCEPTION 'negative: %', a USING ERRCODE = 'P0099';
	END IF;
	r.id := a * 10;
	r.name := b;
	r.amount := a;
	RETURN r;
END
$$;
CREATE FUNCTION from_out(INOUT id bigint, note text, OUT name varchar, OUT price float8, OUT at timestamptz, OUT tags text[], OUT amount numeric)
LANGUAGE plpgsql AS $$ BEGIN name := note; amount := id; END $$;
CREATE FUNCTION from_record(x int) RETURNS record LANGUAGE sql
AS $$ SELECT x::bigint, 'record'::text, 0.1::float8, NULL::timestamptz, '{}'::text[], 1::numeric $$;
CREATE DOMAIN row_domain AS t CHECK ((VALUE).id <> 5);
CREATE FUNCTION from_domain(x int) RETURNS row_domain LANGUAGE sql
AS $$ SELECT ROW(x, 'domain', NULL, NULL, NULL, NULL, 2)::t::row_domain $$;
CREATE VIEW plain AS SELECT id, name, price, twice, at, tags, amount FROM t;

COPY t FROM STDIN (FILTER 'from_row');
1	tab\tnew\nline\\slash	1	2024-07-01 12:00
0	dropped	1	2024-07-01
2	\N	NaN	infinity
3	é	-0	\N
\.
SELECT * FROM plain ORDER BY id;
-- Exact whatever the user's settings.
TRUNCATE t;
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'Asia/Kolkata';
SET extra_float_digits = -10;
COPY t FROM STDIN (FILTER 'copy_filter.from_row');
1	x	1	2024-07-01 12:00
\.
SHOW DateStyle;
SHOW extra_float_digits;
RESET extra_float_digits;
SET DateStyle = 'ISO, MDY';
SELECT id, price, at FROM t;
SET TimeZone = 'Europe/Berlin';

TRUNCATE t;
COPY t FROM STDIN (FORMAT csv, HEADER, FILTER 'from_plpgsql');
a,b
1,"a ""quoted"" one"
0,dropped by NULL
,dropped because the function is strict
2,"two
lines"
\.
SELECT * FROM plain ORDER BY id;
COPY t FROM STDIN (FORMAT csv, FILTER 'from_out');
3,three
\.
COPY t FROM STDIN (FILTER 'from_record');
4
\.
COPY t FROM STDIN (FILTER 'from_domain');
6
\.
SELECT * FROM plain WHERE id < 10 ORDER BY id;

-- Errors.
\set VERBOSITY terse
COPY t FROM STDIN (FILTER 'from_domain');
7
5
\.
\set VERBOSITY default
COPY t FROM STDIN (FILTER 'from_plpgsql');
8	x
-1	x
\.
COPY t FROM STDIN (FILTER 'from_plpgsql');
8	x
y	x
\.
COPY t FROM STDIN (FILTER 'from_plpgsql');
8	x
9
\.
COPY t FROM STDIN (FILTER 'from_plpgsql');
8	x	y
\.
SELECT shardfdw.create_reject_table('rejects');
\set VERBOSITY terse
COPY t FROM STDIN (FILTER 'from_plpgsql', ON_ERROR ignore, REJECT_TABLE 'rejects', SKIP 1, MAX_ROWS 6);
skipped
11	x
-1	x
y	x
12	x	y
11	a second time
13	x
14	not read
\.
\set VERBOSITY default
SELECT line, shard, sqlstate, message, raw FROM rejects ORDER BY line;
SELECT id, name, amount FROM t WHERE id > 100 ORDER BY id;
-- A table parsed on the coordinator.
COPY t FROM STDIN (FILTER 'from_plpgsql') WHERE amount <> 16;
15	x
16	x
\.
SELECT id, name, amount FROM t WHERE id >= 150 ORDER BY id;

-- Functions that cannot be one.
CREATE FUNCTION f_set(x int) RETURNS SETOF t LANGUAGE sql AS 'SELECT NULL::copy_filter.t';
CREATE FUNCTION f_variadic(VARIADIC x int[]) RETURNS t LANGUAGE sql AS 'SELECT NULL::copy_filter.t';
CREATE FUNCTION f_any(x anyelement) RETURNS t LANGUAGE sql AS 'SELECT NULL::copy_filter.t';
CREATE FUNCTION f_none() RETURNS t LANGUAGE sql AS 'SELECT NULL::copy_filter.t';
CREATE FUNCTION f_scalar(x int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION f_types(x int, OUT id bigint, OUT name int, OUT price float8, OUT at timestamptz, OUT tags text[], OUT amount numeric) LANGUAGE sql
AS 'SELECT 1::bigint, 1, 1::float8, NULL::timestamptz, NULL::text[], 1::numeric';
CREATE FUNCTION f_few(x int) RETURNS record LANGUAGE sql AS 'SELECT 1, 2';
CREATE FUNCTION f_two(x int) RETURNS t LANGUAGE sql AS 'SELECT NULL::copy_filter.t';
CREATE FUNCTION f_two(x int, y int) RETURNS t LANGUAGE sql AS 'SELECT NULL::copy_filter.t';
CREATE FUNCTION f_one(x int) RETURNS t LANGUAGE sql AS 'SELECT ROW(x, ''chosen'', NULL, NULL, NULL, NULL, 1)::copy_filter.t';
CREATE FUNCTION f_one(x text) RETURNS int LANGUAGE sql AS 'SELECT 1';
COPY t FROM '/dev/null' (FILTER 'f_set');
COPY t FROM '/dev/null' (FILTER 'f_variadic');
COPY t FROM '/dev/null' (FILTER 'f_any');
COPY t FROM '/dev/null' (FILTER 'f_none');
COPY t FROM '/dev/null' (FILTER 'f_scalar');
COPY t FROM '/dev/null' (FILTER 'f_types');
COPY t FROM '/dev/null' (FILTER 'pg_catalog.sum');
COPY t FROM '/dev/null' (FILTER 'f_two');
COPY t FROM '/dev/null' (FILTER 'f_nowhere');
COPY t FROM '/dev/null' (FILTER '');
COPY t FROM STDIN (FILTER 'f_few');
1
\.
COPY t (id, name) FROM '/dev/null' (FILTER 'f_one');
COPY t FROM '/dev/null' (FORMAT csv, FORCE_NULL (name), FILTER 'f_one');
COPY t FROM '/dev/null' (FILTER 'f_one', DEFAULT 'x');
COPY t FROM STDIN (FILTER 'f_one');
1
\.
SELECT id, name FROM t WHERE id = 1;
SET client_min_messages = warning;
DROP ROLE IF EXISTS copy_filter_user;
CREATE ROLE copy_filter_user;
RESET client_min_messages;
GRANT USAGE ON SCHEMA copy_filter TO copy_filter_user;
GRANT ALL ON t TO copy_filter_user;
GRANT pg_read_server_files TO copy_filter_user;
REVOKE EXECUTE ON FUNCTION f_one(int) FROM PUBLIC;
SET ROLE copy_filter_user;
COPY t FROM '/dev/null' (FILTER 'f_one');
RESET ROLE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY copy_filter_user') WHERE NOT ok;
DROP OWNED BY copy_filter_user;
DROP ROLE copy_filter_user;

SET client_min_messages = warning;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA copy_filter CASCADE');
DROP SCHEMA copy_filter CASCADE;
