-- COPY to shards with replicas: each replica gets the same value of words that read the clock, whatever the options
\set VERBOSITY terse
CREATE SCHEMA copy_clock_words;
SET search_path = copy_clock_words;
CREATE TABLE t (k int PRIMARY KEY, a timestamptz, b text);
SELECT shardfdw.shard_table('t', 'k', shards => 1, replication_factor => 2) \g /dev/null
-- a doubled quote is a letter of the word
COPY t FROM stdin (FORMAT csv, QUOTE 'w');
1,wnowww,x
2,w2026-01-02w,wow
\.
COPY t FROM stdin (FORMAT csv, QUOTE 'W');
3,WnoWWW,x
\.
COPY t FROM stdin (FORMAT csv, QUOTE 'y', ESCAPE 'y');
4,ytodayyy,x
5,yyyyesterdayyyy,x
\.
-- a delimiter or an escape
COPY t FROM stdin (FORMAT csv, DELIMITER 'w');
7w"now"wx
\.
COPY t FROM stdin (FORMAT csv, ESCAPE 'w');
8,"noww",x
\.
COPY t FROM stdin (FORMAT csv, ESCAPE 'o');
10,"now",x
11,"noow",x
\.
COPY t FROM stdin (FORMAT csv, NULL 'now', FORCE_NOT_NULL (a));
12,now,x
\.
COPY t FROM stdin (NULL 'w', DELIMITER ';');
13;w;x
14;n\157w;x
15;\x6eow;x
\.
SELECT k, a >= now() - interval '2 days' AS is_read, b FROM t ORDER BY k;
SELECT count(*) AS replicas, bool_and(is_equal) AS are_equal FROM shardfdw.compare_replicas('t');
DROP SCHEMA copy_clock_words CASCADE;
