-- COPY with ON_ERROR: the quick look at fields before lines go to the shards. It must not reject what core takes.
CREATE SCHEMA copy_check;
SET search_path = copy_check;
SET DateStyle = 'ISO, MDY';
SET TimeZone = 'UTC';
CREATE TABLE t (id int PRIMARY KEY, i2 smallint, i8 bigint, n numeric(6,2), f float8, d date, ts timestamp, tz timestamptz, b bool, u uuid, c char(3), v varchar(5));
SELECT shardfdw.shard_table('t', 'id', 4);
SELECT shardfdw.create_reject_table('rejects');
-- shard: found by the coordinator, or by a shard
CREATE VIEW seen AS SELECT line, column_name, shard IS NOT NULL AS by_shard, sqlstate FROM rejects WHERE load = (SELECT max(load) FROM rejects);

-- Plain forms, their limits, and forms that are not plain, but right.
COPY t FROM STDIN (ON_ERROR ignore, REJECT_TABLE rejects);
1	1	1	1.25	1.5	2024-12-31	2024-12-31 23:59:59	2024-12-31 23:59:59.123456+02	t	00000000-0000-0000-0000-00000000000a	abc	abcde
2	-9999	-999999999999999999	-9999.99	-0.5	2024-01-31	2024-02-28T00:00:00	2024-02-28 00:00:00-05:30	false	ABCDEF00-0000-0000-0000-00000000000a	a	
3	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
4	32767	9223372036854775807	+1e3	NaN	2024-02-29	infinity	Jan 2 2024 15:00 PST	yes	{00000000000000000000000000000a01}	äöü	äöüäö
5	-32768	-9223372036854775808	0.005	-Infinity	12/31/2023	20240102 030405	2024-01-02	 on 	00000000-0000-0000-0000-00000000000A	a  	abcde     
6	 7	 8 	 9.996 	.5	J2451187	2024-12-31 24:00:00	epoch	OFF	a0eebc999c0b4ef8bb6d6bb9bd380a11	\N	\\N
7	1	1	.01	5.	02-03-99	2024-12-31 23:59:60	2024-12-31 23:59:59.9999999	1	\N	\x41	a\tb
\.
SELECT * FROM t ORDER BY id;
SELECT * FROM seen ORDER BY line;

-- Wrong ones, one a line. What a shard would refuse for its type alone does not get there.
TRUNCATE t;
COPY t FROM STDIN (ON_ERROR ignore, REJECT_TABLE rejects);
1	32768	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
2	\N	9223372036854775808	\N	\N	\N	\N	\N	\N	\N	\N	\N
3	\N	\N	10000	\N	\N	\N	\N	\N	\N	\N	\N
4	\N	\N	9999.996	\N	\N	\N	\N	\N	\N	\N	\N
5	\N	\N	1.2.3	\N	\N	\N	\N	\N	\N	\N	\N
6	\N	\N	\N	1e400	\N	\N	\N	\N	\N	\N	\N
7	\N	\N	\N	\N	2023-02-29	\N	\N	\N	\N	\N	\N
8	\N	\N	\N	\N	2023-00-10	\N	\N	\N	\N	\N	\N
9	\N	\N	\N	\N	0000-01-10	\N	\N	\N	\N	\N	\N
10	\N	\N	\N	\N	\N	2024-12-31 25:00:00	\N	\N	\N	\N	\N
11	\N	\N	\N	\N	\N	\N	2024-12-31 23:59:59+99	\N	\N	\N	\N
12	\N	\N	\N	\N	\N	\N	\N	maybe	\N	\N	\N
13	\N	\N	\N	\N	\N	\N	\N	\N	00000000-0000-0000-0000-00000000000g	\N	\N
14	\N	\N	\N	\N	\N	\N	\N	\N	\N	abcd	\N
15	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	abcdef
16	-	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
17		\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
18	\N
19	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
20	1	1	1	1	2024-01-01	2024-01-01 00:00:00	2024-01-01 00:00:00+00	f	\N	a	a
\.
SELECT * FROM t ORDER BY id;
SELECT * FROM seen ORDER BY line;

-- CSV: lines with quotes are let pass.
TRUNCATE t;
COPY t (id, i2, d, v) FROM STDIN (FORMAT csv, ON_ERROR ignore, REJECT_TABLE rejects);
1,5,2024-01-01,abc
2,"6","2024-01-01","a,b"
3,x,2024-01-01,abc
4,"x",2024-01-01,abc
5,,,
6,1,2024-13-01,
\.
SELECT id, i2, d, v FROM t ORDER BY id;
SELECT * FROM seen ORDER BY line;

-- A column that is never plain is not looked at any more: its errors come from the shards then.
TRUNCATE t;
COPY t (id, i8, d) FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 500; i++) print i "\t+" i "\t" (i == 450 ? "x" : "2024-01-01"); print "501\tx\t2024-01-01" }'$$ (ON_ERROR ignore, REJECT_TABLE rejects);
SELECT count(*), sum(i8) FROM t;
SELECT * FROM seen ORDER BY line;

\set VERBOSITY terse
SET client_min_messages = warning;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA copy_check CASCADE');
DROP SCHEMA copy_check CASCADE;
