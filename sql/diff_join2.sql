-- Joins that nodes compute, with colocated and reference tables: the same rows from sharded tables as from plain ones,
-- with 1 shard and 7, 1 connection per node and 4, the shard scan on and off. See sql/diff/harness.sql.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
\set f :dir '/setup.sql'
\o /dev/null
\i :f
SET client_min_messages = warning;
\set f :dir '/join2_tables.sql'
\set schema diff_plain
\set shards 0
\i :f
\set schema diff_one
\set shards 1
\i :f
\set schema diff_seven
\set shards 7
\i :f
RESET client_min_messages;
\o
\set ECHO all
\set queries `cat "$PG_ABS_SRCDIR"/sql/diff/join2.sql`
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
SELECT count(*) AS queries, (SELECT count(*) FROM diff.differences) AS differences FROM diff.queries;
-- Once more, with the coordinator's own joins priced so that everything is pushed down that can be.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET shardfdw.enable_key_join = off;
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
SELECT count(*) AS queries, (SELECT count(*) FROM diff.differences) AS differences FROM diff.queries;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;
RESET shardfdw.enable_key_join;
-- And with the genetic search of join orders, which throws away the memory of each order that it has tried.
SET geqo_threshold = 2;
SET geqo_effort = 1;
SET join_collapse_limit = 100;
SET from_collapse_limit = 100;
\set queries `cat "$PG_ABS_SRCDIR"/sql/diff/join2.sql "$PG_ABS_SRCDIR"/sql/diff/join_many.sql`
CALL diff.compare(:'queries');
SELECT query, mode, problem FROM diff.differences;
SELECT count(*) AS queries, (SELECT count(*) FROM diff.differences) AS differences FROM diff.queries;
-- other tests look at all reference tables
\o /dev/null
SELECT shardfdw.unshard_table(relid) FROM unnest('{diff_one.r0,diff_one.r1,diff_one.r2,diff_seven.r0,diff_seven.r1,diff_seven.r2}'::regclass[]) relid;
\o
