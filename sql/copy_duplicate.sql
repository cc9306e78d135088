-- COPY ON_DUPLICATE: rows of a sharded table whose unique key is there already.
CREATE SCHEMA copy_duplicate;
SET search_path = copy_duplicate;
CREATE TABLE t (id int, part text, v text, "odd Name" int NOT NULL, PRIMARY KEY (id, part));
SELECT shardfdw.shard_table('t', 'id', 4);
SELECT shardfdw.create_reject_table('rejects');
CREATE VIEW seen AS SELECT line, sqlstate, raw FROM rejects WHERE load = (SELECT max(load) FROM rejects);
INSERT INTO t VALUES (1, 'a', 'old', 0), (2, 'a', 'old', 0);
\set VERBOSITY terse

COPY t FROM STDIN (ON_DUPLICATE error);
3	a	new	1
3	a	newer	2
\.
COPY t FROM STDIN (ON_DUPLICATE keep_old);
1	a	new	1
3	a	new	2
3	a	newer	3
4	a	new	4
1	b	new	5
\.
SELECT * FROM t ORDER BY id, part;
COPY t FROM STDIN (FORMAT csv, ON_DUPLICATE keep_new);
1,a,new,6
3,a,newer,7
3,a,newest,8
5,a,new,9
\.
SELECT * FROM t ORDER BY id, part;
COPY t FROM STDIN (ON_DUPLICATE 'keep_old', REJECT_TABLE 'rejects', LOG_VERBOSITY silent);
6	a	new	1
5	a	new	2
5	a	new	3
7	a	new	4
\.
SELECT * FROM seen ORDER BY line;

-- With other errors, with and without ON_ERROR.
COPY t FROM STDIN (ON_DUPLICATE keep_old, REJECT_TABLE 'rejects');
8	a	new	1
8	a	new	2
9	a	no number	\N
\.
COPY t FROM STDIN (ON_DUPLICATE keep_old, ON_ERROR ignore, REJECT_LIMIT 2, REJECT_TABLE 'rejects');
8	a	new	1
8	a	again	2
9	a	no number	\N
x	a	no id	1
8	a	again	3
10	a	new	1
\.
SELECT * FROM seen ORDER BY line;
COPY t FROM STDIN (ON_DUPLICATE keep_new, ON_ERROR ignore, REJECT_TABLE 'rejects');
8	a	replaced	1
8	a	not null	\N
8	\N	no key	1
11	a	new	1
\.
SELECT * FROM seen ORDER BY line;
SELECT * FROM t WHERE id >= 8 ORDER BY id, part;

-- In a transaction, twice, with what it has itself written.
BEGIN;
INSERT INTO t VALUES (20, 'a', 'inserted', 0);
COPY t FROM STDIN (ON_DUPLICATE keep_new);
20	a	first load	1
21	a	first load	1
\.
SAVEPOINT s;
COPY t FROM STDIN (ON_DUPLICATE keep_new);
20	a	second load	2
22	a	second load	2
\.
ROLLBACK TO s;
COPY t FROM STDIN (ON_DUPLICATE keep_old);
20	a	third load	3
23	a	third load	3
\.
COMMIT;
SELECT * FROM t WHERE id >= 20 ORDER BY id, part;
-- Nothing is left on nodes.
SELECT node, result FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relname LIKE 'shardfdw_stage%'$$) ORDER BY node;

-- More than one key: the row is replaced by whichever it has; those of two rows are an error.
CREATE TABLE two (id int PRIMARY KEY, name text, v int);
SELECT shardfdw.shard_table('two', 'id', 1, '{node1}');
SELECT ok FROM shardfdw.run_on_shards('two', 'CREATE UNIQUE INDEX two_name ON %s (name COLLATE "C")');
INSERT INTO two VALUES (1, 'a', 0), (2, 'b', 0), (3, NULL, 0);
COPY two FROM STDIN (ON_DUPLICATE keep_new);
4	a	1
3	c	2
5	\N	3
6	\N	4
\.
SELECT * FROM two ORDER BY id;
COPY two FROM STDIN (ON_DUPLICATE keep_new);
7	x	5
2	c	5
\.
COPY two FROM STDIN (ON_DUPLICATE keep_new, ON_ERROR ignore, REJECT_TABLE 'rejects');
7	x	5
2	c	5
\.
SELECT * FROM seen ORDER BY line;
COPY two FROM STDIN (ON_DUPLICATE keep_old);
2	c	6
8	c	6
9	y	6
\.
SELECT * FROM two ORDER BY id;

-- Column lists, identity, generated columns and defaults; NULLs that are one value; other equality than that of the bytes.
CREATE TABLE kinds (id int GENERATED ALWAYS AS IDENTITY, a numeric, b text, g numeric GENERATED ALWAYS AS (a + 1) STORED, d int DEFAULT 5);
SELECT shardfdw.shard_table('kinds', 'id', 1, '{node1}');
SELECT ok FROM shardfdw.run_on_shards('kinds', 'CREATE UNIQUE INDEX ON %s (a, b) NULLS NOT DISTINCT');
COPY kinds (a, b) FROM STDIN (ON_DUPLICATE keep_old);
1.0	x
1.00	x
2	\N
2	\N
\N	\N
\N	\N
\.
SELECT a, b, g, d FROM kinds ORDER BY a, b;
COPY kinds (id, b, a, d) FROM STDIN (ON_DUPLICATE keep_new);
100	\N	2.000	8
101	x	1.000	9
102	\N	\N	10
103	y	1	11
\.
SELECT a, b, g, d FROM kinds ORDER BY a, b;
COPY kinds (id, a, b) FROM STDIN (ON_DUPLICATE keep_new);
104	1	y
\.
SELECT a, b, g, d FROM kinds WHERE b = 'y';
SELECT ok FROM shardfdw.run_on_shards('kinds', 'CREATE UNIQUE INDEX kinds_g ON %s (g, b)');
COPY kinds (id, a, b) FROM '/dev/null' (ON_DUPLICATE keep_new);

-- Indexes that it cannot work with, and those that only keep_old can.
\set VERBOSITY default
CREATE TABLE odd (id int, a int, r int4range);
SELECT shardfdw.shard_table('odd', 'id', 2);
COPY odd FROM STDIN (ON_DUPLICATE keep_new);
1	1	[1,2]
1	1	[1,2]
\.
TRUNCATE odd;
SELECT node, shard, ok FROM shardfdw.run_on_shards('odd', 'CREATE UNIQUE INDEX odd_expr ON %s ((a + 1))') ORDER BY node;
COPY odd FROM '/dev/null' (ON_DUPLICATE keep_new);
COPY odd FROM STDIN (ON_DUPLICATE keep_old);
1	1	\N
1	1	\N
\.
SELECT count(*) FROM shardfdw.run_on_shards('odd', 'DROP INDEX copy_duplicate.odd_expr') WHERE ok;
SELECT count(*) FROM shardfdw.run_on_shards('odd', 'CREATE UNIQUE INDEX odd_part ON %s (id) WHERE a = 1') WHERE ok;
COPY odd FROM '/dev/null' (ON_DUPLICATE keep_new);
COPY odd FROM STDIN (ON_DUPLICATE keep_old);
1	1	\N
1	2	\N
1	2	\N
\.
SELECT count(*) FROM shardfdw.run_on_shards('odd', 'DROP INDEX copy_duplicate.odd_part') WHERE ok;
SELECT count(*) FROM shardfdw.run_on_shards('odd', 'ALTER TABLE %s ADD CONSTRAINT odd_excl EXCLUDE USING gist (r WITH &&)') WHERE ok;
COPY odd FROM '/dev/null' (ON_DUPLICATE keep_new);
COPY odd FROM STDIN (ON_DUPLICATE keep_old);
1	3	[1,3]
1	4	[2,4]
1	5	[4,5]
\.
SELECT * FROM odd ORDER BY id, a, r;
SELECT count(*) FROM shardfdw.run_on_shards('odd', 'ALTER TABLE %s DROP CONSTRAINT odd_excl') WHERE ok;
TRUNCATE odd;
SELECT count(*) FROM shardfdw.run_on_shards('odd', 'ALTER TABLE %s ADD CONSTRAINT odd_deferred UNIQUE (id) DEFERRABLE') WHERE ok;
COPY odd FROM '/dev/null' (ON_DUPLICATE keep_new);
COPY odd FROM '/dev/null' (ON_DUPLICATE keep_old);
\set VERBOSITY terse

-- Rows that are parsed on the coordinator.
COPY t FROM STDIN (ON_DUPLICATE keep_new) WHERE v <> 'dropped';
30	a	first	1
30	a	second	1
30	a	dropped	1
31	a	first	1
\.
COPY t FROM STDIN (ON_DUPLICATE keep_old, REJECT_TABLE 'rejects') WHERE v <> 'dropped';
30	a	third	1
32	a	first	1
\.
SELECT * FROM seen ORDER BY line;
SELECT * FROM t WHERE id >= 30 ORDER BY id;

SET client_min_messages = warning;
SELECT bool_and(ok) FROM shardfdw.run_on_nodes('DROP SCHEMA copy_duplicate CASCADE');
DROP SCHEMA copy_duplicate CASCADE;
