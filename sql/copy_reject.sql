-- COPY into a sharded table: options, and rows that are set aside (REJECT_FILE: t/copy_reject.pl).
CREATE SCHEMA copy_reject;
SET search_path = copy_reject;
SET DateStyle = 'ISO, MDY';
CREATE TABLE t (id int PRIMARY KEY, v int CONSTRAINT small CHECK (v < 1000), w text NOT NULL, d date);
SELECT shardfdw.shard_table('t', 'id', 4);
SELECT shardfdw.create_reject_table('rejects');
SELECT shardfdw.create_reject_table('copy_reject."Re Jects"');
SELECT shardfdw.create_reject_table('rejects');
SELECT shardfdw.create_reject_table('a.b.c');
\d rejects
SELECT attname FROM pg_attribute WHERE attrelid = 'rejects'::regclass AND attnum > 0 AND col_description(attrelid, attnum) IS NULL;
CREATE VIEW seen AS SELECT line, column_name, shard, sqlstate, message, raw FROM rejects WHERE load = (SELECT max(load) FROM rejects);

-- Options.
COPY t FROM '/dev/null' (ON_ERROR ignore, ON_ERROR stop);
COPY t FROM '/dev/null' (SKIP 1, MAX_ROWS 2, SKIP 1);
COPY t FROM '/dev/null' (ON_ERROR unknown);
COPY t FROM '/dev/null' (ON_ERROR);
COPY t FROM '/dev/null' (ON_DUPLICATE 'keep');
COPY t FROM '/dev/null' (ON_ERROR ignore, LOG_VERBOSITY loud);
COPY t FROM '/dev/null' (REJECT_LIMIT 3);
COPY t FROM '/dev/null' (ON_ERROR stop, REJECT_LIMIT 3);
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_LIMIT 0);
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_LIMIT -3);
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_LIMIT 'many');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_LIMIT);
COPY t FROM '/dev/null' (SKIP -1);
COPY t FROM '/dev/null' (MAX_ROWS '-1');
COPY t FROM '/dev/null' (REJECT_TABLE 'rejects');
COPY t FROM '/dev/null' (REJECT_FILE '/nonexistent/x');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_FILE 'here');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_FILE '');
COPY t FROM '/dev/null' (ON_ERROR ignore, FORMAT binary);
COPY t FROM '/dev/null' (MAX_ROWS 3, FORMAT binary);
COPY t TO STDOUT (MAX_ROWS 3);
COPY rejects FROM '/dev/null' (MAX_ROWS 3);

-- One of each kind.
\set VERBOSITY terse
COPY t FROM STDIN (FORMAT csv, HEADER, ON_ERROR ignore, REJECT_TABLE 'rejects');
id,v,w,d
1,10,one,2024-01-01
2,x,a value of another type,2024-01-01
x,1,a key of another type,2024-01-01
3,1
4,1,a column too many,2024-01-01,5
5,1,,2024-01-01
6,1000,too large,2024-01-01
1,11,a second time,2024-01-01
7,1,"two
lines",2024-01-01
8,1,"two
lines, no month",2024-13-01
9,1,good,
\.
SELECT * FROM seen ORDER BY line;
SELECT * FROM t ORDER BY id;
SELECT count(DISTINCT load) FROM rejects;

-- In text format, with a key that only core's parser reads.
TRUNCATE t;
COPY t FROM STDIN (ON_ERROR 'ignore', REJECT_TABLE '"Re Jects"');
1	1	a\tb	\N
\x32	1	two	\N
99999999999	1	no int	\N
4	1	four
5	1	five	yesteryear
6	1	\N	\N
\N	1	no key	\N
\.
SELECT line, column_name, shard, sqlstate, raw FROM "Re Jects" ORDER BY line;
SELECT * FROM t ORDER BY id;

-- Words of the NOTICE.
TRUNCATE t;
COPY t FROM STDIN (ON_ERROR ignore);
1	1	good	\N
1	1	bad	\N
\.
COPY t FROM STDIN (ON_ERROR ignore);
2	1	good	\N
\.
COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY silent);
3	1	good	\N
3	1	bad	\N
\.
COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose);
4	1	good	\N
5	1000	bad	\N
\.
COPY t FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY 'verbose');
x	1	bad	\N
5	1	good	\N
\.
COPY t FROM STDIN (ON_DUPLICATE keep_old, LOG_VERBOSITY verbose);
4	1	duplicate	\N
6	1	good	\N
\.
COPY t FROM STDIN (ON_ERROR ignore, ON_DUPLICATE keep_old);
4	1	duplicate	\N
4	1	duplicate	\N
7	1000	bad	\N
\.
SELECT * FROM t ORDER BY id;

-- The limit: what is allowed, and one more.
TRUNCATE t;
COPY t FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 2);
1	1	good	\N
x	1	bad	\N
x	1	bad	\N
\.
COPY t FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 2, REJECT_TABLE 'rejects');
2	1	good	\N
x	1	bad	\N
x	1	bad	\N
3	x	bad	\N
\.
COPY t FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 2);
2	1	good	\N
2	1	bad	\N
x	1	bad	\N
3	1000	bad	\N
\.
SELECT * FROM t ORDER BY id;

-- The table: one made by hand, a sharded one, triggers, rights, errors.
CREATE TABLE by_hand (n serial, raw varchar(20), load int, message text, line int, shard name, column_name name, sqlstate char(5), at date DEFAULT '2024-01-01');
COPY t FROM STDIN (ON_ERROR ignore, REJECT_TABLE 'by_hand');
1	1	bad	\N
x	1	bad	\N
\.
SELECT n, raw, line, sqlstate, at FROM by_hand ORDER BY n;
CREATE TABLE sharded_rejects (load bigint, line bigint, column_name text, shard text, sqlstate text, message text, raw text);
SELECT shardfdw.shard_table('sharded_rejects', 'line', 4);
BEGIN;
COPY t FROM STDIN (ON_ERROR ignore, REJECT_TABLE 'sharded_rejects');
10	1	good	\N
10	1	bad	\N
x	1	bad	\N
11	1	good	\N
\.
SELECT line, sqlstate, raw FROM sharded_rejects ORDER BY line;
SELECT id FROM t ORDER BY id;
ROLLBACK;
SELECT count(*) FROM sharded_rejects;
SELECT id FROM t ORDER BY id;
CREATE TABLE narrow (load bigint, line bigint, column_name text, shard text, sqlstate text, message text, raw text CHECK (raw <> 'y'));
COPY t FROM STDIN (ON_ERROR ignore, REJECT_TABLE 'narrow');
10	1	good	\N
y
\.
SELECT count(*) FROM narrow;
SELECT id FROM t ORDER BY id;
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 't');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 'nowhere');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 'a.b.c.d');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 'seen');
ALTER TABLE narrow ALTER message TYPE int USING NULL;
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 'narrow');
ALTER TABLE narrow DROP message;
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 'narrow');
SET client_min_messages = warning;
DROP ROLE IF EXISTS copy_reject_user;
CREATE ROLE copy_reject_user;
RESET client_min_messages;
GRANT USAGE ON SCHEMA copy_reject TO copy_reject_user;
GRANT ALL ON t TO copy_reject_user;
GRANT pg_read_server_files TO copy_reject_user;
SET ROLE copy_reject_user;
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_TABLE 'rejects');
COPY t FROM '/dev/null' (ON_ERROR ignore, REJECT_FILE '/nonexistent/x');
RESET ROLE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY copy_reject_user') WHERE NOT ok;
DROP OWNED BY copy_reject_user;
DROP ROLE copy_reject_user;

-- Bytes that are no characters, and lines of another encoding. (The database's is UTF8.)
TRUNCATE t;
COPY t FROM PROGRAM $$printf '1\t1\tfine\t\\N\n2\t1\tA\377B\t\\N\n3\t1\tC\000D\t\\N\n'$$ (ON_ERROR ignore, REJECT_TABLE 'rejects');
SELECT line, sqlstate, raw FROM seen ORDER BY line;
COPY t FROM PROGRAM $$printf '4\t1\t\344\t\\N\nx\t1\t\344\244\t\\N\n'$$ (ENCODING latin9, ON_ERROR ignore, REJECT_TABLE 'rejects');
SELECT line, sqlstate, raw = U&'x\00091\0009\00E4\20AC\0009\\N' FROM seen ORDER BY line;
SELECT id, w = U&'\00E4' FROM t ORDER BY id;

-- The first lines all bad.
COPY t FROM PROGRAM 'yes 1,1,x,2024-01-01 | head -n 1000' (ON_ERROR ignore);
COPY t FROM PROGRAM 'yes 1,1,x,2024-01-01 | head -n 999' (ON_ERROR ignore);
COPY t FROM PROGRAM '(printf ''10\t1\tgood\t\\N\n''; yes 1,1,x,2024-01-01 | head -n 1500)' (ON_ERROR ignore);
\set VERBOSITY default
COPY t FROM PROGRAM '(echo header; yes one,1,x,2024-01-01 | head -n 1000)' (FORMAT csv, HEADER, ON_ERROR ignore);
\set VERBOSITY terse
SELECT id FROM t ORDER BY id;

-- SKIP and MAX_ROWS.
TRUNCATE t;
COPY t FROM STDIN (FORMAT csv, HEADER, SKIP 2, MAX_ROWS 3);
id,v,w,d
1,1,"skipped
too",
not even looked at
3,3,x,
4,4,x,
5,5,x,
6,6,x,
\.
SELECT id FROM t ORDER BY id;
TRUNCATE t;
COPY t FROM STDIN (SKIP '1', MAX_ROWS 0);
1	1	x	\N
2	2	x	\N
\.
COPY t FROM STDIN (SKIP 7);
1	1	x	\N
2	2	x	\N
\.
COPY t FROM STDIN (MAX_ROWS 3, ON_ERROR ignore);
1	1	x	\N
x	2	x	\N
3	3	x	\N
4	4	x	\N
\.
SELECT id FROM t ORDER BY id;
COPY t FROM STDIN (SKIP 1);
7	7	x	\N
y	y	y	\N
\.

-- Rows that are parsed on the coordinator.
TRUNCATE t;
COPY t FROM STDIN (ON_ERROR ignore, REJECT_TABLE 'rejects') WHERE v <> 3;
1	1	x	\N
x	2	x	\N
3	3	x	\N
4	4000	x	\N
5	y	x	\N
6	6
7	7	x	\N
7	7	x	\N
\.
SELECT line, shard, sqlstate, raw FROM seen ORDER BY line;
SELECT id FROM t ORDER BY id;

SET client_min_messages = warning;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA copy_reject CASCADE');
DROP SCHEMA copy_reject CASCADE;
